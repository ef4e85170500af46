"""1F1B: a warm-up of forward passes, then forward and backward passes in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from roofsim.numeric import Real, any_above, is_scalar, maximum, minimum
from roofsim.schedule.pipeline.forms import alternated, as_order, largest, one_way_and_back, total
from roofsim.schedule.pipeline.protocol import Accuracy, PipelineSchedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from roofsim.schedule.pipeline.protocol import StageTimes, Work


class OneForwardOneBackward(PipelineSchedule):
    """One forward, one backward (PipeDream-Flush, Megatron): a stage holds as many micro batches as stages follow it."""

    name: ClassVar[str] = "1f1b"
    description: ClassVar[str] = "one forward and one backward pass in turn; with virtual stages it is interleaved"
    source: ClassVar[str] = "arXiv 2104.04473, figure 4"
    virtual_stages: ClassVar[tuple[int, int | None]] = (1, None)
    accuracy: ClassVar[Accuracy] = Accuracy(broken_rounds=0.2)

    def runs_as(self, virtual: Real) -> str:
        """Return the interleaved schedule's name where stages have several chunks."""
        return "interleaved" if any_above(virtual, 1.0) else self.name

    def order(self, stage: int, stages: int, micro_batches: int, virtual: int) -> list[Work]:
        """Return what a stage does, in order.

        >>> OneForwardOneBackward().order(0, 2, 2, 1)
        [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0)]
        """
        return as_order(OneForwardOneBackward.pieces(self, stage, stages, micro_batches, virtual))

    def pieces(self, stage: int, stages: int, micro_batches: int, virtual: int) -> NDArray[np.intp]:
        """Return `order` as an array."""
        del virtual
        passes = np.zeros((micro_batches, 2), dtype=np.intp)
        passes[:, 0] = np.arange(micro_batches)
        return alternated(passes, passes, min(stages - stage - 1, micro_batches))

    def closed_form(
        self, stages: Sequence[StageTimes], micro_batches: Real, virtual: Real = 1.0, latency: Real = 0.0
    ) -> Real:
        """Return the longest path through the work of all stages, for stages that differ.

        The path climbs to a stage, alternates there between forward and backward passes, and descends. On the way in it may
        go further up and come back (or pause in the warm-up of the slowest stage so far), likewise on the way out::

            max over h of  sum_{k<h} w_k + (m - n) w_h + reach_h(forward) + reach_h(backward),      n = p - 1 - h
            reach_h(x) = max over t >= h of  sum_{h<k<=t} w_k + (p - 1 - t) max_{k<=t} x_k

        Fewer micro batches than stages: as many stages as those can fill at once.
        """
        del virtual, latency
        best: Real | None = None
        for here, one in enumerate(stages):
            below = total([other.both for other in stages[:here]], stages[:here])
            above: Real = 0.0
            for other in stages[here + 1 :]:
                above = above + other.positions
            # Within a kind the first and the last stage decide: how many of its own stages lie below, and above.
            alone = _is(one.positions, 1.0)
            ends = [(0.0, 0.0)] if alone else [(0.0, one.positions - 1.0), (one.positions - 1.0, 0.0)]
            for rest, more in ends:
                left = more + above
                forward = _reach(stages, here, more, left, [other.forward for other in stages])
                backward = _reach(stages, here, more, left, [other.backward for other in stages])
                loops = maximum(micro_batches - left, 1.0)
                value = below + rest * one.both + loops * one.both + forward + backward
                best = value if best is None else maximum(best, value)
        assert best is not None
        return minimum(best, one_way_and_back(stages, micro_batches))

    def is_exact(self, stages: Real, micro_batches: Real, virtual: Real) -> bool:
        """Tell whether there are at least as many micro batches as stages."""
        del virtual
        return not any_above(stages, micro_batches)

    def in_flight(self, index: Real, stages: Real, virtual: Real, micro_batches: Real) -> Real:
        """Return as many as stages follow, this one included."""
        del virtual
        return minimum(stages - index, micro_batches)


def _reach(stages: Sequence[StageTimes], here: int, more: Real, left: Real, times: Sequence[Real]) -> Real:
    """Return the longest way up from a stage of kind `here`, of which `more` follow, and back; `left` stages lie above it."""
    if _is(left, 0.0):
        return 0.0
    slowest = largest(times[: here + 1])
    best = left * slowest
    climbed: Real = 0.0
    for kind in range(here, len(stages)):
        one = stages[kind]
        number = more if kind == here else one.positions
        if _is(number, 0.0):
            continue
        slowest = maximum(slowest, times[kind])
        # Within a kind the way is linear in how far it goes: its first and its last stage decide.
        for steps in (1.0,) if _is(number, 1.0) else (minimum(number, 1.0), number):
            best = maximum(best, climbed + steps * one.both + (left - steps) * slowest)
        climbed, left = climbed + number * one.both, left - number
    return best


def _is(value: Real, number: float) -> bool:
    """Tell whether a size is one number for all points, this one."""
    return is_scalar(value) and value == number
