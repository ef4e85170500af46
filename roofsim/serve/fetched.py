"""The steady states of one replica whose prefixes come from the host: the link is a second queue beside the GPU's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.records import replace
from roofsim.serve import closed_loop, open_loop
from roofsim.serve.host_cache import NEARLY
from roofsim.serve.latencies import latencies_of

if TYPE_CHECKING:
    from roofsim.serve.host_cache import Hits
    from roofsim.serve.latencies import TokenLatencies
    from roofsim.serve.load import Load, Steady
    from roofsim.serve.timing import Timing

_HALVINGS: Final = 12


def closed_loop_state(timing: Timing, load: Load, hits: Hits, concurrency: float) -> Steady:
    """Return the steady state with so many requests under way: those that wait for copies are not at the GPU."""
    if hits.busy <= 0.0:
        return closed_loop.steady_state(timing, load, concurrency)
    most = hits.most / load.batches * NEARLY
    others = max(1.0 - 1.0 / max(concurrency * load.batches, 1.0), 0.0)  # an arrival does not queue behind itself

    def at(rate: float) -> Steady:
        wait = hits.wait(rate * others * load.batches)
        return closed_loop.steady_state(timing, replace(load, request_time=load.request_time + wait), concurrency)

    steady = at(0.0)
    if hits.wait(1.0) > 0.0:
        low, high = 0.0, min(steady.request_rate, most)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            steady = at(middle)
            low, high = (middle, high) if steady.request_rate > middle else (low, middle)
    return _held(steady, most, concurrency)


def _held(steady: Steady, most: float, concurrency: float) -> Steady:
    """Return a state whose rate is no more than the link takes: its requests wait for it."""
    if steady.request_rate <= most:
        return steady
    share = most / steady.request_rate
    decode = steady.end_to_end - steady.time_to_first_token
    first = max(concurrency / most - decode, steady.time_to_first_token)
    return replace(
        steady,
        request_rate=most,
        time_to_first_token=first,
        end_to_end=first + decode,
        running=steady.running * share,
        waiting=concurrency - steady.running * share,
        prompt_share=steady.prompt_share * share,
        first_token_high=max(steady.first_token_high, first),
    )


def open_loop_state(timing: Timing, load: Load, hits: Hits, rate: float, *, poisson: bool) -> Steady | None:
    """Return the steady state at `rate` requests per second; None where the GPU or the link cannot keep up."""
    if rate * load.batches >= hits.most:
        return None
    wait = hits.wait(rate * load.batches, poisson=poisson)
    return open_loop.steady_state(timing, replace(load, request_time=load.request_time + wait), rate, poisson=poisson)


def latencies(
    timing: Timing, load: Load, hits: Hits, rate: float, *, poisson: bool, highest: float | None = None
) -> TokenLatencies | None:
    """Return the spreads of the latencies at `rate` requests per second; None where the GPU or the link cannot keep up.

    `highest` is the highest rate of the GPU, where it is known.
    """
    if rate * load.batches >= hits.most:
        return None
    wait = hits.wait(rate * load.batches, poisson=poisson)
    load = replace(load, request_time=load.request_time + wait)
    behind = open_loop.behind_state(timing, load, rate, poisson=poisson, highest=highest)
    return None if behind is None else latencies_of(behind)


def highest_rate(timing: Timing, load: Load, hits: Hits, *, closes: bool) -> float:
    """Return the requests per second that one replica, or one of its batches, sustains at most."""
    loop = closed_loop if closes else open_loop
    highest: float = loop.highest_rate(timing, load)
    return min(highest, hits.most / load.batches)
