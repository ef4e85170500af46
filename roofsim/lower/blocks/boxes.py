"""Build what detectors do with boxes behind their networks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.graph.ops import Gather, Sort
from roofsim.graph.tensor import FP32, INT64, Tensor
from roofsim.numeric import Real, floor, minimum

if TYPE_CHECKING:
    from roofsim.lower.blocks.layers import Layers

#: Bits of a word of the mask that says which boxes overlap (torchvision/csrc/ops/cuda/nms_kernel.cu).
MASK_BITS: Final = 64.0


def suppressed(layers: Layers, boxes: Tensor, candidates: Real, kept: Real) -> Tensor:
    """Return the boxes ``[batch, kept, values]`` that stay of ``[batch, boxes, values]``: the best that overlap no better one.

    The best are found by their scores, sorted, and compared pair by pair, a bit for each pair.
    """
    b, (batch, count, values) = layers.b, boxes.shape
    candidates = minimum(candidates, count)
    with b.scope("suppression"):
        scores = layers.reduce(boxes, (batch, count), "max")
        top = b.tensor("top", batch, candidates, dtype=scores.dtype)
        indices = b.tensor("indices", batch, candidates, dtype=INT64)
        b.emit(Sort, "topk", inputs=(scores,), outputs=(top, indices), function="topk")
        picked = b.tensor("picked", batch, candidates, values)
        b.emit(Gather, "pick", inputs=(boxes, indices), outputs=(picked,), function="index")
        return compared(layers, picked, kept)


def compared(layers: Layers, boxes: Tensor, kept: Real) -> Tensor:
    """Sort boxes ``[batch, candidates, values]`` and keep those that overlap no better one."""
    b, (batch, candidates, values) = layers.b, boxes.shape
    order = b.tensor("order", batch, candidates, dtype=INT64)
    b.emit(Sort, "sort", inputs=(boxes,), outputs=(order,), function="sort")
    mask = b.tensor("overlaps", batch, candidates, floor(candidates / MASK_BITS) + 1.0, dtype=INT64)
    b.emit(Gather, "overlaps", inputs=(boxes, order), outputs=(mask,), function="index")
    result = b.tensor("detections", batch, minimum(kept, candidates), values, dtype=FP32)
    b.emit(Gather, "keep", inputs=(mask, boxes), outputs=(result,), function="index")
    return result
