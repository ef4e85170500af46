"""Give an op other tensors: the one step that all passes share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from roofsim.graph.base import AbstractOp
    from roofsim.graph.tensor import Tensor


def rewired(op: AbstractOp, twin: Mapping[Tensor, Tensor]) -> AbstractOp:
    """Return `op` with each tensor replaced by its twin; outputs that are views follow their storage."""
    inputs = tuple(twin.get(tensor, tensor) for tensor in op.inputs)
    holds = tuple(twin.get(tensor, tensor) for tensor in op.holds)
    outputs = tuple(replace(t, base=twin[t.base]) if t.base is not None and t.base in twin else t for t in op.outputs)
    return replace(op, inputs=inputs, holds=holds, outputs=outputs)


def rewired_all(body: Iterable[AbstractOp], twin: Mapping[Tensor, Tensor]) -> list[AbstractOp]:
    """Return ops with each tensor replaced by its twin, and what they make as views of twins in the ops behind."""
    env = dict(twin)
    result = []
    for op in body:
        new = rewired(op, env)
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
        touched = (*op.inputs, *op.holds, *(tensor.base for tensor in op.outputs if tensor.base is not None))
        if not any(tensor in self._twins for tensor in touched):
            self.ops.append(op)
            return op
        new = rewired(op, self._twins)
        self._twins.update((old, out) for old, out in zip(op.outputs, new.outputs, strict=True) if old is not out)
        self.ops.append(new)
        return new
