"""Lower the classic U-Net as its usual PyTorch code runs it: batch norm, in-place ReLU, concatenated skips."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.builder import Builder
from roofsim.graph.ops import Convolution
from roofsim.lower.blocks.convolutional import VisionLayers
from roofsim.lower.blocks.losses import cross_entropy
from roofsim.numeric import Real, product
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.call import Call
    from roofsim.spec.model.dense_prediction import UnetModel


def lower_unet(model: UnetModel, call: Call) -> OpGraph:
    """Build one pass of a U-Net over a batch of images; the loss is the cross entropy of every pixel."""
    b = Builder()
    layers = VisionLayers(b, call.flavour)
    size = model.image_size if call.length is None else call.length
    logits = _Unet(model, layers).build(layers.image(call.batch, model.in_channels, size))
    if call.trains:
        pixels = product(call.batch, *logits.shape[2:])
        flat = layers.view(logits, "reshape", pixels, model.num_classes)
        cross_entropy(layers, flat, layers.labels(pixels), upcast=False)
    return b.graph()


@dataclass(frozen=True)
class _Unet:
    model: UnetModel
    layers: VisionLayers

    @property
    def bilinear(self) -> bool:
        """Whether images grow by interpolation, which halves the channels of the lowest level and on the way up."""
        return self.model.upsampling == "bilinear"

    def build(self, x: Tensor) -> Tensor:
        """Return class logits for every pixel."""
        model, layers = self.model, self.layers
        base, levels = model.base_channels, model.num_levels
        factor = 2.0 if self.bilinear else 1.0
        x = self._double(x, base, base, "in")
        skips = []
        for level in range(1, levels + 1):
            skips.append(x)
            with layers.b.scope(f"down{level}"):
                x = layers.pool(x, "max", 2.0, "pool")
            channels = base * 2.0**level / (factor if level == levels else 1.0)
            x = self._double(x, channels, channels, f"down{level}.convs")
        for level in range(levels, 0, -1):
            channels = base * 2.0 ** (level - 1)
            inner = channels if not self.bilinear else x.shape[1]
            with layers.b.scope(f"up{level}"):
                # The library pads what has grown to the skip's size, which copies it though nothing is missing.
                grown = layers.copy(self._grow(x, channels))
                x = layers.concat((skips.pop(), grown), 1)
            x = self._double(x, inner, channels / (factor if level > 1 else 1.0), f"up{level}.convs")
            with layers.b.scope(f"up{level}"):
                layers.release(grown)
        return layers.conv(x, model.num_classes, 1.0, "out", bias=True)

    def _double(self, x: Tensor, inner: Real, channels: Real, name: str) -> Tensor:
        """Two 3x3 convolutions, each normalised and rectified."""
        with self.layers.b.repeat(name, 1.0):
            return self._unit(self._unit(x, inner, "conv1"), channels, "conv2")

    def _unit(self, x: Tensor, channels: Real, leaf: str) -> Tensor:
        layers = self.layers
        if self.model.batch_normalization:
            return layers.conv_norm(x, channels, 3.0, leaf)
        return layers.relu(layers.conv(x, channels, 3.0, leaf, bias=True))

    def _grow(self, x: Tensor, channels: Real) -> Tensor:
        """Double the side of the image: by a transposed convolution to `channels`, or by interpolation."""
        size = tuple(2.0 * length for length in x.shape[2:])
        layers = self.layers
        if self.bilinear:
            return layers.resize(x, size, "bilinear")
        b, before = layers.b, x.shape[1]
        with b.scope("grow"):
            weight, bias = b.parameter("weight", before, channels, 2.0, 2.0), b.parameter("bias", channels)
            out = b.tensor("out", x.shape[0], channels, *size)
            b.emit(
                Convolution,
                "conv",
                inputs=(x, weight, bias),
                outputs=(out,),
                batch=x.shape[0],
                in_channels=before,
                out_channels=channels,
                in_size=x.shape[2:],
                out_size=size,
                kernel_size=(2.0, 2.0),
                stride=2.0,
                transposed=True,
            )
            return out
