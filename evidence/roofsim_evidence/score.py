"""Score predictions against measured steps: errors, bias, ranks and coverage of any group of the shipped cases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import numpy as np

from roofsim.analyze.throughput import units_per_step
from roofsim.api import answer
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from roofsim_evidence.cases import Case

#: Share of measurements that an interval is to hold.
NOMINAL_COVERAGE: Final = 0.8
#: Rows below which a rank correlation says nothing.
FEWEST_FOR_RANKS: Final = 3


class Measured(Protocol):
    """Something that was measured, in its unit."""

    @property
    def measured(self) -> float:
        """What was measured."""


class Scored(Protocol):
    """A prediction of something measured: a step's seconds, a peak's bytes."""

    @property
    def case(self) -> Measured:
        """What it is held against."""

    @property
    def predicted(self) -> float:
        """What is predicted, in the unit of what was measured."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """Ends of the 80 % interval, if there is one."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A case and what is predicted for it. Times in seconds.

    Attributes
    ----------
    samples
        Sequences or images that one step handles.
    ideal
        The model's FLOPs, masked scores included as in the usual formulas, at the card's dense peak of the precision: what a
        model of one constant divides by its MFU.
    interval
        Ends of the 80 % interval, where the constants come with residuals.
    fits
        Whether it is predicted to fit into memory.
    """

    case: Case
    architecture: str
    predicted: float
    samples: float
    ideal: float
    interval: tuple[float, float] | None = None
    fits: bool = True

    @property
    def error(self) -> float:
        """The relative error: positive where the prediction is too slow."""
        return self.predicted / self.case.measured - 1.0

    @property
    def model(self) -> str:
        """The name of the network."""
        return model_name(self.case)


@dataclass(frozen=True, kw_only=True)
class Score:
    """Errors of a group, relative to what was measured.

    Attributes
    ----------
    median, mean, p90, worst
        Of absolute errors.
    bias
        Median of signed errors: positive where predictions are too slow.
    rank
        Spearman correlation of predicted and measured seconds; None for few rows, or rows of one time.
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


Row = TypeVar("Row", bound=Scored)

#: What rows are grouped by, in the order of the page.
GROUPINGS: Final[dict[str, Callable[[Prediction], str]]] = {
    "source": lambda row: row.case.source,
    "GPU": lambda row: row.case.gpu,
    "architecture": lambda row: row.architecture,
    "family": lambda row: row.case.family,
    "precision": lambda row: row.case.precision,
    "regime": lambda row: row.case.regime,
    "rows": lambda row: "may be fitted" if row.case.fits else "held out",
}


def model_name(case: Case) -> str:
    """Return the name of a case's network."""
    model = case.scenario["model"]
    return model if isinstance(model, str) else str(model["name"])


def predict_case(case: Case) -> Prediction:
    """Predict one case with the shipped constants."""
    evaluation = case.evaluate()
    result = answer(evaluation)
    peak, _ = evaluation.device.rate(evaluation.resolved.precision.math)
    interval = result.step_time_interval
    samples, _, _ = units_per_step(evaluation.resolved)
    return Prediction(
        case=case,
        architecture=evaluation.resolved.architecture.name,
        predicted=float(result.step_time),
        samples=float(samples),
        ideal=float(result.utilization.usual) / float(peak),
        interval=None if interval is None else (float(interval[0]), float(interval[1])),
        fits=bool(result.memory.fits),
    )


def predict_cases(cases: Iterable[Case]) -> list[Prediction]:
    """Predict all cases, in one pass."""
    return [predict_case(case) for case in cases]


def score(rows: Sequence[Scored], predicted: Sequence[float] | None = None) -> Score:
    """Score some rows; with `predicted`, score other values for the same rows (a baseline), which have no intervals."""
    if not rows:
        raise ValueError("a score needs rows")
    measured = np.array([row.case.measured for row in rows])
    seconds = np.array([row.predicted for row in rows] if predicted is None else predicted, dtype=np.float64)
    signed = seconds / measured - 1.0
    errors = np.abs(signed)
    return Score(
        n=len(rows),
        median=float(np.median(errors)),
        mean=float(errors.mean()),
        p90=float(np.percentile(errors, 90)),
        worst=float(errors.max()),
        bias=float(np.median(signed)),
        rank=spearman(seconds, measured),
        coverage=_coverage(rows) if predicted is None else None,
    )


def spearman(first: Any, second: Any) -> float | None:
    """Return the rank correlation of two series; None where there is no order to compare.

    >>> round(spearman([1.0, 2.0, 3.0], [10.0, 30.0, 20.0]), 3)
    0.5
    """
    from scipy.stats import rankdata

    if len(first) < FEWEST_FOR_RANKS:
        return None
    one, two = rankdata(first), rankdata(second)
    if np.ptp(one) == 0.0 or np.ptp(two) == 0.0:
        return None
    return float(np.corrcoef(one, two)[0, 1])


def _coverage(rows: Sequence[Scored]) -> float | None:
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
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return dict(sorted(found.items()))


def held_out(rows: Iterable[Prediction]) -> list[Prediction]:
    """Return the rows that no constant was fitted to."""
    return [row for row in rows if not row.case.fits]


def fitted(rows: Iterable[Prediction]) -> list[Prediction]:
    """Return the rows that constants may have been fitted to."""
    return [row for row in rows if row.case.fits]
