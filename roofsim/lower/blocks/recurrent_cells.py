"""Build recurrent layers (LSTM, GRU, Elman): inputs of all tokens in one product, then a product and a pass over the gates each.

As cuDNN's and MIOpen's plain algorithms run them: the products of the inputs do not depend on each other and are one GEMM; those
of the states do, and are launched token after token. A step of generation reads and writes the state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.graph.ops import Elementwise, Matmul, View
from roofsim.lower.blocks.states import keep_state, state_of
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.blocks.layers import Layers
    from roofsim.lower.call import Call
    from roofsim.numeric import Real

#: Products of a cell: what each gate makes of input and state.
GATES: Final = {"lstm": 4.0, "gru": 3.0, "rnn": 1.0}


@dataclass(frozen=True, kw_only=True)
class Cells:
    """A layer of cells: its kind, its width, biases on both products (as PyTorch has them), an LSTM's projection."""

    kind: str
    hidden: Real
    bias: bool = True
    projection: Real | None = None

    @property
    def carried(self) -> Real:
        """Width of what a cell hands on."""
        return self.hidden if self.projection is None else self.projection


@dataclass(frozen=True)
class _Weights:
    of_inputs: tuple[Tensor, ...]
    of_states: tuple[Tensor, ...]
    projection: Tensor | None


def recurrent_layer(layers: Layers, call: Call, cells: Cells, x: Tensor, leaf: str) -> Tensor:
    """Return ``[batch, length, carried]`` of ``[batch, length, width]``; a block repeats the cell for each token.

    Raises
    ------
    ValueError
        Inside of another block: the tokens of a layer are one.
    """
    b = layers.b
    with b.scope(leaf):
        weights = _weights(layers, cells, x.shape[-1])
        batch, length = x.shape[:2]
        wide = b.tensor("inputs", batch, length, cells.hidden * GATES[cells.kind])
        inner = _product(layers, "input", x, weights.of_inputs, wide, batch * length)
        if call.phase == "decode":
            return _one_token(layers, call, cells, weights, inner)
        return _tokens(layers, call, cells, weights, inner)


def _weights(layers: Layers, cells: Cells, width: Real) -> _Weights:
    b, gates = layers.b, cells.hidden * GATES[cells.kind]
    of_inputs: tuple[Tensor, ...] = (b.parameter("weight_ih", gates, width),)
    of_states: tuple[Tensor, ...] = (b.parameter("weight_hh", gates, cells.carried),)
    if cells.bias:
        of_inputs, of_states = (*of_inputs, b.parameter("bias_ih", gates)), (*of_states, b.parameter("bias_hh", gates))
    projection = None if cells.projection is None else b.parameter("weight_hr", cells.projection, cells.hidden)
    return _Weights(of_inputs, of_states, projection)


def _product(layers: Layers, leaf: str, x: Tensor, weights: tuple[Tensor, ...], out: Tensor, rows: Real) -> Tensor:
    n, k = weights[0].shape
    layers.b.emit(Matmul, leaf, inputs=(x, *weights), outputs=(out,), m=rows, n=n, k=k)
    return out


def _tokens(layers: Layers, call: Call, cells: Cells, weights: _Weights, inner: Tensor) -> Tensor:
    b, (batch, length, gates) = layers.b, inner.shape
    # The weights belong to the layer and not to a token: views of them are read for each.
    of_states = tuple(layers.view(weight, "reshape", *weight.shape) for weight in weights.of_states)
    projection = (
        None if weights.projection is None else layers.view(weights.projection, "reshape", *weights.projection.shape)
    )
    first = layers.b.tensor("state", batch, cells.carried)
    b.emit(Elementwise, "start", inputs=(), outputs=(first,), function="fill")
    memory = None
    if cells.kind == "lstm":
        memory = b.tensor("memory", batch, cells.hidden)
        b.emit(Elementwise, "start_memory", inputs=(), outputs=(memory,), function="fill")
    each = layers.view(inner, "slice", batch, gates)
    with b.repeat("tokens", length):
        state, kept = _cell(layers, cells, of_states, projection, (each, first, memory))
        b.carry(first, state)
        if memory is not None and kept is not None:
            b.carry(memory, kept)
    if call.cached:
        keep_state(layers, call, state, "state", (cells.carried,))
        if kept is not None:
            keep_state(layers, call, kept, "memory", (cells.hidden,))
    # Each token's state was written in its place.
    out = replace(b.tensor("states", batch, length, cells.carried, base=state), shows_more=True)
    b.emit(View, "states", inputs=(state,), outputs=(out,), function="expand")
    return out


def _cell(
    layers: Layers,
    cells: Cells,
    of_states: tuple[Tensor, ...],
    projection: Tensor | None,
    taken: tuple[Tensor, Tensor, Tensor | None],
) -> tuple[Tensor, Tensor | None]:
    """Return the state after a token, and an LSTM's memory."""
    inner, before, memory = taken
    b, batch = layers.b, before.shape[0]
    gates = _product(layers, "state", before, of_states, b.tensor("gates", batch, of_states[0].shape[0]), batch)
    state = b.tensor("state.after", batch, cells.hidden)
    if memory is None:
        inputs = (inner, gates, before) if cells.kind == "gru" else (inner, gates)
        b.emit(Elementwise, "cell", inputs=inputs, outputs=(state,), function=f"{cells.kind}_cell")
        return state, None
    after = b.tensor("memory.after", batch, cells.hidden)
    b.emit(Elementwise, "cell", inputs=(inner, gates, memory), outputs=(state, after), function="lstm_cell")
    if projection is not None:
        out = b.tensor("state.projected", batch, cells.carried)
        state = _product(layers, "projection", state, (projection,), out, batch)
    return state, after


def _one_token(layers: Layers, call: Call, cells: Cells, weights: _Weights, inner: Tensor) -> Tensor:
    b, batch = layers.b, inner.shape[0]
    before = state_of(call, b.name("state"), (batch, cells.carried), wide=False)
    memory = state_of(call, b.name("memory"), (batch, cells.hidden), wide=False) if cells.kind == "lstm" else None
    mine = layers.view(before, "slice", batch, cells.carried)
    kept = None if memory is None else layers.view(memory, "slice", batch, cells.hidden)
    each = layers.view(inner, "reshape", batch, inner.shape[2])
    state, after = _cell(layers, cells, weights.of_states, weights.projection, (each, mine, kept))
    keep_state(layers, call, state, "state_after", (cells.carried,))
    if after is not None:
        keep_state(layers, call, after, "memory_after", (cells.hidden,))
    return layers.view(state, "reshape", batch, 1.0, cells.carried)
