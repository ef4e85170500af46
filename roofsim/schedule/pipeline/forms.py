"""Closed forms that several schedules share, and the order that alternates forward and backward passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roofsim.numeric import Real, maximum
from roofsim.schedule.pipeline.protocol import BACKWARD, FORWARD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from roofsim.schedule.pipeline.protocol import StageTimes, Work


def total(values: Sequence[Real], stages: Sequence[StageTimes]) -> Real:
    """Return the sum of a value of each kind of stage over all stages."""
    result: Real = 0.0
    for value, one in zip(values, stages, strict=True):
        result = result + value * one.positions
    return result


def largest(values: Sequence[Real]) -> Real:
    """Return the largest value, elementwise."""
    best = values[0]
    for value in values[1:]:
        best = maximum(best, value)
    return best


def one_way_and_back(stages: Sequence[StageTimes], micro_batches: Real) -> Real:
    """Return the seconds in which all micro batches flow through the stages, then all flow back.

    The slowest stage paces each way.
    """
    once = total([one.both for one in stages], stages)
    return once + (micro_batches - 1.0) * (
        largest([one.forward for one in stages]) + largest([one.backward for one in stages])
    )


def paced(stages: Sequence[StageTimes], micro_batches: Real, waits: Sequence[Real]) -> Real:
    """Return the seconds where one stage works without a pause, before and after which each other keeps it waiting once."""
    whole = total(waits, stages)
    return largest([micro_batches * one.both + whole - wait for one, wait in zip(stages, waits, strict=True)])


def alternating(forward: list[tuple[int, int]], backward: list[tuple[int, int]], warm: int) -> list[Work]:
    """Warm up with forward passes, then one forward, one backward, then drain (arXiv 2104.04473, figure 4).

    Passes are (micro batch, chunk).

    >>> alternating([(0, 0), (1, 0)], [(0, 0), (1, 0)], warm=1)
    [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0)]
    """
    ahead, behind = (np.array(passes, dtype=np.intp).reshape(-1, 2) for passes in (forward, backward))
    return as_order(alternated(ahead, behind, warm))


def alternated(forward: NDArray[np.intp], backward: NDArray[np.intp], warm: int) -> NDArray[np.intp]:
    """Return what `alternating` does of arrays of passes, as an array: (passes, 2) and as many -> (both, 3)."""
    count = len(forward)
    order = np.empty((2 * count, 3), dtype=np.intp)
    turns, ends = order[warm : 2 * count - warm], order[2 * count - warm :]
    for rows, kind, passes in (
        (order[:warm], FORWARD, forward[:warm]),
        (turns[::2], FORWARD, forward[warm:]),
        (turns[1::2], BACKWARD, backward[: count - warm]),
        (ends, BACKWARD, backward[count - warm :]),
    ):
        rows[:, 0], rows[:, 1:] = kind, passes
    return order


def as_order(pieces: NDArray[np.intp]) -> list[Work]:
    """Return pieces of work, (pieces, 3), one by one."""
    return [(kind, micro, chunk) for kind, micro, chunk in pieces.tolist()]
