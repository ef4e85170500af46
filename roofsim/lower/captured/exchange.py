"""Emit the collectives of a captured program: those that a plan of its modules puts in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.errors import Problem, SpecError
from roofsim.graph.ops import Collective
from roofsim.lower.shares import one
from roofsim.numeric import same

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.lower.captured.context import CapturedGraph

#: Ops by PyTorch's names of functional collectives, and what each is.
COLLECTIVES: Final = {
    "roofsim.enter": "identity",
    "_c10d_functional.all_reduce": "all_reduce",
    "_c10d_functional.all_gather_into_tensor": "all_gather",
    "_c10d_functional.reduce_scatter_tensor": "reduce_scatter",
    "_c10d_functional.all_to_all_single": "all_to_all",
    "_c10d_functional.permute_tensor": "ring",
}


def collective(at: CapturedGraph, row: str) -> None:
    """Emit a collective of the tensor group. What is gathered is kept for backward: autograd saves what the product read."""
    ranks, size = at.call.shares.tensor, at.op.given.get("group_size")
    if size is not None and not one(ranks) and not same(ranks, float(size)):
        raise SpecError(
            Problem(
                f"{at.model.name} exchanges tensors in groups of {size} ({at.op.line or at.op.module}) and of {ranks:g}",
                path="model",
                hint="Programs with groups of one size alone are priced: lower it on a mesh of one axis.",
            )
        )
    at.emit(Collective, f"tensor_{row}", at.reads()[:1], function=row, group_of="tensor", ranks=ranks)


def rule_of_collective(op: str) -> Callable[[CapturedGraph], None] | None:
    """Return the rule of a collective by its name; None: it is none."""
    row = COLLECTIVES.get(op)
    return None if row is None else lambda at: collective(at, row)
