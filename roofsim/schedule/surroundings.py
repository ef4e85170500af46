"""Add to a step what ranks wait for one another when they are not alike, and for samples that are not there yet."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from roofsim.numeric import Real, is_none, maximum, smooth_shares, where
from roofsim.points import like
from roofsim.records import replace

if TYPE_CHECKING:
    from roofsim.cost.host.feed import Feed
    from roofsim.schedule.step import StepTime

#: Where the distribution of the largest of many is integrated, in standard deviations, and in how many pieces.
_REACH: Final = 10.0
_PIECES: Final = 2000


@cache
def _normal() -> tuple[Any, Any]:
    """Return points and the normal distribution at them."""
    at = np.linspace(-_REACH, _REACH, _PIECES + 1)
    below = np.array([0.5 * math.erfc(-x / math.sqrt(2.0)) for x in at])
    return at, below


@cache
def _largest_of(ranks: float) -> float:
    at, below = _normal()
    # E[max] = integral over x > 0 of 1 - P(x)^n, less that over x < 0 of P(x)^n.
    inner = np.where(at >= 0.0, 1.0 - below**ranks, -(below**ranks))
    width = float(at[1] - at[0])
    # The trapezoid left of zero ends at the right branch, which is larger by one.
    return float(np.sum((inner[1:] + inner[:-1]) / 2.0)) * width - width / 2.0


def largest_of(ranks: Real) -> Real:
    """Return the expected largest of so many independent standard normal numbers.

    >>> round(largest_of(2.0), 3), round(largest_of(1000.0), 2)
    (0.564, 3.24)
    """
    if isinstance(ranks, float):
        return 0.0 if ranks <= 1.0 else _largest_of(ranks)
    values, back = np.unique(ranks, return_inverse=True)
    largest: Real = np.array([largest_of(float(value)) for value in values])[back].reshape(np.shape(ranks))
    return cast("Real", like(largest, ranks))


def with_stragglers(step: StepTime, ranks: Real, jitter: float, chips: float) -> StepTime:
    """Return the step that waits for the slowest of ranks that run in step.

    Two things scatter, independent and normal: the time of a whole step, by `jitter` (a share of it), and the speed of chips at
    arithmetic, by `chips` (0: they count as alike). The wait is ``largest_of(ranks)`` times the deviation of both.
    It counts as bubble: no link and no kernel that is faster shortens it.
    """
    if is_none(ranks - 1.0) or jitter == chips == 0.0:
        return step
    waits = (((step.step * jitter) ** 2 + (step.breakdown["compute"] * chips) ** 2) ** 0.5) * largest_of(ranks)
    bubble = step.breakdown["bubble"] + waits
    resources = step.resources | {"bubble": step.resources.get("bubble", 0.0) + waits}
    return replace(
        step,
        step=step.step + waits,
        breakdown=step.breakdown | {"bubble": bubble},
        resources=resources,
        waits=step.waits | {"stragglers": waits},
    )


def with_feed(step: StepTime, feed: Feed, corner: float) -> StepTime:
    """Return the step that waits for its samples: as long as the slower of the two, with a soft corner of an exponent.

    Samples are prepared while earlier ones are computed on, so that only what takes longer than the step shows.
    """
    pace = feed.pace
    total, share = smooth_shares(step.step, pace, corner)
    waits = total - step.step
    own = total * share / step.step
    resources = {name: value * own for name, value in step.resources.items()}
    left = total * (1.0 - share)
    storage = where(feed.storage >= pace, 1.0, 0.0)
    compute = where(feed.host_compute >= pace, 1.0, 0.0) * (1.0 - storage)
    parts = {"storage": storage, "host_compute": compute, "host_link": 1.0 - storage - compute}
    for name, part in parts.items():
        resources[name] = resources.get(name, 0.0) + left * part
    breakdown = step.breakdown | {"input": step.breakdown["input"] + maximum(waits, 0.0)}
    return replace(
        step, step=total, breakdown=breakdown, resources=resources, waits=step.waits | {"input": maximum(waits, 0.0)}
    )
