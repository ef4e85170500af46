"""Say how many bytes the fullest rank of a layout holds at least, before it is resolved: what its layers hold alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roofsim.search.planning.bounds import SLACK
from roofsim.search.planning.layer_costs import DEPTHS, MEMORY, STATES, stage_part

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roofsim.search.planning.bounds import Costs, FamilyWords, Layouts

    Array = NDArray[np.float64]


def least_memory(layouts: Layouts, words: FamilyWords, costs: Costs) -> Array:
    """Return the bytes that the fullest rank holds at least, when the forward pass of a micro batch has ended.

    Families stand on the first axis, rows on the second.
    """
    resolved = layouts.resolved
    fixed = float(np.min(np.asarray(resolved.architecture.context + resolved.engine.memory.runtime_memory)))
    layer = {name: np.maximum(costs[name][0], 0.0) for name in MEMORY}
    if not isinstance(resolved.workload.recompute, str):  # of some layers: how many save less is not known here
        layer |= {name: np.zeros_like(layer[name]) for name in ("saved", "copies")}
    shards = layouts.shards(words)
    state: Any = np.zeros((len(words.ranks), len(layouts.stages)))
    for name in STATES:
        state = state + layer[name] / np.where(words.shared[name], shards, 1.0)
    fewer, left = layouts.dealt(words)
    first = np.where(words.stated, 0.0, np.maximum(fewer - words.counted - layouts.others, 0.0))
    # The first stage of the pipeline, but for the first of all, that has layers of the usual kind alone.
    index = np.maximum(np.ceil((layouts.others + words.counted) / np.maximum(fewer, 1.0)), 1.0)
    own = np.where(index <= layouts.stages - 2.0, fewer + (left >= index), np.maximum(fewer - words.counted, 0.0))
    own = np.maximum(own - layouts.others_from(words, index, fewer), 0.0)
    own = np.where((layouts.stages > 1.0) & (index <= layouts.stages - 1.0) & ~words.stated, own, 0.0)
    least = state * first + _working(layouts, words, layer, first, np.zeros(1), _held(costs, "first"))
    later = state * own
    index = np.minimum(index, np.maximum(layouts.stages - 1.0, 0.0))
    later += _working(layouts, words, layer, own, index, _held(costs, "middle"))
    np.maximum(least, later, out=least)
    np.maximum(least, state * (layouts.layers / layouts.stages), out=least)
    least += fixed
    least *= SLACK
    return words.of_families(least)


def _held(costs: Costs, stage: str) -> tuple[Array, Array]:
    """Return what a stage saves beside what its layers do, and what more it holds at its fullest moment at least."""
    (_, beside), (slope, above) = (costs[stage_part(stage, name)] for name in ("saved", "above"))
    return beside, np.maximum(np.minimum(above + DEPTHS[0] * slope, above + DEPTHS[1] * slope), 0.0)


def _working(
    layouts: Layouts,
    words: FamilyWords,
    layer: dict[str, Array],
    layers: Array,
    index: Array,
    held: tuple[Array, Array],
) -> Array:
    """Return what a stage of so many layers holds of the micro batches under way, while it works on one of them."""
    beside, above = held
    saved = np.maximum(layers * layer["saved"] + beside, 0.0)
    waiting = np.maximum(saved - layers * layer["copies"], 0.0)
    working: Array = np.where(
        layers >= DEPTHS[0], saved + above + (layouts.in_flight(words, index) - 1.0) * waiting, 0.0
    )
    return working
