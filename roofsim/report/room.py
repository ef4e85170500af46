"""Say whether memory is enough, on the device and beyond it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.analyze.verdicts import missing_there
from roofsim.report import words

if TYPE_CHECKING:
    from roofsim.analyze.result import Memory


def room(memory: Memory) -> str:
    """Say whether a peak fits, what is left or missing, and how likely it fits where the interval holds the capacity."""
    said = room_of(memory.verdict, float(memory.device_total), float(memory.capacity), memory.fit_probability)
    elsewhere = missing_there(memory.missing_off_device)
    if not elsewhere:
        return said
    lacks = memory.device_total > memory.capacity
    return f"{said}, and {elsewhere}" if lacks else f"does NOT fit, {elsewhere}"


def with_room(memory: Memory) -> str:
    """Return whose times and rates are given of what does not fit."""
    return f"a {'GPU' if memory.device_total > memory.capacity else 'node'} with enough memory"


def room_of(verdict: str, peak: float, capacity: float, probability: float | None) -> str:
    """Say the same of plain figures; bytes."""
    amount = f"{words.gibibytes(abs(capacity - peak))} {'left' if capacity >= peak else 'missing'}"
    if verdict == "does_not_fit":
        return f"does NOT fit, {amount}"
    return f"{verdict}, {amount}{words.chance(verdict, probability)}"
