"""Search one family of layouts: refuse, bound, price what may win, and keep the best; a pure function of what it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.records import dataclass, field
from roofsim.search.pieces import PieceReader
from roofsim.search.planning import best
from roofsim.search.planning.bounds import Bounds
from roofsim.search.planning.priced import Pricer, part_of
from roofsim.search.stacking import by_structure

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from numpy.typing import NDArray

    from roofsim.search.planning.objectives import Goal
    from roofsim.search.planning.space import PlanSpace
    from roofsim.search.resolving import Shared
    from roofsim.search.stacking import PointBatch
    from roofsim.spec.reading.told_apart import Importer

#: Layouts of one structure that are priced as one array.
MOST_TOGETHER: Final = 1024
#: Digits of a figure that count.
_DIGITS: Final = 12
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
    layers: dict[Hashable, Any] = field(default_factory=dict)

    def search(
        self, words: Mapping[int, int], limit: float = np.inf, first: int = 0, last: int | None = None
    ) -> Findings:
        """Return what some rows of a family hold; of its layouts only those at or below a `limit` of the objective count."""
        findings, rows = Findings(), self.space.rows(words)
        if rows is None:
            return findings
        rows = rows.part(np.arange(len(rows))[first:last])
        reader = PieceReader(self.space.document, self.space.grid, self.importer, self.shared)
        groups = sorted(
            self._groups(reader.read(rows), self._of_layers(words)),
            key=lambda group: (group.bounds.min(), group.piece.places[group.chosen[0]]),
        )
        findings.considered = len(rows)
        pricer = Pricer(reader=reader, figures=self.goal.figures, wanted=self.goal.wanted)
        for group in groups:
            self._group(findings, pricer, group, limit)
        for code, (count, place) in reader.refusals.counted().items():
            findings.refused[code] = count
            findings.examples[code] = place, reader.refusals.text(place) or ""
        return findings

    def _of_layers(self, words: Mapping[int, int]) -> Hashable:
        """Return the words that what a layer takes depends on."""
        axes = self.space.grid.axes
        return tuple(item for item in sorted(words.items()) if ".".join(axes[item[0]].path) not in _NOT_OF_LAYERS)

    def _groups(self, pieces: Iterator[PointBatch], words: Hashable) -> Iterator[_BoundGroup]:
        """Yield the layouts of each structure, with what their objective is at least."""
        bounds = Bounds(self.goal, self.layers)
        for piece in pieces:
            if piece.resolved is None:
                yield _BoundGroup(piece, np.arange(len(piece)), np.zeros(len(piece)))
                continue
            least = rounded(bounds.of(piece.resolved, words)) if self.cuts else np.zeros(len(piece))
            for chosen in by_structure(piece.resolved):
                order = chosen[np.argsort(least[chosen], kind="stable")]
                for begin in range(0, len(order), MOST_TOGETHER):
                    some = np.sort(order[begin : begin + MOST_TOGETHER])
                    yield _BoundGroup(piece, some, least[some])

    def _group(self, findings: Findings, pricer: Pricer, group: _BoundGroup, limit: float) -> None:
        """Price the layouts of a structure that may be among the best."""
        most = min(limit, best.limit_of(findings.top, self.k)) if self.cuts else np.inf
        hopeful = group.bounds <= most
        findings.cut += int((~hopeful).sum())
        if not hopeful.all():
            findings.least_cut = min(findings.least_cut, float(group.bounds[~hopeful].min()))
        if not hopeful.any():
            return
        for priced in pricer.price(part_of(group.piece, group.chosen[hopeful])):
            findings.structures += 1
            findings.does_not_fit += int((~priced.fits).sum())
            columns = {"id": priced.places, **{name: rounded(each) for name, each in priced.figures.items()}}
            columns = best.taken(columns, np.flatnonzero(priced.fits))
            findings.priced += len(columns["id"])
            kept = self.goal.holds(columns)
            findings.constrained += int((~kept).sum())
            columns = best.taken(columns, np.flatnonzero(kept))
            columns["value"] = self.goal.value(columns)
            findings.top = best.first(best.joined(findings.top, columns), self.k)
            findings.front = best.front(best.joined(findings.front, columns))


@dataclass(frozen=True)
class _BoundGroup:
    """Layouts of one structure: which of a piece, and what the objective of each is at least."""

    piece: PointBatch
    chosen: NDArray[Any]
    bounds: NDArray[np.float64]


def rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return figures to 12 significant digits: whether they were worked out alone or as arrays must decide nothing.

    >>> rounded(np.array([1.2345678901234567, 0.0, np.inf])).tolist()
    [1.23456789012, 0.0, inf]
    """
    known = np.isfinite(values) & (values != 0.0)
    size = np.where(known, np.abs(np.where(known, values, 1.0)), 1.0)
    scale = 10.0 ** (_DIGITS - 1 - np.floor(np.log10(size)))
    exact: NDArray[np.float64] = np.where(known, np.round(np.where(known, values, 0.0) * scale) / scale, values)
    return exact
