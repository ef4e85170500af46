"""Load and predict the published steps."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from roofsim.analyze.throughput import units_per_step
from roofsim.api import answer
from roofsim.calibrate.predict import Prediction
from roofsim.evaluate import evaluate
from roofsim.records import dataclass, replace
from roofsim.spec.mechanisms import ALL, Mechanisms
from roofsim_evidence.cases import fittable, load

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roofsim.calibrate.cases import Case

#: Sources that only score: another framework; a clock around a data loader; steps whose forward contradicts their backward.
UNFITTED: Final = ("dle-tf", "dle-infer", "neusight-odd")


@cache
def load_cases() -> tuple[Case, ...]:
    """Return all steps on one GPU, in the order of the file; constants may be fitted to all but `UNFITTED`."""
    return fittable(load("steps"), lambda case: case.source not in UNFITTED)


@dataclass(frozen=True, kw_only=True)
class StepPrediction(Prediction):
    """A measured step and what is predicted for it. Times in seconds.

    Attributes
    ----------
    samples
        Sequences or images that one step handles.
    ideal
        The model's FLOPs, masked scores included as in the usual formulas, at the card's dense peak of the precision: what a
        model of one constant divides by its MFU.
    fits
        Whether it is predicted to fit into memory.
    """

    samples: float
    ideal: float
    fits: bool = True


def predict_step(case: Case, mechanisms: Mechanisms = ALL) -> StepPrediction:
    """Predict one step with the shipped constants; with some mechanisms switched off, if any."""
    evaluation = evaluate(replace(case.resolve(), mechanisms=mechanisms))
    result = answer(evaluation)
    peak, _ = evaluation.device.rate(evaluation.resolved.precision.math)
    interval = result.step_time_interval
    samples, _, _ = units_per_step(evaluation.resolved)
    return StepPrediction(
        case=case,
        architecture=evaluation.resolved.architecture.name,
        predicted=float(result.step_time),
        samples=float(samples),
        ideal=float(result.utilization.usual) / float(peak),
        interval=None if interval is None else (float(interval[0]), float(interval[1])),
        fits=bool(result.memory.fits),
    )


def predict_steps(cases: Iterable[Case], mechanisms: Mechanisms = ALL) -> list[StepPrediction]:
    """Predict all cases, in one pass."""
    return [predict_step(case, mechanisms) for case in cases]
