"""Predict with one constant, as a napkin does: step = model FLOPs / (dense peak x MFU). What a model of parts must beat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from roofsim_evidence.steps.cases import StepPrediction


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """Model FLOPs utilisation: of all rows that were fitted, and of each group of them.

    The card's dense peak is that of the precision the step computes in, as on the datasheet.
    """

    overall: float
    groups: dict[str, float]
    key: Callable[[StepPrediction], str]

    def seconds(self, rows: Iterable[StepPrediction]) -> list[float]:
        """Return the step times of rows; a group that had no fitted row takes the overall constant."""
        return [row.ideal / self.groups.get(self.key(row), self.overall) for row in rows]


def fit_baseline(rows: Sequence[StepPrediction], key: Callable[[StepPrediction], str] = lambda _: "") -> Baseline:
    """Fit an MFU to the rows that may be fitted; `key` gives each group of rows its own.

    The constant is the median of the rows' own MFUs, which makes the absolute logarithmic error smallest.

    Raises
    ------
    ValueError
        When no row may be fitted.
    """
    usable = [row for row in rows if row.case.fits]
    if not usable:
        raise ValueError("a baseline needs rows that may be fitted")
    utilizations: dict[str, list[float]] = {}
    for row in usable:
        utilizations.setdefault(key(row), []).append(_utilisation(row))
    groups = {name: float(np.median(values)) for name, values in utilizations.items()}
    return Baseline(overall=float(np.median([_utilisation(row) for row in usable])), groups=groups, key=key)


def _utilisation(row: StepPrediction) -> float:
    return row.ideal / row.case.measured
