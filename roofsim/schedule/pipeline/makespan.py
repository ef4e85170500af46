"""Say how long a pipeline takes for its micro batches: in closed form where that is exact, else event by event."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.numeric import Real, is_scalar
from roofsim.points import Points, points, whole
from roofsim.records import replace
from roofsim.schedule.pipeline.protocol import StageTimes
from roofsim.schedule.pipeline.simulation import MOST_WORK, simulated_makespan
from roofsim.traced.points import as_array, noted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.schedule.pipeline.protocol import PipelineSchedule

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
    of two interleaved stages from working. Where the closed form is exact it is used; all else runs event by event, points with
    the same numbers of stages and micro batches together.
    """
    numbers = [one.positions for one in stages]
    if schedule.is_exact(stages_of(stages), micro_batches, virtual) or (
        is_scalar(micro_batches) and micro_batches % 1.0
    ):
        return closed_form(schedule, stages, micro_batches, virtual, latency)
    if any(isinstance(number, Points) for number in (*numbers, micro_batches, virtual)):
        forward, backward = (tuple(getattr(one, way) for one in stages) for way in ("forward", "backward"))
        each: Real = _of_each(schedule, forward, backward, tuple(numbers), micro_batches, virtual, latency)
        return each if isinstance(each, Points) else points(each)
    count, times = whole(micro_batches), whole(virtual)
    work = min(count * sum(map(whole, numbers)) * times, MOST_WORK)
    shape = np.broadcast_shapes(np.shape(latency), *(np.shape(one.both) for one in stages))
    pieces = -(-int(np.prod(shape)) * work // MOST_ELEMENTS)
    if pieces <= 1 or not shape:
        return simulated_makespan(schedule, stages, count, times, latency)
    # The last axis, that of points, a few at a time.
    parts = [
        simulated_makespan(
            schedule, _part(stages, shape, places), count, times, np.broadcast_to(latency, shape)[..., places]
        )
        for places in np.array_split(np.arange(shape[-1]), pieces)
        if places.size
    ]
    return np.concatenate(parts, axis=-1)


@noted
def _of_each(
    schedule: PipelineSchedule,
    forward: tuple[Any, ...],
    backward: tuple[Any, ...],
    positions: tuple[Any, ...],
    micro_batches: Any,
    virtual: Any,
    latency: Any,
) -> Any:
    """Return the seconds of each of many points, those of the same numbers of stages and micro batches together.

    NaN where no pipeline has these numbers.
    """
    kinds = len(positions)
    columns = np.stack(np.broadcast_arrays(*positions, micro_batches, virtual, *forward, *backward, latency))
    numbers, seconds = columns[: kinds + 2], columns[kinds + 2 :]
    distinct, place = np.unique(numbers, axis=1, return_inverse=True)
    total = np.full(columns.shape[1], np.nan)
    for each, own in enumerate(distinct.T.tolist()):
        if not all(number >= 1.0 and number == int(number) for number in own):
            continue
        here = np.flatnonzero(place.ravel() == each)
        some = seconds[:, here]
        times = [
            StageTimes(forward=some[kind], backward=some[kinds + kind], positions=own[kind]) for kind in range(kinds)
        ]
        with suppress(ValueError):  # numbers that no pipeline has, of points that belong to no trace
            total[here] = makespan(schedule, times, own[kinds], own[kinds + 1], some[-1])
    return total


def _part(stages: Sequence[StageTimes], shape: tuple[int, ...], places: Any) -> list[StageTimes]:
    def chosen(value: Real) -> Any:
        return np.broadcast_to(as_array(value), shape)[..., places]

    return [replace(one, forward=chosen(one.forward), backward=chosen(one.backward)) for one in stages]


def closed_form(
    schedule: PipelineSchedule,
    stages: Sequence[StageTimes],
    micro_batches: Real,
    virtual: Real = 1.0,
    latency: Real = 0.0,
) -> Real:
    """Return the seconds of a schedule without running it; see `PipelineSchedule.is_exact`."""
    return schedule.closed_form(stages, micro_batches, virtual, latency)


def stages_of(stages: Sequence[StageTimes]) -> Real:
    """Return the number of stages of all kinds."""
    number: Real = 0.0
    for one in stages:
        number = number + one.positions
    return number
