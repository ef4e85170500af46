"""Lower densely connected networks as torchvision writes them: every layer concatenates all earlier features anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.builder import Builder
from roofsim.lower.blocks.convolutional import VisionLayers
from roofsim.numeric import floor
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.call import Call
    from roofsim.spec.model.vision import DenseNetModel


def lower_densenet(model: DenseNetModel, call: Call) -> OpGraph:
    """Build one pass of a densely connected network over a batch of images."""
    b = Builder()
    net = _DenseNet(model, VisionLayers(b, call.flavour))
    size = model.image_size if call.length is None else call.length
    x = net.stem(net.layers.image(call.batch, model.in_channels, size))
    for index, depth in enumerate(model.block_config):
        if index > 0:
            x = net.transition(x, f"transition{index}")
        x = net.block(x, depth, f"block{index + 1}")
    x = net.layers.relu(net.layers.batch_norm(x, "norm"))
    net.layers.classify(net.layers.global_average(x), model.num_classes, train=call.trains)
    return b.graph()


@dataclass(frozen=True)
class _DenseNet:
    model: DenseNetModel
    layers: VisionLayers

    def stem(self, x: Tensor) -> Tensor:
        layers = self.layers
        x = layers.conv_norm(x, self.model.num_init_features, 7.0, "stem", stride=2.0, padding=3.0)
        return layers.pool(x, "max", 3.0, "stem.pool", stride=2.0, padding=1.0)

    def block(self, x: Tensor, depth: int, name: str) -> Tensor:
        """Each layer reads a copy of all features so far and adds `growth_rate` channels to them."""
        layers = self.layers
        features: tuple[Tensor, ...] = (x,)
        for index in range(depth):
            with layers.b.repeat(f"{name}.layer{index + 1}", 1.0):
                features = (*features, self.layer(features))
        return layers.concat(features, axis=1)

    def layer(self, features: tuple[Tensor, ...]) -> Tensor:
        layers, model = self.layers, self.model
        x = layers.concat(features, axis=1)
        x = layers.relu(layers.batch_norm(x, "norm1"))
        x = layers.conv(x, model.bn_size * model.growth_rate, 1.0, "conv1")
        x = layers.relu(layers.batch_norm(x, "norm2"))
        return layers.dropout(layers.conv(x, model.growth_rate, 3.0, "conv2"), model.dropout)

    def transition(self, x: Tensor, name: str) -> Tensor:
        """Halve channels and sides."""
        layers = self.layers
        with layers.b.repeat(name, 1.0):
            x = layers.relu(layers.batch_norm(x, "norm"))
            x = layers.conv(x, floor(x.shape[1] / 2.0), 1.0, "conv")
            return layers.pool(x, "average", 2.0, "pool")
