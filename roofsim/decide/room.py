"""Refuse to advise on what does not run for want of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.analyze.verdicts import DOES_NOT_FIT, missing_there
from roofsim.errors import Problem, SpecError
from roofsim.units import binary_bytes

if TYPE_CHECKING:
    from roofsim.analyze.result import Memory
    from roofsim.evaluate import Evaluation


def must_fit(evaluation: Evaluation, memory: Memory) -> None:
    """Pass over what fits, or may.

    Raises
    ------
    SpecError
        For a scenario that does not fit in memory.
    """
    if memory.verdict != DOES_NOT_FIT:
        return
    resolved = evaluation.resolved
    where = f"{resolved.model.name} does not fit on {int(resolved.gpus)} x {resolved.gpu.name}"
    hint = "`roofsim fit`, of the same scenario, lists what makes it fit."
    raise SpecError(Problem(f"{where}: {shortfall(memory)}", hint=hint))


def shortfall(memory: Memory) -> str:
    """Say what is needed of what there is, and what is missing."""
    elsewhere = missing_there(memory.missing_off_device)
    if memory.device_total <= memory.capacity and elsewhere:
        return elsewhere
    taken, capacity = float(memory.device_total), float(memory.capacity)
    said = f"{binary_bytes(taken)} of {binary_bytes(capacity)}, {binary_bytes(taken - capacity)} missing"
    return f"{said}, and {elsewhere}" if elsewhere else said
