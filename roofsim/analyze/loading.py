"""Say what a device holds while a model is being loaded, where that can exceed what runs later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.graph.component import MERGED, Purpose

if TYPE_CHECKING:
    from roofsim.evaluate import Evaluation
    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Real

#: The products of a layer that a fused module merges, by fusion group.
_PARTS: Final = {"qkv": MERGED[Purpose.QUERY_KEY_VALUE], "gate_up": MERGED[Purpose.GATE_UP]}


def loading(evaluation: Evaluation, graph: OpGraph) -> tuple[Real, Real] | None:
    """Return the bytes of all weights, and of the parts that merged ones were made of, when both are there.

    None where the engine merges weights in place, or file by file.
    """
    engine = evaluation.resolved.engine
    if engine.memory.merged_weights != "beside_parts":
        return None
    merged = {part for group in engine.fusion.groups for part in _PARTS.get(group, ())}
    weights: Real = 0.0
    parts: Real = 0.0
    for tensor, copies in graph.parameters().items():
        size = tensor.numel * tensor.dtype.itemsize * copies
        weights = weights + size
        if tensor.purpose in merged and len(tensor.shape) > 1:
            parts = parts + size
    return weights, parts
