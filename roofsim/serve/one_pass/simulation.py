"""The same server, batch by batch: requests that arrive, wait in one queue, and leave with their batch."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.numeric import Array
    from roofsim.serve.one_pass.copies import Copies

#: Batches, and requests at most, that are simulated; the first tenth warms the server up.
_BATCHES: Final = 20_000
_REQUESTS: Final = 1_000_000
_WARM: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class SimulatedBatches:
    """Means over the requests of a simulation; seconds."""

    requests: int
    mean: float
    percentiles: dict[str, float]
    mean_batch: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def simulate(copies: Copies, rate: float, percents: tuple[float, ...], seed: int = 1) -> SimulatedBatches:
    """Run a server under so many requests per second."""
    latencies, mean_batch = simulated_latencies(copies, rate, _BATCHES, _REQUESTS, seed)
    return SimulatedBatches(
        requests=len(latencies),
        mean=float(latencies.mean()),
        percentiles={f"{percent:g}": float(np.percentile(latencies, percent)) for percent in percents},
        mean_batch=mean_batch,
    )


def simulated_latencies(copies: Copies, rate: float, batches: int, requests: int, seed: int = 1) -> tuple[Array, float]:
    """Return the latency of each request of about so many batches, of `requests` at most, and the mean batch."""
    typical = min(max(rate * copies.times.at(copies.most) / copies.copies, 1.0), copies.most)
    count = int(min(batches * typical, requests))
    random = np.random.default_rng(seed)
    gaps = random.exponential(1.0 / rate, count) if copies.poisson else np.full(count, 1.0 / rate)
    arrivals, done = np.cumsum(gaps), np.empty(count)
    most, first, sizes = int(copies.most), 0, []
    free = [0.0] * int(copies.copies)
    while first < count:
        begins = max(heapq.heappop(free), arrivals[first])
        full = first + most - 1
        # The batcher waits until the batch is full, or its oldest request has waited long enough.
        fills = arrivals[full] if full < count else np.inf
        begins = max(begins, min(fills, arrivals[first] + copies.delay))
        last = min(int(np.searchsorted(arrivals, begins, side="right")), first + most)
        last = max(last, first + 1)
        ends = float(begins) + copies.times.at(float(last - first))
        done[first:last] = ends
        heapq.heappush(free, ends)
        sizes.append(last - first)
        first = last
    latencies: Array = (done - arrivals)[int(_WARM * count) :]
    return latencies, float(np.mean(sizes[int(_WARM * len(sizes)) :]))
