"""Run a pipeline schedule event by event: when each stage works on each micro batch, and how long all of it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.points import whole
from roofsim.records import dataclass
from roofsim.schedule.pipeline.plan import Plan, plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.numeric import Real
    from roofsim.schedule.pipeline.protocol import PipelineSchedule, StageTimes

#: Pieces of work beyond which a schedule is not run to its end: what a group of micro batches adds is then constant.
MOST_WORK: Final = 16_384
#: Rounds (as many micro batches as stages) after which it is, and over how many of them that constant is measured.
SETTLED: Final = 5
MEASURED: Final = 2
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

    plan: Plan
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
    found = plan(schedule, durations.shape[1], micro_batches, virtual)
    lasts = durations[found.kind, found.stage]
    shape = np.broadcast_shapes(durations.shape[2:], np.shape(latency))
    delay = np.multiply.outer(found.crosses, np.broadcast_to(latency, shape))
    start, end = np.zeros((found.size, *shape)), np.zeros((found.size + 1, *shape))
    for first, stop in zip(found.levels, found.levels[1:], strict=False):
        begin = np.maximum(end[found.before[first:stop]], end[found.needs[first:stop]] + delay[first:stop])
        start[first:stop] = begin
        np.add(begin, lasts[first:stop], out=end[first:stop])
    return Timed(plan=found, start=start, end=end[:-1])


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
    if rounds <= most:
        return simulate(schedule, stages, micro_batches, virtual, latency).makespan
    long = simulate(schedule, stages, most * number + left, virtual, latency).makespan
    short = simulate(schedule, stages, (most - MEASURED) * number + left, virtual, latency).makespan
    return long + (long - short) * ((rounds - most) / MEASURED)
