"""Build Kimi Delta Attention (arXiv 2510.26692): delta rules whose states decay by channel, with low-rank gates.

Passes over many tokens run in chunks, as flash-linear-attention's ``chunk_kda`` does (ops/kda/chunk.py, chunk_fwd.py). Its function
keeps queries, keys, values, the sums of decays, strengths, and the scores and the inverse of each chunk; its backward pass makes
the rest again: here what the inverse is made of as well, a product that theirs does not need. A step of one token reads and writes
the state (``fused_recurrent_kda``). Where the engine runs transformers' code, decays and the gated norm are its chains in fp32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.component import Purpose
from roofsim.graph.ops import Elementwise, Normalization
from roofsim.graph.tensor import BOOL, FP32
from roofsim.lower.blocks.delta_net import STEP_FUNCTION
from roofsim.lower.blocks.exchange import enter, leave
from roofsim.lower.blocks.matrix_states import Chunks, keep_states, step_of_token
from roofsim.lower.blocks.selective_scan import convolved_step, keep_last
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.blocks.convolutional import VisionLayers
    from roofsim.lower.call import Call
    from roofsim.numeric import Real

Parts = tuple["Tensor", "Tensor", "Tensor"]


@dataclass(frozen=True, kw_only=True)
class KimiSizes:
    """Heads (of the model, or of a rank), their size, the rank of the gates, and how many tokens a convolution sees."""

    heads: Real
    head_size: Real
    rank: Real
    kernel: Real

    @property
    def inner(self) -> Real:
        """Width of all heads."""
        return self.heads * self.head_size


def kimi_delta_layer(layers: VisionLayers, call: Call, sizes: KimiSizes, x: Tensor) -> Tensor:
    """Return what a layer makes of ``[batch, length, width]``; heads are split over a tensor group."""
    sizes = replace(sizes, heads=sizes.heads / layers.shares.tensor)
    width, (batch, length, _) = x.shape[-1], x.shape
    with layers.b.scope(Purpose.MIXER):
        x = enter(layers, x)
        mixed = layers.concat(
            tuple(layers.linear(x, sizes.inner, leaf) for leaf in (Purpose.QUERY, Purpose.KEY, Purpose.VALUE)), -1
        )
        mixed = _convolved(layers, call, sizes, mixed)
        q, k, v = (
            layers.view(part, "reshape", batch, length, sizes.heads, sizes.head_size)
            for part in layers.split(mixed, sizes.inner, sizes.inner, sizes.inner)
        )
        decay = _decays(layers, sizes, _low_rank(layers, sizes, x, "forget"))
        strength = layers.pointwise("sigmoid", layers.linear(x, sizes.heads, "strength"))
        rule = _step if call.phase == "decode" else _chunks
        core = rule(layers, call, (q, k, v), (decay, strength))
        gate = layers.view(_low_rank(layers, sizes, x, Purpose.GATE), "reshape", *core.shape)
        flat = layers.view(_gated(layers, core, gate), "reshape", batch, length, sizes.inner)
        return leave(layers, layers.linear(flat, width, Purpose.OUTPUT))


def _low_rank(layers: VisionLayers, sizes: KimiSizes, x: Tensor, leaf: str) -> Tensor:
    return layers.linear(layers.linear(x, sizes.rank, f"{leaf}_down"), sizes.inner, f"{leaf}_up")


def _convolved(layers: VisionLayers, call: Call, sizes: KimiSizes, x: Tensor) -> Tensor:
    """Convolve each channel over the last tokens: one kernel, SiLU included, which takes channels side by side."""
    if call.phase == "decode":
        return convolved_step(layers, call, x, sizes.kernel, bias=False)
    batch, length, channels = x.shape
    by_channel = layers.view(x, "transpose", batch, channels, length)
    keep_last(layers, call, by_channel, sizes.kernel)
    # As many positions come out as went in: zeros stand before the first.
    padding = (sizes.kernel - 1.0) / 2.0
    out = layers.conv(by_channel, channels, sizes.kernel, "conv", groups=channels, padding=padding)
    return layers.view(out, "transpose", batch, length, channels)


def _decays(layers: VisionLayers, sizes: KimiSizes, forget: Tensor) -> Tensor:
    """Return the logarithm of what each channel keeps of its state, ``[batch, length, heads, size]``, in fp32."""
    b, shape = layers.b, (*forget.shape[:2], sizes.heads, sizes.head_size)
    bias, logarithm = b.parameter("step_bias", sizes.inner), b.parameter("decay_logarithm", sizes.heads, 1.0)
    if layers.flavour.engine.fusion.rms_norm != "chain":  # one kernel (fused_kda_gate)
        made = layers.pointwise("softplus", layers.add(layers.cast(forget, FP32), bias))
        return layers.mul(layers.view(made, "reshape", *shape), layers.cast(logarithm, FP32))
    pace = layers.add(layers.cast(forget, FP32), layers.cast(bias, FP32))
    pace = layers.view(pace, "reshape", *shape)
    rate = layers.pointwise("exp", layers.cast(logarithm, FP32))
    large = b.tensor("large", *shape, dtype=BOOL)
    b.emit(Elementwise, "large", inputs=(pace,), outputs=(large,), function="compare")
    soft = layers.pointwise("log", layers.pointwise("add_scalar", layers.pointwise("exp", pace)))
    pace = layers.pointwise("where", large, pace, soft, dtype=FP32)
    return layers.mul(layers.pointwise("neg", rate), pace)


def _gated(layers: VisionLayers, core: Tensor, gate: Tensor) -> Tensor:
    """Normalise each head, and gate it by a sigmoid: one kernel, or a chain in fp32."""
    if layers.flavour.engine.fusion.rms_norm == "chain":
        wide = layers.rms_norm(layers.cast(core, FP32), "norm", weight_form="widened")
        return layers.cast(layers.mul(wide, layers.pointwise("sigmoid", layers.cast(gate, FP32))), core)
    b = layers.b
    with b.scope("norm"):
        weight = b.parameter("weight", core.shape[-1])
        out, rstd = b.tensor("out", *core.shape), b.tensor("rstd", *core.shape[:-1], dtype=FP32)
        b.emit(Normalization, "norm", inputs=(core, weight, gate), outputs=(out, rstd), method="rms")
        return out


def _chunks(layers: VisionLayers, call: Call, parts: Parts, others: tuple[Tensor, Tensor]) -> Tensor:
    # The function wants each by itself; it sums decays up inside of each chunk.
    q, k, v = (layers.copy(part, "contiguous") for part in parts)
    decay, strength = layers.pointwise("cumsum", others[0]), others[1]
    weight = layers.view(strength, "reshape", *strength.shape, 1.0)
    chunks = Chunks.of(layers, v)
    again = Purpose.MADE_AGAIN
    with layers.b.scope(again):
        factor = layers.cast(layers.pointwise("exp", decay), q)
        q, k = (layers.mul(layers.pointwise("normalise", part), factor) for part in (q, k))
        known = chunks.within("known", layers.mul(k, weight), k)
    inverse, scores = chunks.squared("inverse", known, known), chunks.within("scores", q, k)
    with layers.b.scope(again):
        keys = chunks.taken("keys", inverse, layers.mul(k, weight))
        values = chunks.taken("values", inverse, layers.mul(v, weight))
        # One chunk after the other: what the state says already is not written again, the rest is added to it.
        states = chunks.updated("update", keys, values)
        new = layers.pointwise("sub", values, chunks.asked("corrected", keys, states))
        keep_states(layers, call, states, v)
        before, inside = chunks.asked("before", q, states), chunks.taken("inside", scores, new)
        return layers.add(before, inside)


def _step(layers: VisionLayers, call: Call, parts: Parts, others: tuple[Tensor, Tensor]) -> Tensor:
    return step_of_token(layers, call, parts, others, STEP_FUNCTION)
