"""Load the published steps of several GPUs."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from roofsim_evidence.cases import fittable, load
from roofsim_evidence.multi_gpu.notes import COMPOSED, FOREIGN, LATER

if TYPE_CHECKING:
    from roofsim.calibrate.cases import Case

#: Degrees that split a model; without them ranks only share state and batch.
SPLITS: Final = ("tensor", "pipeline", "context", "expert")


@cache
def load_multi_cases() -> tuple[Case, ...]:
    """Return all steps of several GPUs, composed ones included, in the order of the file.

    Constants may be fitted to measured ones of software that an engine describes.
    """
    return fittable(load("multi-gpu"), lambda case: case.source not in (COMPOSED, *FOREIGN, *LATER))


def measured_cases() -> list[Case]:
    """Return the steps that were measured, not composed."""
    return [case for case in load_multi_cases() if case.source != COMPOSED]


def splits_model(case: Case) -> bool:
    """Tell whether a layout splits the model itself."""
    return any(case.scenario["parallel"].get(name, 1) > 1 for name in SPLITS)
