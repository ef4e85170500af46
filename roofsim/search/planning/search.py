"""Search a class of layouts: bound, refuse, price what may win, and keep the best; a pure function of what it is given."""

from __future__ import annotations

from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.kept import remembered
from roofsim.records import dataclass, field
from roofsim.search.pieces import PieceReader
from roofsim.search.planning import best
from roofsim.search.planning.classes import classes_of
from roofsim.search.planning.family_bounds import Bounds, FamilyBound, WordsOfClass
from roofsim.search.planning.findings import Findings, rounded
from roofsim.search.planning.layer_table import first_of_each
from roofsim.search.planning.priced import Pricer, Waiting
from roofsim.search.stacking import by_structure

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from roofsim.search.families import Rows
    from roofsim.search.planning.classes import FamilyClass
    from roofsim.search.planning.objectives import Goal
    from roofsim.search.planning.space import PlanSpace
    from roofsim.search.resolving import Shared
    from roofsim.spec.reading.told_apart import Importer

#: Layouts of one structure that are priced as one array.
MOST_TOGETHER: Final = 1024
#: As many are at first, where a limit is being looked for; then twice as many each time.
FIRST_TOGETHER: Final = 16
#: Layouts that are resolved at first, those with the least bounds; then twice as many each time.
FIRST_RESOLVED: Final = 1024
#: Layouts of a family from which on a trace of a few of them is replayed for all, where bounds say nothing.
REPLAYED_FROM = 2**17
#: Pairs of family and row that are bounded together: as many as a processor's cache holds.
_TOGETHER: Final = 2**18
#: Digits of a bound by which blocks are ordered: machines must not differ in it.
_DIGITS_OF_ORDER: Final = 6
#: Rows of a block that are looked at to order it among the others, evenly spaced.
_LOOKED_AT: Final = 256


@dataclass(frozen=True)
class Limits:
    """What the objective of a layout must not exceed.

    Attributes
    ----------
    most
        That of one of the best; infinity: any.
    bests
        Card and number of GPUs -> the least that is known there: a layout below it may be on the front.
    """

    most: float = np.inf
    bests: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Pairs:
    """Layouts that are not resolved: which family each has, and which row of numbers, and what its objective is at least."""

    families: NDArray[np.int64]
    rows: NDArray[np.int64]
    bounds: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.bounds)

    @property
    def rank(self) -> tuple[float, int]:
        """Return what they are ordered by."""
        return float(self.bounds.min()), -1

    @property
    def alike(self) -> bool:
        """Whether they are of one family."""
        return bool((self.families == self.families[0]).all())

    def part(self, chosen: NDArray[Any]) -> Pairs:
        """Return some of them."""
        return Pairs(self.families[chosen], self.rows[chosen], self.bounds[chosen])

    def parted(self, size: int) -> list[Pairs]:
        """Return those with the least bounds family by family, at least `size`, and then the others together."""
        near = np.ones(len(self), dtype=bool)
        if len(self) > size:
            near = self.bounds <= np.partition(self.bounds, size)[size]
        first, left = self.part(np.flatnonzero(near)), np.flatnonzero(~near)
        order = np.argsort(first.families, kind="stable")
        ends = np.flatnonzero(np.diff(first.families[order])) + 1
        parts = [first.part(chosen) for chosen in np.split(order, ends)]
        return [*parts, self.part(left)] if len(left) else parts


@dataclass(frozen=True, kw_only=True)
class Searcher:
    """Search classes of families of a space.

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
    words: dict[Hashable, WordsOfClass] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", Bounds(self.goal, lambda rows: self._reader().read(rows)))

    def search(
        self, families: FamilyClass, limits: Limits | None = None, first: int = 0, last: int | None = None
    ) -> Findings:
        """Return what some rows of a class hold, with the words of each of its families; only what `limits` allow counts."""
        rows, findings = families.rows()[first:last], Findings()
        findings.considered = int(families.times(rows).sum())
        run = ClassSearch(self, families, findings, limits or Limits())
        for some in self._turns(families):
            for pairs in self.hopeful(families, rows, run, some):
                run.push(pairs)
            run.work()
        findings.least_cut = float(rounded(np.array(findings.least_cut)))
        refusals = run.pricer.reader.refusals
        for code, (count, place) in refusals.counted().items():
            findings.refused[code] = count
            findings.examples[code] = place, refusals.text(place) or ""
        return findings

    def _turns(self, families: FamilyClass) -> Sequence[NDArray[np.bool_] | None]:
        """Return which families of a class are searched one after another; None: all of them.

        Those that keep all on the device come first: against the best of them most others need not be held against their hosts.
        """
        if not self._bounded:
            return [None]
        hosted = self._words(families).hosted
        return [some for some in (~hosted, hosted) if some.any()] if hosted.any() else [None]

    def hopeful(
        self, families: FamilyClass, rows: NDArray[np.int64], run: ClassSearch, chosen: NDArray[np.bool_] | None = None
    ) -> Iterator[Pairs]:
        """Yield the layouts of some rows, and of the `chosen` families, that may be among the best; note why the others are not."""
        hopeful: list[Pairs] = []
        if self._bounded:
            rows = self._near(families, rows, run, chosen)
        together = max(_TOGETHER // max(len(families.families()), 1), 1) if self._bounded else max(len(rows), 1)
        for begin in range(0, len(rows), together):
            some = rows[begin : begin + together]
            held, most = families.holds(some), run.most(self.space.groups(some))
            if chosen is not None:
                held &= chosen[:, np.newaxis]
            known = self.bound(families, some, most)
            full = held & known.full
            run.findings.does_not_fit += int(np.count_nonzero(full))
            held &= ~known.full
            beyond = held & (known.least > most)
            run.findings.cut_off(known.least[beyond])
            family, row = np.nonzero(held & ~beyond)
            if len(family):
                hopeful.append(Pairs(family, some[row], known.least[family, row]))
        if hopeful:
            columns = (
                np.concatenate([getattr(one, name) for one in hopeful]) for name in ("families", "rows", "bounds")
            )
            whole = Pairs(*columns)
            yield from [whole] if whole.bounds.any() else whole.parted(len(whole))

    def _near(
        self, families: FamilyClass, rows: NDArray[np.int64], run: ClassSearch, chosen: NDArray[np.bool_] | None
    ) -> NDArray[np.int64]:
        """Return the rows that may be among the best in some family; note of the others that they cannot be in any `chosen` one."""
        most = run.most(self.space.groups(rows))
        if not np.isfinite(most).any():
            return rows
        least = run.least_of(rows)
        beyond = np.flatnonzero(least > most)
        run.findings.cut_off(least[beyond], int(families.times(rows[beyond], chosen).sum()))
        return rows[least <= most]

    def bound(
        self, families: FamilyClass, rows: NDArray[np.int64], most: NDArray[np.float64] | None = None
    ) -> FamilyBound:
        """Return what is known of some rows, with the words of each family, before they are resolved; `most` as `Bounds.of`."""
        if not self._bounded:
            return FamilyBound.none(len(families.families()), len(rows))
        usual, like = families.usual, partial(self._like, families)
        return self.bounds.of(self.space.rows_at(usual, rows), self._words(families), like, families.own, most)

    def bound_of_all(self, families: FamilyClass, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return what the objective is at least in some rows, whichever family of the class has them."""
        usual, like = families.usual, partial(self._like, families)
        return self.bounds.of_all(self.space.rows_at(usual, rows), self._words(families), like, families.own)

    def least(self, families: FamilyClass, rows: NDArray[np.int64]) -> float:
        """Return a figure to order blocks by: what the best of some rows takes at least with the usual words; 0: not known."""
        if not self._bounded or not len(rows):
            return 0.0
        rows = rows[:: -(-len(rows) // _LOOKED_AT)]
        words = WordsOfClass.of(families.layouts()[:1])
        usual, like = families.usual, partial(self._like, families)
        known = self.bounds.of(self.space.rows_at(usual, rows), words, like, families.own, roughly=True)
        return float(rounded(known.least[~known.full], _DIGITS_OF_ORDER).min(initial=np.inf))

    def _like(self, families: FamilyClass) -> Rows | None:
        """Return layouts with the usual words that stand for all that layers take in a class; looked for part by part."""
        usual, parts = families.usual, []
        every = self.space.numbered(self.space.of_words(usual))
        for begin in range(0, len(every), _TOGETHER):
            some = every[begin : begin + _TOGETHER]
            parts.append(some[first_of_each(self.space.rows_at(usual, some), scaled=self.goal.scaled)])
        return self.space.rows_at(usual, np.concatenate(parts)) if parts else None

    def _words(self, families: FamilyClass) -> WordsOfClass:
        if families.own not in self.words:
            self.words[families.own] = WordsOfClass.of(families.layouts())
        return self.words[families.own]

    def pricer(self) -> Pricer:
        """Return what prices layouts of the space."""
        return Pricer(reader=self._reader(), figures=self.goal.figures, wanted=self.goal.wanted)

    @remembered
    def classes(self) -> list[FamilyClass]:
        """Return the classes of the space."""
        return classes_of(self.space)

    @property
    def _bounded(self) -> bool:
        """Whether bounds say anything."""
        return self.cuts and self.space.trains

    def _reader(self) -> PieceReader:
        return PieceReader(self.space.document, self.space.grid, self.importer, self.shared)


class ClassSearch:
    """One search under way: what waits, those with the least bounds first, and what was found."""

    def __init__(self, searcher: Searcher, families: FamilyClass, findings: Findings, limits: Limits) -> None:
        self.searcher, self.families, self.findings, self.limits = searcher, families, findings, limits
        self.space, self.goal, self.k = searcher.space, searcher.goal, searcher.k
        self.pricer = searcher.pricer()
        self.names = self.space.group_names(families.own)
        self.queue: list[tuple[float, int, int, Pairs | Waiting]] = []
        self.number = 0
        self.least: tuple[NDArray[np.int64], NDArray[np.float64]] | None = None
        self.resolved = FIRST_RESOLVED
        self.size = FIRST_TOGETHER if searcher.cuts else MOST_TOGETHER

    def least_of(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return what the objective is at least in some rows in any family; the same rows are asked again for other families."""
        if self.least is None or self.least[0] is not rows:
            self.least = rows, self.searcher.bound_of_all(self.families, rows)
        return self.least[1]

    def push(self, waiting: Pairs | Waiting) -> None:
        """Let layouts wait for their turn."""
        heappush(self.queue, (*waiting.rank, self.number, waiting))
        self.number += 1

    def most(self, groups: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return what the objective of layouts must not exceed, by the `PlanSpace.groups` of each."""
        if not self.searcher.cuts:
            return np.full(len(groups), np.inf)
        overall = min(self.limits.most, best.limit_of(self.findings.top, self.k))
        if not self.names:
            return np.full(len(groups), overall)
        known = (self.limits.bests, self.findings.bests)
        own = [max(overall, min(one.get(name, np.inf) for one in known)) for name in self.names.values()]
        return np.array(own)[groups]

    def group(self, gpus: float) -> str | None:
        """Return the name of those with so many GPUs that have a best of their own."""
        return self.names.get(gpus)

    def work(self) -> None:
        """Work through all that waits, until the others cannot be among the best."""
        while self.queue:
            *_, part = heappop(self.queue)
            groups = self.space.groups(part.rows) if isinstance(part, Pairs) else part.groups
            hopeful = part.bounds <= self.most(groups)
            self.findings.cut_off(part.bounds[~hopeful])
            if not hopeful.any():
                continue
            if not hopeful.all():
                part = part.part(np.flatnonzero(hopeful))
            for left in self._resolved(part) if isinstance(part, Pairs) else self._priced(part):
                self.push(left)

    def _resolved(self, pairs: Pairs) -> list[Any]:
        """Return layouts resolved, structure by structure; of several families those with the least bounds apart first."""
        if not pairs.alike:
            self.resolved *= 2
            return list(pairs.parted(self.resolved // 2))
        words = self.families.families()[int(pairs.families[0])]
        rows, waiting = self.space.rows_at(words, pairs.rows), list[Waiting]()
        groups = self.space.groups(pairs.rows)
        replays = not pairs.bounds.any() and self.space.count(words) >= REPLAYED_FROM
        for piece in self.pricer.reader.read(rows):
            places = rows.places_of(piece.places)
            whole = Waiting(piece, pairs.bounds[places], groups[places])
            priced, left = self.pricer.replayed(rows.part(places), whole) if replays else ([], [whole])
            for layouts in priced:
                self.findings.take(layouts, self.goal, self.k, self.group)
            for part in left:
                waiting += _by_structure(part)
        return waiting

    def _priced(self, part: Waiting) -> list[Waiting]:
        """Price layouts, memory first; return those that are left."""
        if part.memory is None:
            priced, more = self.pricer.held(part)
        else:
            order = np.argsort(part.bounds, kind="stable")
            priced, more = self.pricer.timed(part.part(np.sort(order[: self.size])))
            more += [part.part(np.sort(order[self.size :]))] if len(part) > self.size else []
            self.size = min(2 * self.size, MOST_TOGETHER)
            self.findings.structures += 1
        for layouts in priced:
            self.findings.take(layouts, self.goal, self.k, self.group)
        return more


def _by_structure(waiting: Waiting) -> Iterator[Waiting]:
    """Yield layouts of one structure, those with the least bounds first, as many as are worked on together."""
    resolved = waiting.piece.resolved
    for chosen in [np.arange(len(waiting))] if resolved is None else by_structure(resolved):
        order = chosen[np.argsort(waiting.bounds[chosen], kind="stable")]
        for begin in range(0, len(order), MOST_TOGETHER):
            yield waiting.part(np.sort(order[begin : begin + MOST_TOGETHER]))
