"""How far latencies of requests lie apart: a few values with their chances, and waits of random length beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.numeric import Array

#: Values that stand for many: as many evenly spaced shares, and some of the rarest.
_SHARES: Final = 160
_RAREST: Final = (1e-4, 3e-4, 1e-3, 2e-3)
#: Halvings in which a percentile is found: to a millionth of the longest.
_HALVINGS: Final = 36
#: Mean waits beyond the longest value up to which a percentile is sought.
_FAR: Final = 40.0
#: Two mean waits that differ by less are taken as different by so much: their sum's formula divides by the difference.
_APART: Final = 1e-4


@dataclass(frozen=True, kw_only=True)
class LatencySpread:
    """Seconds of one kind of latency over requests.

    Attributes
    ----------
    seconds, weights
        Values, rising, and their chances, which sum to 1.
    travel
        Mean of a wait that every request has beside them: exponential.
    waiting, wait
        Share of the requests that wait for room as well, and their mean wait: exponential.
    """

    seconds: Array
    weights: Array
    travel: float = 0.0
    waiting: float = 0.0
    wait: float = 0.0

    @classmethod
    def of(cls, seconds: Array, weights: Array) -> LatencySpread:
        """Return the spread of many values, with few that stand for them."""
        order = np.argsort(seconds, kind="stable")
        values, chances = seconds[order], weights[order] / weights.sum()
        if len(values) <= _SHARES:
            return cls(seconds=values, weights=chances)
        middles = np.cumsum(chances) - 0.5 * chances
        even = (np.arange(_SHARES) + 0.5) / _SHARES
        shares = np.unique(np.concatenate([even, 1.0 - np.array(_RAREST)]))
        edges = np.concatenate([[0.0], 0.5 * (shares[1:] + shares[:-1]), [1.0]])
        return cls(seconds=np.interp(shares, middles, values), weights=np.diff(edges))

    @property
    def mean(self) -> float:
        """Mean over requests."""
        return float(self.seconds @ self.weights) + self.travel + self.waiting * self.wait

    @property
    def _middles(self) -> Array:
        """The share of the requests up to the middle of each value's."""
        middles: Array = np.cumsum(self.weights) - 0.5 * self.weights
        return middles

    def around(self, least: float, mean: float) -> LatencySpread:
        """Return values whose distances from the `least` are scaled so that their mean, without waits, is this one."""
        own = float(self.seconds @ self.weights) - least
        if own <= 0.0 or mean <= least:
            return replace(self, seconds=np.full_like(self.seconds, mean))
        return replace(self, seconds=least + (self.seconds - least) * ((mean - least) / own))

    def within(self, bound: float) -> float:
        """Return the share of the requests that take no longer than a bound."""
        if self.travel <= 0.0 and self.waiting <= 0.0:
            return float(np.interp(bound, self.seconds, self._middles, left=0.0, right=1.0))
        left = bound - self.seconds
        own = _done(left, self.travel, 0.0)
        if self.waiting > 0.0:
            own = (1.0 - self.waiting) * own + self.waiting * _done(left, self.travel, self.wait)
        return float(self.weights @ own)

    def percentile(self, percent: float) -> float:
        """Return the seconds that so many percent of the requests do not exceed."""
        if self.travel <= 0.0 and self.waiting <= 0.0:
            return float(np.interp(percent / 100.0, self._middles, self.seconds))
        low, high = 0.0, float(self.seconds[-1]) + _FAR * (self.travel + self.wait)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.within(middle) < percent / 100.0 else (low, middle)
        return high


def _done(left: Array, one: float, other: float) -> Array:
    """Return the chances that the sum of two exponential waits is over in the seconds left; a mean of 0 is no wait."""
    if one <= 0.0 and other <= 0.0:
        return np.where(left >= 0.0, 1.0, 0.0)
    after = np.maximum(left, 0.0)
    if one <= 0.0 or other <= 0.0:
        return -np.expm1(-after / max(one, other))
    if abs(one - other) < _APART * one:
        other = one * (1.0 + _APART)
    return 1.0 - (one * np.exp(-after / one) - other * np.exp(-after / other)) / (one - other)
