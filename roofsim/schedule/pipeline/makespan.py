"""Say how long a pipeline takes for its micro batches: in closed form where that is exact, else event by event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.numeric import Real, is_scalar
from roofsim.schedule.pipeline.simulation import MOST_WORK, simulated_makespan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.schedule.pipeline.protocol import PipelineSchedule, StageTimes

#: Elements of hardware arrays times pieces of work beyond which a schedule is not run for all of them.
MOST_ELEMENTS: Final = 512 * MOST_WORK


def makespan(
    schedule: PipelineSchedule,
    stages: Sequence[StageTimes],
    micro_batches: Real,
    virtual: Real = 1.0,
    latency: Real = 0.0,
) -> Real:
    """Return the seconds from the first forward pass to the last backward pass of a step.

    `stages` are the kinds of stages, in the order of the pipeline; `latency` are the seconds of a message that keeps neither
    of two interleaved stages from working. Sweeps, whose numbers of stages or micro batches are
    arrays, use the closed form; so does what it is exact for. All else runs event by event.
    """
    schedule = schedule.with_virtual_stages(virtual)
    numbers = [one.positions for one in stages]
    if schedule.is_exact(stages_of(stages), micro_batches, virtual) or not is_scalar(micro_batches, virtual, *numbers):
        return closed_form(schedule, stages, micro_batches, virtual, latency)
    count, times = int(micro_batches), int(virtual)
    elements = max(np.size(one.forward) for one in stages) * min(count * sum(map(int, numbers)) * times, MOST_WORK)
    if elements > MOST_ELEMENTS or count != micro_batches:
        return closed_form(schedule, stages, micro_batches, virtual, latency)
    return simulated_makespan(schedule, stages, count, times, latency)


def closed_form(
    schedule: PipelineSchedule,
    stages: Sequence[StageTimes],
    micro_batches: Real,
    virtual: Real = 1.0,
    latency: Real = 0.0,
) -> Real:
    """Return the seconds of a schedule without running it; see `PipelineSchedule.is_exact`."""
    return schedule.with_virtual_stages(virtual).closed_form(stages, micro_batches, virtual, latency)


def stages_of(stages: Sequence[StageTimes]) -> Real:
    """Return the number of stages of all kinds."""
    number: Real = 0.0
    for one in stages:
        number = number + one.positions
    return number
