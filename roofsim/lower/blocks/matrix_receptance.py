"""Build the attention of RWKV-5, 6 and 7: mixes with the token before, low-rank rates, a matrix per head as its state.

As the published training code (BlinkDL/RWKV-LM: RWKV-v5, RWKV-v6, RWKV-v7) and transformers-like ports have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.lower.blocks.matrix_states import delta_rules, weighted_sums
from roofsim.lower.blocks.receptance import before, mixed
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.blocks.convolutional import VisionLayers
    from roofsim.lower.call import Call
    from roofsim.numeric import Real


@dataclass(frozen=True, kw_only=True)
class MixSizes:
    """Size of a head, and ranks: of mixes and decays of version 6, of decays, rates, values and gates of version 7."""

    head: Real
    mix: Real
    decay: Real
    rate: Real
    value: Real
    gate: Real


def time_mix_5(layers: VisionLayers, call: Call, x: Tensor, sizes: MixSizes) -> Tensor:
    """Return Eagle's attention: one decay per channel, for all tokens (arXiv 2404.05892, section 4.1)."""
    shifted = before(layers, call, x)
    parts = {leaf: mixed(layers, x, shifted, leaf) for leaf in ("receptance", "key", "value", "gate")}
    width = x.shape[-1]
    decay, first = (layers.b.parameter(leaf, width / sizes.head, sizes.head) for leaf in ("decay", "first"))
    return _summed(layers, call, x, sizes, parts, (layers.pointwise("exp", decay), first))


def time_mix_6(layers: VisionLayers, call: Call, x: Tensor, sizes: MixSizes) -> Tensor:
    """Return Finch's attention: mixes and decays depend on the token (arXiv 2404.05892, section 4.2)."""
    b, width = layers.b, x.shape[-1]
    change = layers.pointwise("sub", before(layers, call, x), x)
    seen = layers.add(x, layers.mul(change, b.parameter("mix", width)))
    names = ("decay", "key", "value", "receptance", "gate")
    low = layers.pointwise("tanh", layers.linear(seen, len(names) * sizes.mix, "mix_down"))
    parts = {}
    for leaf, part in zip(names, layers.split(low, *(sizes.mix for _ in names)), strict=True):
        share = layers.add(layers.linear(part, width, f"mix_up_{leaf}"), b.parameter(f"mix_{leaf}", width))
        parts[leaf] = layers.add(x, layers.mul(change, share))
    decay = low_rank(layers, parts.pop("decay"), sizes.decay, "decay", "tanh")
    decay = layers.pointwise("neg", layers.pointwise("exp", decay))
    first = b.parameter("first", width / sizes.head, sizes.head)
    return _summed(layers, call, x, sizes, parts, (_by_head(layers, decay, sizes.head), first))


def time_mix_7(
    layers: VisionLayers, call: Call, x: Tensor, sizes: MixSizes, first_values: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return Goose's attention, and its values (arXiv 2503.14456): states forget along a direction of each token.

    Parameters
    ----------
    first_values
        Those of the first layer, which values are mixed with; None: this is it.
    """
    b, width = layers.b, x.shape[-1]
    change = layers.pointwise("sub", before(layers, call, x), x)
    names = ("receptance", "decay", "key", "value", "rate", "gate")
    parts = {leaf: layers.add(x, layers.mul(change, b.parameter(f"mix_{leaf}", width))) for leaf in names}
    query, key, value = (layers.linear(parts[leaf], width, leaf) for leaf in ("receptance", "key", "value"))
    decay = low_rank(layers, parts["decay"], sizes.decay, "decay", "tanh")
    decay = layers.pointwise("mul_scalar", layers.pointwise("sigmoid", decay))
    own = value
    if first_values is not None:
        share = layers.pointwise("sigmoid", low_rank(layers, parts["value"], sizes.value, "value_share", None))
        value = layers.add(value, layers.mul(share, layers.pointwise("sub", first_values, value)))
    rate = layers.pointwise("sigmoid", low_rank(layers, parts["rate"], sizes.rate, "rate", None))
    gate = low_rank(layers, parts["gate"], sizes.gate, "gate", "sigmoid", bias=False)
    out_of = _by_head(layers, layers.mul(key, b.parameter("key_direction", width)), sizes.head)
    out_of = layers.pointwise("normalise", out_of)
    key = layers.add(key, layers.mul(layers.mul(key, rate), b.parameter("key_rate", width)))
    query, key, value, decay, rate = (_by_head(layers, part, sizes.head) for part in (query, key, value, decay, rate))
    others = (decay, layers.pointwise("neg", out_of), layers.mul(out_of, rate))
    summed = delta_rules(layers, call, (query, key, value), others)
    normed = _normed(layers, summed)
    weight = layers.mul(layers.mul(query, key), b.parameter("bonus", *query.shape[2:]))
    bonus = layers.mul(layers.reduce(weight, (*weight.shape[:-1], 1.0)), value)
    out = layers.add(normed, layers.view(bonus, "reshape", *x.shape))
    return layers.linear(layers.mul(out, gate), width, "output"), own


def low_rank(
    layers: VisionLayers, x: Tensor, rank: Real, leaf: str, activation: str | None, *, bias: bool = True
) -> Tensor:
    """Return what two thin layers make of tokens, with a value for each channel beside it."""
    down = layers.linear(x, rank, f"{leaf}_down")
    down = down if activation is None else layers.pointwise(activation, down)
    up = layers.linear(down, x.shape[-1], f"{leaf}_up")
    return layers.add(up, layers.b.parameter(leaf, x.shape[-1])) if bias else up


def _summed(
    layers: VisionLayers, call: Call, x: Tensor, sizes: MixSizes, parts: dict[str, Tensor], others: tuple[Tensor, ...]
) -> Tensor:
    """Return the sums of versions 5 and 6, normalised by head, gated and projected back."""
    width = x.shape[-1]
    made = {leaf: layers.linear(part, width, leaf) for leaf, part in parts.items()}
    heads = [_by_head(layers, made[leaf], sizes.head) for leaf in ("receptance", "key", "value")]
    summed = weighted_sums(layers, call, (heads[0], heads[1], heads[2]), others)
    gated = layers.mul(_normed(layers, summed), layers.activation(made["gate"], "silu"))
    return layers.linear(gated, width, "output")


def _normed(layers: VisionLayers, summed: Tensor) -> Tensor:
    batch, length, heads, size = summed.shape
    flat = layers.view(summed, "reshape", batch * length, heads * size)
    return layers.view(layers.group_norm(flat, heads, "norm"), "reshape", batch, length, heads * size)


def _by_head(layers: VisionLayers, x: Tensor, size: Real) -> Tensor:
    return layers.view(x, "reshape", *x.shape[:2], x.shape[-1] / size, size)
