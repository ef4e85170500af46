"""Build feed-forward layers: one projection up, or a gate beside it, an activation, one projection down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.component import Purpose

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.blocks.layers import Layers
    from roofsim.numeric import Real
    from roofsim.spec.model.transformer import TransformerModel


def dense_mlp(
    layers: Layers,
    model: TransformerModel,
    x: Tensor,
    width: Real,
    *,
    fused: bool = False,
    gate: str = "plain",
    adapter_rank: Real | None = None,
) -> Tensor:
    """Build the feed-forward layer of `width`; `fused` where gate and up are one projection, which may have an adapter."""
    assert model.activation is not None
    bias = bool(model.mlp_bias)
    if not model.gated_mlp:
        hidden = layers.activation(layers.linear(x, width, Purpose.UP, bias=bias), model.activation)
    elif fused:
        both = layers.linear(x, 2.0 * width, Purpose.GATE_UP, bias=bias)
        if adapter_rank is not None:
            from roofsim.lower.blocks.adapters import adapted  # of few models

            both = adapted(layers, x, both, adapter_rank, Purpose.GATE_UP)
        first, second = layers.split(both, width, width)
        hidden = gated(layers, first, second, model.activation, gate)
    elif gate in ("plain", "cutoff"):
        # The library's code activates the gate before it projects up.
        first = layers.linear(x, width, Purpose.GATE, bias=bias)
        activated = layers.activation(first if gate == "plain" else above_cutoff(layers, first), model.activation)
        hidden = layers.mul(activated, layers.linear(x, width, Purpose.UP, bias=bias))
    else:
        first, second = layers.linear(x, width, Purpose.GATE, bias=bias), layers.linear(x, width, Purpose.UP, bias=bias)
        hidden = gated(layers, first, second, model.activation, gate)
    return layers.linear(hidden, model.hidden_size, Purpose.DOWN, bias=bias)


def gated(layers: Layers, first: Tensor, second: Tensor, activation: str, gate: str) -> Tensor:
    """Return ``activation(first) * second``; ``clamped`` bounds both and adds one to the second (gpt-oss)."""
    if gate == "cutoff":
        first = above_cutoff(layers, first)
    if gate != "clamped":
        return layers.mul(layers.activation(first, activation), second)
    first, second = layers.pointwise("clamp", first), layers.pointwise("clamp", second)
    glu = layers.activation(first, "quick_gelu")
    return layers.mul(layers.pointwise("add_scalar", second), glu)


def above_cutoff(layers: Layers, x: Tensor) -> Tensor:
    """Return by how much each element of a row lies above its mean and some deviations, zero below: Gemma 3n's Gaussian top-k."""
    column = (*x.shape[:-1], 1.0)
    mean = layers.reduce(x, column, "mean")
    deviation = layers.pointwise("sqrt", layers.reduce(x, column, "variance"))
    cutoff = layers.add(mean, layers.pointwise("mul_scalar", deviation))
    return layers.pointwise("relu", layers.pointwise("sub", x, cutoff))
