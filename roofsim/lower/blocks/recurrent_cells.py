"""Build recurrent layers (LSTM, GRU, Elman) as cuDNN runs them: inputs of all tokens in one product, then one call for the cells.

The products of the inputs do not depend on each other and are one GEMM; those of the states do, and are launched token after
token inside of the call. A step of generation reads the state from the cache and writes it back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.graph.ops import Recurrence
from roofsim.lower.blocks.states import keep_state, state_of
from roofsim.records import dataclass

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

    @property
    def remembers(self) -> bool:
        """Whether a cell has a memory beside its state."""
        return self.kind == "lstm"


def recurrent_layer(layers: Layers, call: Call, cells: Cells, x: Tensor, leaf: str) -> Tensor:
    """Return ``[batch, length, carried]`` of ``[batch, length, width]``."""
    b, gates = layers.b, cells.hidden * GATES[cells.kind]
    with b.scope(leaf):
        inner = layers.linear(x, gates, "input", bias=cells.bias)
        weights = [b.parameter("weight_hh", gates, cells.carried)]
        weights += [b.parameter("bias_hh", gates)] if cells.bias else []
        weights += [] if cells.projection is None else [b.parameter("weight_hr", cells.projection, cells.hidden)]
        outputs = _outputs(layers, cells, inner)
        b.emit(
            Recurrence,
            "cells",
            inputs=(inner, *weights, *_before(layers, call, cells, x.shape[0])),
            outputs=outputs,
            cell=cells.kind,
            batch=x.shape[0],
            tokens=x.shape[1],
            hidden=cells.hidden,
            carried=cells.carried,
            gates=GATES[cells.kind],
            projects=cells.projection is not None,
        )
        _keep(layers, call, cells, outputs)
        return outputs[0]


def _outputs(layers: Layers, cells: Cells, inner: Tensor) -> tuple[Tensor, ...]:
    """Return the states of all tokens, the last memory, and, in front of it, what training keeps of each token."""
    b, (batch, length, gates) = layers.b, inner.shape
    outputs: tuple[Tensor, ...] = (b.tensor("states", batch, length, cells.carried),)
    if layers.flavour.training:
        outputs += () if cells.projection is None else (b.tensor("unprojected", batch, length, cells.hidden),)
        outputs += (b.tensor("gates", batch, length, gates),)
        outputs += (b.tensor("memories", batch, length, cells.hidden),) if cells.remembers else ()
    elif cells.remembers:
        outputs += (b.tensor("memory", batch, cells.hidden),)
    return outputs


def _before(layers: Layers, call: Call, cells: Cells, batch: Real) -> tuple[Tensor, ...]:
    """Return the states that a step of generation starts from."""
    if call.phase != "decode":
        return ()
    b = layers.b
    state = state_of(call, b.name("state"), (batch, cells.carried), wide=False)
    return (state, state_of(call, b.name("memory"), (batch, cells.hidden), wide=False)) if cells.remembers else (state,)


def _keep(layers: Layers, call: Call, cells: Cells, outputs: tuple[Tensor, ...]) -> None:
    """Leave state and memory in the cache for the next token."""
    if call.phase != "prefill":
        return
    last = layers.view(outputs[0], "slice", outputs[0].shape[0], cells.carried)
    keep_state(layers, call, last, "state", (cells.carried,))
    if cells.remembers:
        keep_state(layers, call, outputs[-1], "memory", (cells.hidden,))
