"""Load the steps and peaks of MLPerf Training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.calibrate.cases import STEP_TIME
from roofsim_evidence.cases import load

if TYPE_CHECKING:
    from roofsim.calibrate.cases import Case


def training_cases() -> list[Case]:
    """Return the measured steps, in the order of the file; none may be fitted."""
    return [case for case in load("mlperf-training") if case.quantity == STEP_TIME]


def logged_peaks() -> list[Case]:
    """Return the peaks of memory that logs state, in the order of the file."""
    return [case for case in load("mlperf-training") if case.quantity != STEP_TIME]
