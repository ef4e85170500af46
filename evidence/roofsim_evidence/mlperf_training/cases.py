"""Load the steps and peaks of MLPerf Training, and say what an ordinary user would state of them."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from roofsim.calibrate.cases import STEP_TIME
from roofsim.errors import Place
from roofsim.records import replace
from roofsim.spec.engine.choice import read_choice
from roofsim_evidence.cases import load

if TYPE_CHECKING:
    from roofsim.calibrate.cases import Case


def training_cases() -> list[Case]:
    """Return the measured steps, in the order of the file; none may be fitted."""
    return [case for case in load("mlperf-training") if case.quantity == STEP_TIME]


def logged_peaks() -> list[Case]:
    """Return the peaks of memory that logs state, in the order of the file."""
    return [case for case in load("mlperf-training") if case.quantity != STEP_TIME]


def plainly(case: Case) -> Case:
    """Return a step as a user would state it who knows model, batch, layout and precision, but no flags of the engine."""
    scenario: dict[str, Any] = deepcopy(case.scenario)
    workload = scenario["workload"]
    workload.pop("engine_facts", None)
    workload["engine"] = read_choice(workload["engine"], Place("measurements")).name
    if not isinstance(workload["precision"], str):
        workload["precision"] = workload["precision"]["compute"]
    return replace(case, scenario=scenario)
