"""Keep what a search found: counts, why layouts are refused, the best and the front; merging does not depend on the order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.records import dataclass, field
from roofsim.search.planning import best

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from roofsim.search.planning.objectives import Goal
    from roofsim.search.planning.priced import PricedLayouts

#: Digits of a figure that count.
_DIGITS: Final = 12


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
    bests
        Card and number of GPUs -> the least of the objective among their layouts, where several are searched.
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
    bests: dict[str, float] = field(default_factory=dict)

    def cut_off(self, bounds: NDArray[np.float64], count: int | None = None) -> None:
        """Count layouts that cannot be among the best, as their bounds say: one for each bound, or so many in all."""
        self.cut += bounds.size if count is None else count
        if bounds.size:
            self.least_cut = min(self.least_cut, float(bounds.min()))

    def take(self, priced: PricedLayouts, goal: Goal, k: int, group: Callable[[float], str | None]) -> None:
        """Keep what is the best of layouts that were priced; `group` names the numbers of GPUs that have a best of their own."""
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
        for gpus in np.unique(columns["gpus"]).tolist():
            name = group(gpus)
            if name is not None:
                least = float(columns["value"][columns["gpus"] == gpus].min())
                self.bests[name] = min(self.bests.get(name, np.inf), least)

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
            bests={
                name: min(self.bests.get(name, np.inf), other.bests.get(name, np.inf))
                for name in sorted({*self.bests, *other.bests})
            },
        )


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
