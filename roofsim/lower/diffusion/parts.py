"""Build what all diffusion models need: time embeddings, modulation, feed-forward layers, the noise loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.graph.component import Purpose
from roofsim.graph.ops import Elementwise
from roofsim.graph.tensor import FP32, INT64, Tensor
from roofsim.lower.blocks.exchange import enter, leave
from roofsim.numeric import Real, floor, same
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.lower.blocks.convolutional import VisionLayers
    from roofsim.lower.blocks.layers import Layers
    from roofsim.lower.call import Call
    from roofsim.spec.model.diffusion import DiffusionModel, DitModel

#: Width of the sinusoids that embed the noise level in transformers.
TIME_WIDTH: Final = 256.0


def latent_side(model: DiffusionModel, call: Call) -> Real:
    """Return the side of the latent image."""
    return floor((model.image_size if call.length is None else call.length) / model.vae_scale_factor)


def residual(layers: VisionLayers, x: Tensor, channels: Real, groups: float, time: Tensor | None = None) -> Tensor:
    """Add two convolutions behind group norms and SiLU to ``[batch, channels, height, width]``.

    The time embedding, where there is one, is added in between; a 1x1 convolution brings `x` to other `channels`.
    """
    y = layers.pointwise("silu", layers.group_norm(x, groups, "norm1"))
    y = layers.conv(y, channels, 3.0, "conv1", bias=True)
    if time is not None:
        shift = layers.linear(layers.pointwise("silu", time), channels, "time", bias=True)
        y = layers.add(y, layers.view(shift, "reshape", *shift.shape, 1.0, 1.0))
    y = layers.pointwise("silu", layers.group_norm(y, groups, "norm2"))
    y = layers.conv(y, channels, 3.0, "conv2", bias=True)
    if not same(x.shape[1], channels):
        x = layers.conv(x, channels, 1.0, "shortcut", bias=True)
    return layers.pointwise("div_scalar", layers.add(x, y))


def timesteps(layers: Layers, batch: Real) -> Tensor:
    """Return the noise level of each sample, an integer step."""
    return layers.b.input("timesteps", batch, dtype=INT64)


def sinusoids(layers: Layers, values: Tensor, width: Real, like: Tensor, leaf: str) -> Tensor:
    """Embed numbers ``[n]`` as cosines and sines ``[n, width]``, computed in fp32 and cast to the type of `like`."""
    b, half = layers.b, width / 2.0
    with b.scope(leaf):
        exponents = b.tensor("exponents", half, dtype=FP32)
        b.emit(Elementwise, "exponents", inputs=(), outputs=(exponents,), function="arange")
        scaled = layers.pointwise("div_scalar", layers.pointwise("mul_scalar", exponents))
        frequencies = layers.pointwise("exp", scaled)
        column = layers.cast(layers.view(values, "reshape", values.shape[0], 1.0), FP32)
        angles = layers.pointwise("mul_scalar", layers.mul(column, frequencies))
        waves = layers.concat((layers.pointwise("sin", angles), layers.pointwise("cos", angles)), -1)
        sines, cosines = layers.split(waves, half, half)
        return layers.cast(layers.concat((cosines, sines), -1), like)


def condition(layers: Layers, x: Tensor, width: Real, leaf: str) -> Tensor:
    """Turn an embedding into a condition vector: linear, SiLU, linear."""
    with layers.b.scope(leaf):
        hidden = layers.pointwise("silu", layers.linear(x, width, "linear_1", bias=True))
        return layers.linear(hidden, width, "linear_2", bias=True)


def strided_linear(
    layers: Layers, x: Tensor, shape: tuple[Real, ...], width: Real, leaf: str, *, layout: str = "contiguous"
) -> Tensor:
    """Apply a linear layer to a tensor that lies elsewhere in memory than its shape says.

    PyTorch copies it, multiplies, and adds the bias in a kernel of its own. With the layout ``transpose`` the gradient
    needs a copy as well, because whoever made the tensor wants it as it was.
    """
    with layers.b.scope(leaf):
        out = layers.linear(layers.copy(x, layout, shape), width, "product")
        return layers.add(out, layers.cast(layers.b.parameter("bias", width), out))


def geglu(layers: Layers, x: Tensor, inner: Real, leaf: str) -> Tensor:
    """Build a feed-forward layer with a GELU gate, value and gate from one projection."""
    with layers.b.scope(leaf):
        both = layers.linear(x, 2.0 * inner, Purpose.UP, bias=True)
        value, gate = layers.split(both, inner, inner)
        hidden = layers.mul(value, layers.activation(gate, "gelu"))
        return layers.linear(hidden, x.shape[-1], Purpose.DOWN, bias=True)


def gelu_mlp(layers: Layers, x: Tensor, inner: Real, leaf: str) -> Tensor:
    """Build a feed-forward layer with GELU, its width split over the tensor group."""
    with layers.b.scope(leaf):
        up = layers.linear(enter(layers, x), layers.shares.of_tensor(inner), Purpose.UP, bias=True)
        return leave(layers, layers.linear(layers.activation(up, "gelu_tanh"), x.shape[-1], Purpose.DOWN, bias=True))


# -- modulation -----------------------------------------------------------------------------------------------------


def modulation(layers: Layers, condition_: Tensor, width: Real, parts: int, leaf: str) -> tuple[Tensor, ...]:
    """Compute `parts` vectors ``[batch, 1, width]`` from the condition ``[batch, width]``."""
    with layers.b.scope(leaf):
        vector = layers.linear(layers.pointwise("silu", condition_), float(parts) * width, "linear", bias=True)
        row = layers.view(vector, "reshape", vector.shape[0], 1.0, float(parts) * width)
        return layers.split(row, *(width for _ in range(parts)))


def modulated_norm(layers: Layers, x: Tensor, scale: Tensor, shift: Tensor, leaf: str) -> Tensor:
    """Normalise without weights of its own, scale and shift by the condition."""
    with layers.b.scope(leaf):
        normed = layers.layer_norm(x, "norm", affine=False)
        return layers.add(layers.mul(normed, layers.pointwise("add_scalar", scale)), shift)


@dataclass(frozen=True)
class Patches:
    """Cut latents into square patches, a token each, and put tokens together again; `side` counts tokens."""

    model: DitModel
    layers: VisionLayers
    batch: Real
    side: Real

    @classmethod
    def of(cls, model: DitModel, call: Call, layers: VisionLayers) -> Patches:
        """Return the patches of the images that a call brings."""
        return cls(model, layers, call.batch, floor(latent_side(model, call) / model.patch_size))

    @property
    def tokens(self) -> Real:
        """Tokens per image."""
        return self.side * self.side

    def embed(self) -> Tensor:
        """Return ``[batch, tokens, hidden_size]``, with positions added if the model has them here."""
        model, layers, b = self.model, self.layers, self.layers.b
        size, width = model.patch_size, model.hidden_size
        if model.packed_latents:
            packed = b.input("latents", self.batch, self.tokens, size * size * model.in_channels)
            return layers.linear(packed, width, "patches", bias=True)
        side = self.side * size
        latents = b.input("latents", self.batch, model.in_channels, side, side)
        patches = layers.conv(latents, width, size, "patches", stride=size, padding=0.0, bias=True)
        x = layers.view(patches, "reshape", self.batch, self.tokens, width)
        if model.position_embedding != "sincos":
            return x
        with b.scope(Purpose.POSITIONS):
            return layers.cast(layers.add(x, self._positions()), x)

    def _positions(self) -> Tensor:
        """Return the fixed table, always fp32; a larger one is cropped to the image."""
        model, layers, b = self.model, self.layers, self.layers.b
        if model.max_positions is None:
            return b.buffer("table", self.tokens, model.hidden_size, dtype=FP32)
        table = b.buffer("table", model.max_positions, model.max_positions, model.hidden_size, dtype=FP32)
        part = layers.view(table, "slice", self.side, self.side, model.hidden_size)
        return layers.copy(part, "contiguous", (self.tokens, model.hidden_size))

    def unpatch(self, x: Tensor) -> Tensor:
        """Project tokens to the pixels of their patches and put these in place."""
        model, layers = self.model, self.layers
        assert model.out_channels is not None
        width = model.patch_size * model.patch_size * model.out_channels
        x = layers.linear(x, width, Purpose.OUTPUT, bias=True)
        if model.packed_latents:
            return x
        side = self.side * model.patch_size
        return layers.copy(x, "transpose", (self.batch, model.out_channels, side, side))


def noise_loss(layers: Layers, prediction: Tensor) -> Tensor:
    """Return the mean squared distance, in fp32, of the prediction from the noise that was drawn."""
    b = layers.b
    with b.scope("noise"):
        noise = b.tensor("noise", *prediction.shape)
        b.emit(Elementwise, "noise", inputs=(), outputs=(noise,), function="random")
        predicted, drawn = layers.cast(prediction, FP32), layers.cast(noise, FP32)
    return layers.mse_loss(predicted, drawn)
