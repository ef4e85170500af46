"""Build lightning attention (arXiv 2405.17381): sums of outer products that decay at a rate of each head, gated (MiniMax-01).

Passes over many tokens run in blocks, as the fused kernels do (OpenNLPLab/lightning-attention, ops/triton/lightning_attn2.py; vLLM,
layers/lightning_attn.py): scores and what they take inside of each block, what a block adds to the state, and what its queries
find in the state before it. Their function keeps queries, keys and values; its backward pass makes the rest again. A step of one
token reads and writes the state (``linear_decode_forward_triton``), which has the type of the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.component import Purpose
from roofsim.graph.ops import Elementwise
from roofsim.graph.tensor import FP32
from roofsim.lower.blocks.exchange import emit, enter, leave
from roofsim.lower.blocks.matrix_states import WEIGHTED_STEP, Chunks
from roofsim.lower.blocks.states import keep_state, state_of
from roofsim.lower.shares import one
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.blocks.layers import Layers
    from roofsim.lower.call import Call
    from roofsim.numeric import Real

Parts = tuple["Tensor", "Tensor", "Tensor"]


@dataclass(frozen=True, kw_only=True)
class LightningSizes:
    """Heads (of the model, or of a rank), their size, and the tokens of a block."""

    heads: Real
    head_size: Real
    block: Real

    @property
    def inner(self) -> Real:
        """Width of all heads."""
        return self.heads * self.head_size


def lightning_layer(layers: Layers, call: Call, sizes: LightningSizes, x: Tensor) -> Tensor:
    """Return what a layer makes of ``[batch, length, width]``; heads are split over a tensor group."""
    sizes = replace(sizes, heads=sizes.heads / layers.shares.tensor)
    width = x.shape[-1]
    with layers.b.scope(Purpose.MIXER):
        x = enter(layers, x)
        mixed = layers.linear(x, 3.0 * sizes.inner, Purpose.QUERY_KEY_VALUE)
        mixed = layers.activation(mixed, "silu")
        rule = _step if call.phase == "decode" else _blocks
        core = _normed(layers, rule(layers, call, sizes, mixed))
        gate = layers.pointwise("sigmoid", layers.linear(x, sizes.inner, Purpose.GATE))
        return leave(layers, layers.linear(layers.mul(gate, core), width, Purpose.OUTPUT))


def _normed(layers: Layers, core: Tensor) -> Tensor:
    """Normalise all heads together; ranks that have some of them add up their squares first."""
    if not one(layers.shares.tensor):
        squares = layers.b.tensor("squares", *core.shape[:-1], 1.0, dtype=FP32)
        emit(layers, "all_reduce", "tensor", layers.shares.tensor, core, squares, leaf="squares")
    return layers.rms_norm(core, "norm")


def _by_head(layers: Layers, sizes: LightningSizes, mixed: Tensor) -> Parts:
    """Return queries, keys and values ``[batch, length, heads, size]``, which stand side by side in each head."""
    heads = layers.view(mixed, "reshape", *mixed.shape[:2], sizes.heads, 3.0 * sizes.head_size)
    q, k, v = layers.split(heads, sizes.head_size, sizes.head_size, sizes.head_size)
    return q, k, v


def _blocks(layers: Layers, call: Call, sizes: LightningSizes, mixed: Tensor) -> Tensor:
    batch, length, _ = mixed.shape
    # The function wants heads first, and tokens side by side.
    q, k, v = (layers.copy(part, "transpose") for part in _by_head(layers, sizes, mixed))
    with layers.b.scope(Purpose.MADE_AGAIN):
        blocks = Chunks.of(layers, v, sizes.block)
        inside = blocks.taken("inside", blocks.within("scores", q, k), v)
        added = blocks.updated("update", k, v)
        # One kernel goes over the blocks, in fp32: the state decays and takes what its block adds.
        states = layers.cast(layers.pointwise("mul_scalar", layers.cast(added, FP32)), v)
        if call.cached:
            last = layers.view(states, "slice", batch, sizes.heads, sizes.head_size, sizes.head_size)
            keep_state(layers, call, last, "state", last.shape[1:])
        core = layers.add(inside, blocks.asked("before", q, states))
    return layers.copy(core, "transpose", (batch, length, sizes.inner))


def _step(layers: Layers, call: Call, sizes: LightningSizes, mixed: Tensor) -> Tensor:
    """Let the state of each head decay, add the token to it and ask it: one kernel."""
    b, (batch, length, _) = layers.b, mixed.shape
    parts = _by_head(layers, sizes, mixed)
    state = state_of(call, b.name("state"), (batch, sizes.heads, sizes.head_size, sizes.head_size), wide=False)
    after = b.tensor("state.after", *state.shape, base=state)
    out = b.tensor("out", batch, length, sizes.heads, sizes.head_size)
    b.emit(Elementwise, "step", inputs=(*parts, state), outputs=(after, out), function=WEIGHTED_STEP)
    return layers.view(out, "reshape", batch, length, sizes.inner)
