"""Search one family of layouts: refuse, bound, price what may win, and keep the best; a pure function of what it is given."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.records import dataclass, field
from roofsim.search.pieces import PieceReader
from roofsim.search.planning import best
from roofsim.search.planning.family_bounds import Bounds, FamilyBound
from roofsim.search.planning.priced import Pricer, Waiting
from roofsim.search.stacking import by_structure

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from numpy.typing import NDArray

    from roofsim.search.families import Rows
    from roofsim.search.planning.objectives import Goal
    from roofsim.search.planning.priced import PricedLayouts
    from roofsim.search.planning.space import PlanSpace
    from roofsim.search.resolving import Shared
    from roofsim.spec.reading.told_apart import Importer

#: Layouts of one structure that are priced as one array.
MOST_TOGETHER: Final = 1024
#: As many are at first, where a limit is being looked for; then twice as many each time.
FIRST_TOGETHER: Final = 16
#: Layouts of a family from which on a trace of a few of them is replayed for all, where bounds say nothing.
REPLAYED_FROM = 2**17
#: Digits of a figure that count.
_DIGITS: Final = 12
#: Digits of a bound by which families are ordered: machines must not differ in it.
_DIGITS_OF_ORDER: Final = 6
#: Words that what a layer takes alone does not depend on.
_NOT_OF_LAYERS: Final = (
    "parallel.sharding",
    "parallel.schedule",
    "parallel.account_for_embedding",
    "parallel.account_for_loss",
    "parallel.offload",
)


@dataclass
class Findings:
    """What a search over some families found.

    Attributes
    ----------
    considered
        Layouts whose degrees multiply to the GPUs and whose micro batches divide the batch.
    refused
        Code of a rule -> layouts that break it.
    examples
        Code of a rule -> what it says of the first of them, and the number of that one.
    does_not_fit, priced, cut
        Layouts that do not fit in memory; that were priced and fit; that need not be, as their bound says.
    constrained
        Layouts that fit, and do not meet a constraint.
    least_cut
        The least bound, of the objective, among those that were cut.
    structures
        Programs that were built.
    top, front
        The best, and those that no other is as good as in everything.
    """

    considered: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    examples: dict[str, tuple[int, str]] = field(default_factory=dict)
    does_not_fit: int = 0
    priced: int = 0
    cut: int = 0
    constrained: int = 0
    least_cut: float = np.inf
    structures: int = 0
    top: dict[str, NDArray[Any]] = field(default_factory=best.none)
    front: dict[str, NDArray[Any]] = field(default_factory=best.none)

    def cut_off(self, bounds: NDArray[np.float64]) -> None:
        """Count layouts that cannot be among the best, as their bounds say."""
        self.cut += len(bounds)
        if len(bounds):
            self.least_cut = min(self.least_cut, float(bounds.min()))

    def take(self, priced: PricedLayouts, goal: Goal, k: int) -> None:
        """Keep what is the best of layouts that were priced."""
        self.does_not_fit += int((~priced.fits).sum())
        figures = {name: rounded(each) for name, each in priced.figures.items()}
        columns = best.taken({"id": priced.places, **figures}, np.flatnonzero(priced.fits))
        self.priced += len(columns["id"])
        kept = goal.holds(columns)
        self.constrained += int((~kept).sum())
        columns = best.taken(columns, np.flatnonzero(kept))
        columns["value"] = goal.value(columns)
        self.top = best.first(best.joined(self.top, columns), k)
        self.front = best.front(best.joined(self.front, columns))

    def merged(self, other: Findings, k: int) -> Findings:
        """Return what both found; of families that do not overlap, in any order."""
        codes = sorted({*self.refused, *other.refused})
        examples = {
            code: min(known[code] for known in (self.examples, other.examples) if code in known) for code in codes
        }
        return Findings(
            considered=self.considered + other.considered,
            refused={code: self.refused.get(code, 0) + other.refused.get(code, 0) for code in codes},
            examples=examples,
            does_not_fit=self.does_not_fit + other.does_not_fit,
            priced=self.priced + other.priced,
            cut=self.cut + other.cut,
            constrained=self.constrained + other.constrained,
            least_cut=min(self.least_cut, other.least_cut),
            structures=self.structures + other.structures,
            top=best.first(best.joined(self.top, other.top), k),
            front=best.front(best.joined(self.front, other.front)),
        )


@dataclass(frozen=True, kw_only=True)
class Searcher:
    """Search families of a space.

    Attributes
    ----------
    k
        Layouts that are looked for.
    cuts
        Whether layouts are left out that cannot be among them.
    """

    space: PlanSpace
    goal: Goal
    importer: Importer | None
    shared: Shared
    k: int = 10
    cuts: bool = True
    bounds: Bounds = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", Bounds(self.goal, lambda rows: self._reader().read(rows)))

    def search(
        self, words: Mapping[int, int], limit: float = np.inf, first: int = 0, last: int | None = None
    ) -> Findings:
        """Return what some rows of a family hold; of its layouts only those at or below a `limit` of the objective count."""
        findings, rows = Findings(), self.space.rows(words)
        if rows is None:
            return findings
        rows = rows.part(np.arange(len(rows))[first:last])
        findings.considered = len(rows)
        pricer = self.pricer()
        reader, waiting = pricer.reader, self._waiting(findings, pricer, rows, words, limit)
        search_best(findings, pricer, waiting, self.goal, self.k, limit if self.cuts else None)
        for code, (count, place) in reader.refusals.counted().items():
            findings.refused[code] = count
            findings.examples[code] = place, reader.refusals.text(place) or ""
        return findings

    def pricer(self) -> Pricer:
        """Return what prices layouts of the space."""
        return Pricer(reader=self._reader(), figures=self.goal.figures, wanted=self.goal.wanted)

    def bound(self, rows: Rows, words: Mapping[int, int]) -> FamilyBound:
        """Return what is known of layouts of a family before they are resolved."""
        if not (self.cuts and self.space.trains):
            return FamilyBound(np.zeros(len(rows)), np.zeros(len(rows), dtype=bool))
        own, usual = self._of_layers(words)
        return self.bounds.of(rows, lambda: self.space.rows(usual), own)

    def least(self, words: Mapping[int, int]) -> float:
        """Return what the objective of the layouts of a family that may fit is at least; 0 where nothing is known."""
        rows = self.space.rows(words) if self.cuts and self.space.trains else None
        if rows is None:
            return 0.0
        known = self.bound(rows, words)
        return float(rounded(known.least[~known.full], _DIGITS_OF_ORDER).min(initial=np.inf))

    def _reader(self) -> PieceReader:
        return PieceReader(self.space.document, self.space.grid, self.importer, self.shared)

    def _waiting(
        self, findings: Findings, pricer: Pricer, rows: Rows, words: Mapping[int, int], limit: float
    ) -> list[Waiting]:
        """Return the layouts of each structure that may be among the best, with what their objective is at least."""
        known = self.bound(rows, words)
        bounded = rounded(known.least)
        beyond = ~known.full & (bounded > limit)
        findings.does_not_fit += int(known.full.sum())
        findings.cut_off(bounded[beyond])
        hopeful = np.flatnonzero(~known.full & ~beyond)
        if not len(hopeful):
            return []
        waiting: list[Waiting] = []
        rows, least = rows.part(hopeful), bounded[hopeful]
        replays = not least.any() and self.space.count(words) >= REPLAYED_FROM
        for piece in pricer.reader.read(rows):
            places = rows.places_of(piece.places)
            whole = Waiting(piece, least[places])
            priced, left = pricer.replayed(rows.part(places), whole) if replays else ([], [whole])
            for layouts in priced:
                findings.take(layouts, self.goal, self.k)
            for part in left:
                waiting += _by_structure(part)
        return waiting

    def _of_layers(self, words: Mapping[int, int]) -> tuple[Hashable, dict[int, int]]:
        """Return the words that what a layer takes depends on, and the family that has these and else the first of each."""
        axes = self.space.grid.axes
        others = {place: ".".join(axes[place].path) in _NOT_OF_LAYERS for place in words}
        own = tuple(item for item in sorted(words.items()) if not others[item[0]])
        return own, {place: 0 if others[place] else value for place, value in words.items()}


def _by_structure(waiting: Waiting) -> Iterator[Waiting]:
    """Yield layouts of one structure, those with the least bounds first, as many as are worked on together."""
    resolved = waiting.piece.resolved
    for chosen in [np.arange(len(waiting))] if resolved is None else by_structure(resolved):
        order = chosen[np.argsort(waiting.bounds[chosen], kind="stable")]
        for begin in range(0, len(order), MOST_TOGETHER):
            yield waiting.part(np.sort(order[begin : begin + MOST_TOGETHER]))


def search_best(
    findings: Findings, pricer: Pricer, waiting: list[Waiting], goal: Goal, k: int, limit: float | None
) -> None:
    """Work through layouts, those with the least bounds first, until the others cannot be among the best k.

    None as the `limit` of the objective: all are worked out.
    """
    queue = [(*each.rank, number, each) for number, each in enumerate(waiting)]
    heapify(queue)
    number, size = len(queue), FIRST_TOGETHER if limit is not None else MOST_TOGETHER
    while queue:
        *_, part = heappop(queue)
        most = np.inf if limit is None else min(limit, best.limit_of(findings.top, k))
        hopeful = part.bounds <= most
        findings.cut_off(part.bounds[~hopeful])
        if not hopeful.any():
            continue
        part = part.part(np.flatnonzero(hopeful))
        if part.memory is None:
            priced, more = pricer.held(part)
        else:
            order = np.argsort(part.bounds, kind="stable")
            priced, more = pricer.timed(part.part(np.sort(order[:size])))
            more += [part.part(np.sort(order[size:]))] if len(part) > size else []
            size = min(2 * size, MOST_TOGETHER)
            findings.structures += 1
        for layouts in priced:
            findings.take(layouts, goal, k)
        for left in more:
            heappush(queue, (*left.rank, number, left))
            number += 1


def rounded(values: NDArray[np.float64], digits: int = _DIGITS) -> NDArray[np.float64]:
    """Return figures to 12 significant digits: whether they were worked out alone or as arrays must decide nothing.

    >>> rounded(np.array([1.2345678901234567, 0.0, np.inf])).tolist()
    [1.23456789012, 0.0, inf]
    """
    known = np.isfinite(values) & (values != 0.0)
    size = np.where(known, np.abs(np.where(known, values, 1.0)), 1.0)
    scale = 10.0 ** (digits - 1 - np.floor(np.log10(size)))
    exact: NDArray[np.float64] = np.where(known, np.round(np.where(known, values, 0.0) * scale) / scale, values)
    return exact
