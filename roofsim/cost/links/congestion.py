"""Say how much longer the slowest of many alike things takes than their mean: ranks, and links that flows are hashed over."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from roofsim.points import like

if TYPE_CHECKING:
    from roofsim.numeric import Real

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


def crowding(links: Real, flows: float | None) -> Real:
    """Return the time of traffic that is hashed over links, against traffic that is spread evenly.

    Each of `links` carries `flows` on average, equal and independent: their number scatters by its root (Poisson), and a ring
    waits for the link with the most (docs/mechanisms/collectives.md). None: packets are spread, and links carry the same.

    >>> crowding(64.0, None), crowding(1.0, 16.0), round(crowding(64.0, 256.0), 3)
    (1.0, 1.0, 1.146)
    """
    if flows is None:
        return 1.0
    slower: Real = 1.0 + largest_of(links) / flows**0.5
    return slower
