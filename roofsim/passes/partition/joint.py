"""The joint graph of a compiler: values, what makes and reads each, and on which side of the step it lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.base import Phase
from roofsim.graph.ops import Copy, View
from roofsim.passes.partition.pieces import Piece, pieces
from roofsim.records import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roofsim.graph.base import AbstractOp, Block
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor
    from roofsim.numeric import Real


@dataclass(eq=False, slots=True, kw_only=True)
class Value:
    """What one piece makes of one tensor.

    Attributes
    ----------
    tensor
        None: of what depends on gradients, which nobody keeps.
    piece
        What makes it; None of what stands before the step, or what a later op makes.
    size
        Bytes that keeping it takes, over all iterations of its block; of parameters none, as they are there anyway.
    generated
        Whether the compiler writes the kernel that makes it.
    forward, gradient
        Whether the forward pass makes it; whether it depends on gradients. Neither: what the backward pass makes of
        nothing but what the forward pass has made.
    fixed
        Whether it is not made again wherever it is read: it comes from outside of what is compiled, or it is what one
        iteration of a block hands to the next, or is made of what all iterations read. The residual stream, read by a norm
        and far behind that by a sum, is so too (`ban_recompute_used_far_apart`).
    """

    number: int
    tensor: Tensor | None
    piece: Piece | None
    size: Real = 0.0
    generated: bool = False
    forward: bool = False
    gradient: bool = False
    fixed: bool = False
    reads: list[Value] = field(default_factory=list)
    users: list[Value] = field(default_factory=list)

    @property
    def view(self) -> bool:
        """Whether it shows another value's storage."""
        return self.piece is not None and isinstance(self.piece.op, View)

    @property
    def given(self) -> bool:
        """Whether nothing that is compiled makes it."""
        return self.piece is None

    def merges_into(self, user: Value) -> bool:
        """Tell whether it needs not reach memory on its way to a user: what is concatenated is written to its place."""
        if user.piece is not None and _concatenates(user.piece.op):
            return True
        return self.generated and user.generated and not (self.piece is not None and _concatenates(self.piece.op))


class Joint:
    """The values of a forward and a backward pass, in program order.

    Parameters
    ----------
    compiled
        The blocks whose ops are compiled together, None for what stands between blocks; what others make is given.
    """

    def __init__(self, graph: OpGraph, compiled: frozenset[Block | None]) -> None:
        self.values: list[Value] = []
        self._of: dict[Tensor, Value] = {}
        self._entering: dict[Block, dict[Tensor, Value]] = {}
        self._leaving = {leaving for block in graph.blocks if _repeats(block) for _, leaving in block.carries}
        self._producer = graph.producer
        self._pieces: dict[AbstractOp, tuple[Piece, ...]] = {}
        for op in graph:
            if op.phase in (Phase.FORWARD, Phase.BACKWARD) and op.block in compiled:
                self._enter(op.block)
                for piece in self.pieces(op):
                    self._add(op, piece)

    def __iter__(self) -> Iterator[Value]:
        return iter(self.values)

    def pieces(self, op: AbstractOp) -> tuple[Piece, ...]:
        """Return the pieces of an op: the same whenever they are asked for."""
        if op not in self._pieces:
            self._pieces[op] = pieces(op)
        return self._pieces[op]

    def read(self, tensor: Tensor, block: Block | None) -> Value | None:
        """Return the value that an op of a block reads as a tensor."""
        forward = block if block is None or block.mirror is None else block.mirror
        own = {} if forward is None else self._entering.get(forward, {})
        return own.get(tensor) or self._of.get(tensor)

    def _enter(self, block: Block | None) -> None:
        """Make a value of what enters each iteration of a block: but for the first, what the one before has left."""
        if block is None or block.mirror is not None or not _repeats(block) or block in self._entering:
            return
        self._entering[block] = {}
        for entry, leaving in block.carries:
            made = self._new(entry, self._pieces_of(leaving), [])
            made.forward = made.fixed = True
            made.size = entry.numel * entry.dtype.itemsize * block.repeat
            self._entering[block][entry] = made

    def _pieces_of(self, tensor: Tensor) -> Piece | None:
        op = self._producer.get(tensor)
        own = () if op is None else self.pieces(op)
        return next((piece for piece in own if tensor in piece.outputs), None)

    def _add(self, op: AbstractOp, piece: Piece) -> None:
        reads = [self._source(tensor, op.block) for tensor in dict.fromkeys(piece.reads)]
        forward = op.phase is Phase.FORWARD
        # The first gradient belongs to no op of the forward pass.
        if not forward and (op.origin is None or not piece.repeatable or any(value.gradient for value in reads)):
            made = self._new(None, piece, reads)
            made.gradient = True
            self._of.update(dict.fromkeys(piece.outputs, made))
            return
        for tensor in piece.outputs:
            made = self._of[tensor] = self._new(tensor, piece, reads)
            made.forward = forward
            leaves = tensor in self._leaving
            made.size = tensor.numel * tensor.dtype.itemsize * (1.0 if leaves else op.repeats)
            made.fixed = leaves or (forward and _repeats(op.block) and any(self._shared(v, op.block) for v in reads))

    def _shared(self, value: Value, block: Block | None) -> bool:
        """Tell whether all iterations of a block read a value that the compiler makes before it."""
        return value.piece is not None and value.generated and value.piece.op.block is not block and not value.fixed

    def _source(self, tensor: Tensor, block: Block | None) -> Value:
        value = self.read(tensor, block)
        if value is None:  # parameters, inputs, and what a later op makes (the gradients that a block carries)
            value = self._of[tensor] = self._new(tensor, None, [])
            made = self._producer.get(tensor)
            if made is not None and made.phase is Phase.FORWARD:
                value.size = tensor.numel * tensor.dtype.itemsize * made.repeats
        return value

    def _new(self, tensor: Tensor | None, piece: Piece | None, reads: list[Value]) -> Value:
        made = Value(number=len(self.values), tensor=tensor, piece=piece)
        made.generated = piece is not None and piece.generated
        made.reads = reads
        for value in reads:
            value.users.append(made)
        self.values.append(made)
        return made


def _repeats(block: Block | None) -> bool:
    return block is not None and not block.once


def _concatenates(op: AbstractOp) -> bool:
    return isinstance(op, Copy) and op.function == "concat"
