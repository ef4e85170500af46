"""Write a step as a compiler's tracer sees it: no conversion twice, and of pooled windows an offset instead of an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.ops import Cast, Pool
from roofsim.graph.rewire import Rewiring
from roofsim.graph.tensor import INT8
from roofsim.records import replace

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp, Block, Phase
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import DType, Tensor


def traced(graph: OpGraph, *, only_layers: bool) -> OpGraph:
    """Return the graph with equal conversions merged (fx_graph_cse), and with pooled windows' offsets of one byte.

    Operands in narrow types, which come with scales, stay as many as they are: no trace of them was at hand.
    Inductor keeps the place of a maximum within its window (torch/_inductor/fx_passes, _low_memory_max_pool_with_offsets).
    """
    writer = Rewiring()
    first: dict[tuple[Tensor, DType, Block | None, Phase], Tensor] = {}
    for op in graph:
        if only_layers and op.block is None:
            writer.add(op)
            continue
        if isinstance(op, Cast) and not (op.dequantises or op.outputs[0].dtype.narrow):
            key = (writer.twin(op.inputs[0]), op.outputs[0].dtype, op.block, op.phase)
            if key in first:
                writer.put({op.outputs[0]: first[key]})
                continue
            first[key] = op.outputs[0]
        writer.add(_with_offsets(op, writer) if isinstance(op, Pool) else op)
    return graph.replaced(writer.program())


def _with_offsets(op: Pool, writer: Rewiring) -> AbstractOp:
    if op.backward or len(op.outputs) == 1:
        return op
    result, indices = op.outputs
    offsets = replace(indices, dtype=INT8)
    writer.put({indices: offsets})
    return replace(op, outputs=(result, offsets))
