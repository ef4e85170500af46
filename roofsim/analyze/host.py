"""Say what is offloaded, how much of it a node's host must hold, and whether it can."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roofsim.memory.off_device import off_device_bytes
from roofsim.numeric import Real, is_scalar, minimum, real
from roofsim.spec.scenario.layout import layout_of
from roofsim.units import humanize

if TYPE_CHECKING:
    from roofsim.evaluate import Unpriced
    from roofsim.program import Stage

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


def on_node(evaluation: Unpriced, off_device: OffDevice) -> Real:
    """Return the bytes that all GPUs of a node have on its host."""
    total: Real = 0.0
    for amount in off_device.get("host", {}).values():
        total = total + amount
    ranks = layout_of(evaluation.resolved.parallel).ranks
    return total * minimum(ranks, real(evaluation.resolved.system.gpus_per_node))


def host_notes(evaluation: Unpriced, off_device: OffDevice) -> list[str]:
    """Say where host memory does not hold what is offloaded, or where nobody states how large it is."""
    needed, host = on_node(evaluation, off_device), evaluation.resolved.system.host
    if not is_scalar(needed) or not needed:
        return []
    name, shown = evaluation.resolved.system.name, humanize(float(needed), "B", 3)
    if host.memory is None:
        return [
            f"system {name} does not state host.memory, so it is unknown whether the {shown} offloaded per node fit"
        ]
    if float(needed) > float(host.memory):
        return [
            f"host memory of {name} ({humanize(float(host.memory), 'B', 3)}) cannot hold the {shown} that are offloaded"
        ]
    return []
