"""Say what is offloaded, how much of it a node's host must hold, and whether it can."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roofsim.memory.off_device import away_bytes
from roofsim.numeric import Real, is_scalar, minimum, real
from roofsim.spec.scenario.layout import layout_of
from roofsim.units import humanize

if TYPE_CHECKING:
    from roofsim.evaluate import Unpriced
    from roofsim.program import Stage

Away = dict[str, dict[str, Real]]


def away_of(evaluation: Unpriced) -> Away:
    """Return the bytes that one GPU has on its host and in storage, by part: of the stage that has most there."""
    by_stage = [_of_stage(stage) for stage in evaluation.program.stages]
    return max(
        by_stage, key=lambda away: sum(float(np.max(each)) for parts in away.values() for each in parts.values())
    )


def _of_stage(stage: Stage) -> Away:
    """Return what one stage has elsewhere, a decode at its last context."""
    parts_by_place = away_bytes(stage.graph, stage.in_flight)
    if not stage.averaged:
        return parts_by_place
    return {place: {part: last_of(size) for part, size in parts.items()} for place, parts in parts_by_place.items()}


def last_of(value: Real) -> Real:
    """Return a size at the last context of a decode, its last axis."""
    if isinstance(value, float):
        return value
    end = value[..., -1]
    return float(end) if np.ndim(end) == 0 else end


def on_node(evaluation: Unpriced, away: Away) -> Real:
    """Return the bytes that all GPUs of a node have on its host."""
    total: Real = 0.0
    for amount in away.get("host", {}).values():
        total = total + amount
    ranks = layout_of(evaluation.resolved.parallel).ranks
    return total * minimum(ranks, real(evaluation.resolved.system.gpus_per_node))


def host_notes(evaluation: Unpriced, away: Away) -> list[str]:
    """Say where host memory does not hold what is offloaded, or where nobody states how large it is."""
    needed, host = on_node(evaluation, away), evaluation.resolved.system.host
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
