"""Read the residuals out of fold of every set, with what their intervals depend on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim_evidence.cases import load
from roofsim_evidence.folds import files
from roofsim_evidence.folds.kinds import KINDS
from roofsim_evidence.intervals.known import Residual, measured

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roofsim.calibrate.cases import Case
    from roofsim.spec.constants.intervals import MeasuredRuns
    from roofsim_evidence.folds.files import Stored

#: Sets whose residuals say how far times are off; nothing is fitted to MLPerf, whose rows check what these say.
TIMES: Final = ("steps", "multi-gpu", "inference", "servers")
MEMORY: Final = "memory"
#: Set -> the file of measurements that has its rows.
FILES: Final = {
    "steps": "steps",
    "multi-gpu": "multi-gpu",
    "inference": "inference",
    "servers": "inference",
    "memory": "memory",
    "mlperf-training": "mlperf-training",
    "mlperf-inference": "mlperf-inference",
    "external-inference": "external-inference",
}
#: Quantities of which more is less time.
RATES: Final = ("output_tokens_per_second", "requests_per_second")


def rows_of(name: str) -> list[Residual]:
    """Return the rows of a set that are stored, but those that leave a setting unstated."""
    stored = files.read(name)
    return [row_of(case, stored[case.name]) for case in load(FILES[name]) if case.name in stored and not case.apart]


def all_rows(names: Iterable[str] = TIMES) -> list[Residual]:
    """Return the rows of some sets."""
    return [row for name in names for row in rows_of(name)]


def row_of(case: Case, stored: Stored) -> Residual:
    """Return a row: of a rate, the residual is that of the time that it takes."""
    sign = -1.0 if case.quantity in RATES else 1.0
    logs = {kind: sign * float(np.log(case.measured / value)) for kind, value in stored.left_out.items()}
    return Residual(case=case, traits=stored.traits, logs=logs)


def known_without(kind: str, names: Iterable[str]) -> dict[str, dict[str, MeasuredRuns]]:
    """Return by fold what the other folds of all sets show, of times and of memory."""
    rows = all_rows((*TIMES, MEMORY))
    name_of = KINDS[kind]
    return {name: measured(row for row in rows if name_of(row.case) != name) for name in names}
