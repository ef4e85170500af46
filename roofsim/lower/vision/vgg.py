"""Lower VGG networks as torchvision writes them (biases also before batch norm, in-place ReLU, pooling to 7x7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.builder import Builder
from roofsim.lower.blocks.convolutional import VisionLayers
from roofsim.numeric import Real, product
from roofsim.spec.model.vision import VGG_STAGES, VggModel

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.call import Call

WIDTHS = (64.0, 128.0, 256.0, 512.0, 512.0)


def lower_vgg(model: VggModel, call: Call) -> OpGraph:
    """Build one pass of a VGG network over a batch of images."""
    b = Builder()
    layers = VisionLayers(b, call.flavour)
    size = model.image_size if call.length is None else call.length
    x = layers.image(call.batch, model.in_channels, size)
    for index, (width, depth) in enumerate(zip(WIDTHS, VGG_STAGES[model.depth], strict=True)):
        x = _stage(layers, x, width, depth, f"stage{index + 1}", batch_norm=model.batch_norm)
    x = layers.adaptive_average(x, 7.0, "average_pool")
    x = layers.view(x, "flatten", x.shape[0], product(*x.shape[1:]))
    for index in range(2):
        x = layers.linear(x, model.classifier_size, f"hidden{index + 1}", bias=True)
        x = layers.dropout(layers.relu(x), model.dropout)
    layers.classify(x, model.num_classes, train=call.trains)
    return b.graph()


def _stage(layers: VisionLayers, x: Tensor, width: Real, depth: int, name: str, *, batch_norm: bool) -> Tensor:
    b = layers.b
    with b.repeat(f"{name}.first", 1.0):
        x = _unit(layers, x, width, batch_norm=batch_norm)
    if depth > 1:
        with b.repeat(name, float(depth - 1)):
            x = b.carry(x, _unit(layers, x, width, batch_norm=batch_norm))
    return layers.pool(x, "max", 2.0, f"{name}.pool")


def _unit(layers: VisionLayers, x: Tensor, width: Real, *, batch_norm: bool) -> Tensor:
    x = layers.conv(x, width, 3.0, "conv", bias=True)
    return layers.relu(layers.batch_norm(x, "norm") if batch_norm else x)
