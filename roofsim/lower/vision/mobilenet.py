"""Lower MobileNets of the second and third generation as timm writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.builder import Builder
from roofsim.lower.blocks.convolutional import VisionLayers
from roofsim.lower.blocks.inverted_residual import inverted_residuals

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.call import Call
    from roofsim.spec.model.mobile import MobileNetModel


def lower_mobilenet(model: MobileNetModel, call: Call) -> OpGraph:
    """Build one pass of a MobileNet over a batch of images."""
    b = Builder()
    layers = VisionLayers(b, call.flavour)
    size = model.image_size if call.length is None else call.length
    x = layers.image(call.batch, model.in_channels, size)
    x = layers.conv_norm(x, float(model.stem_channels), 3.0, "stem", stride=2.0, activation=model.stem_activation)
    x = inverted_residuals(layers, x, model.blocks())
    x = layers.conv_norm(x, float(model.head_channels), 1.0, "head", activation=model.stem_activation)
    x = layers.dropout(_features(layers, x, model), model.dropout)
    layers.classify(x, model.num_classes, train=call.trains)
    return b.graph()


def _features(layers: VisionLayers, x: Tensor, model: MobileNetModel) -> Tensor:
    """Average over positions; the third generation puts one more layer, a 1x1 convolution, behind."""
    if model.classifier_channels is None:
        return layers.global_average(x)
    pooled = layers.reduce(x, (*x.shape[:2], 1.0, 1.0), "mean")
    x = layers.conv(pooled, float(model.classifier_channels), 1.0, "features", bias=True)
    x = layers.activate(x, model.stem_activation)
    return layers.view(x, "flatten", *x.shape[:2])
