"""Write a step as a compiler's tracer sees it: no conversion twice, and of pooled windows an offset instead of an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.base import Phase
from roofsim.graph.ops import Cast, Pool
from roofsim.graph.rewire import Rewiring
from roofsim.graph.tensor import INT8
from roofsim.records import replace

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp, Block
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import DType, Tensor


def traced(graph: OpGraph, compiled: frozenset[Block | None]) -> OpGraph:
    """Return the graph with equal conversions merged (fx_graph_cse), and with pooled windows' offsets of one byte.

    Inductor keeps the place of a maximum within its window (torch/_inductor/fx_passes, _low_memory_max_pool_with_offsets).

    Parameters
    ----------
    compiled
        The blocks whose ops are compiled together, None for what stands between blocks.
    """
    writer, conversions = Rewiring(), _Conversions()
    for op in graph:
        if op.block not in compiled:
            writer.add(op)
        elif isinstance(op, Cast) and (earlier := conversions.earlier(op, writer.twin(op.inputs[0]))) is not None:
            writer.put({op.outputs[0]: earlier})
        else:
            writer.add(_with_offsets(op, writer) if isinstance(op, Pool) else op)
    return graph.replaced(writer.program())


class _Conversions:
    """The conversions so far, by source, type and block."""

    def __init__(self) -> None:
        self._first: dict[tuple[Tensor, DType, Block | None, Phase], Tensor] = {}

    def earlier(self, op: Cast, source: Tensor) -> Tensor | None:
        """Return the result of an equal conversion that ran before, if there is one; else remember this one.

        Of operands in narrow types, which come with scales, each product of the forward pass converts its own, and the
        backward pass reads the first of them instead of converting what it was made of again. Weights it converts again, as
        under torchao's option ``force_recompute_fp8_weight_in_bwd`` for sharded ones; without that the compiler may keep them in
        fp8 (pytorch/ao, pull request 936).
        """
        result, block = op.outputs[0], op.block
        narrow = result.dtype.narrow
        if op.dequantises or (narrow and source.root.persistent):
            return None
        if narrow and block is not None and block.mirror is not None:
            block = block.mirror
        key = (source, result.dtype, block, Phase.FORWARD if narrow else op.phase)
        first = self._first.setdefault(key, result)
        return None if first is result or (narrow and op.phase is Phase.FORWARD) else first


def _with_offsets(op: Pool, writer: Rewiring) -> AbstractOp:
    if op.backward or len(op.outputs) == 1:
        return op
    result, indices = op.outputs
    offsets = replace(indices, dtype=INT8)
    writer.put({indices: offsets})
    return replace(op, outputs=(result, offsets))
