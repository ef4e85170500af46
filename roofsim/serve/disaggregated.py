"""The steady state of a server whose prompts and decode steps run on workers of their own, with the cache sent between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.numeric import real
from roofsim.records import dataclass, replace
from roofsim.serve.full_steps import full_rate
from roofsim.serve.latencies import TokenLatencies, alone_on, kept_of_scatter
from roofsim.serve.load import Load, Steady
from roofsim.serve.spread import LatencySpread
from roofsim.serve.surface import Passes
from roofsim.serve.variation import waits_of_many
from roofsim.serve.waiting_prompts import prompts_only

if TYPE_CHECKING:
    from roofsim.numeric import Array
    from roofsim.serve.plan import ServerPlan
    from roofsim.serve.timing import Timing

_ROUNDS: Final = 60
_CLOSE: Final = 2.0**-14
#: Of the highest rate, at which queues are priced at most: a closed loop has no queue that grows without bound.
_NEARLY: Final = 0.98
#: Moments of a decode step at which a prompt may arrive.
_MOMENTS: Final = 16


@dataclass(frozen=True, kw_only=True)
class Workers:
    """Workers of both kinds, and the seconds in which the cache of a prompt goes from one to the other."""

    prefill: float
    decode: float
    transfer: float


def workers_of(plan: ServerPlan, batches: float = 1.0) -> Workers | None:
    """Return the workers of a server that keeps prompts and decode apart; None for others.

    Ranks of a worker send their parts of the cache at once, over links inside a node or, all through its NICs, between
    nodes. A worker that is a pipeline counts as often as it has batches in flight.
    """
    apart = plan.serving.disaggregated
    if apart is None:
        return None
    cache = float(Passes(plan.resolved).held_in_decode(1.0, plan.prompt).profiles[0].components["key_value_cache"])
    if apart.transfer_bandwidth is not None:
        seconds = cache * plan.resolved.gpus / apart.transfer_bandwidth
    else:
        seconds = _seconds(plan, cache)
    return Workers(prefill=apart.prefill_workers * batches, decode=apart.decode_workers * batches, transfer=seconds)


def _seconds(plan: ServerPlan, message: float) -> float:
    from roofsim.cost.links.collectives import collective_time, fabric_of

    resolved, apart = plan.resolved, plan.serving.disaggregated
    assert apart is not None
    fabric = fabric_of(resolved.system, resolved.gpu, resolved.architecture.name, physics=resolved.constants.physics)
    within = apart.transfer == "node" or (apart.transfer is None and plan.gpus <= resolved.system.gpus_per_node)
    stride = real(resolved.gpus if within else max(resolved.system.gpus_per_node, resolved.gpus))
    transfer = collective_time("send_recv", message, 2.0, stride, fabric)
    return float(transfer.seconds)


def highest_rate(timing: Timing, load: Load, workers: Workers) -> float:
    """Return the requests per second that all workers together sustain: the slower kind's."""
    prompts = _prompts(load)
    return min(workers.prefill * full_rate(timing, prompts), workers.decode * _decode_rate(timing, load))


def _decode_rate(timing: Timing, load: Load) -> float:
    if load.checks <= 0.0:
        return float("inf")
    return load.limit / (load.checks * timing.decode_step(load.limit, load.context))


def _prompts(load: Load) -> Load:
    """Return what prefill workers see of requests: prompts, and a token each."""
    return replace(load, checks=0.0, outputs=0.0, request_time=0.0, limit=1.0)


def open_loop_state(timing: Timing, load: Load, workers: Workers, rate: float) -> Steady | None:
    """Return the steady state of the whole server at `rate` requests per second; None where there is none."""
    if rate >= highest_rate(timing, load, workers):
        return None
    lone, beyond = _lone(timing, load), _beyond(timing, load, workers, rate)
    running, queued = _decoding(timing, load, rate / workers.decode)
    step = running / (rate / workers.decode * load.checks) if load.checks > 0.0 else 0.0
    wait = queued / (rate / workers.decode) + 0.5 * step * min(running, 1.0)
    low = load.request_time + lone + workers.transfer
    first = low + beyond + wait
    return _steady(load, workers, first, step * load.checks, rate, (low, first + 2.0 * (beyond + wait)), lone)


def latencies(timing: Timing, load: Load, workers: Workers, rate: float) -> TokenLatencies | None:
    """Return the spreads of the latencies at `rate` requests per second; None where there is no steady state.

    A prompt waits where all workers for prompts are taken, for an exponential time; then for the next decode step.
    """
    steady = open_loop_state(timing, load, workers, rate)
    if steady is None:
        return None
    lone, beyond = _lone(timing, load), _beyond(timing, load, workers, rate)
    busy = min(rate / workers.prefill * lone, 1.0)
    waits = float(busy ** (np.sqrt(2.0 * (workers.prefill + 1.0)) - 1.0)) if beyond > 0.0 else 0.0
    least = lone + workers.transfer
    step = max(
        steady.time_to_first_token - load.request_time - least - beyond, 0.0
    )  # until a decode worker has a place
    shares = (np.arange(_MOMENTS) + 0.5) / _MOMENTS
    first = LatencySpread(
        seconds=least + 2.0 * step * shares,
        weights=np.full(_MOMENTS, 1.0 / _MOMENTS),
        travel=load.request_time,
        waiting=waits,
        wait=0.0 if waits <= 0.0 else beyond / waits,
    )
    each = _each(timing, load, rate / workers.decode, steady)
    return TokenLatencies(first=first, each=each, alone=alone_on(timing, load, least))


def _each(timing: Timing, load: Load, rate: float, steady: Steady) -> LatencySpread | None:
    """Return the spread of times per token on decode workers, which prompts do not disturb."""
    if steady.time_per_output_token is None:
        return None
    _, shares, steps = _decoding_shares(timing, load, rate)
    busy = LatencySpread.of(steps[1:], np.maximum(shares[1:], 2.0**-500))
    # Those beside a request are replaced in about its own time: a mean over a life scatters less than the number at one time.
    kept = replace(busy, seconds=busy.mean + kept_of_scatter(1.0) * (busy.seconds - busy.mean))
    return kept.around(0.0, steady.time_per_output_token)


def closed_loop_state(timing: Timing, load: Load, workers: Workers, concurrency: float) -> Steady:
    """Return the steady state of the whole server with so many requests under way."""
    most = highest_rate(timing, load, workers)
    lone = _lone(timing, load)
    low = load.request_time + lone + workers.transfer
    rate = min(concurrency / (low + load.checks * timing.decode_step(1.0, load.context)), most * _NEARLY)
    first = decode = 0.0
    for _ in range(_ROUNDS):
        inside = max(rate * decode / workers.decode, 1.0)
        running = min(inside, load.limit, concurrency / workers.decode) if load.checks > 0.0 else 0.0
        decode = load.checks * timing.decode_step(max(running, 1.0), load.context)
        # An arrival sees the server as it is with one request less.
        seen = min(rate * (concurrency - 1.0) / concurrency, most * _NEARLY)
        wait = _beyond(timing, load, workers, seen) if seen > 0.0 else 0.0
        wait += 0.5 * decode / max(load.checks, 1.0) * min(seen * decode / workers.decode, 1.0)
        first = low + min(wait, concurrency / workers.prefill * lone)
        before, rate = rate, 0.5 * (rate + min(concurrency / (first + decode), most))
        if abs(rate - before) <= _CLOSE * rate:
            break
    first = max(first, concurrency / rate - decode)
    return _steady(load, workers, first, decode, rate, (low, max(2.0 * first - low, first)), lone)


def _beyond(timing: Timing, load: Load, workers: Workers, rate: float) -> float:
    """Return the mean seconds that a prompt waits for a worker.

    A free worker takes it: of several fewer wait, and for less (Sakasegawa, Ann. Inst. Stat. Math. 29, 1977). The wait goes
    with the variation of arrivals and prompts.
    """
    lone = _lone(timing, load)
    prompts = prompts_only(timing, _prompts(load), rate / workers.prefill, lone)
    busy = min(rate / workers.prefill * lone, 1.0)
    several = busy ** (np.sqrt(2.0 * (workers.prefill + 1.0)) - 2.0) / workers.prefill
    return max(prompts - lone, 0.0) * float(several) * waits_of_many(load, busy)


def _lone(timing: Timing, load: Load) -> float:
    pieces = max(load.tokens / load.budget, 1.0)
    return pieces * timing.prompt_pass(load.tokens / pieces)


def _decoding(timing: Timing, load: Load, rate: float) -> tuple[float, float]:
    """Return the mean requests of one decode worker, and those that wait for room: a processor-sharing queue."""
    if load.checks <= 0.0 or rate <= 0.0:
        return 0.0, 0.0
    numbers, weights, steps = _decoding_shares(timing, load, rate)
    limit = float(numbers[-1])
    ratio = min(float(rate * load.checks * steps[-1] / limit), 1.0 - 2.0**-20)
    beyond = float(weights[-1]) * ratio / (1.0 - ratio)
    total = float(weights.sum()) + beyond
    return (float(weights @ numbers) + beyond * limit) / total, beyond / (1.0 - ratio) / total


def _decoding_shares(timing: Timing, load: Load, rate: float) -> tuple[Array, Array, Array]:
    """Return numbers of requests on a decode worker from none to its limit, how often each is there, and seconds of their steps."""
    limit = int(min(load.limit, 4096.0))
    some = np.unique(np.round(np.geomspace(1.0, max(limit, 2), 33)))
    numbers = np.arange(1.0, limit + 1.0)
    steps = np.interp(numbers, some, [timing.decode_step(float(number), load.context) for number in some])
    logs = np.concatenate([[0.0], np.cumsum(np.log(rate * load.checks * steps / numbers))])
    weights = np.exp(logs - logs.max())
    return np.concatenate([[0.0], numbers]), weights, np.concatenate([[0.0], steps])


def _steady(
    load: Load, workers: Workers, first: float, decode: float, rate: float, limits: tuple[float, float], prompt: float
) -> Steady:
    share = min(rate * prompt / workers.prefill, 1.0) * workers.prefill / (workers.prefill + workers.decode)
    return Steady(
        time_to_first_token=first,
        time_per_output_token=decode / load.outputs if load.outputs > 0.0 else None,
        end_to_end=first + decode,
        request_rate=rate,
        running=rate * decode,
        waiting=rate * first,
        prompt_share=share,
        first_token_low=limits[0],
        first_token_high=limits[1],
    )
