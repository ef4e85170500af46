"""Say how long a pipeline takes for its micro batches: in closed form where that is exact, else event by event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.numeric import Real, any_above, is_scalar, maximum, minimum, where
from roofsim.schedule.simulation import MOST_WORK, StageTimes, simulated_makespan

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Elements of hardware arrays times pieces of work beyond which a schedule is not run for all of them.
MOST_ELEMENTS: Final = 512 * MOST_WORK
#: Largest relative difference of the closed forms from schedules run event by event, for stages of which the longest
#: takes up to 1.6 times the others (a test holds them to it): interleaved and zero-bubble with micro batches in whole rounds of
#: the stages, 1F1B with fewer micro batches than stages. Elsewhere they are exact.
LARGEST_ERROR: Final = {"interleaved": 0.13, "zero-bubble": 0.1, "1f1b": 0.15}
#: The same with fewer micro batches than stages, or a broken last round.
BROKEN_ROUNDS: Final = {"interleaved": 0.7, "zero-bubble": 0.35, "1f1b": 0.15}


def makespan(
    schedule: str, stages: Sequence[StageTimes], micro_batches: Real, virtual: Real = 1.0, latency: Real = 0.0
) -> Real:
    """Return the seconds from the first forward pass to the last backward pass of a step.

    `stages` are the kinds of stages, in the order of the pipeline; `latency` are the seconds of a message that keeps neither
    of two interleaved stages from working. Sweeps, whose numbers of stages or micro batches are
    arrays, use the closed form; so does what it is exact for. All else runs event by event.
    """
    numbers = [one.positions for one in stages]
    if is_closed_exact(schedule, numbers, micro_batches, virtual) or not is_scalar(micro_batches, virtual, *numbers):
        return closed_form(schedule, stages, micro_batches, virtual, latency)
    count, times = int(micro_batches), int(virtual)
    elements = max(np.size(one.forward) for one in stages) * min(count * sum(map(int, numbers)) * times, MOST_WORK)
    if elements > MOST_ELEMENTS or count != micro_batches:
        return closed_form(schedule, stages, micro_batches, virtual, latency)
    return simulated_makespan(schedule, stages, count, times, latency)


def is_closed_exact(schedule: str, positions: Sequence[Real], micro_batches: Real, virtual: Real) -> bool:
    """Tell whether the closed form equals the schedule run event by event, whatever the stages take.

    It does for GPipe, and for plain 1F1B with at least as many micro batches as stages.
    """
    if schedule == "gpipe":
        return True
    stages: Real = 0.0
    for number in positions:
        stages = stages + number
    return schedule != "zero-bubble" and not any_above(virtual, 1.0) and not any_above(stages, micro_batches)


def closed_form(
    schedule: str, stages: Sequence[StageTimes], micro_batches: Real, virtual: Real = 1.0, latency: Real = 0.0
) -> Real:
    """Return the seconds of a schedule without running it; see `is_closed_exact`.

    Messages that hide show once on the way through all chunks and once on the way back.
    """
    if schedule == "gpipe":
        return _one_way_and_back(stages, micro_batches)
    if schedule == "zero-bubble":
        return _paced(stages, micro_batches, [one.forward for one in stages])
    if is_scalar(virtual):
        if virtual == 1.0:
            return _alternating(stages, micro_batches)
        return _interleaved(stages, micro_batches, virtual, latency)
    spread = _interleaved(stages, micro_batches, virtual, latency)
    return where(virtual > 1.0, spread, _alternating(stages, micro_batches))


def _sum(values: Sequence[Real], stages: Sequence[StageTimes]) -> Real:
    total: Real = 0.0
    for value, one in zip(values, stages, strict=True):
        total = total + value * one.positions
    return total


def _largest(values: Sequence[Real]) -> Real:
    best = values[0]
    for value in values[1:]:
        best = maximum(best, value)
    return best


def _one_way_and_back(stages: Sequence[StageTimes], micro_batches: Real) -> Real:
    """GPipe: all micro batches flow through the stages, then all flow back; the slowest stage paces each way."""
    once = _sum([one.both for one in stages], stages)
    return once + (micro_batches - 1.0) * (
        _largest([one.forward for one in stages]) + _largest([one.backward for one in stages])
    )


def _paced(stages: Sequence[StageTimes], micro_batches: Real, waits: Sequence[Real]) -> Real:
    """One stage works without a pause; before and after it every other stage keeps it waiting once for so long.

    Interleaved: a chunk's seconds (arXiv 2104.04473, section 2.2). ZB-H1: F + B - W (arXiv 2401.10241, table 1), a
    forward pass where B and W are the halves of a backward pass.
    """
    whole = _sum(waits, stages)
    return _largest([micro_batches * one.both + whole - wait for one, wait in zip(stages, waits, strict=True)])


def _interleaved(stages: Sequence[StageTimes], micro_batches: Real, virtual: Real, latency: Real) -> Real:
    chunks = _sum([virtual for _ in stages], stages)
    return _paced(stages, micro_batches, [one.both / virtual for one in stages]) + 2.0 * latency * (chunks - 1.0)


def _alternating(stages: Sequence[StageTimes], micro_batches: Real) -> Real:
    """1F1B: the longest path through the work of all stages, for stages that differ.

    The path climbs to a stage, alternates there between forward and backward passes, and descends. On the way in it may
    go further up and come back (or pause in the warm-up of the slowest stage so far), likewise on the way out::

        max over h of  sum_{k<h} w_k + (m - n) w_h + reach_h(forward) + reach_h(backward),      n = p - 1 - h
        reach_h(x) = max over t >= h of  sum_{h<k<=t} w_k + (p - 1 - t) max_{k<=t} x_k

    With equal stages that is (m + p - 1) w. Fewer micro batches than stages: as many stages as those can fill at once.
    """
    best: Real | None = None
    for here, one in enumerate(stages):
        for first in (True, False):
            below = _sum([other.both for other in stages[:here]], stages[:here])
            rest = 0.0 if first else one.positions - 1.0
            left = one.positions - 1.0 - rest
            for other in stages[here + 1 :]:
                left = left + other.positions
            forward = _reach(stages, here, rest, left, [other.forward for other in stages])
            backward = _reach(stages, here, rest, left, [other.backward for other in stages])
            loops = maximum(micro_batches - left, 1.0)
            value = below + rest * one.both + loops * one.both + forward + backward
            best = value if best is None else maximum(best, value)
    assert best is not None
    return minimum(best, _one_way_and_back(stages, micro_batches))


def _reach(stages: Sequence[StageTimes], here: int, rest: Real, left: Real, times: Sequence[Real]) -> Real:
    """Return the longest way up from stage `rest` of kind `here`, of which `left` stages lie above, and back."""
    slowest = _largest(times[: here + 1])
    best = left * slowest
    climbed: Real = 0.0
    for kind in range(here, len(stages)):
        one = stages[kind]
        number = one.positions - 1.0 - rest if kind == here else one.positions
        slowest = maximum(slowest, times[kind])
        # Within a kind the way is linear in how far it goes: its first and its last stage decide.
        edge = minimum(number, 1.0)
        for steps in (edge, number):
            best = maximum(best, climbed + steps * one.both + (left - steps) * slowest)
        climbed, left = climbed + number * one.both, left - number
    return best
