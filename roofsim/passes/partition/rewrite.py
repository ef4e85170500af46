"""Write a step in which the backward pass computes again what the forward pass does not keep for it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from roofsim.errors import PassError
from roofsim.graph.base import Phase
from roofsim.graph.naming import numbered
from roofsim.graph.ops import View
from roofsim.graph.tensor import Role
from roofsim.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from roofsim.graph.base import AbstractOp, Block
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor
    from roofsim.passes.partition.joint import Joint, Value


def partitioned(
    graph: OpGraph, joint: Joint, kept: AbstractSet[Value], compiled: frozenset[Block | None]
) -> list[AbstractOp]:
    """Return the ops of a step: the forward pass also writes what else is kept, the backward pass begins from that.

    A compiled backward pass frees each tensor behind its last reader; what eager autograd holds longer is let go.
    """
    written = {value.tensor for value in kept}
    result: list[AbstractOp] = []
    names: Counter[str] = Counter()
    for block, body in graph.segments():
        repeats = _Repeats(joint, kept, block, names)
        for op in body:
            if op.block not in compiled:
                result.append(op)
            elif op.phase is Phase.FORWARD:
                result.append(_writing(op, joint, written))
            elif op.phase is Phase.BACKWARD:
                result += repeats.before(op)
            else:
                result.append(op)
    return result


def _writing(op: AbstractOp, joint: Joint, written: AbstractSet[Tensor | None]) -> AbstractOp:
    """Return an op that also writes those results of its pieces that are kept (the largest and the sum of a softmax)."""
    more = [
        tensor
        for piece in joint.pieces(op)
        for tensor in piece.outputs
        if tensor in written and tensor not in op.outputs
    ]
    return replace(op, outputs=(*op.outputs, *more)) if more else op


class _Repeats:
    """What one run of backward ops computes again: each value once, before the first op that reads it."""

    def __init__(self, joint: Joint, kept: AbstractSet[Value], block: Block | None, names: Counter[str]) -> None:
        self.joint = joint
        self.kept = kept
        self.block = block
        self.names = names
        self.again: dict[Tensor, Tensor] = {}
        self.ops: list[AbstractOp] = []

    def before(self, op: AbstractOp) -> list[AbstractOp]:
        """Return the op, reading what is kept and what is computed again, behind the ops that do so."""
        self.ops = []
        read = {tensor for piece in self.joint.pieces(op) for tensor in piece.reads}
        inputs = tuple(self._at_hand(tensor) for tensor in op.inputs if tensor in read)
        outputs = tuple(
            replace(t, base=self.again[t.base]) if t.base is not None and t.base in self.again else t
            for t in op.outputs
        )
        self.again.update((old, new) for old, new in zip(op.outputs, outputs, strict=True) if old is not new)
        return [*self.ops, replace(op, inputs=inputs, outputs=outputs, holds=())]

    def _at_hand(self, tensor: Tensor) -> Tensor:
        """Return what the backward pass reads as a tensor: itself if it is there, else the one that it computes."""
        if tensor in self.again:
            return self.again[tensor]
        value = self.joint.read(tensor, self.block)
        if value is None or value.given or value in self.kept or not value.forward or tensor.root.persistent:
            return tensor
        assert value.piece is not None
        made = value.piece.op
        if not value.piece.repeatable or (not value.reads and value.fixed):
            raise PassError(f"partition: the backward pass reads {tensor}, which is neither kept nor made again")
        inputs = tuple(self._at_hand(source) for source in made.inputs)
        if isinstance(made, View) and inputs == made.inputs:
            return tensor
        return self._made_again(made, value.piece.outputs, inputs)[tensor]

    def _made_again(self, op: AbstractOp, wanted: Iterable[Tensor], inputs: tuple[Tensor, ...]) -> dict[Tensor, Tensor]:
        sources = dict(zip(op.inputs, inputs, strict=True))
        shows = isinstance(op, View)
        twins = {
            tensor: replace(
                tensor,
                name=f"{tensor.name}.again",
                role=Role.TEMPORARY,
                base=sources.get(tensor.base, inputs[0]) if shows and tensor.base is not None else None,
            )
            for tensor in wanted
        }
        self.again.update(twins)
        name = numbered(f"{op.name}.in_backward", self.names)
        self.ops.append(
            replace(
                op,
                name=name,
                inputs=inputs,
                outputs=tuple(twins.values()),
                holds=(),
                phase=Phase.BACKWARD,
                block=self.block,
                origin=op,
            )
        )
        return twins
