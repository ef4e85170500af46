"""Build RWKV's layers (arXiv 2305.13048, as transformers' RwkvForCausalLM): mixes with the token before, and a scan per channel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.ops import Elementwise, Scan
from roofsim.graph.tensor import FP32
from roofsim.lower.blocks.selective_scan import SCAN_STEP
from roofsim.lower.blocks.states import keep_state, state_of

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.blocks.layers import Layers
    from roofsim.lower.call import Call
    from roofsim.numeric import Real

#: Numerator and denominator of the weighted sum; the largest exponent so far stands beside them.
SUMS = 2.0
STATES = 3.0


def time_mix(layers: Layers, call: Call, x: Tensor, size: Real) -> Tensor:
    """Return what each token takes of those before it, per channel, and projected back."""
    width, shifted = x.shape[-1], before(layers, call, x)
    key, value, gate = (
        layers.linear(mixed(layers, x, shifted, leaf), size, leaf) for leaf in ("key", "value", "receptance")
    )
    gate = layers.pointwise("sigmoid", gate)
    decay, first = layers.b.parameter("decay", size), layers.b.parameter("first", size)
    rates = layers.pointwise("neg", layers.pointwise("exp", layers.cast(decay, FP32)))
    over = _step if call.phase == "decode" else _scan
    summed = over(layers, call, (key, value, rates, first))
    return layers.linear(layers.mul(gate, summed), width, "output")


def channel_mix(layers: Layers, call: Call, x: Tensor, inner: Real, *, gated: bool = True) -> Tensor:
    """Return the feed-forward layer's result: squared ReLU, gated by a receptance (not in version 7)."""
    width, shifted = x.shape[-1], before(layers, call, x)
    key = layers.linear(mixed(layers, x, shifted, "key"), inner, "key")
    raised = layers.activation(key, "relu_squared")
    if not gated:
        return layers.linear(raised, width, "value")
    gate = layers.pointwise("sigmoid", layers.linear(mixed(layers, x, shifted, "receptance"), width, "receptance"))
    return layers.mul(gate, layers.linear(raised, width, "value"))


def before(layers: Layers, call: Call, x: Tensor) -> Tensor:
    """Return each token's predecessor: the sequence shifted by one, or what the cache keeps of it."""
    if call.phase == "decode":
        state = state_of(call, layers.b.name("token"), (x.shape[0], x.shape[-1]), wide=False)
        return layers.view(state, "reshape", *x.shape)
    if call.cached:
        keep_state(layers, call, layers.view(x, "slice", x.shape[0], x.shape[-1]), "token", (x.shape[-1],))
    return layers.copy(x, "shift")


def mixed(layers: Layers, x: Tensor, before: Tensor, leaf: str) -> Tensor:
    """Mix each channel with that of the token before by a trained share."""
    share = layers.b.parameter(f"mix_{leaf}", 1.0, 1.0, x.shape[-1])
    rest = layers.pointwise("add_scalar", layers.pointwise("neg", share))
    return layers.add(layers.mul(x, share), layers.mul(before, rest))


def _scan(layers: Layers, call: Call, parts: tuple[Tensor, ...]) -> Tensor:
    """Run the fused kernel over the tokens of each channel (``wkv``)."""
    key, b = parts[0], layers.b
    batch, length, channels = key.shape
    outputs: tuple[Tensor, ...] = (b.tensor("summed", batch, length, channels),)
    if call.cached:
        outputs += (b.tensor("last", batch, channels, STATES, dtype=FP32),)
    b.emit(Scan, "scan", inputs=parts, outputs=outputs, batch=batch, channels=channels, length=length, state_size=SUMS)
    if call.cached:
        keep_state(layers, call, outputs[-1], "state", (channels, STATES), wide=True)
    return outputs[0]


def _step(layers: Layers, call: Call, parts: tuple[Tensor, ...]) -> Tensor:
    key, b = parts[0], layers.b
    state = state_of(call, b.name("state"), (key.shape[0], key.shape[-1], STATES), wide=True)
    after = b.tensor("state.after", key.shape[0], key.shape[-1], STATES, dtype=FP32, base=state)
    out = b.tensor("summed", *key.shape)
    inputs = (key, state, *parts[1:])
    b.emit(Elementwise, "scan", inputs=inputs, outputs=(after, out), function=SCAN_STEP)
    return out
