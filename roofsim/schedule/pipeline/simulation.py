"""Run a pipeline schedule event by event: when each stage works on each micro batch, and how long all of it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.points import whole
from roofsim.records import dataclass
from roofsim.schedule.pipeline.plan import PipelinePlan, plan
from roofsim.schedule.pipeline.protocol import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.numeric import Array, Real
    from roofsim.schedule.pipeline.protocol import PipelineSchedule, StageTimes

#: Pieces of work beyond which a schedule is not run to its end: what a group of micro batches adds is then constant.
MOST_WORK: Final = 16_384
#: Rounds (as many micro batches as stages) after which it is, and over how many of them that constant is measured.
SETTLED: Final = 5
MEASURED: Final = 2
#: Pieces of work times elements of arrays that run at once: 64 MiB of seconds.
AT_ONCE: Final = 2**23
#: Share of a backward pass that is gradients of weights: as many FLOPs as those of inputs, where a schedule parts them.
WEIGHT_SHARE: Final = 0.5


@dataclass(frozen=True, kw_only=True)
class Timed:
    """A schedule that has run.

    Attributes
    ----------
    plan
        The work, in levels.
    start, end
        Seconds at which each piece begins and ends: (pieces,), or (pieces, ...) for arrays of times.
    """

    plan: PipelinePlan
    start: Any
    end: Any

    @property
    def makespan(self) -> Real:
        """Seconds from the first beginning to the last end."""
        total = self.end.max(axis=0)
        return float(total) if total.ndim == 0 else total

    def last_end(self, stage: int) -> float:
        """Return when a stage is done."""
        return float(self.end[self.plan.stage == stage].max())

    def busy(self, stage: int) -> float:
        """Return the seconds in which a stage works."""
        own = self.plan.stage == stage
        return float((self.end[own] - self.start[own]).sum())


def simulate(
    schedule: PipelineSchedule, stages: Sequence[StageTimes], micro_batches: int, virtual: int = 1, latency: Real = 0.0
) -> Timed:
    """Run a schedule: each stage in its order, each piece of work as soon as what it needs is there.

    Parameters
    ----------
    stages
        One entry a kind of stage, in the order of the pipeline. Seconds may be arrays.
    virtual
        Chunks that each stage's layers are cut into; a chunk takes that share of the stage's seconds.
    latency
        Seconds that a result takes to the next stage while neither of the two is busy with it.
    """
    durations = _durations(schedule, stages, virtual)
    work_plan = plan(schedule, durations.shape[1], micro_batches, virtual)
    shape = np.broadcast_shapes(durations.shape[2:], np.shape(latency))
    columns, delay = _columns(durations, latency, shape)
    start = np.zeros((work_plan.size, columns.shape[1]))
    end = _ends(work_plan, columns, delay, start)
    return Timed(plan=work_plan, start=start.reshape(-1, *shape), end=end[:-1].reshape(-1, *shape))


def _columns(durations: Any, latency: Real, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Return the seconds of work by number of kind and stage, and those of messages: a column for each element of arrays."""
    spread = np.broadcast_to(durations, (*durations.shape[:2], *shape))
    return spread.reshape(durations.shape[0] * durations.shape[1], -1), np.broadcast_to(latency, shape).ravel()


def _ends(work_plan: PipelinePlan, durations: Array, delay: Array, start: Array | None = None) -> Array:
    """Return when each piece of work ends, level after level; one row more, of zeros, for nothing to wait for.

    Parameters
    ----------
    durations
        Seconds by kind and stage: (kinds * stages, columns).
    delay
        Seconds of a message: (columns,).
    start
        Filled with when each begins, if given.
    """
    own = work_plan.kind * (len(durations) // len(KINDS)) + work_plan.stage
    end, waits = np.zeros((work_plan.size + 1, durations.shape[1])), bool(delay.any())
    for first, stop in zip(work_plan.levels, work_plan.levels[1:], strict=False):
        begin = end.take(work_plan.needs[first:stop], axis=0)
        if waits:
            begin += np.multiply.outer(work_plan.crosses[first:stop], delay)
        np.maximum(begin, end.take(work_plan.before[first:stop], axis=0), out=begin)
        if start is not None:
            start[first:stop] = begin
        np.add(begin, durations.take(own[first:stop], axis=0), out=end[first:stop])
    return end


def _durations(schedule: PipelineSchedule, stages: Sequence[StageTimes], virtual: int) -> Any:
    """Return the seconds of each kind of work on each stage: (kinds, stages, ...)."""
    share = WEIGHT_SHARE if schedule.splits_backward else 0.0
    shape = np.broadcast_shapes(*(np.shape(one.both) for one in stages))
    columns = []
    for one in stages:
        weights = one.backward * share
        rows = (one.forward / virtual, (one.backward - weights) / virtual, weights / virtual)
        columns += [np.stack([np.broadcast_to(row, shape) for row in rows])] * whole(one.positions)
    return np.stack(columns, axis=1)


def simulated_makespan(
    schedule: PipelineSchedule, stages: Sequence[StageTimes], micro_batches: int, virtual: int = 1, latency: Real = 0.0
) -> Real:
    """Return the seconds of all micro batches.

    Of very long schedules the beginning is run, and each further round takes what the last of it took on average (within
    0.01 % of the whole in tests; a round is as many micro batches as stages).
    """
    number = sum(whole(one.positions) for one in stages)
    rounds, left = divmod(micro_batches, number)
    most = max(MOST_WORK // (3 * number * number * virtual), SETTLED + MEASURED)
    durations = _durations(schedule, stages, virtual)

    def seconds(passes: int) -> Real:
        return _makespan(plan(schedule, number, passes, virtual), durations, latency)

    if rounds <= most:
        return seconds(micro_batches)
    long, short = seconds(most * number + left), seconds((most - MEASURED) * number + left)
    return long + (long - short) * ((rounds - most) / MEASURED)


def _makespan(work_plan: PipelinePlan, durations: Any, latency: Real) -> Real:
    """Return the seconds from the first beginning to the last end; of arrays, some elements at once, to bound the memory."""
    shape = np.broadcast_shapes(durations.shape[2:], np.shape(latency))
    columns, delay = _columns(durations, latency, shape)
    step = max(AT_ONCE // work_plan.size, 1)
    totals = [
        _ends(work_plan, columns[:, first : first + step], delay[first : first + step]).max(axis=0)
        for first in range(0, columns.shape[1], step)
    ]
    total: Array = np.concatenate(totals).reshape(shape)
    return float(total) if total.ndim == 0 else total
