"""The sets of measurements that are scored together, each as stated and as an ordinary user would state it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from roofsim.analyze.ledger import memory_of
from roofsim.calibrate.cases import BYTES, SERVED, STEP_TIME
from roofsim.calibrate.predict import Prediction, predict_case, prediction_of
from roofsim.errors import NoDataError, SpecError
from roofsim.records import dataclass
from roofsim_evidence.cases import load
from roofsim_evidence.multi_gpu.notes import COMPOSED
from roofsim_evidence.plain import plainly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from roofsim.calibrate.cases import Case


@dataclass(frozen=True, kw_only=True)
class MeasuredSet:
    """Measurements that are scored together.

    Attributes
    ----------
    about
        What was measured, in a few words.
    file
        Its file in ``evidence/measurements``, without the ending.
    takes
        Whether a case of the file belongs to the set.
    """

    about: str
    file: str
    takes: Callable[[Case], bool]

    def cases(self) -> list[Case]:
        """Return the measurements, in the order of the file."""
        return [case for case in load(self.file) if self.takes(case)]


@dataclass(frozen=True, kw_only=True)
class SetPrediction(Prediction):
    """A prediction, and whether the run is predicted to fit; `case` is always the full statement."""

    fits: bool = True


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """Predictions of some cases, and those that have none, with the reason."""

    rows: list[SetPrediction]
    refused: list[tuple[Case, str]]


def _every(case: Case) -> bool:
    del case
    return True


SETS: Final = {
    "steps": MeasuredSet(about="steps on one GPU", file="steps", takes=_every),
    "multi-gpu": MeasuredSet(
        about="training steps on several GPUs", file="multi-gpu", takes=lambda case: case.source != COMPOSED
    ),
    "mlperf-training": MeasuredSet(
        about="MLPerf Training", file="mlperf-training", takes=lambda case: case.quantity == STEP_TIME
    ),
    "mlperf-inference": MeasuredSet(about="MLPerf Inference", file="mlperf-inference", takes=_every),
    "inference": MeasuredSet(
        about="passes of inference", file="inference", takes=lambda case: case.quantity == STEP_TIME
    ),
    "servers": MeasuredSet(about="servers under load", file="inference", takes=lambda case: case.quantity in SERVED),
    "external-inference": MeasuredSet(
        about="inference, other sources", file="external-inference", takes=lambda case: case.quantity not in BYTES
    ),
    "memory": MeasuredSet(about="peaks of memory", file="memory", takes=lambda case: not case.apart),
}


def predict(cases: Iterable[Case], *, plain: bool = False) -> Predicted:
    """Predict measurements with the shipped constants; with `plain`, as an ordinary user would state them."""
    predicted = Predicted(rows=[], refused=[])
    known: dict[str, tuple[Prediction, bool] | str] = {}
    for case in cases:
        asked = plainly(case) if plain else case
        key = json.dumps([asked.scenario, asked.quantity, asked.bounds], sort_keys=True)
        if key not in known:  # many submit the same run, or run what differs in unstated ways
            known[key] = _answered(asked)
        answer = known[key]
        if isinstance(answer, str):
            predicted.refused.append((case, answer))
            continue
        row, fits = answer
        predicted.rows.append(
            SetPrediction(
                case=case,
                predicted=row.predicted,
                interval=row.interval,
                architecture=row.architecture,
                experts=row.experts,
                fits=fits,
            )
        )
    return predicted


def _answered(case: Case) -> tuple[Prediction, bool] | str:
    """Return a prediction and whether the run fits, or why there is none."""
    try:
        return _predicted(case)
    except (SpecError, NoDataError) as error:
        return error.reason


def _predicted(case: Case) -> tuple[Prediction, bool]:
    if case.quantity in SERVED:
        return predict_case(case), True
    evaluation = case.evaluate()
    return prediction_of(case, evaluation), bool(memory_of(evaluation).fits)
