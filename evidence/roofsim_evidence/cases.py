"""Load the published measurements, and mark those that fits may use."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from roofsim.calibrate.cases import Case, read_cases
from roofsim.records import replace
from roofsim_evidence.places import measurements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@cache
def load(name: str) -> tuple[Case, ...]:
    """Return the cases of ``evidence/measurements/NAME.jsonl``, in the order of the file; none of them may be fitted yet."""
    return read_cases(measurements() / f"{name}.jsonl")


def fittable(cases: Iterable[Case], may: Callable[[Case], bool] = lambda _: True) -> tuple[Case, ...]:
    """Return the cases, those that constants may be fitted to marked: all, or those that `may` says.

    That a row was fitted is no reason to leave it out of scores, for scores are out of fold (`roofsim_evidence.folds`).
    """
    return tuple(replace(case, fits=may(case)) for case in cases)
