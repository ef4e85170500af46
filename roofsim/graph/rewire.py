"""Give an op other tensors: the one step that all passes share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roofsim.graph.base import AbstractOp
    from roofsim.graph.tensor import Tensor


def rewired(op: AbstractOp, twin: Mapping[Tensor, Tensor]) -> AbstractOp:
    """Return `op` with each tensor replaced by its twin; outputs that are views follow their storage."""
    inputs = tuple(twin.get(tensor, tensor) for tensor in op.inputs)
    holds = tuple(twin.get(tensor, tensor) for tensor in op.holds)
    outputs = tuple(replace(t, base=twin[t.base]) if t.base is not None and t.base in twin else t for t in op.outputs)
    return replace(op, inputs=inputs, holds=holds, outputs=outputs)
