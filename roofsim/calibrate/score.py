"""Score predictions against measurements: errors, bias, ranks and coverage of any group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from roofsim.calibrate.predict import Prediction
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

#: Share of measurements that an interval is to hold.
NOMINAL_COVERAGE: Final = 0.8
#: Rows below which a rank correlation says nothing.
FEWEST_FOR_RANKS: Final = 3


@dataclass(frozen=True, kw_only=True)
class Score:
    """Errors of a group, relative to what was measured.

    Attributes
    ----------
    median, mean, p90, worst
        Of absolute errors.
    bias
        Median of signed errors: positive where more is predicted than was measured.
    rank
        Spearman correlation of predictions and measurements; None for few rows, or rows that measured the same.
    coverage
        Share of measurements inside the 80 % interval; None without intervals.
    """

    n: int
    median: float
    mean: float
    p90: float
    worst: float
    bias: float
    rank: float | None
    coverage: float | None


Row = TypeVar("Row", bound=Prediction)

#: What rows are grouped by, in the order of the page.
GROUPINGS: Final[dict[str, Callable[[Prediction], str]]] = {
    "source": lambda row: row.case.source,
    "GPU": lambda row: row.case.gpu,
    "architecture": lambda row: row.architecture,
    "family": lambda row: row.case.family,
    "precision": lambda row: row.case.precision,
    "regime": lambda row: row.case.regime,
}


def score(rows: Sequence[Prediction], predicted: Sequence[float] | None = None) -> Score:
    """Score some rows; with `predicted`, score other values for the same rows (a baseline), which have no intervals."""
    values = [row.predicted for row in rows] if predicted is None else predicted
    coverage = _coverage(rows) if predicted is None else None
    return score_of(values, [row.case.measured for row in rows], coverage=coverage)


def score_of(predicted: Any, measured: Any, *, coverage: float | None = None) -> Score:
    """Score predictions beside measurements, two series of equal length."""
    if not len(measured):
        raise ValueError("a score needs rows")
    values, truth = np.asarray(predicted, dtype=np.float64), np.asarray(measured, dtype=np.float64)
    signed = values / truth - 1.0
    errors = np.abs(signed)
    return Score(
        n=len(truth),
        median=float(np.median(errors)),
        mean=float(errors.mean()),
        p90=float(np.percentile(errors, 90)),
        worst=float(errors.max()),
        bias=float(np.median(signed)),
        rank=spearman(values, truth),
        coverage=coverage,
    )


def spearman(first: Any, second: Any) -> float | None:
    """Return the rank correlation of two series; None where there is no order to compare.

    >>> round(spearman([1.0, 2.0, 3.0], [10.0, 30.0, 20.0]), 3)
    0.5
    """
    from scipy.stats import spearmanr

    if len(first) < FEWEST_FOR_RANKS or np.ptp(first) == 0.0 or np.ptp(second) == 0.0:
        return None
    return float(spearmanr(first, second).statistic)


def _coverage(rows: Sequence[Prediction]) -> float | None:
    known = [(row.interval, row.case.measured) for row in rows if row.interval is not None]
    if not known:
        return None
    inside = [interval[0] <= measured <= interval[1] for interval, measured in known]
    return sum(inside) / len(inside)


def coverage_band(rows: int) -> tuple[float, float]:
    """Return the shares between which 99 % of such groups lie if intervals hold what they say.

    >>> [round(end, 2) for end in coverage_band(100)]
    [0.69, 0.9]
    """
    from scipy.stats import binom

    low, high = binom.interval(0.99, rows, NOMINAL_COVERAGE)
    return float(low) / rows, float(high) / rows


def grouped(rows: Iterable[Row], key: Callable[[Row], str]) -> dict[str, list[Row]]:
    """Return the rows of each group, groups in order of name."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return dict(sorted(groups.items()))


def fitted(rows: Iterable[Row]) -> list[Row]:
    """Return the rows that constants may have been fitted to."""
    return [row for row in rows if row.case.fits]
