"""Build what beam search adds to a step: scores of all continuations, the best of them, and whose cache each beam goes on with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.graph.ops import Copy, Gather, Sort
from roofsim.graph.tensor import FP32, INT64, Tensor

if TYPE_CHECKING:
    from roofsim.lower.blocks.layers import Layers
    from roofsim.lower.call import Call

#: Continuations that are kept for each beam: those that end leave as many to go on with.
KEPT: Final = 2.0


def choose(layers: Layers, call: Call, logits: Tensor) -> None:
    """Find the best continuations of each request.

    Parameters
    ----------
    logits
        ``[requests x beams, 1, vocabulary]``.
    """
    b, (rows, _, vocabulary) = layers.b, logits.shape
    requests = rows / call.beams
    with b.scope("beams"):
        scores = layers.softmax(layers.cast(logits, FP32), logarithm=True)
        so_far = b.input(b.name("scores"), rows, 1.0, 1.0, dtype=FP32)
        total = layers.view(layers.add(scores, so_far), "reshape", requests, call.beams * vocabulary)
        best = b.tensor("best", requests, KEPT * call.beams, dtype=FP32)
        places = b.tensor("places", requests, KEPT * call.beams, dtype=INT64)
        b.emit(Sort, "topk", inputs=(total,), outputs=(best, places), function="topk")
        chosen = b.tensor("chosen", rows, dtype=INT64)
        b.emit(Gather, "choose", inputs=(places, best), outputs=(chosen,))


def reordered(layers: Layers, call: Call, cache: Tensor, leaf: str) -> None:
    """Copy the cache so that each beam goes on with that of the beam it continues, where an engine does not look that up."""
    if call.cache.beams == "copied":
        out = layers.b.tensor(f"{leaf}.reordered", *cache.shape, dtype=cache.dtype)
        layers.b.emit(Copy, f"{leaf}.reorder", inputs=(cache,), outputs=(out,), function="clone")
