"""Keep the programs of the latest structures: what a scenario runs does not change with the card that it runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from roofsim.cost.pricing import PricedGraph, priced_together
from roofsim.graphs import around
from roofsim.kept import Kept, NoKeyError, key_of
from roofsim.memory.profile import MemoryProfile, profile
from roofsim.program import Program, build, serving_pass, whole_model
from roofsim.records import replace
from roofsim.schedule.pipeline.plan import PLANS
from roofsim.schedule.pipeline.simulation import PATHS
from roofsim.templates import TEMPLATES

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from roofsim.cost.kernels.work import Pricing
    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Real
    from roofsim.passes.serving_adapters import ServeAdapters
    from roofsim.spec.resolve import Resolved

T = TypeVar("T")

#: How many structures are kept: enough for what is asked about one scenario, not so many that they fill memory.
_MOST: Final = 16
_PROGRAMS: Final[Kept[Program]] = Kept(_MOST)
#: First stages of pipelines, by which a search rules layouts out before it builds them.
_FIRST: Final[Kept[Program]] = Kept(8 * _MOST)
_WHOLE: Final[Kept[OpGraph]] = Kept(_MOST)
#: A server has about ten kinds of passes.
_SERVED: Final[Kept[Program]] = Kept(2 * _MOST)


def program_of(resolved: Resolved) -> Program:
    """Return the programs of a scenario; those of the latest structures are kept."""
    return _kept(resolved, _begun, _PROGRAMS)


def _begun(resolved: Resolved) -> Program:
    """Build the programs of a scenario, but for a first stage that was built already."""
    try:
        first = _FIRST.known(_key(resolved))
    except NoKeyError:  # sizes are arrays
        first = None
    return build(resolved, first=None if first is None else first.stages[0], templates=TEMPLATES)


def first_stage_of(resolved: Resolved) -> Program:
    """Return the first stage of a training pipeline as a program; the latest are kept."""
    return _kept(resolved, lambda resolved: build(resolved, first_only=True, templates=TEMPLATES), _FIRST)


def whole_graph(resolved: Resolved) -> OpGraph:
    """Return `roofsim.program.whole_model` of a scenario; those of the latest structures are kept."""
    return _kept(resolved, whole_model, _WHOLE)


def pass_of(
    resolved: Resolved, phase: str, sizes: dict[str, Real], requests: Real, adapters: ServeAdapters | None = None
) -> Program:
    """Return `roofsim.program.serving_pass` of some `sizes`, with the adapters of `requests`; the latest are kept."""

    def make(resolved: Resolved) -> Program:
        asked = None if adapters is None else replace(adapters, requests=requests)
        return serving_pass(resolved, phase, adapters=asked, **sizes)

    numbers = tuple((name, _number(size)) for name, size in sizes.items())
    return _kept(resolved, make, _SERVED, phase, numbers, adapters, None if adapters is None else _number(requests))


def _number(size: Real) -> Hashable:
    """Return a number or an array as part of a key."""
    return float(size) if np.ndim(size) == 0 else (np.shape(size), *np.ravel(size).tolist())


def _kept(resolved: Resolved, make: Callable[[Resolved], T], made: Kept[T], *others: Any) -> T:
    """Return what depends on the model, the work, the layout, engine, types, `others`, and no more of the hardware than here."""
    try:
        key = _key(resolved, *others)
    except NoKeyError:  # sizes are arrays
        return make(resolved)
    return made.get(key, lambda: make(resolved))


def _key(resolved: Resolved, *others: Any) -> Hashable:
    return key_of(resolved.model, resolved.workload, resolved.parallel, *around(resolved), *others)


def profile_of(graph: OpGraph) -> MemoryProfile:
    """Return what is alive when, without its curve; of a graph that is kept, worked out once."""
    return graph.once("profile", profile)


def priced_of(graphs: Sequence[OpGraph], pricing: Pricing) -> list[PricedGraph]:
    """Return the kernels of graphs on a device; of graphs that are kept, those of the device they were priced on last."""
    try:
        key = key_of(pricing)
    except NoKeyError:  # hardware numbers are arrays
        return priced_together(graphs, pricing)
    if any(graph.kept.get("priced", (None,))[0] != key for graph in graphs):
        for graph, priced in zip(graphs, priced_together(graphs, pricing), strict=True):
            graph.kept["priced"] = key, priced
    return [graph.kept["priced"][1] for graph in graphs]


def forget() -> None:
    """Drop all that is kept."""
    _PROGRAMS.clear()
    _FIRST.clear()
    _WHOLE.clear()
    _SERVED.clear()
    TEMPLATES.clear()
    PATHS.clear()
    PLANS.clear()
