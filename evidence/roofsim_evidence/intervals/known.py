"""Say what stands behind the intervals: which cards, engines, families and formats were measured in each regime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.records import dataclass
from roofsim.spec.constants.intervals import MeasuredRuns
from roofsim_evidence.folds.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from roofsim.analyze.distance import RunTraits
    from roofsim.calibrate.cases import Case

#: Field of `MeasuredRuns` -> what a run adds to it.
_ADDS: Final[dict[str, Callable[[RunTraits], str]]] = {
    "cards": lambda traits: traits.card,
    "architectures": lambda traits: traits.architecture,
    "engines": lambda traits: traits.engine,
    "families": lambda traits: traits.family,
    "pairs": lambda traits: f"{traits.engine} on {traits.architecture}",
    "formats": lambda traits: f"{traits.number_format} on {traits.architecture}",
}


@dataclass(frozen=True, kw_only=True)
class Residual:
    """A measured run: what its interval depends on, and how far predictions are off.

    Attributes
    ----------
    logs
        Measured over predicted, as logarithms, by what was left out of the fits.
    """

    case: Case
    traits: RunTraits
    logs: Mapping[str, float]


def measured(rows: Iterable[Residual]) -> dict[str, MeasuredRuns]:
    """Return what some runs show, by regime."""
    shown: dict[str, dict[str, set[str]]] = {}
    for row in rows:
        own = shown.setdefault(row.traits.regime, {name: set() for name in _ADDS})
        for name, add in _ADDS.items():
            if value := add(row.traits):
                own[name].add(value)
    return {
        regime: MeasuredRuns(**{name: tuple(sorted(values)) for name, values in own.items()})
        for regime, own in sorted(shown.items())
    }


def measured_without(rows: Sequence[Residual], kind: str) -> dict[str, dict[str, MeasuredRuns]]:
    """Return by fold of a kind what the other folds show."""
    name_of = KINDS[kind]
    names = [name_of(row.case) for row in rows]
    return {
        left: measured(row for row, name in zip(rows, names, strict=True) if name != left)
        for left in sorted(set(names))
    }
