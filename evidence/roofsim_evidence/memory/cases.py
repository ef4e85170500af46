"""Load and predict the published peaks of memory."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.ledger import memory_of
from roofsim.calibrate.predict import Prediction, prediction_of
from roofsim.records import dataclass
from roofsim_evidence.cases import fittable, load

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from roofsim.calibrate.cases import Case
    from roofsim.evaluate import Evaluation

#: Quantities as the tables of the page name them.
SHORT: Final = {"allocated_peak": "allocated", "reserved": "reserved", "device_total": "device"}
#: What a model of parameters, gradients and optimizer state alone would count.
_STATE: Final = ("parameters", "gradients", "optimizer_state")


@dataclass(frozen=True, kw_only=True)
class MemoryPrediction(Prediction):
    """A peak of memory and what is predicted for it. Bytes.

    Attributes
    ----------
    state
        Parameters, gradients and optimizer state alone: what a model without activations would answer.
    peak_op
        The op at the predicted peak.
    """

    state: float
    peak_op: str


@cache
def load_memory_cases() -> tuple[Case, ...]:
    """Return all published peaks, in the order of the file; those with all settings stated may be fitted."""
    return fittable(load("memory"), lambda case: not case.apart)


@cache
def _predict(case_name: str) -> MemoryPrediction:
    case = next(case for case in load_memory_cases() if case.name == case_name)
    evaluation = case.evaluate()
    row = prediction_of(case, evaluation)
    return MemoryPrediction(
        case=case,
        predicted=row.predicted,
        interval=row.interval,
        architecture=row.architecture,
        state=_state(evaluation),
        peak_op=memory_of(evaluation).peak_op,
    )


def _state(evaluation: Evaluation) -> float:
    """Return the state of the fullest stage; a gradient counts as if all were kept to the end."""
    states = []
    for profile in evaluation.profiles:
        phases = profile.phase_live.values()
        states.append(sum(max(_number(parts[name]) for parts in phases) for name in _STATE))
    return max(states)


def _number(value: Any) -> float:
    """Return a number, or the last of an array of contexts."""
    return float(value) if not getattr(value, "shape", ()) else float(value[..., -1])


def predict_all(cases: Iterable[Case] | None = None) -> list[MemoryPrediction]:
    """Predict some published peaks, or all."""
    return [_predict(case.name) for case in (load_memory_cases() if cases is None else cases)]


def stated(rows: Sequence[MemoryPrediction]) -> list[MemoryPrediction]:
    """Return the rows whose settings are all known."""
    return [row for row in rows if not row.case.apart]
