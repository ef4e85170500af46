"""Describe a storage of a program: when it is born and dies, as what it counts, which stream allocates it; what repeats hand on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.base import Phase
from roofsim.graph.ops import Collective
from roofsim.graph.tensor import Role
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from roofsim.graph.base import AbstractOp, Block
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor
    from roofsim.numeric import Real

#: Streams that allocate: kernels', that of gathers, that of reductions (FSDP runs each on one of its own).
COMPUTE, GATHER, REDUCE = STREAMS = ("compute", "gather", "reduce")
#: A block, and the root of what enters its iterations.
Entered = tuple["Block", "Tensor"]


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


# -- what iterations hand on ----------------------------------------------------------------------------------------


def entered_as(graph: OpGraph) -> dict[Tensor, Tensor]:
    """Return what enters an iteration of a forward block, by what leaves the one before as it."""
    return {
        leaving.root: entry.root
        for block in graph.blocks
        if block.mirror is None
        for entry, leaving in block.carries
        if leaving.root is not entry.root
    }


def undone_in(graph: OpGraph) -> dict[Entered, Block]:
    """Return the backward block that reads what a forward block's ops read, by block and root."""
    return {
        (op.block.mirror, tensor.root): op.block
        for op in graph.ops
        if op.block is not None and op.block.mirror is not None and op.phase in (Phase.BACKWARD, Phase.RECOMPUTE)
        for tensor in (*op.inputs, *op.holds)
    }


def left_over(
    graph: OpGraph, undone: dict[Entered, Block], storages: Mapping[Tensor, TensorStorage]
) -> Iterator[tuple[Block, TensorStorage]]:
    """Yield what all iterations but the last leave and free nothing of, and the block behind which nothing reads it.

    An iteration frees what entered it, which the one before left, where that is read for the last time in the block or in its
    backward block, or the backward block frees what it left. What enters the first may be read behind both: then only that one
    copy waits for it, and the others are freed together behind the block. So with gradients, which a backward block hands on.
    """
    for block in graph.blocks:
        if block.once:
            continue
        for entry, leaving in block.carries:
            first, left = storages.get(entry.root), storages.get(leaving.root)
            if left is None or leaving.root is entry.root or _undoes(left.last_block, block):
                continue
            last = None if first is None else first.last_block
            if last is not block and not _undoes(last, block):
                yield undone.get((block, entry.root), block), left


def _undoes(backward: Block | None, block: Block) -> bool:
    return backward is not None and backward.mirror is block
