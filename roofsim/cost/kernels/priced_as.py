"""Say which op a kernel is priced as."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.ops import Fused

if TYPE_CHECKING:
    from roofsim.cost.kernels.work import KernelWork
    from roofsim.graph.base import AbstractOp


def priced_as(op: AbstractOp, work: KernelWork) -> AbstractOp:
    """Return the op whose kernel this is: of an operator around fused attention, that of the attention."""
    heavy = op.heavy if isinstance(op, Fused) else None
    return op if heavy is None or work.bandwidth_key != "attention" else heavy
