"""Say of each op what a compiler sees of it: the pieces that it computes one by one, and what each of them reads."""

from __future__ import annotations

from functools import singledispatch
from typing import Final

from roofsim.graph.base import AbstractOp, Kind
from roofsim.graph.ops import Cast, Copy, Dropout, Elementwise, Gather, Loss, Normalization, Pool, Resize, Softmax
from roofsim.graph.tensor import FP32, Role, Tensor
from roofsim.records import dataclass

#: What a compiler writes kernels for, so that it merges it with its neighbours and may compute it a second time
#: (torch/_functorch/partitioners.py, get_default_op_list: default_recomputable_ops, of which fusible_ops are a superset).
GENERATED: Final = frozenset(
    {
        Kind.ELEMENTWISE,
        Kind.CAST,
        Kind.DROPOUT,
        Kind.NORMALIZATION,
        Kind.SOFTMAX,
        Kind.REDUCTION,
        Kind.COPY,
        Kind.LOSS,
        Kind.VIEW,
    }
)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Piece:
    """A part of an op that a compiler treats as an op of its own.

    Attributes
    ----------
    op
        What computes it: of a piece that is the whole op, that op; otherwise the kernel that makes it a second time.
    outputs, reads
        The tensors that it makes and reads.
    generated
        Whether the compiler writes its kernel.
    repeatable
        Whether running it again gives the same: it draws no random numbers, and is cheap.
    """

    op: AbstractOp
    outputs: tuple[Tensor, ...]
    reads: tuple[Tensor, ...]
    generated: bool = True
    repeatable: bool = True


@singledispatch
def pieces(op: AbstractOp) -> tuple[Piece, ...]:
    """Return the pieces of an op, in the order in which they run."""
    generated = op.kind in GENERATED
    return (Piece(op=op, outputs=op.outputs, reads=op.inputs, generated=generated, repeatable=generated),)


@pieces.register
def _(op: Elementwise) -> tuple[Piece, ...]:
    return (Piece(op=op, outputs=op.outputs, reads=op.inputs, repeatable=op.function != "random"),)


@pieces.register
def _(op: Copy) -> tuple[Piece, ...]:
    # What is concatenated is written there by its own kernels, but nothing reads it on the way.
    return (Piece(op=op, outputs=op.outputs, reads=op.inputs, repeatable=op.function != "concat"),)


@pieces.register
def _(op: Cast) -> tuple[Piece, ...]:
    own = not op.dequantises
    return (Piece(op=op, outputs=op.outputs, reads=op.inputs, generated=own, repeatable=own),)


@pieces.register
def _(op: Gather) -> tuple[Piece, ...]:
    own = op.function == "index"
    return (Piece(op=op, outputs=op.outputs, reads=op.inputs, generated=own, repeatable=own),)


@pieces.register
def _(op: Resize) -> tuple[Piece, ...]:
    own = op.function == "nearest"
    return (Piece(op=op, outputs=op.outputs, reads=op.inputs, generated=own, repeatable=own),)


@pieces.register
def _(op: Normalization) -> tuple[Piece, ...]:
    if op.backward or len(op.outputs) == 1 or op.method == "batch_statistics":
        return (Piece(op=op, outputs=op.outputs, reads=op.inputs),)
    result, *statistics = op.outputs
    made, reads = tuple(statistics), (*op.inputs, *statistics)
    again = Elementwise(
        name=f"{op.name}.normalise",
        inputs=reads,
        outputs=(result,),
        function="normalise",
        block=op.block,
        component=op.component,
    )
    return (
        Piece(op=op, outputs=made, reads=op.inputs[:1], repeatable=False),
        Piece(op=again, outputs=(result,), reads=reads),
    )


@pieces.register
def _(op: Softmax) -> tuple[Piece, ...]:
    if op.backward:
        return (Piece(op=op, outputs=op.outputs, reads=op.inputs),)
    x, *others = op.inputs
    rows = (op.outputs[0].numel / op.row,)
    largest, total = (Tensor(f"{op.outputs[0].name}.{leaf}", rows, FP32, Role.TEMPORARY) for leaf in ("max", "sum"))
    reads = (x, *others, largest, total)
    again = Elementwise(
        name=f"{op.name}.exp",
        inputs=reads,
        outputs=op.outputs,
        function="softmax",
        block=op.block,
        component=op.component,
    )
    return (
        Piece(op=op, outputs=(largest, total), reads=(x,), repeatable=False),
        Piece(op=again, outputs=op.outputs, reads=reads),
    )


@pieces.register
def _(op: Dropout) -> tuple[Piece, ...]:
    if op.backward:
        return (Piece(op=op, outputs=op.outputs, reads=op.inputs),)
    result, mask = op.outputs
    again = Elementwise(
        name=f"{op.name}.scale",
        inputs=(*op.inputs, mask),
        outputs=(result,),
        function="mul",
        block=op.block,
        component=op.component,
    )
    return (
        Piece(op=op, outputs=(mask,), reads=(), repeatable=False),
        Piece(op=again, outputs=(result,), reads=(*op.inputs, mask)),
    )


@pieces.register
def _(op: Pool) -> tuple[Piece, ...]:
    # Of what it pooled, the gradient asks for the shape alone.
    reads = op.inputs[:-1] if op.backward else op.inputs
    return (Piece(op=op, outputs=op.outputs, reads=reads, generated=False, repeatable=False),)


@pieces.register
def _(op: Loss) -> tuple[Piece, ...]:
    # The gradient of a picked log-probability is -1 at the target, whatever the value was.
    unread = op.backward and op.function == "nll"
    reads = (op.inputs[0], *op.inputs[2:]) if unread else op.inputs
    return (Piece(op=op, outputs=op.outputs, reads=reads),)
