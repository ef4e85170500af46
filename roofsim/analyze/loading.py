"""Say what a device holds while a model is being loaded, where that can exceed what runs later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.ops import Matmul

if TYPE_CHECKING:
    from roofsim.evaluate import Unpriced
    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Real


def loading(evaluation: Unpriced, graph: OpGraph) -> tuple[Real, Real] | None:
    """Return the bytes of all weights, and of the parts that merged ones were made of, when both are there.

    None where the engine merges weights in place, or file by file.
    """
    engine = evaluation.resolved.engine
    if engine.memory.merged_weights != "beside_parts":
        return None
    merged = {op.inputs[1].root for op in graph if isinstance(op, Matmul) and op.merges}
    weights: Real = 0.0
    parts: Real = 0.0
    for tensor, copies in graph.parameters().items():
        size = tensor.numel * tensor.dtype.itemsize * copies
        weights = weights + size
        if tensor in merged:
            parts = parts + size
    return weights, parts
