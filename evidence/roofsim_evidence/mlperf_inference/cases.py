"""Load what MLPerf Inference measured, predict each question once, and say what an ordinary user would state."""

from __future__ import annotations

import csv
import json
from copy import deepcopy
from functools import cache
from typing import TYPE_CHECKING, Any

from roofsim.calibrate.cases import STEP_TIME
from roofsim.calibrate.predict import Prediction, predict_case
from roofsim.errors import NoDataError, Place, SpecError
from roofsim.records import dataclass, replace
from roofsim.spec.engine.choice import read_choice
from roofsim_evidence.cases import load
from roofsim_evidence.places import measurements

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roofsim.calibrate.cases import Case

#: The same rates are latencies that were asked of a server at its rate.
LATENCIES = ("time_per_output_token", "time_to_first_token")
#: Words of a server that are the question, not an option of it.
ASKED = ("latency_bound",)


@dataclass(frozen=True, kw_only=True)
class Unsaid:
    """A row that no scenario can say, and why."""

    name: str
    benchmark: str
    scenario: str
    gpu: str
    reason: str


def served_cases() -> tuple[Case, ...]:
    """Return all rows that a scenario can say, in the order of the file; none may be fitted."""
    return load("mlperf-inference")


def rates() -> list[Case]:
    """Return rates, and times of single passes, which are rates of their batches."""
    return [case for case in served_cases() if case.quantity not in LATENCIES]


def latencies() -> list[Case]:
    """Return mean latencies at the rate of a run."""
    return [case for case in served_cases() if case.quantity in LATENCIES]


@cache
def unsaid() -> tuple[Unsaid, ...]:
    """Return the rows that no scenario can say, in the order of their file."""
    with (measurements() / "mlperf-inference-unsaid.csv").open(encoding="utf-8", newline="") as lines:
        return tuple(Unsaid(**row) for row in csv.DictReader(lines))


def predict_each(cases: Iterable[Case]) -> tuple[list[Prediction], list[tuple[Case, str]]]:
    """Predict cases, equal questions once; those without an answer come with the reason."""
    answers: dict[str, Prediction | str] = {}
    rows, without = [], []
    for case in cases:
        question = json.dumps([case.scenario, case.quantity, case.bounds], sort_keys=True)
        if question not in answers:
            answers[question] = _answer(case)
        answer = answers[question]
        if isinstance(answer, str):
            without.append((case, answer))
        else:
            rows.append(replace(answer, case=case))
    return rows, without


def _answer(case: Case) -> Prediction | str:
    try:
        return predict_case(case)
    except (SpecError, NoDataError) as problem:
        return str(problem).splitlines()[0]


def plainly(case: Case) -> Case:
    """Return a row as a user would state it who knows model, cards, layout, lengths, precision and batch, but no option."""
    scenario: dict[str, Any] = deepcopy(case.scenario)
    workload = scenario["workload"]
    workload["engine"] = read_choice(workload["engine"], Place("measurements")).name
    question = {name: value for name, value in workload.pop("serving", {}).items() if name in ASKED}
    if question:
        workload["serving"] = question
    workload.pop("engine_facts", None)
    if not isinstance(workload["precision"], str):
        workload["precision"] = workload["precision"]["compute"]
    return replace(case, scenario=scenario)


def speed(row: Prediction) -> float:
    """Return the predicted speed over the measured one: above 1 where it is predicted to be faster than it was."""
    ratio = row.predicted / row.case.measured
    return ratio if row.case.quantity.endswith("_per_second") else 1.0 / ratio


def is_time(case: Case) -> bool:
    """Tell whether a row is the time of a pass."""
    return case.quantity == STEP_TIME
