"""Lower residual networks as torchvision writes them (stride on the 3x3 convolution, in-place ReLU)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.builder import Builder
from roofsim.lower.blocks.convolutional import VisionLayers
from roofsim.records import dataclass
from roofsim.spec.model.vision import RESNET_STAGES, ResNetModel

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.call import Call
    from roofsim.numeric import Real


def lower_resnet(model: ResNetModel, call: Call) -> OpGraph:
    """Build one pass of a residual network over a batch of images."""
    b = Builder()
    net = ResidualTrunk(model, VisionLayers(b, call.flavour))
    size = model.image_size if call.length is None else call.length
    x = net.stem(net.layers.image(call.batch, model.in_channels, size))
    for index, blocks in enumerate(RESNET_STAGES[model.depth]):
        x = net.stage(x, index, blocks)
    net.layers.classify(net.layers.global_average(x), model.num_classes, train=call.trains)
    return b.graph()


@dataclass(frozen=True)
class ResidualTrunk:
    """The convolutions of a residual network, stem first, then stage by stage."""

    model: ResNetModel
    layers: VisionLayers

    @property
    def expansion(self) -> float:
        """Channels of a block's result, in units of its planes."""
        return 1.0 if self.model.depth < 50 else 4.0

    def stem(self, x: Tensor) -> Tensor:
        """Convolve and pool down to a quarter of the image's side."""
        layers = self.layers
        with layers.b.scope("stem"):
            x = layers.conv(x, 64.0, 7.0, "conv", stride=2.0, padding=3.0)
            x = layers.relu(layers.batch_norm(x, "norm"))
            return layers.pool(x, "max", 3.0, "pool", stride=2.0, padding=1.0)

    def stage(self, x: Tensor, index: int, blocks: int, stride: float | None = None) -> Tensor:
        """Run the blocks of one stage; all but the first stage halve the side, unless a stride says otherwise."""
        planes = 64.0 * 2.0**index
        if stride is None:
            stride = 1.0 if index == 0 else 2.0
        b = self.layers.b
        with b.repeat(f"stage{index + 1}.first", 1.0):
            x = self.block(x, planes, stride, first=True)
        if blocks > 1:
            with b.repeat(f"stage{index + 1}", float(blocks - 1)):
                x = b.carry(x, self.block(x, planes, 1.0))
        return x

    def block(self, x: Tensor, planes: Real, stride: float, *, first: bool = False) -> Tensor:
        """Two or three convolutions around an identity (or projected) shortcut."""
        layers, model = self.layers, self.model
        out_channels = planes * self.expansion
        if self.expansion == 1.0:
            y = self._unit(x, planes, 3.0, "conv1", stride=stride)
            y = layers.batch_norm(layers.conv(y, planes, 3.0, "conv2"), "norm2")
        else:
            width = planes * model.width_per_group / 64.0 * model.groups
            y = self._unit(x, width, 1.0, "conv1")
            y = self._unit(y, width, 3.0, "conv2", stride=stride, groups=model.groups)
            y = layers.batch_norm(layers.conv(y, out_channels, 1.0, "conv3"), "norm3")
        if model.se:
            y = layers.squeeze_excite(y, out_channels / model.se_reduction, "se")
        shortcut = x
        if first and (stride != 1.0 or self.expansion != 1.0):
            with layers.b.scope("shortcut"):
                shortcut = layers.batch_norm(layers.conv(x, out_channels, 1.0, "conv", stride=stride), "norm")
        return layers.relu(layers.add(y, shortcut, inplace=True))

    def _unit(
        self, x: Tensor, channels: Real, kernel: float, leaf: str, *, stride: float = 1.0, groups: Real = 1.0
    ) -> Tensor:
        layers = self.layers
        with layers.b.scope(leaf):
            x = layers.conv(x, channels, kernel, "conv", stride=stride, groups=groups)
            return layers.relu(layers.batch_norm(x, "norm"))
