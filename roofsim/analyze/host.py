"""Say what is offloaded, how much of it a node's host must hold, and whether it can."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roofsim.evaluate import host_path_of
from roofsim.memory.off_device import off_device_bytes
from roofsim.numeric import Real, is_scalar, maximum, minimum, real
from roofsim.spec.scenario.layout import layout_of
from roofsim.spec.scenario.offload import HOST, TIERS
from roofsim.units import humanize

if TYPE_CHECKING:
    from roofsim.evaluate import Unpriced
    from roofsim.program import Stage
    from roofsim.spec.hardware.schema import System

OffDevice = dict[str, dict[str, Real]]


def off_device_of(evaluation: Unpriced) -> OffDevice:
    """Return the bytes that one GPU has on its host and in storage, by part: of the stage that has most there."""
    by_stage = [_of_stage(stage) for stage in evaluation.program.stages]
    return max(
        by_stage,
        key=lambda off_device: sum(float(np.max(each)) for parts in off_device.values() for each in parts.values()),
    )


def _of_stage(stage: Stage) -> OffDevice:
    """Return what one stage keeps off the device, a decode at its last context."""
    parts_by_place = off_device_bytes(stage.graph, stage.in_flight)
    if not stage.averaged:
        return parts_by_place
    return {place: {part: last_of(size) for part, size in parts.items()} for place, parts in parts_by_place.items()}


def last_of(value: Real) -> Real:
    """Return a size at the last context of a decode, its last axis."""
    if isinstance(value, float):
        return value
    end = value[..., -1]
    return float(end) if np.ndim(end) == 0 else end


def on_node(evaluation: Unpriced, off_device: OffDevice, place: str = HOST) -> Real:
    """Return the bytes that all GPUs of a node have in a place: on its host, if no other is named."""
    total: Real = 0.0
    for amount in off_device.get(place, {}).values():
        total = total + amount
    ranks = layout_of(evaluation.resolved.parallel).ranks
    return total * minimum(ranks, real(evaluation.resolved.system.gpus_per_node))


def missing_off_device(evaluation: Unpriced, off_device: OffDevice) -> dict[str, Real]:
    """Return the bytes that a node lacks in each place beyond the device whose size is stated: 0 where it holds what goes there."""
    system, missing = evaluation.resolved.system, {}
    for place in off_device:
        has = _capacity(system, TIERS[place].capacity)
        if has is not None:
            missing[place] = maximum(on_node(evaluation, off_device, place) - has, 0.0)
    return missing


def host_notes(evaluation: Unpriced, off_device: OffDevice) -> list[str]:
    """Say where a place does not hold what is offloaded to it, or where nobody states how large it is."""
    notes, system = [], evaluation.resolved.system
    for place, tier in TIERS.items():
        needed, has = on_node(evaluation, off_device, place), _capacity(system, tier.capacity)
        if not is_scalar(needed) or not needed:
            continue
        shown = humanize(float(needed), "B", 3)
        if has is None:
            notes.append(
                f"system {system.name} does not state {tier.capacity}, so it is unknown whether the {shown} offloaded per node fit"
            )
        elif is_scalar(has) and float(needed) > float(has):
            named = tier.capacity.replace(".memory", " memory").replace(".capacity", "").replace("_", " ")
            notes.append(
                f"{named} of {system.name} ({humanize(float(has), 'B', 3)}) cannot hold the {shown} that are offloaded"
            )
    return notes


def _capacity(system: System, key: str) -> Real | None:
    """Return the bytes that a system states under a key; None where it does not."""
    value: Any = system
    for part in key.split("."):
        value = None if value is None else getattr(value, part)
    return None if value is None else real(value)


def ways_of(evaluation: Unpriced, off_device: OffDevice) -> dict[str, dict[str, dict[str, Real]]]:
    """Return the bytes per second that a GPU gets of each link on the way to each place, in both directions, all GPUs at work.

    Place -> ``from_host`` and ``to_host`` -> link.
    """
    path = host_path_of(evaluation.resolved)
    return {
        place: {"from_host": path.legs(place, to_host=False), "to_host": path.legs(place, to_host=True)}
        for place in off_device
    }
