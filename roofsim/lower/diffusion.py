"""Build what all diffusion models need: time embeddings, the feed-forward layers of their blocks, the noise loss."""

from __future__ import annotations

from roofsim.graph.ops import Elementwise
from roofsim.graph.tensor import FP32, INT64, Tensor
from roofsim.lower.call import Call
from roofsim.lower.layers import Layers
from roofsim.numeric import Real, floor
from roofsim.spec.families.diffusion import DiffusionModel


def latent_side(model: DiffusionModel, call: Call) -> Real:
    """Return the side of the latent image."""
    return floor((model.image_size if call.length is None else call.length) / model.vae_scale_factor)


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
        both = layers.linear(x, 2.0 * inner, "up", bias=True)
        value, gate = layers.split(both, inner, inner)
        hidden = layers.mul(value, layers.activation(gate, "gelu"))
        return layers.linear(hidden, x.shape[-1], "down", bias=True)


def noise_loss(layers: Layers, prediction: Tensor) -> Tensor:
    """Return the mean squared distance, in fp32, of the prediction from the noise that was drawn."""
    b = layers.b
    with b.scope("noise"):
        noise = b.tensor("noise", *prediction.shape)
        b.emit(Elementwise, "noise", inputs=(), outputs=(noise,), function="random")
        predicted, drawn = layers.cast(prediction, FP32), layers.cast(noise, FP32)
    return layers.mse_loss(predicted, drawn)
