"""Build layers of gated delta rules (Qwen3-Next): a convolution over time and a state per head instead of a cache.

Passes over many tokens run in chunks, as flash-linear-attention's ``chunk_gated_delta_rule`` does: products inside each
chunk, one of the state with each chunk, and one that updates it (arXiv 2412.06464, section 3.3). A step of one token reads
and writes the state (``fused_recurrent_gated_delta_rule``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.graph.component import Purpose
from roofsim.graph.ops import Elementwise, Matmul
from roofsim.graph.tensor import FP32, Tensor
from roofsim.lower.blocks.convolutional import VisionLayers
from roofsim.lower.blocks.exchange import enter, leave
from roofsim.lower.blocks.states import keep_state, state_of
from roofsim.numeric import Real, minimum
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.lower.blocks.layers import Layers
    from roofsim.lower.call import Call
    from roofsim.spec.model.transformer import DecoderModel

#: Tokens of a chunk (fla-org/flash-linear-attention, ops/gated_delta_rule/chunk.py: chunk_size 64).
CHUNK: Final = 64.0
#: The kernel of a decode step, whose arithmetic is counted per element of the state.
STEP_FUNCTION: Final = "delta_step"


@dataclass(frozen=True)
class _HeadSizes:
    """Heads on this rank and their sizes."""

    key_heads: Real
    value_heads: Real
    key: Real
    value: Real
    kernel: Real

    @property
    def keys(self) -> Real:
        return self.key_heads * self.key

    @property
    def values(self) -> Real:
        return self.value_heads * self.value


def delta_layer(layers: Layers, model: DecoderModel, call: Call, x: Tensor) -> Tensor:
    """Return what a layer of gated delta rules makes of ``[batch, length, hidden]``."""
    with layers.b.scope(Purpose.DELTA_NET):
        sizes = _sizes(layers, model)
        x = enter(layers, x)
        mixed, gate, rates = _projected(layers, model, x, sizes)
        decay, strength = _rates(layers, rates)
        mixed = _convolved(layers, call, mixed, sizes)
        q, k, v = layers.split(mixed, sizes.keys, sizes.keys, sizes.values)
        heads = (*x.shape[:2], sizes.value_heads)
        q, k = (_per_value_head(layers, part, heads, sizes.key) for part in (q, k))
        v = layers.view(v, "reshape", *heads, sizes.value)
        rule = _step if call.phase == "decode" else _chunked
        core = rule(layers, call, sizes, (q, k, v, decay, strength))
        gate = layers.view(gate, "reshape", *heads, sizes.value)
        normed = layers.rms_norm(core, "norm", weight_form="fp32")
        gated = layers.mul(normed, layers.activation(gate, "silu"))
        flat = layers.view(gated, "reshape", *x.shape[:2], sizes.values)
        return leave(layers, layers.linear(flat, model.hidden_size, Purpose.OUTPUT))


def _sizes(layers: Layers, model: DecoderModel) -> _HeadSizes:
    net, ranks = model.delta_net, layers.shares.tensor
    assert net is not None
    return _HeadSizes(
        float(net.key_heads) / ranks,
        float(net.value_heads) / ranks,
        float(net.key_head_size),
        float(net.value_head_size),
        float(net.conv_kernel),
    )


def _projected(
    layers: Layers, model: DecoderModel, x: Tensor, sizes: _HeadSizes
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
    """Return queries, keys and values side by side, the gate, and the two rates of each head."""
    net, heads = model.delta_net, sizes.value_heads
    mixed = 2.0 * sizes.keys + sizes.values
    if net is not None and net.apart and layers.flavour.engine.fusion.rotary == "chain":
        qkv, gate = layers.linear(x, mixed, Purpose.IN_QKVZ), layers.linear(x, sizes.values, Purpose.GATE)
        return qkv, gate, (layers.linear(x, heads, "in_b"), layers.linear(x, heads, "in_a"))
    qkv, gate = layers.split(layers.linear(x, mixed + sizes.values, Purpose.IN_QKVZ), mixed, sizes.values)
    strength, decay = layers.split(layers.linear(x, 2.0 * heads, Purpose.IN_BA), heads, heads)
    return qkv, gate, (strength, decay)


def _rates(layers: Layers, rates: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Return how much of the state each token leaves, and how strongly it writes: one number per head."""
    b, (strength, decay) = layers.b, rates
    heads = strength.shape[-1]
    strength = layers.pointwise("sigmoid", strength)
    bias, logarithm = b.parameter("step_bias", heads), b.parameter("decay_logarithm", heads)
    pace = layers.pointwise("softplus", layers.add(layers.cast(decay, FP32), bias))
    slope = layers.pointwise("neg", layers.pointwise("exp", layers.cast(logarithm, FP32)))
    return layers.mul(pace, slope), strength


def _convolved(layers: Layers, call: Call, x: Tensor, sizes: _HeadSizes) -> Tensor:
    """Convolve each channel over the last tokens; one kernel applies SiLU as well (causal_conv1d)."""
    batch, length, channels = x.shape
    by_channel = layers.copy(x, "transpose", (batch, channels, length))
    if call.cached:
        kept = layers.view(by_channel, "slice", batch, channels, minimum(sizes.kernel - 1.0, length))
        keep_state(layers, call, kept, "conv_state", (channels, sizes.kernel - 1.0))
    wide = VisionLayers(layers.b, layers.flavour, layers.shares)
    # As many positions come out as went in: zeros stand before the first.
    out = wide.conv(by_channel, channels, sizes.kernel, "conv", groups=channels, padding=(sizes.kernel - 1.0) / 2.0)
    return layers.copy(out, "transpose", (batch, length, channels))


def _per_value_head(layers: Layers, x: Tensor, heads: tuple[Real, ...], size: Real) -> Tensor:
    """Normalise ``[batch, length, heads, size]`` to length one, and show each head to the value heads that share it."""
    batch, length, wanted = heads
    own = layers.view(x, "reshape", batch, length, x.shape[2] / size, size)
    own = layers.pointwise("normalise", own)
    return layers.copy(own, "expand", (batch, length, wanted, size))


# -- many tokens ----------------------------------------------------------------------------------------------------


def _chunked(
    layers: Layers, call: Call, sizes: _HeadSizes, parts: tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
) -> Tensor:
    q, k, v, decay, strength = parts
    batch, length, heads, value = v.shape
    chunk = minimum(CHUNK, length)
    count = batch * heads * length / chunk
    square = (batch, length, heads, chunk)
    product = _Products(layers, count)
    weight = layers.view(strength, "reshape", *strength.shape, 1.0)
    # What each token of a chunk changes of what those after it write: the inverse of a triangular matrix.
    within = product("within", k, k, square, (chunk, chunk, sizes.key))
    factor = layers.cast(layers.pointwise("exp", decay), k)
    within = layers.mul(within, layers.view(factor, "reshape", *decay.shape, 1.0))
    inverse = product("inverse", within, within, square, (chunk, chunk, chunk))
    keys = product("keys", inverse, layers.mul(k, weight), (*k.shape,), (chunk, sizes.key, chunk))
    values = product("values", inverse, layers.mul(v, weight), (*v.shape,), (chunk, value, chunk))
    # One chunk after the other: what the state says already is not written again, the rest is added to it.
    states = layers.b.tensor("states", batch, heads, length / chunk, sizes.key, value)
    layers.b.emit(
        Matmul,
        "update",
        inputs=(keys, values),
        outputs=(states,),
        m=sizes.key,
        n=value,
        k=chunk,
        batch=count,
        scores=True,
    )
    known = product("known", keys, states, (*v.shape,), (chunk, value, sizes.key))
    new = layers.pointwise("sub", values, known)
    from_state = product("from_state", q, states, (*v.shape,), (chunk, value, sizes.key))
    scores = product("scores", q, k, square, (chunk, chunk, sizes.key))
    from_chunk = product("from_chunk", scores, new, (*v.shape,), (chunk, value, chunk))
    if call.cached:
        last = layers.view(states, "slice", batch, heads, sizes.key, value)
        keep_state(layers, call, last, "state", (heads, sizes.key, value), wide=True)
    return layers.add(from_state, from_chunk)


@dataclass(frozen=True)
class _Products:
    """Emit products of ``[m, k] x [k, n]`` in each chunk of each head."""

    layers: Layers
    count: Real

    def __call__(
        self, leaf: str, left: Tensor, right: Tensor, shape: tuple[Real, ...], sizes: tuple[Real, Real, Real]
    ) -> Tensor:
        m, n, k = sizes
        out = self.layers.b.tensor(leaf, *shape)
        self.layers.b.emit(
            Matmul, leaf, inputs=(left, right), outputs=(out,), m=m, n=n, k=k, batch=self.count, scores=True
        )
        return out


# -- one token ------------------------------------------------------------------------------------------------------


def _step(
    layers: Layers, call: Call, sizes: _HeadSizes, parts: tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
) -> Tensor:
    """Read the state of each head, correct it by the token, write it back and ask it: one kernel."""
    b, v = layers.b, parts[2]
    batch, length, heads, value = v.shape
    state = state_of(call, b.name("state"), (batch, heads, sizes.key, value), wide=True)
    after = b.tensor("state.after", *state.shape, base=state)
    out = b.tensor("out", batch, length, heads, value)
    b.emit(Elementwise, "step", inputs=(state, *parts), outputs=(after, out), function=STEP_FUNCTION)
    return layers.cast(out, v)
