"""Dynamic batching: a batch forms from the requests that wait, up to the largest; what that makes of rates and latencies.

A server of one pass takes what waits when its last batch is done (Triton Inference Server, dynamic batcher; TorchServe,
`batch_size` and `max_batch_delay`). The requests that wait then are a Markov chain: what was left, and what came meanwhile.
Of one copy its stationary distribution is solved for (a bulk queue M/D(b)/1 whose service time depends on the batch; N. T. J.
Bailey 1954 treats the case of equal times), and latencies are read off it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.records import dataclass, replace
from roofsim.serve.one_pass.copies import Copies
from roofsim.serve.one_pass.simulation import simulated_latencies

if TYPE_CHECKING:
    from roofsim.numeric import Array

#: States of the chain: beyond so many waiting requests they are counted in lumps.
_STATES: Final = 500
#: Standard deviations of arrivals, and times the mean queue of a server of single requests, that the states reach.
_DEVIATIONS: Final = 7.0
_QUEUES: Final = 8.0
#: Places within a batch's time at which arrivals are looked at.
_PLACES: Final = 8
#: Share of batches that is not worth a place in the sums.
_RARE: Final = 1e-8
#: Batches and requests at most that are simulated where several copies share a queue.
_BATCHES: Final = 3_000
_REQUESTS: Final = 200_000
#: Halvings of a rate, to a two-thousandth of it.
_HALVINGS: Final = 11


@dataclass(frozen=True, kw_only=True)
class Latencies:
    """Latencies of the requests of one server with their weights, and the batches that form. Seconds and requests.

    Attributes
    ----------
    seconds, weights
        From a request's arrival to its answer; weights sum to 1.
    mean_batch
        Mean over batches.
    """

    seconds: Array
    weights: Array
    mean_batch: float

    @property
    def mean(self) -> float:
        """Mean over requests."""
        return float(np.dot(self.seconds, self.weights))

    def percentile(self, percent: float) -> float:
        """Return the seconds that so many percent of the requests do not exceed."""
        order = np.argsort(self.seconds)
        share = np.cumsum(self.weights[order])
        place = int(np.searchsorted(share, percent / 100.0 * share[-1]))
        return float(self.seconds[order[min(place, len(order) - 1)]])

    def beyond(self, bound: float) -> float:
        """Return the share of the requests that take longer."""
        return float(np.sum(self.weights[self.seconds > bound]))


@dataclass(frozen=True, kw_only=True)
class Batcher(Copies):
    """What comes of batches that form from what waits: rates and latencies."""

    @property
    def highest_rate(self) -> float:
        """Requests per second of batches of the best size."""
        sizes, seconds = self._curve
        return float(np.max(sizes / seconds)) * self.copies

    def scaled(self, factor: float) -> Batcher:
        """Return the same server where every batch takes so many times as long."""
        seconds = tuple(factor * one for one in self.times.seconds)
        return replace(self, times=replace(self.times, seconds=seconds))

    def under(self, rate: float) -> Latencies | None:
        """Return the latencies under so many requests per second; None where more come than the largest batches take."""
        if rate * self.times.at(self.most) >= self.most * self.copies:
            return None
        if self.copies > 1.0:
            seconds, mean_batch = simulated_latencies(self, rate, _BATCHES, _REQUESTS)
            return Latencies(seconds=seconds, weights=np.full(len(seconds), 1.0 / len(seconds)), mean_batch=mean_batch)
        lump, count = self._states(rate)
        waiting: Array = lump * np.arange(count, dtype=float)
        joined = self._joined(waiting, rate)
        seconds = np.interp(joined, *self._curve)
        left = np.maximum(waiting - self.most, 0.0)
        come = self._arrivals(rate * seconds, lump, count)
        steps = _shifted(come, np.round(left / lump).astype(int))
        stationary = _stationary(steps)
        return self._latencies(rate, lump, stationary, joined, seconds, come)

    def within(self, bound: float, percent: float, halvings: int = _HALVINGS) -> float:
        """Return the highest rate at which so many percent of the requests are answered within a bound; 0: none is."""
        low, high = 0.0, self.highest_rate
        for _ in range(halvings):
            rate = 0.5 * (low + high)
            latencies = self.under(rate)
            kept = latencies is not None and latencies.beyond(bound) <= 1.0 - percent / 100.0
            low, high = (rate, high) if kept else (low, rate)
        return low

    # -- the chain --------------------------------------------------------------------------------------------------

    @property
    def _curve(self) -> tuple[Array, Array]:
        sizes = np.unique([*(point for point in self.times.points if point < self.most), self.most])
        return sizes, np.array([self.times.at(size) for size in sizes])

    def _typical(self, rate: float) -> float:
        """Return the batch that forms while one of its size runs."""
        batch = 1.0
        for _ in range(200):
            after = min(max(rate * self.times.at(batch), 1.0 + rate * self.delay), self.most)
            if after - batch < 1e-3 * batch:
                break
            batch = after
        return batch

    def _states(self, rate: float) -> tuple[float, int]:
        """Return the requests of a lump, and how many lumps of waiting requests are told apart."""
        typical = self._typical(rate)
        spare = 1.0 - rate * self.times.at(self.most) / self.most
        reach = 2.0 * typical + _DEVIATIONS * np.sqrt(typical) + _QUEUES
        if typical > 0.5 * self.most:
            reach += _QUEUES / max(spare, 1e-3)
        lump = max(reach / _STATES, 1.0)
        return float(lump), int(np.ceil(reach / lump)) + 1

    def _joined(self, waiting: Array, rate: float) -> Array:
        """Return the batch that is begun with so many waiting: those, or the first to come, and who joins within the delay."""
        present = np.maximum(waiting, 1.0)
        waits = np.maximum(self.delay - (present - 1.0) / rate, 0.0)  # the oldest came about so long ago
        return np.minimum(present + rate * waits, np.maximum(present, self.most)).clip(max=self.most)

    def _arrivals(self, means: Array, lump: float, count: int) -> Array:
        """Return the chance of each number of lumps of arrivals, a row for each mean number of requests."""
        numbers = np.arange(count)
        means = np.minimum(means[:, np.newaxis] / lump, count - 1.0)  # more than the states tell apart are the last one
        if not self.poisson:  # as many as there is time for, with the rest of one now and then
            return np.clip(1.0 - np.abs(numbers - means), 0.0, 1.0)
        if lump > 1.0:
            deviation = np.maximum(np.sqrt(means / lump), 0.5)
            chances = -0.5 * np.square((numbers - means) / deviation)
        else:
            factorials = np.array([math.lgamma(number + 1.0) for number in range(count)])
            chances = numbers * np.log(means) - means - factorials
        chances = np.exp(chances - chances.max(axis=1, keepdims=True))
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))

    # -- latencies --------------------------------------------------------------------------------------------------

    def _latencies(
        self, rate: float, lump: float, stationary: Array, joined: Array, seconds: Array, come: Array
    ) -> Latencies:
        """Return the latencies of those who begin a batch or join it before it runs, and of those who come while one runs."""
        waiting = lump * np.arange(len(stationary))
        present = np.minimum(np.maximum(waiting, 1.0), self.most)
        later = joined - present
        takes, weights = [], []
        for place in (np.arange(_PLACES) + 0.5) / _PLACES:  # those who join while the oldest waits
            takes.append((1.0 - place) * later / rate + seconds)
            weights.append(stationary * later / _PLACES)
        takes.append(later[:1] / rate + seconds[:1])  # who finds the server idle
        weights.append(stationary[:1])
        joint = stationary[:, np.newaxis] * come
        begun, number = np.nonzero(joint > _RARE)
        chance, arrivals = joint[begun, number], lump * number
        left = np.maximum(waiting - self.most, 0.0)[begun]
        after = np.minimum(np.round((left + arrivals) / lump).astype(int), len(stationary) - 1)
        for place in (np.arange(_PLACES) + 0.5) / _PLACES:
            ahead = np.floor((left + place * arrivals) / self.most)  # full batches before its own
            own = np.where(ahead > 0.0, self.times.at(self.most), seconds[after] + (later / rate)[after])
            takes.append((1.0 - place) * seconds[begun] + ahead * self.times.at(self.most) + own)
            weights.append(chance * arrivals / _PLACES)
        shares = np.concatenate(weights)
        return Latencies(
            seconds=np.concatenate(takes), weights=shares / shares.sum(), mean_batch=float(np.dot(stationary, joined))
        )


def _shifted(come: Array, left: Array) -> Array:
    """Return the chances of what waits next: what was left, and what came; what is beyond the last state counts to it."""
    count = come.shape[1]
    steps = np.zeros_like(come)
    for row, shift in enumerate(np.minimum(left, count - 1).tolist()):
        steps[row, shift:] = come[row, : count - shift]
        steps[row, -1] += come[row, count - shift :].sum()
    return steps


def _stationary(steps: Array) -> Array:
    """Return the share of batches that begin in each state."""
    count = len(steps)
    equations = steps.T - np.eye(count)
    equations[-1] = 1.0
    wanted = np.zeros(count)
    wanted[-1] = 1.0
    shares = np.clip(np.linalg.solve(equations, wanted), 0.0, None)
    return np.asarray(shares / shares.sum())
