"""Predict with one constant, as a napkin does: step = model FLOPs / (dense peak x MFU). What a model of parts must beat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roofsim.kept import remembered
from roofsim.records import dataclass
from roofsim_evidence.folds.kinds import publisher_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from roofsim_evidence.steps.cases import StepPrediction


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """Model FLOPs utilisation: of all rows that may be fitted, and of each group of them.

    The card's dense peak is that of the precision the step computes in, as on the datasheet.

    Attributes
    ----------
    fitted
        The rows that may be fitted: group, publisher, utilisation.
    """

    fitted: tuple[tuple[str, str, float], ...]
    key: Callable[[StepPrediction], str]

    @property
    def overall(self) -> float:
        """The constant of all rows: the median of their own, which makes the absolute logarithmic error smallest."""
        return float(np.median([value for _, _, value in self.fitted]))

    @property
    def groups(self) -> dict[str, float]:
        """The constant of each group."""
        names = sorted({group for group, _, _ in self.fitted})
        return {name: float(np.median([value for group, _, value in self.fitted if group == name])) for name in names}

    def seconds(self, rows: Iterable[StepPrediction]) -> list[float]:
        """Return the step times of rows, by constants of the other publishers; without any of its group, by those of all."""
        return [row.ideal / self._without(self.key(row), publisher_of(row.case)) for row in rows]

    @remembered
    def _without(self, group: str, publisher: str) -> float:
        others = [(name, value) for name, other, value in self.fitted if other != publisher]
        mine = [value for name, value in others if name == group] or [value for _, value in others]
        return float(np.median(mine)) if mine else self.overall


def fit_baseline(rows: Sequence[StepPrediction], key: Callable[[StepPrediction], str] = lambda _: "") -> Baseline:
    """Fit an MFU to the rows that may be fitted; `key` gives each group of rows its own.

    Raises
    ------
    ValueError
        When no row may be fitted.
    """
    usable = [row for row in rows if row.case.fits]
    if not usable:
        raise ValueError("a baseline needs rows that may be fitted")
    return Baseline(fitted=tuple((key(row), publisher_of(row.case), _utilisation(row)) for row in usable), key=key)


def _utilisation(row: StepPrediction) -> float:
    return row.ideal / row.case.measured
