"""Run a pipeline schedule event by event: when each stage works on each micro batch, and how long all of it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.kept import Kept
from roofsim.points import whole
from roofsim.records import dataclass
from roofsim.schedule.pipeline.plan import PipelinePlan, loops, plan
from roofsim.schedule.pipeline.protocol import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from roofsim.numeric import Array, Real
    from roofsim.schedule.pipeline.compiled_runs import WorkPieces
    from roofsim.schedule.pipeline.protocol import PipelineSchedule, StageTimes

#: Pieces of work beyond which a schedule is not run to its end: what a group of micro batches adds is then constant.
MOST_WORK: Final = 16_384
#: Rounds (as many micro batches as stages) after which it is, and over how many of them that constant is measured.
SETTLED: Final = 5
MEASURED: Final = 2
#: Pieces of work times elements of arrays that run at once: 64 MiB of seconds.
AT_ONCE: Final = 2**23
#: Columns up to which work runs piece by piece, as plain numbers: levels of long pipelines have few pieces, and calls take longer.
FEW: Final = 4
#: Width, in the logarithm of seconds, of classes of stages whose critical path is the same: wider than the steps of difference
#: quotients, much narrower than what cards differ by.
ALIKE: Final = 2.5e-4
#: How often the critical paths of the latest classes take the seconds of each kind of work.
PATHS: Final[Kept[Array]] = Kept(1024)
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
    if start is None and np.isfinite(durations).all():
        runs = loops(work_plan.size * durations.shape[1])
        if runs is not None:
            return runs.ends(_pieces(work_plan, durations), durations, delay)
        if durations.shape[1] <= FEW:
            return _ends_of_few(work_plan, durations, delay)
    own = _rows(work_plan, durations)
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


def _ends_of_few(work_plan: PipelinePlan, durations: Array, delay: Array) -> Array:
    """Return what `_ends` does of a few columns, to the last bit: the same sums, one piece of work at a time."""
    needs, before, crosses = work_plan.listed()
    own = _rows(work_plan, durations)
    end = np.zeros((work_plan.size + 1, durations.shape[1]))
    for column, message in enumerate(delay.tolist()):
        ends = [0.0] * (work_plan.size + 1)
        pieces = zip(needs, before, crosses, durations[own, column].tolist(), strict=True)
        for piece, (need, earlier, crossed, seconds) in enumerate(pieces):
            begin, free = ends[need] + crossed * message, ends[earlier]
            ends[piece] = (begin if begin > free else free) + seconds
        end[:, column] = ends
    return end


def _pieces(work_plan: PipelinePlan, durations: Array) -> WorkPieces:
    return work_plan.needs, work_plan.before, work_plan.crosses, _rows(work_plan, durations)


def _rows(work_plan: PipelinePlan, durations: Array) -> NDArray[np.intp]:
    """Return the row of each piece's seconds."""
    return work_plan.kind * (len(durations) // len(KINDS)) + work_plan.stage


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
    0.01 % of the whole in tests; a round is as many micro batches as stages); of arrays, once for elements that are alike.
    """
    number = sum(whole(one.positions) for one in stages)
    rounds, left = divmod(micro_batches, number)
    most = max(MOST_WORK // (3 * number * number * virtual), SETTLED + MEASURED)
    durations = _durations(schedule, stages, virtual)
    shape = np.broadcast_shapes(durations.shape[2:], np.shape(latency))
    columns, delay = _columns(durations, latency, shape)

    if rounds <= most:
        total = _makespans(plan(schedule, number, micro_batches, virtual), columns, delay)
    else:
        long, short = (
            _along_paths((schedule, number, first * number + left, virtual), columns, delay)
            for first in (most, most - MEASURED)
        )
        total = long + (long - short) * ((rounds - most) / MEASURED)
    return total.reshape(shape) if shape else float(total[0])


def _makespans(work_plan: PipelinePlan, columns: Array, delay: Array) -> Array:
    """Return the seconds from the first beginning to the last end, some columns at once, to bound the memory."""
    return np.concatenate([end.max(axis=0) for _, end in _parts(work_plan, columns, delay)])


def _parts(work_plan: PipelinePlan, columns: Array, delay: Array) -> Iterator[tuple[int, Array]]:
    """Yield the first of some columns, with `_ends` of these."""
    step = max(AT_ONCE // work_plan.size, 1)
    for first in range(0, columns.shape[1], step):
        yield first, _ends(work_plan, columns[:, first : first + step], delay[first : first + step])


def _along_paths(planned: tuple[PipelineSchedule, int, int, int], columns: Array, delay: Array) -> Array:
    """Return what `_makespans` does of the `plan` of these arguments, from the critical path of each column's class.

    The makespan is the longest path through the work, each a sum of seconds. What is longest in the middle of a class is so in
    all of it, unless another path is as long to within the width of the class.
    """
    seconds = np.vstack([columns, delay])
    known = seconds > 0.0
    numbers = np.round(np.log(seconds, out=np.zeros_like(seconds), where=known) / ALIKE)
    classes, first, own = np.unique(numbers, axis=1, return_index=True, return_inverse=True)
    middle = np.where(known[:, first], np.exp(classes * ALIKE), 0.0)

    def run(places: list[int]) -> Iterator[Array]:
        work_plan, chosen = plan(*planned), middle[:, places]
        for start, end in _parts(work_plan, chosen[:-1], chosen[-1]):
            yield from _paths(work_plan, end, chosen[:, start : start + end.shape[1]])

    paths = PATHS.get_all([(*planned, column.tobytes()) for column in middle.T], run)
    total: Array = (np.stack(paths, axis=1)[:, own.ravel()] * seconds).sum(axis=0)
    return total


def _paths(work_plan: PipelinePlan, end: Array, seconds: Array) -> Iterator[Array]:
    """Yield for each column how often its longest path takes the seconds of each row, of which the last are those of a message."""
    runs = loops(end.size)
    if runs is not None:
        yield from runs.paths(_pieces(work_plan, seconds[:-1]), end, seconds[-1], len(seconds) - 1)
        return
    for column in range(end.shape[1]):
        yield _times_on_path(work_plan, end[:, column], seconds[:, column])


def _times_on_path(work_plan: PipelinePlan, end: Array, seconds: Array) -> Array:
    """Return how often the longest path takes the seconds of each row, of which the last are those of a message: (rows,)."""
    delay, nothing = float(seconds[-1]), work_plan.size
    # Numbers one by one are read faster from the buffers of arrays than from arrays.
    ends, crosses = np.ascontiguousarray(end).data, work_plan.crosses.data
    needs, before = work_plan.needs.data, work_plan.before.data
    path, messages, piece = [], 0.0, int(end[:-1].argmax())
    while piece != nothing:
        path.append(piece)
        need, earlier = needs[piece], before[piece]
        if need != nothing and ends[need] + crosses[piece] * delay >= ends[earlier]:
            messages, piece = messages + crosses[piece], need
        else:
            piece = earlier
    rows = _rows(work_plan, seconds[:-1])[path]
    return np.append(np.bincount(rows, minlength=len(seconds) - 1), messages)
