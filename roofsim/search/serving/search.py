"""Search servers for the cheapest that keeps bounds on its latencies, least bounds on the cost first."""

from __future__ import annotations

import math
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from roofsim.analyze.money import HOURS_PER_MONTH, MILLION, SECONDS_PER_HOUR, quote_of
from roofsim.errors import Place, Problem, SpecError
from roofsim.records import dataclass, field, replace
from roofsim.search.axes import cards_of, read_axes
from roofsim.search.resolving import Shared
from roofsim.search.serving.answer import BILL, GPUS, TOKENS, ServerChoice, ServerChoices
from roofsim.search.serving.documents import value_at, with_server, without_load
from roofsim.search.serving.rivals import compared
from roofsim.serve.ranges import token_range
from roofsim.serve.served import missing
from roofsim.serve.sized import sized_of, states_gpus, unit_of
from roofsim.serve.sizing import RateSearch, sizing_of
from roofsim.spec import catalog
from roofsim.spec.markets import common_market
from roofsim.spec.naming import is_path
from roofsim.spec.own_prices import price_of_one
from roofsim.spec.prices import of_market
from roofsim.spec.scenario.document import with_override

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from roofsim.search.axes import AxisGrid
    from roofsim.serve.server import Server
    from roofsim.serve.sizing import Sizing
    from roofsim.serve.target import LatencyTarget
    from roofsim.spec.reading.source import Document
    from roofsim.spec.resolve import Resolved

#: Codes of what is refused here, beside those of rules of a scenario.
NO_ROOM, NOT_KEPT, TOO_FEW, NOT_WHOLE = "no-room", "bounds-not-kept", "too-few-gpus", "workers-not-whole"
#: Of a replica, what is not worth another one: rounding.
_ROUNDING: Final = 1e-9
#: Keys whose values are names of a catalog.
_CATALOGS: Final[dict[tuple[str, ...], Literal["gpu", "engine"]]] = {
    ("hardware", "gpu"): "gpu",
    ("workload", "engine"): "engine",
}
#: What is asked of all servers alike.
_ASKED: Final = ("workload", "request_rate")
#: Keys that say how many replicas there are: without them, servers are the same.
_COPIES: Final = (("hardware", "gpus"), ("parallel", "data"))


@dataclass(frozen=True, kw_only=True)
class _Candidate:
    """A server that can run: its number, its scenario, itself, and the least that it can have of the objective."""

    id: int
    document: Document
    unit: Server
    copies: float
    bound: float


@dataclass
class ServerSearch:
    """A search over the servers that a scenario and some axes describe.

    Attributes
    ----------
    k
        How many of the best are wanted.
    cuts
        Whether servers are left out that a bound says cannot be among them.
    """

    document: Document
    grid: AxisGrid
    target: LatencyTarget
    resolve: Callable[[Document], Resolved]
    k: int
    cuts: bool = True
    objective: str = BILL
    rate: float | None = None
    refused: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)
    units: dict[str, Server] = field(default_factory=dict)
    searches: dict[int, RateSearch] = field(default_factory=dict)
    fewest: float = math.inf

    def candidates(self, progress: Callable[[Sequence[Any]], Iterable[Any]]) -> list[_Candidate]:
        """Return the servers that can run, least bounds first."""
        candidates = []
        for place in progress(range(self.grid.size)):
            try:
                document = self.grid.document(self.document, place)
                unit, rate = self._unit(document)
            except SpecError as error:
                self.refuse(error.code, error.reason)
                continue
            self.rate = rate if self.rate is None else self.rate
            if not unit.room.fits:
                self.refuse(NO_ROOM, f"{_name(unit)} does not fit: {missing(unit.plan, unit.room)}")
                continue
            copies = self._stated(document, unit)
            if not copies.is_integer():  # prompts and decode have workers of their own
                self.refuse(NOT_WHOLE, f"{_name(unit)}: its workers take a multiple of {unit.plan.gpus} GPUs")
                continue
            candidates.append(_Candidate(id=place, document=document, unit=unit, copies=copies, bound=0.0))
        self.objective = self._objective(candidates)
        bounded = [replace(one, bound=self._bound(one)) for one in candidates]
        return sorted(bounded, key=lambda one: (one.bound, one.id))

    def _unit(self, document: Document) -> tuple[Server, float | None]:
        """Return one replica, which those of other numbers of GPUs share, and the rate that is to be served."""
        bare = document
        for path in _COPIES:
            if document.states(*path):
                bare = with_override(bare, ".".join(path), None, "serve")
        key = repr(bare.data)
        if key not in self.units:
            unit, rate = unit_of(bare, self.resolve, self.target)
            self.units[key] = unit
            self.rate = rate
        unit = self.units[key]
        if unit.load.in_step > 1.0 and bare is not document:  # replicas that share experts are no copies of one
            return unit_of(document, self.resolve, self.target)
        if bare is not document:  # what is wrong with the numbers themselves
            self.resolve(with_override(without_load(document), "workload.phase", "generate", "serve"))
        return unit, self.rate

    def _stated(self, document: Document, unit: Server) -> float:
        """Return how many units the scenario states; 0: as many as it takes."""
        if not states_gpus(document):
            return 0.0
        gpus, data = (value_at(document, path) for path in _COPIES)
        return float(gpus) / unit.plan.gpus if gpus is not None else float(data) / unit.plan.replicas

    def _objective(self, candidates: Sequence[_Candidate]) -> str:
        priced = any(_hourly(one.unit, one.unit.plan.gpus) is not None for one in candidates)
        return (BILL if self.rate is not None else TOKENS) if priced else GPUS

    def _bound(self, one: _Candidate) -> float:
        """Return the least of the objective that a server can have: at the highest rate that it completes, bounds or not."""
        highest = one.unit.highest_rate
        if highest <= 0.0:
            return math.inf
        return self.value(
            one.unit, self.copies(one, highest), min(self.rate or math.inf, highest * max(one.copies, 1.0)), least=True
        )

    def copies(self, one: _Candidate, sustained: float) -> float:
        """Return how many units serve the rate, each at most so much of it."""
        if one.copies or self.rate is None:
            return one.copies or 1.0
        return max(math.ceil(self.rate / sustained * (1.0 - _ROUNDING)), 1.0)

    def value(self, unit: Server, copies: float, rate: float, *, least: bool = False) -> float:
        """Return what so many units have of the objective at a rate; infinite where no price is known."""
        gpus = copies * unit.plan.gpus
        if self.objective == GPUS:
            return gpus if self.rate is not None else gpus / rate
        hourly = _hourly(unit, gpus, least=least)
        if hourly is None:
            return math.inf
        if self.objective == BILL:
            return hourly * HOURS_PER_MONTH
        return hourly / SECONDS_PER_HOUR * MILLION / (rate * unit.plan.given)

    def refuse(self, code: str, reason: str) -> None:
        """Count a server that is refused."""
        self.refused[code] += 1
        self.reasons.setdefault(code, reason)

    def size(self, one: _Candidate, *, fully: bool = False) -> Sizing:
        """Return the rate that one replica sustains; servers that differ in their number alone share it."""
        if id(one.unit) not in self.searches:
            self.searches[id(one.unit)] = RateSearch.on(one.unit)
        return sizing_of(self.searches[id(one.unit)], self.target, fully=fully)

    def priced(self, one: _Candidate) -> tuple[float, _Candidate, Sizing] | None:
        """Return what a server has of the objective; None where it keeps no bound, or not at the rate."""
        sizing = self.size(one)
        if sizing.rate <= 0.0:
            self.refuse(NOT_KEPT, f"{_name(one.unit)}: {sizing.reason}")
            return None
        copies = self.copies(one, sizing.rate)
        most = sizing.rate * copies
        if self.rate is not None and most < self.rate * (1.0 - _ROUNDING):
            gpus = one.unit.plan.gpus
            needed = math.ceil(self.rate / sizing.rate) * gpus
            told = f"{_name(one.unit)}: {copies * gpus:.0f} GPUs, where the rate needs {needed}; raise the number, or leave it out"
            if needed < self.fewest:  # the nearest of all
                self.fewest = needed
                self.reasons[TOO_FEW] = told
            self.refuse(TOO_FEW, told)
            return None
        return self.value(one.unit, copies, self.rate or most), one, sizing


def search_servers(
    document: Document,
    axes: Mapping[str, Sequence[Any]],
    target: LatencyTarget,
    resolve: Callable[..., Resolved],
    *,
    k: int = 10,
    cuts: bool = True,
    progress: Callable[[Sequence[Any]], Iterable[Any]] = iter,
) -> ServerChoices:
    """Return the cheapest servers that keep bounds on their latencies.

    Parameters
    ----------
    axes
        Key of the scenario -> the values that are tried.
    k, cuts
        How many to return; whether those are left out that a bound says cannot be among them.

    Raises
    ------
    SpecError
        When the scenario is wrong, whatever its axes, or an axis is.
    """
    began = time.monotonic()
    grid = read_axes(axes)
    _check_names(grid)
    price_of_one(document, cards_of(grid.axes))
    search = ServerSearch(document, grid, target, partial(resolve, shared=Shared()), k, cuts)
    with of_market(common_market(cards_of(grid.axes))):
        return replace(_searched(search, progress), seconds=time.monotonic() - began)


def _searched(search: ServerSearch, progress: Callable[[Sequence[Any]], Iterable[Any]]) -> ServerChoices:
    """Return what a search finds; its time is not counted."""
    document, grid, k = search.document, search.grid, search.k
    candidates = search.candidates(progress)
    kept: list[tuple[float, _Candidate, Sizing]] = []
    cut, least_cut = 0, math.inf
    for place, one in enumerate(candidates):
        limit = sorted(value for value, _, _ in kept)[k - 1] if len(kept) >= k else math.inf
        if search.cuts and one.bound > limit:
            cut, least_cut = len(candidates) - place, one.bound
            break
        priced = search.priced(one)
        if priced is not None:
            kept.append(priced)
    kept.sort(key=lambda each: (each[0], each[1].unit.plan.gpus * each[1].copies, each[1].id))
    top = compared(
        [_choice(search, one) for _, one, _ in kept[:k]],
        [one.unit.plan.resolved for _, one, _ in kept[:k]],
        search.objective,
    )
    least = min([least_cut, *(value for value, _, _ in kept[:1])])
    return ServerChoices(
        scenario=document.data,
        target=search.target,
        request_rate=search.rate,
        objective=search.objective,
        axes={".".join(axis.path): list(axis.values) for axis in grid.axes},
        considered=grid.size,
        refused=dict(sorted(search.refused.items(), key=lambda item: (-item[1], item[0]))),
        reasons=search.reasons,
        priced=len(candidates) - cut,
        cut=cut,
        lower_bound=least if math.isfinite(least) else None,
        seconds=0.0,
        top=tuple(top),
        assumed=candidates[0].unit.plan.assumed if len(candidates) == 1 else (),
    )


def _check_names(grid: AxisGrid) -> None:
    """Refuse what is no choice, and cards and engines that the catalog lacks, before anything is priced.

    These are slips, not choices that fail.
    """
    for axis in grid.axes:
        if axis.path == _ASKED:
            message = f"{'.'.join(axis.path)} is what servers are to do, not a choice between them"
            raise SpecError(Problem(message, Place(axis.origin), hint="State one; ask once for each rate."))
        kind = _CATALOGS.get(axis.path)
        for value in axis.values:
            if kind is not None and isinstance(value, str) and value not in axis.cards and not is_path(value):
                catalog.resolve_name(kind, value, Place(axis.origin), ".".join(axis.path))


def _choice(search: ServerSearch, one: _Candidate) -> ServerChoice:
    """Return a server with all its figures."""
    sizing, unit, plan = search.size(one, fully=True), one.unit, one.unit.plan
    sized = sized_of(unit, sizing, search.rate, stated=False)
    copies = one.copies or (sized.gpus or plan.gpus) / plan.gpus
    rate = search.rate or sizing.rate * copies
    changes = _changes(search, one, round(copies * plan.gpus))
    whole, _ = unit_of(with_server(one.document, changes), search.resolve, search.target)
    steady = whole.with_rate(rate).steady()
    assert steady is not None
    hourly = _hourly(unit, copies * plan.gpus)
    own = search.value(unit, copies, rate)
    ends = [_at_end(search, one, end, copies) for end in (sizing.rates[1], sizing.rates[0])]
    room = unit.room
    return ServerChoice(
        id=one.id,
        changes=changes,
        gpu=plan.resolved.gpu.name,
        gpus=round(copies * plan.gpus),
        replicas=round(copies * plan.replicas) if unit.workers is None else round(copies),
        request_rate=rate,
        output=plan.output,
        each=sizing.rate / (1.0 if unit.workers is not None else plan.replicas),
        sizing=_of_all(sizing, max(one.copies, 1.0)),
        time_to_first_token=steady.time_to_first_token,
        time_per_output_token=steady.time_per_output_token,
        interval=None
        if steady.time_per_output_token is None
        else token_range(steady.time_per_output_token, plan.resolved),
        memory=room.parameters + room.working + room.pool,
        hourly=hourly,
        monthly=None if hourly is None else hourly * HOURS_PER_MONTH,
        value=own if math.isfinite(own) else None,
        values=(ends[0], ends[1]),
        price=quote_of(plan.resolved.gpu, plan.resolved.system, copies * plan.gpus),
    )


def _of_all(sizing: Sizing, copies: float) -> Sizing:
    """Return what so many copies sustain together."""
    low, high = sizing.rates
    return replace(sizing, rate=sizing.rate * copies, rates=(low * copies, high * copies))


def _at_end(search: ServerSearch, one: _Candidate, sustained: float, copies: float) -> float | None:
    """Return the objective where each unit sustains so much, as at an end of its range; None: nothing is sustained."""
    if sustained <= 0.0:
        return None
    count = copies if one.copies else search.copies(one, sustained)
    value = search.value(one.unit, count, search.rate or sustained * count)
    return value if math.isfinite(value) else None


def _changes(search: ServerSearch, one: _Candidate, gpus: int) -> dict[str, dict[str, Any]]:
    """Return what makes the scenario this server, by section."""
    changes: dict[str, dict[str, Any]] = {"parallel": {}, "workload": {}, "hardware": {}}
    for axis in search.grid.axes:
        value = value_at(one.document, axis.path)
        at: dict[str, Any] = changes
        for part in axis.path[:-1]:
            at = at.setdefault(part, {})
        if value is not None:
            at[axis.path[-1]] = value
    hardware = one.document.data.get("hardware") or {}
    for key in ("gpu", "system", "override"):
        if hardware.get(key) is not None:
            changes["hardware"][key] = hardware[key]
    if one.unit.workers is None:
        changes["hardware"]["gpus"] = gpus
    else:
        apart = one.unit.plan.serving.disaggregated
        copies = round(gpus / one.unit.plan.gpus)
        given = dict(value_at(one.document, ("workload", "serving", "disaggregated")) or {})
        numbers = {name: copies * getattr(apart, name) for name in ("prefill_workers", "decode_workers")}
        changes["workload"].setdefault("serving", {})["disaggregated"] = given | numbers
    return changes


def _hourly(unit: Server, gpus: float, *, least: bool = False) -> float | None:
    """Return the dollars of an hour of so many GPUs; with `least`, at the price of whole nodes if that is lower."""
    resolved = unit.plan.resolved
    counts = [gpus, max(gpus, float(resolved.system.gpus_per_node))] if least else [gpus]
    quotes = [quote_of(resolved.gpu, resolved.system, count) for count in counts]
    prices = [quote.per_gpu for quote in quotes if quote is not None]
    return min(prices) * gpus if prices else None


def _name(unit: Server) -> str:
    """Return a server in words."""
    resolved, apart = unit.plan.resolved, unit.plan.serving.disaggregated
    stages = f", pipeline {resolved.parallel.pipeline}" if resolved.parallel.pipeline > 1 else ""
    workers = "" if apart is None else f", {apart.prefill_workers} prefill + {apart.decode_workers} decode workers"
    ranks = f"tensor {resolved.parallel.tensor}{stages}{workers}"
    return f"{resolved.gpu.name}, {resolved.precision.name}, {resolved.engine.name}, {ranks}"
