"""Sort the work of all stages of a schedule by what waits for what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.kept import Kept, remembered
from roofsim.records import dataclass
from roofsim.schedule.pipeline.protocol import BACKWARD, FORWARD, KINDS, WEIGHTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roofsim.schedule.pipeline.compiled_runs import CompiledRuns
    from roofsim.schedule.pipeline.protocol import PipelineSchedule


@dataclass(frozen=True, kw_only=True)
class PipelinePlan:
    """The work of all stages, sorted into levels: what a level waits for is done in earlier ones.

    Attributes
    ----------
    kind, stage, micro, chunk
        Of each piece of work, level after level.
    before
        The work that the same stage did before; the number of pieces, if there is none.
    needs
        The work, of another stage as a rule, whose result it takes; the number of pieces, if there is none.
    crosses
        1 where that result comes from another stage, else 0.
    levels
        Where each level begins, and where the last one ends.
    """

    kind: NDArray[np.intp]
    stage: NDArray[np.intp]
    micro: NDArray[np.intp]
    chunk: NDArray[np.intp]
    before: NDArray[np.intp]
    needs: NDArray[np.intp]
    crosses: NDArray[np.float64]
    levels: tuple[int, ...]

    @property
    def size(self) -> int:
        """Pieces of work."""
        return len(self.kind)

    @remembered
    def listed(self) -> tuple[list[int], list[int], list[float]]:
        """Return `needs`, `before` and `crosses` as plain numbers."""
        return self.needs.tolist(), self.before.tolist(), self.crosses.tolist()

    def most_held(self, stages: int) -> list[float]:
        """Return how many micro batches of all its layers each stage holds activations of at most.

        A forward pass adds a chunk; the last part of its backward pass frees it.
        """
        last = WEIGHTS if (self.kind == WEIGHTS).any() else BACKWARD
        chunks = int(self.chunk.max()) + 1
        most = []
        for stage in range(stages):
            own = self.kind[self.stage == stage]
            change = (own == FORWARD).astype(float) - (own == last)
            most.append(float(np.cumsum(change).max()) / chunks)
        return most


#: Pieces of work of the plans that are kept, 64 bytes each.
_MOST_PIECES: Final = 2**20
PLANS: Final[Kept[PipelinePlan]] = Kept(_MOST_PIECES, lambda made: made.size)


def plan(schedule: PipelineSchedule, stages: int, micro_batches: int, virtual: int = 1) -> PipelinePlan:
    """Sort the work of all stages by what waits for what; the latest are kept.

    Raises
    ------
    ValueError
        If the order can never run: some work waits for itself.
    """
    return PLANS.get(
        (schedule, stages, micro_batches, virtual), lambda: _made(schedule, stages, micro_batches, virtual)
    )


def _made(schedule: PipelineSchedule, stages: int, micro_batches: int, virtual: int) -> PipelinePlan:
    placement = np.array(schedule.placement(stages, virtual))
    parts = len(placement)
    of_stage = [np.flatnonzero(placement == stage) for stage in range(stages)]
    # Work and results by number: (kind, micro batch, part of the model). One more stands for nothing to wait for.
    numbers = []
    for stage in range(stages):
        kind, micro, chunk = schedule.pieces(stage, stages, micro_batches, virtual).T
        numbers.append((kind * micro_batches + micro) * parts + of_stage[stage][chunk])
    needs = _needs(len(KINDS), micro_batches, parts)
    runs = loops(sum(map(len, numbers)))
    levels = _levels([each.tolist() for each in numbers], needs) if runs is None else runs.levels(numbers, needs)
    if levels is None:
        raise ValueError(f"the order of {schedule.name} on {len(numbers)} stages is stuck")
    return _sorted(numbers, needs, np.asarray(levels), micro_batches, of_stage)


def loops(pieces: int) -> CompiledRuns | None:
    """Return loops of machine code for so many more pieces of work times columns; None where Python does them."""
    from roofsim.schedule.pipeline.compiled_runs import compiled_runs  # what few commands need

    return compiled_runs(pieces)


def _needs(kinds: int, micro_batches: int, parts: int) -> NDArray[np.intp]:
    """Return the number of the result that each piece of work takes: of the neighbouring part, or of its own."""
    size = kinds * micro_batches * parts
    needs = np.arange(size).reshape(kinds, micro_batches, parts)
    forward, backward, _ = needs
    sources = np.full((kinds, micro_batches, parts), size)
    sources[FORWARD, :, 1:] = forward[:, :-1]
    sources[BACKWARD, :, :-1] = backward[:, 1:]
    sources[BACKWARD, :, -1] = forward[:, -1]
    sources[WEIGHTS] = backward
    return sources.ravel()


def _levels(numbers: list[list[int]], needs: NDArray[np.intp]) -> list[int] | None:
    """Return the level of each piece of work: one above what it waits for; -1 for what the schedule does not have.

    None where the order can never run.
    """
    need, nothing = needs.tolist(), len(needs)
    level = [-1] * nothing + [-1]
    at, free = [0] * len(numbers), [0] * len(numbers)
    left = sum(map(len, numbers))
    while left:
        before = left
        for stage, order in enumerate(numbers):
            place, ready = at[stage], free[stage]
            for work in order[place:]:
                above = level[need[work]] + 1
                if above == 0 and need[work] != nothing:
                    break
                ready = max(ready, above)
                level[work] = ready
                ready += 1
                place += 1
            left -= place - at[stage]
            at[stage], free[stage] = place, ready
        if left == before:
            return None
    return level


def _sorted(
    numbers: list[NDArray[np.intp]],
    needs: NDArray[np.intp],
    levels: NDArray[np.int64],
    micro_batches: int,
    of_stage: list[NDArray[np.intp]],
) -> PipelinePlan:
    nothing, parts = len(needs), sum(map(len, of_stage))
    stages, chunks = np.zeros(parts, dtype=np.intp), np.zeros(parts, dtype=np.intp)
    for owner, own in enumerate(of_stage):
        stages[own], chunks[own] = owner, np.arange(len(own))
    before = np.full(nothing, nothing)
    for order in numbers:
        before[order[1:]] = order[:-1]
    heights = levels[:-1]
    work = np.concatenate(numbers)
    work = work[np.argsort(heights[work], kind="stable")]
    place = np.full(nothing + 1, len(work))
    place[work] = np.arange(len(work))
    kind, rest = np.divmod(work, micro_batches * parts)
    micro, part = np.divmod(rest, parts)
    stage = stages[part]
    taken = needs[work]
    starts = np.flatnonzero(np.diff(heights[work], prepend=-1))
    return PipelinePlan(
        kind=kind,
        stage=stage,
        micro=micro,
        chunk=chunks[part],
        before=place[before[work]],
        needs=place[taken],
        crosses=np.where(taken == nothing, 0.0, (stages[taken % parts] != stage).astype(np.float64)),
        levels=(*starts.tolist(), len(work)),
    )
