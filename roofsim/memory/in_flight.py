"""Add to a stage's memory what it holds of the micro batches that are under way beside the one it works on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roofsim.numeric import Real, is_scalar, maximum, where
from roofsim.points import of_first
from roofsim.records import replace

if TYPE_CHECKING:
    from roofsim.memory.profile import MemoryProfile

#: Phases that run while other micro batches wait for their backward pass.
BESIDE = ("forward", "backward", "recompute")


def with_micro_batches(profile: MemoryProfile, held: Real) -> MemoryProfile:
    """Return the profile of a stage that holds the activations of `held` micro batches (at least one).

    While it works on one, the others have what their forward pass saved; the update runs when all are done.
    """
    if isinstance(held, float) and held <= 1.0:
        return profile
    waiting = waiting_bytes(profile, held)
    live = {
        phase: parts | {"activations": parts["activations"] + waiting} if phase in BESIDE else parts
        for phase, parts in profile.phase_live.items()
    }
    peaks = {phase: peak + waiting if phase in BESIDE else peak for phase, peak in profile.phase_peaks.items()}
    peak, components, fullest = _largest(peaks, live)
    curve = [
        (
            op,
            phase,
            parts | {"activations": parts["activations"] + float(np.ravel(waiting)[0])} if phase in BESIDE else parts,
        )
        for op, phase, parts in profile.curve
    ]
    return replace(
        profile,
        peak=peak,
        components=components,
        peak_phase=fullest,
        peak_op=profile.phase_ops[fullest],
        phase_peaks=peaks,
        loss_peak=profile.loss_peak + waiting,
        phase_live=live,
        curve=curve,
    )


def waiting_bytes(profile: MemoryProfile, held: Real) -> Real:
    """Return the bytes of the micro batches that wait for their backward pass: what the forward pass of each saved."""
    return (maximum(held, 1.0) - 1.0) * (profile.forward_end["activations"] - profile.weight_copies)


def _largest(peaks: dict[str, Real], live: dict[str, dict[str, Real]]) -> tuple[Real, dict[str, Real], str]:
    """Return the largest peak, its parts, and its phase (of the first element, for arrays)."""
    names = list(peaks)
    best, parts, fullest = peaks[names[0]], live[names[0]], names[0]
    for name in names[1:]:
        higher: Any = peaks[name] > best
        if of_first(higher):
            fullest = name
        if is_scalar(peaks[name], best):
            best, parts = (peaks[name], live[name]) if higher else (best, parts)
        else:
            parts = {key: where(higher, live[name][key], amount) for key, amount in parts.items()}
            best = maximum(best, peaks[name])
    return best, parts, fullest
