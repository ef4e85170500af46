"""Give an op other tensors: the one step that all passes share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.ops import Fused
from roofsim.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from roofsim.graph.base import AbstractOp, Block
    from roofsim.graph.tensor import Tensor


def rewired(op: AbstractOp, twin: Mapping[Tensor, Tensor]) -> AbstractOp:
    """Return `op` with each tensor replaced by its twin, itself where it has none; outputs that are views follow their storage."""
    if isinstance(op, Fused):
        return _rewired_parts(op, twin)
    if not has_twins(op, twin):
        return op
    outputs = [replace(t, base=twin[t.base]) if t.base is not None and t.base in twin else t for t in op.outputs]
    return replace(op, inputs=twins_of(op.inputs, twin), holds=twins_of(op.holds, twin), outputs=tuple(outputs))


def has_twins(op: AbstractOp, twin: Mapping[Tensor, Tensor]) -> bool:
    """Tell whether a tensor that an op reads or holds has a twin, or the storage of a view that it makes."""
    known = twin.keys()
    if not (known.isdisjoint(op.inputs) and known.isdisjoint(op.holds)):
        return True
    return any([tensor.base in known for tensor in op.outputs])  # noqa: C419 - a list is made faster than a generator


def twins_of(tensors: tuple[Tensor, ...], twin: Mapping[Tensor, Tensor]) -> tuple[Tensor, ...]:
    """Return the twins of tensors, themselves where they have none."""
    return tuple([twin.get(tensor, tensor) for tensor in tensors]) if tensors else tensors


def _rewired_parts(op: Fused, twin: Mapping[Tensor, Tensor]) -> AbstractOp:
    env, parts = dict(twin), []
    for part in op.parts:
        new = rewired(part, env)
        env.update((old, out) for old, out in zip(part.outputs, new.outputs, strict=True) if old is not out)
        parts.append(new)
    inputs, outputs, holds = (
        tuple(env.get(tensor, tensor) for tensor in group) for group in (op.inputs, op.outputs, op.holds)
    )
    return replace(op, inputs=inputs, outputs=outputs, holds=holds, parts=tuple(parts))


def rewired_all(body: Iterable[AbstractOp], twin: Mapping[Tensor, Tensor]) -> list[AbstractOp]:
    """Return ops with each tensor replaced by its twin, and what they make as views of twins in the ops behind."""
    env = dict(twin)
    result = []
    for op in body:
        new = rewired(op, env)
        if new is not op:
            env.update((old, out) for old, out in zip(op.outputs, new.outputs, strict=True) if old is not out)
        result.append(new)
    return result


class Rewiring:
    """Write a program op by op while tensors of the old one get twins: readers, and views of what they read, follow.

    Attributes
    ----------
    ops
        What was written so far.
    """

    def __init__(self) -> None:
        self.ops: list[AbstractOp] = []
        self._twins: dict[Tensor, Tensor] = {}

    def put(self, twins: Mapping[Tensor, Tensor]) -> None:
        """Let ops that are written from now on have other tensors."""
        self._twins.update(twins)

    def twin(self, tensor: Tensor) -> Tensor:
        """Return what a tensor of the old program became."""
        return self._twins.get(tensor, tensor)

    def add(self, op: AbstractOp) -> AbstractOp:
        """Write an op with the twins of its tensors, and return it."""
        new = rewired(op, self._twins) if has_twins(op, self._twins) else op
        if new is op:
            self.ops.append(op)
            return op
        self._twins.update((old, out) for old, out in zip(op.outputs, new.outputs, strict=True) if old is not out)
        self.ops.append(new)
        return new

    def program(self) -> list[AbstractOp]:
        """Return what was written; blocks hand on the twins of what they handed on."""
        blocks = dict.fromkeys(op.block for op in self.ops if op.block is not None)
        new = {block: self._renewed(block) for block in blocks if any(self._changed(pair) for pair in block.carries)}
        return [replace(op, block=new[op.block]) if op.block in new else op for op in self.ops]

    def _changed(self, pair: tuple[Tensor, Tensor]) -> bool:
        return any(tensor in self._twins for tensor in pair)

    def _renewed(self, block: Block) -> Block:
        carries = [(self.twin(entry), self.twin(leaving)) for entry, leaving in block.carries]
        return replace(block, carries=carries)
