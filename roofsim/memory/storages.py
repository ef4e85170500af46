"""Describe a storage of a program: when it is born and dies, as what it counts, and which stream allocates it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.ops import Collective
from roofsim.graph.tensor import Role
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp, Block
    from roofsim.graph.tensor import Tensor
    from roofsim.numeric import Real

#: Streams that allocate: kernels', that of gathers, that of reductions (FSDP runs each on one of its own).
COMPUTE, GATHER, REDUCE = STREAMS = ("compute", "gather", "reduce")


@dataclass(eq=False)
class TensorStorage:
    """One storage: where it is born, where it dies, and as what it counts."""

    root: Tensor
    category: str
    size: Real
    born: int
    last: int
    last_block: Block | None
    saved: bool = False
    held: bool = False
    stream: str = COMPUTE
    rounded: Real | None = None
    """What the allocator hands out for it, once it is asked."""


def stream_of(op: AbstractOp, root: Tensor) -> str:
    """Return the stream that allocates what a data-parallel collective makes.

    FSDP gathers into a flat buffer and reduces into a shard on streams of their own; the whole parameters that are copied
    out, and what is copied in to be reduced, are the kernels' stream's (torch.distributed.fsdp, _fsdp_collectives.py).
    """
    if not isinstance(op, Collective) or op.group_of not in ("data", "replica"):
        return COMPUTE
    if op.function == "all_gather":
        return COMPUTE if root in op.whole else GATHER
    return REDUCE if op.function == "reduce_scatter" and root.role is Role.GRADIENT else COMPUTE
