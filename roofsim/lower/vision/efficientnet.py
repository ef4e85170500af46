"""Lower EfficientNets as torchvision writes them (in-place SiLU and residual sums)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.builder import Builder
from roofsim.lower.blocks.convolutional import VisionLayers
from roofsim.lower.blocks.inverted_residual import inverted_residuals

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.lower.call import Call
    from roofsim.spec.model.mobile import EfficientNetModel


def lower_efficientnet(model: EfficientNetModel, call: Call) -> OpGraph:
    """Build one pass of an EfficientNet over a batch of images."""
    b = Builder()
    layers = VisionLayers(b, call.flavour)
    size = model.image_size if call.length is None else call.length
    x = layers.image(call.batch, model.in_channels, size)
    x = layers.conv_norm(x, float(model.stem_channels), 3.0, "stem", stride=2.0, activation="silu")
    x = inverted_residuals(layers, x, model.blocks(), inplace_add=True, stochastic_depth=model.stochastic_depth)
    x = layers.conv_norm(x, float(model.head_channels), 1.0, "head", activation="silu")
    x = layers.dropout_in_place(layers.global_average(x), model.dropout)
    layers.classify(x, model.num_classes, train=call.trains)
    return b.graph()
