"""Find the largest whole number that fits, with a certificate: it fits, and the next one does not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The largest value whose memory is within the capacity, and what the next one would take.

    Attributes
    ----------
    value
        None: not even the smallest fits.
    next
        The value after it, which does not fit; None: all up to `limit` fit.
    tried
        How many values were evaluated.
    """

    value: int | None
    memory: float | None
    next: int | None
    next_memory: float | None
    capacity: float
    step: int
    limit: int
    tried: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return dict(self.__dict__)


def largest(
    memory: Callable[[int], float], capacity: float, *, step: int = 1, lowest: int = 1, limit: int
) -> Certificate:
    """Return the largest multiple of `step`, from `lowest` to `limit`, whose memory is within the capacity.

    Memory may only grow with the value. Memory is near a line in batches and lengths, so that the next value to try is
    where a line through the last two crosses the capacity; where that gains less than halving would, it halves.

    Examples
    --------
    >>> certificate = largest(lambda batch: 10.0 + 3.0 * batch, 100.0, limit=1000)
    >>> certificate.value, certificate.memory, certificate.next, certificate.next_memory
    (30, 100.0, 31, 103.0)
    """
    first = max(-(-lowest // step), 1)
    return _Bisection(memory, capacity, step, first, max(limit // step, first)).run()


class _Bisection:
    """Counts in steps: `low` fits, `high` does not."""

    def __init__(self, memory: Callable[[int], float], capacity: float, step: int, first: int, most: int) -> None:
        self.memory = memory
        self.capacity = capacity
        self.step = step
        self.first = first
        self.most = most
        self.known: dict[int, float] = {}

    def at(self, count: int) -> float:
        if count not in self.known:
            self.known[count] = self.memory(count * self.step)
        return self.known[count]

    def run(self) -> Certificate:
        if self.at(self.first) > self.capacity:
            return self._found(None)
        low, high = self._bracket()
        while high is not None and high - low > 1:
            low, high = self._narrowed(low, high)
        return self._found(low)

    def _bracket(self) -> tuple[int, int | None]:
        """Return a count that fits and one that does not; None for the latter where all do."""
        low, growth = self.first, self.first
        while low < self.most:
            ahead = 0 if low == self.first else self._crossing(self.first, low) - low
            high = min(self.most, low + max(growth, ahead))
            if self.at(high) > self.capacity:
                return low, high
            low, growth = high, 2 * growth
        return low, None

    def _narrowed(self, low: int, high: int) -> tuple[int, int]:
        width = high - low
        for guess in (self._crossing(low, high), (low + high) // 2):
            at = min(max(guess, low + 1), high - 1)
            low, high = (at, high) if self.at(at) <= self.capacity else (low, at)
            if high - low <= max(1, width // 2):
                break
        return low, high

    def _crossing(self, first: int, second: int) -> int:
        """Return the last count below which a line through two points stays within the capacity."""
        rise = self.at(second) - self.at(first)
        if rise <= 0.0 or first == second:
            return self.most
        crossing = first + (self.capacity - self.at(first)) / rise * (second - first)
        return math.floor(min(crossing, float(self.most)))

    def _found(self, count: int | None) -> Certificate:
        after = self.first if count is None else count + 1
        beyond = after > self.most
        return Certificate(
            value=None if count is None else count * self.step,
            memory=None if count is None else self.at(count),
            next=None if beyond else after * self.step,
            next_memory=None if beyond else self.at(after),
            capacity=self.capacity,
            step=self.step,
            limit=self.most * self.step,
            tried=len(self.known),
        )
