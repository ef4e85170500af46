"""Add up the memory of several networks that run one after the other and all stay loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.records import replace

if TYPE_CHECKING:
    from roofsim.memory.profile import MemoryProfile
    from roofsim.numeric import Real


def beside_networks(profiles: tuple[MemoryProfile, ...], idle: Real) -> tuple[MemoryProfile, ...]:
    """Return the profile of each network with the parameters of the others, and `idle` bytes that none of them uses."""
    total: Real = idle
    for profile in profiles:
        total = total + profile.components["parameters"]
    return tuple(_with_parameters(profile, total) for profile in profiles)


def _with_parameters(profile: MemoryProfile, total: Real) -> MemoryProfile:
    more = total - profile.components["parameters"]
    return replace(
        profile,
        peak=profile.peak + more,
        components={**profile.components, "parameters": total},
        phase_peaks={name: amount + more for name, amount in profile.phase_peaks.items()},
    )
