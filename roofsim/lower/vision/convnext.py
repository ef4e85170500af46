"""Lower ConvNeXt networks as torchvision writes them; the permutations around layer norms are views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.builder import Builder
from roofsim.graph.component import Purpose
from roofsim.lower.blocks.convolutional import VisionLayers
from roofsim.numeric import real
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.call import Call
    from roofsim.spec.model.vision import ConvNextModel


def lower_convnext(model: ConvNextModel, call: Call) -> OpGraph:
    """Build one pass of a ConvNeXt over a batch of images."""
    b = Builder()
    net = _ConvNext(model, VisionLayers(b, call.flavour))
    layers, dims = net.layers, tuple(real(dim) for dim in model.dims)
    size = model.image_size if call.length is None else call.length
    x = layers.image(call.batch, model.in_channels, size)
    x = net.norm(layers.conv(x, dims[0], 4.0, "stem.conv", stride=4.0, padding=0.0, bias=True), "stem.norm")
    for index, (depth, width) in enumerate(zip(model.depths, dims, strict=True)):
        if index > 0:
            with b.scope(f"downsample{index}"):
                x = layers.conv(net.norm(x, "norm"), width, 2.0, "conv", stride=2.0, padding=0.0, bias=True)
        x = net.stage(x, depth, f"stage{index + 1}")
    x = layers.layer_norm(layers.global_average(x), "norm")
    layers.classify(x, model.num_classes, train=call.trains)
    return b.graph()


@dataclass(frozen=True)
class _ConvNext:
    model: ConvNextModel
    layers: VisionLayers

    def stage(self, x: Tensor, depth: int, name: str) -> Tensor:
        # The first block stands alone: under autocast it enters in the low type and leaves in fp32.
        b = self.layers.b
        with b.repeat(f"{name}.first", 1.0):
            x = self.block(x, drops=name != "stage1")
        if depth > 1:
            with b.repeat(name, float(depth - 1)):
                x = b.carry(x, self.block(x))
        return x

    def block(self, x: Tensor, *, drops: bool = True) -> Tensor:
        """Depthwise convolution, then a layer norm and an inverted bottleneck with channels last."""
        layers, width = self.layers, x.shape[1]
        y = layers.conv(x, width, self.model.kernel_size, "depthwise", groups=width, bias=True)
        y = layers.layer_norm(self._channels_last(y), "norm")
        y = layers.pointwise("gelu", layers.linear(y, 4.0 * width, Purpose.UP, bias=True))
        y = self._responding(y) if self.model.response_norm else y
        y = self._channels_first(layers.linear(y, width, Purpose.DOWN, bias=True))
        if self.model.layer_scale:
            y = layers.mul(layers.b.parameter("layer_scale", width, 1.0, 1.0), y)
        # Stochastic depth drops the more the deeper a block lies, the very first one never.
        y = layers.stochastic_depth(y, self.model.stochastic_depth) if drops else y
        return layers.add(y, x, inplace=True)

    def _responding(self, x: Tensor) -> Tensor:
        """Scale channels ``[batch, height, width, channels]`` by their norms over the image, against the mean of these norms."""
        layers, b = self.layers, self.layers.b
        with b.scope("response_norm"):
            batch, channels = x.shape[0], x.shape[-1]
            norms = layers.reduce(x, (batch, 1.0, 1.0, channels), "variance")
            mean = layers.pointwise("add_scalar", layers.reduce(norms, (batch, 1.0, 1.0, 1.0), "mean"))
            scaled = layers.mul(x, layers.pointwise("div", norms, mean))
            scaled = layers.mul(b.parameter("weight", channels), scaled)
            return layers.add(layers.add(scaled, b.parameter("bias", channels)), x)

    def norm(self, x: Tensor, leaf: str) -> Tensor:
        """Normalise the channels of each position."""
        return self._channels_first(self.layers.layer_norm(self._channels_last(x), leaf))

    def _channels_last(self, x: Tensor) -> Tensor:
        return self.layers.view(x, "permute", x.shape[0], *x.shape[2:], x.shape[1])

    def _channels_first(self, x: Tensor) -> Tensor:
        return self.layers.view(x, "permute", x.shape[0], x.shape[-1], *x.shape[1:-1])
