"""The backward row of look-ups in tables."""

from __future__ import annotations

from roofsim.graph.ops import Embedding
from roofsim.graph.tensor import FP32, Role, Tensor
from roofsim.numeric import same
from roofsim.passes.autograd.tape import Tape, backward


@backward.register
def _(op: Embedding, tape: Tape) -> None:
    """Give a table its gradient, or add the rows' gradients to the rows themselves, with their optimizer state."""
    table, *indices = op.inputs
    rows = {"lookups": op.lookups, "width": op.width, "skew": op.skew, "backward": True}
    if op.sparse:
        updated = Tensor(f"{table.name}.updated", table.shape, table.dtype, Role.TEMPORARY, base=table)
        reads: tuple[Tensor, ...] = (table, tape.incoming(op), *indices)
        writes: tuple[Tensor, ...] = (updated,)
        if not same(op.states, 0.0):
            name, shape = f"{table.name}.state", (table.shape[0], op.states)
            state = Tensor(name, shape, FP32, Role.OPTIMIZER_STATE, of=table)
            reads = (*reads, state)
            writes = (updated, Tensor(f"{name}.updated", shape, FP32, Role.TEMPORARY, base=state))
        tape.emit(Embedding, "update", reads, writes, sparse=True, states=op.states, **rows)
        return
    out = tape.new(table)
    tape.emit(Embedding, "gradient", (tape.incoming(op), *indices), (out,), **rows)
    tape.give(table, out)
