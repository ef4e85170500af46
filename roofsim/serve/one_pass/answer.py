"""Put together the answer for a server of one pass: latencies and rates under the load, the most that keeps a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.records import replace
from roofsim.serve.one_pass.batching import Batcher
from roofsim.serve.one_pass.plan import OnePassPlan, plan_of
from roofsim.serve.one_pass.served import Bounded, OnePassSteady, ServedPasses

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.serve.one_pass.simulation import SimulatedBatches
    from roofsim.spec.reading.source import Document
    from roofsim.spec.resolve import Resolved

#: Percentiles of latencies that an answer names.
PERCENTS: Final = (50.0, 90.0, 99.0)

#: Halvings of the rates at the ends of an interval.
_HALVINGS_OF_ENDS: Final = 6


def serve_one_pass(
    document: Document, resolve: Callable[[Document], Resolved], *, simulated: bool = False
) -> ServedPasses:
    """Answer a request for a server of a network that answers in one pass; see `roofsim.serve`."""
    plan = plan_of(document, resolve)
    batcher = _batcher(plan)
    served = ServedPasses(plan=plan, batcher=batcher, steady=None, bounded=None, notes=_notes(plan))
    if not plan.fits:
        return served
    bounded = _bounded(plan, batcher)
    served = replace(served, bounded=bounded, steady=_steady(plan, batcher, bounded))
    return replace(served, simulated=_simulated(served)) if simulated else served


def _batcher(plan: OnePassPlan) -> Batcher:
    return Batcher(
        times=plan.times,
        most=plan.most,
        copies=plan.replicas,
        delay=plan.serving.max_queue_delay or 0.0,
        poisson=plan.serving.arrivals != "constant",
    )


def _host(plan: OnePassPlan) -> float:
    """Return the seconds of a request outside of queue and batch."""
    return plan.serving.host_time_per_request or 0.0


def _bounded(plan: OnePassPlan, batcher: Batcher) -> Bounded | None:
    """Return the highest rate of the whole server that keeps the bound, and its 80 % range."""
    bound = plan.serving.latency_bound
    if bound is None:
        return None
    left, (low, high) = bound - _host(plan), plan.spread
    ends = [batcher.scaled(factor).within(left, plan.percent, _HALVINGS_OF_ENDS) for factor in (high, low)]
    return Bounded(bound=bound, percent=plan.percent, rate=batcher.within(left, plan.percent), rates=(ends[0], ends[1]))


def _steady(plan: OnePassPlan, batcher: Batcher, bounded: Bounded | None) -> OnePassSteady | None:
    """Return the steady state under the stated load, or, with none, at the bound; without that, of full batches."""
    if plan.request_rate is not None:
        return at_rate(plan, batcher, plan.request_rate)
    if plan.concurrency is not None:
        return in_closed_loop(plan, batcher, plan.concurrency)
    if bounded is not None:
        return at_rate(plan, batcher, bounded.rate) if bounded.rate > 0.0 else None
    return in_closed_loop(plan, batcher, 2.0 * batcher.most * plan.replicas)


def at_rate(plan: OnePassPlan, batcher: Batcher, rate: float) -> OnePassSteady | None:
    """Return the steady state under so many requests per second of the whole server; None where it falls behind."""
    under = batcher.under(rate)
    if under is None:
        return None
    host = _host(plan)
    ends = [batcher.scaled(factor).under(rate) for factor in plan.spread]
    return OnePassSteady(
        latency=under.mean + host,
        latency_range=(
            0.0 if ends[0] is None else ends[0].mean + host,
            None if ends[1] is None else ends[1].mean + host,
        ),
        percentiles={f"{percent:g}": under.percentile(percent) + host for percent in _percents(plan)},
        request_rate=rate,
        batch=under.mean_batch,
    )


def _percents(plan: OnePassPlan) -> tuple[float, ...]:
    return tuple(sorted({*PERCENTS, plan.percent}))


def in_closed_loop(plan: OnePassPlan, batcher: Batcher, concurrency: float) -> OnePassSteady:
    """Return the steady state with so many requests always under way, each answered one replaced by another.

    While a batch runs the others wait, and are the next one: two batches of half of them take turns. Where batches wait for
    more, all form one.
    """
    each = concurrency / plan.replicas
    waits = 0.0
    batch = max(min(each / 2.0, batcher.most), min(each, 1.0))
    if batcher.delay > 0.0:
        batch = min(each, batcher.most)
        waits = batcher.delay if each < batcher.most else 0.0
    cycle = batcher.times.at(batch) + waits
    rate, host = batch / cycle, _host(plan)
    latency = each / rate
    low, high = plan.spread
    return OnePassSteady(
        latency=latency + host,
        latency_range=(latency * low + host, latency * high + host),
        percentiles={},
        request_rate=plan.replicas * each / (latency + host) if host else plan.replicas * rate,
        batch=batch,
    )


def _notes(plan: OnePassPlan) -> tuple[str, ...]:
    notes = list(plan.resolved.warnings)
    if plan.fits:
        notes.append("requests reach the GPU at no cost: copies over the host's link and preprocessing are not counted")
    return tuple(notes)


def _simulated(served: ServedPasses) -> SimulatedBatches | None:
    from roofsim.serve.one_pass.simulation import simulate

    steady, plan = served.steady, served.plan
    if steady is None or plan.concurrency is not None:
        return None
    return simulate(served.batcher, steady.request_rate, _percents(plan))
