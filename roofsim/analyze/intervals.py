"""Say how far a step time or a figure of memory may be off: 80 % intervals from residuals of measured runs, out of fold.

An interval is as wide as the run is unlike what was measured: `roofsim.analyze.distance` counts in what, and
hardware/constants/intervals.yaml says how much each costs at the lower and at the upper end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.distance import (
    memory_parts,
    parts_of,
    spread,
    time_amounts,
    traits_of,
    traits_of_memory,
)
from roofsim.numeric import is_scalar, maximum, where
from roofsim.spec.constants.intervals import shipped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roofsim.analyze.result import Memory
    from roofsim.evaluate import Evaluation
    from roofsim.numeric import Real
    from roofsim.spec.resolve import Resolved

#: The figures of memory that have an interval, each at least the one before.
FIGURES: Final = ("allocated_peak", "reserved", "device_total")


def interval(evaluation: Evaluation, *, crowded: Any = False) -> tuple[Any, Any]:
    """Return the 80 % interval of a step time, seconds; of several points two arrays.

    `crowded` memory may cost time that nobody can foresee.
    """
    return around(evaluation.step.step, *spread(interval_parts(evaluation, crowded=crowded)))


def interval_parts(evaluation: Evaluation, *, crowded: Any = False) -> dict[str, tuple[Any, Any]]:
    """Return how far each term alone puts the lower and the upper end of a step time, as logarithms."""
    intervals = shipped()
    counted = time_amounts(traits_of(evaluation), intervals)
    full = where(crowded, 1.0, 0.0)
    if not (isinstance(full, float) and full == 0.0):
        counted["crowded"] = full
    return parts_of(counted, intervals.ends("time"))


def around(value: Real, below: Real, above: Real) -> tuple[Any, Any]:
    """Return the ends of an interval around a value."""
    low, high = value * np.exp(-below), value * np.exp(above)
    return (low, high) if np.ndim(low) or np.ndim(high) else (float(low), float(high))


def interval_rows(parts: Mapping[str, tuple[Any, Any]]) -> list[dict[str, Any]]:
    """Return a row for each term that made the interval of a step: what, how far it puts the ends alone, and why."""
    terms = shipped().time
    rows = []
    for name, (below, above) in parts.items():
        if float(below) or float(above):
            value = f"{np.expm1(-float(below)):+.1%} .. {np.expm1(float(above)):+.1%}"
            rows.append(
                {"what": f"interval.{name}", "value": value, "source": f"{terms[name].meaning} {terms[name].source}"}
            )
    return rows


def nearly_full(memory: Memory, share: float) -> Any:
    """Tell whether a step that fits takes more than a share of the memory.

    Of the published runs of several GPUs predicted to be so full one in seven was 20 % slower than its neighbours, the
    others were not slow at all.
    """
    crowded = memory.device_total > share * memory.capacity
    return memory.fits & crowded


def memory_intervals(memory: Memory, resolved: Resolved) -> dict[str, tuple[Any, Any]]:
    """Return the 80 % intervals, in bytes, of what is allocated, reserved and shown by the device; arrays where these are.

    Neither end of a figure lies below that of what it contains: what is reserved holds what is allocated, and that the
    parameters and the cache, whose bytes are known.
    """
    traits, intervals = traits_of_memory(resolved), shipped()
    ends: dict[str, tuple[Any, Any]] = {}
    low = high = memory.components["parameters"] + memory.components["key_value_cache"]
    for name in FIGURES:
        below, above = spread(memory_parts(traits, name, intervals))
        value = getattr(memory, name)
        lower, upper = around(value, below, above)
        low, high = maximum(low, lower), maximum(high, upper)
        ends[name] = (float(low), float(high)) if is_scalar(low, high) else (low, high)
    return ends


def memory_is_measured(resolved: Resolved) -> bool:
    """Tell whether the memory of some run of this engine, in this regime, was held against its prediction."""
    known = shipped().measured.get(traits_of_memory(resolved).regime)
    return known is not None and resolved.engine.name in known.engines
