"""Lower RegNets: residual bottlenecks of constant width with grouped convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.builder import Builder
from roofsim.lower.blocks.convolutional import VisionLayers
from roofsim.numeric import Real, floor
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.call import Call
    from roofsim.spec.model.vision import RegNetModel, RegNetStage


def lower_regnet(model: RegNetModel, call: Call) -> OpGraph:
    """Build one pass of a RegNet over a batch of images."""
    b = Builder()
    net = _RegNet(model, VisionLayers(b, call.flavour))
    size = model.image_size if call.length is None else call.length
    x = net.layers.image(call.batch, model.in_channels, size)
    x = net.layers.conv_norm(x, model.stem_width, 3.0, "stem", stride=2.0)
    for index, stage in enumerate(model.stages()):
        x = net.stage(x, stage, f"stage{index + 1}")
    net.layers.classify(net.layers.global_average(x), model.num_classes, train=call.trains)
    return b.graph()


@dataclass(frozen=True)
class _RegNet:
    model: RegNetModel
    layers: VisionLayers

    def stage(self, x: Tensor, stage: RegNetStage, name: str) -> Tensor:
        b = self.layers.b
        with b.repeat(f"{name}.first", 1.0):
            x = self.block(x, stage, 2.0)
        if stage.depth > 1:
            with b.repeat(name, float(stage.depth - 1)):
                x = b.carry(x, self.block(x, stage, 1.0))
        return x

    def block(self, x: Tensor, stage: RegNetStage, stride: Real) -> Tensor:
        """Three convolutions around an identity, or around a projection where the stage begins."""
        layers, model = self.layers, self.model
        width, groups = float(stage.width), float(stage.width // stage.group_width)
        y = layers.conv_norm(x, width, 1.0, "conv1")
        y = layers.conv_norm(y, width, 3.0, "conv2", stride=stride, groups=groups)
        if model.se_ratio is not None:
            y = layers.squeeze_excite(y, floor(x.shape[1] * model.se_ratio + 0.5), "se")
        y = layers.conv_norm(y, width, 1.0, "conv3", activation=None)
        if stride != 1.0:
            x = layers.conv_norm(x, width, 1.0, "shortcut", stride=stride, activation=None)
        return layers.relu(layers.add(y, x))
