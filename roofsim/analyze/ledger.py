"""Say what takes memory at the fullest moment: tensors, what the allocator reserves, what the device shows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from roofsim.analyze.result import Memory
from roofsim.numeric import Real, real

if TYPE_CHECKING:
    from roofsim.evaluate import Evaluation
    from roofsim.schedule.memory import MemoryProfile


def memory_of(evaluation: Evaluation) -> Memory:
    """Return the memory of the fullest moment: what tensors take, what the allocator reserves, what the device shows."""
    resolved = evaluation.resolved
    stages = evaluation.program.stages
    fullest = at_last_context(evaluation.profiles[0]) if stages[0].averaged else evaluation.profiles[0]
    for stage, other in zip(stages[1:], evaluation.profiles[1:], strict=True):
        fullest = _fuller(fullest, other, averaged=stage.averaged)
    components: dict[str, Real] = dict(fullest.components)
    transient = components["activations"] + components["temporary"] + components["gradients"]
    components["communication_buffers"] = 0.0
    components["context"] = real(resolved.architecture.context)
    components["fragmentation"] = transient * resolved.engine.reserved_overhead
    reserved = fullest.peak + components["fragmentation"]
    total: Real = 0.0
    for amount in components.values():
        total = total + amount
    return Memory(
        allocated_peak=fullest.peak,
        reserved=reserved,
        device_total=total,
        saved_activations=fullest.saved_activations,
        capacity=evaluation.device.capacity,
        components=components,
        peak_op=fullest.peak_op,
        peak_phase=fullest.peak_phase,
    )


def _fuller(first: MemoryProfile, second: MemoryProfile, *, averaged: bool) -> MemoryProfile:
    """Return the profile with the larger peak; of a decode its last context counts."""
    later = at_last_context(second) if averaged else second
    larger: Any = np.all(np.asarray(later.peak) >= np.asarray(first.peak))
    return later if larger else first


def at_last_context(given: MemoryProfile) -> MemoryProfile:
    """Return the profile of the last, longest context of a decode."""

    def last(value: Real) -> Real:
        if isinstance(value, float):
            return value
        end = value[..., -1]
        return float(end) if np.ndim(end) == 0 else end

    return replace(
        given,
        peak=last(given.peak),
        components={name: last(amount) for name, amount in given.components.items()},
        saved_activations=last(given.saved_activations),
        phase_peaks={name: last(amount) for name, amount in given.phase_peaks.items()},
    )
