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
