"""A server put together: its plan, its room, the seconds of its steps, and the states that loads bring it to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.records import dataclass, replace
from roofsim.serve import disaggregated, fetched, open_loop, whole_run
from roofsim.serve.hits import hits_of
from roofsim.serve.in_step import replicas_in_step
from roofsim.serve.load import Load, Steady
from roofsim.serve.plan import ServerPlan, plan_of
from roofsim.serve.room import Room, room_of
from roofsim.serve.timing import Timing, timing_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.serve.disaggregated import Workers
    from roofsim.serve.latencies import TokenLatencies
    from roofsim.spec.reading.source import Document
    from roofsim.spec.resolve import Resolved

#: Rounds in which requests that come at a rate, and what of their prefixes is found, agree.
_GUESSES: Final = 3


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server with its prices: of the whole of it, with what one replica's queue sees as `load`.

    Attributes
    ----------
    plan, room
        What it runs, and what has room.
    timing, load, workers
        Steps of one replica, or of one of its batches in flight, and what requests ask of it; workers where prompts and decode are
        apart.
    """

    plan: ServerPlan
    room: Room
    timing: Timing
    load: Load
    workers: Workers | None

    @property
    def queues(self) -> float:
        """Replicas, and batches in flight on them, between which requests are dealt out evenly."""
        return self.plan.replicas * self.load.batches

    @property
    def poisson(self) -> bool:
        """Whether requests come at random."""
        return self.plan.serving.scattered

    @property
    def highest_rate(self) -> float:
        """Requests per second of the whole server at most."""
        timing, load, plan = self.timing, self.load, self.plan
        if self.workers is not None:
            return disaggregated.highest_rate(timing, load, self.workers)
        highest = fetched.highest_rate(timing, load, plan.hits, closes=plan.request_rate is None)
        return highest * plan.replicas * load.batches

    def with_rate(self, rate: float) -> Server:
        """Return the same server with requests that come at a rate; prefixes are found as often as then."""
        plan = replace(self.plan, request_rate=rate, concurrency=None)
        if not _finds_prefixes(plan):
            return replace(self, plan=plan)
        return _priced(_with_hits(plan, self.room), self.room)

    def with_room_for(self, share: float) -> Server:
        """Return the same server with room, and leave, for so many times as many requests at once."""
        return replace(self, load=replace(self.load, limit=max(self.load.limit * share, 1.0)))

    def steady(self) -> Steady | None:
        """Return the steady state of the whole server under its load; None where it falls behind."""
        return steady_state(self.plan, self.timing, self.load, self.workers)

    @property
    def highest_of_queue(self) -> float | None:
        """Requests per second of one queue at most, which come at a rate; None where that depends on the rate."""
        if self.workers is not None or _finds_prefixes(self.plan):
            return None
        return open_loop.highest_rate(self.timing, self.load)

    def latencies(self, highest: float | None = None) -> TokenLatencies | None:
        """Return the spreads of the latencies of requests that come at a rate; None for other loads, and beyond the limit.

        `highest` is `highest_of_queue`, where it is known.
        """
        plan, load, rate = self.plan, self.load, self.plan.request_rate
        if rate is None:
            return None
        if self.workers is not None:
            return disaggregated.latencies(self.timing, load, self.workers, rate)
        return fetched.latencies(
            self.timing, load, plan.hits, rate / self.queues, poisson=self.poisson, highest=highest
        )


def server_of(document: Document, resolve: Callable[[Document], Resolved]) -> Server:
    """Return the server that a request describes.

    Raises
    ------
    SpecError
        When the request is wrong, or the engine, the model or a size cannot be served so.
    """
    plan = plan_of(document, resolve)
    room = room_of(plan)
    return _priced(_with_hits(plan, room) if room.fits else plan, room)


def _priced(plan: ServerPlan, room: Room) -> Server:
    timing, load, workers = _steps(plan, _limit(plan, room))
    return Server(plan=plan, room=room, timing=timing, load=load, workers=workers)


def _limit(plan: ServerPlan, room: Room) -> float:
    """Return the requests that run at once on a replica."""
    return min(plan.max_num_seqs, float(room.max_requests)) if room.fits else 0.0


def _finds_prefixes(plan: ServerPlan) -> bool:
    """Tell whether where prefixes are found depends on the load."""
    asked = plan.serving.num_prefixes is not None or plan.serving.host_key is not None
    return asked and plan.stated_cached > 0.0


def _with_hits(plan: ServerPlan, room: Room) -> ServerPlan:
    """Return the plan with where prefixes are found; that depends on how many requests run, and that on it again."""
    limit = _limit(plan, room)
    if not _finds_prefixes(plan):
        return plan if plan.serving.host_key is None else replace(plan, hits=hits_of(plan, room, 0.0))
    running = limit if plan.concurrency is None else min(plan.concurrency / plan.replicas, limit)
    if plan.request_rate is None:
        return replace(plan, hits=hits_of(plan, room, running))
    for _ in range(_GUESSES):
        planned = replace(plan, hits=hits_of(plan, room, running))
        timing, load, workers = _steps(planned, limit)
        steady = steady_state(planned, timing, load, workers)
        running = limit if steady is None else min(steady.running / plan.replicas, limit)
    return planned


def _steps(plan: ServerPlan, limit: float) -> tuple[Timing, Load, Workers | None]:
    """Return the steps of a server, what requests ask of it, and its workers where they are apart."""
    batches = min(float(plan.resolved.parallel.pipeline), max(limit, 1.0))
    limit = limit / batches
    timing = timing_of(plan, max(limit, 1.0), batches)
    load = Load(
        tokens=plan.new,
        checks=plan.checks,
        outputs=plan.output - 1.0,
        context=plan.context,
        budget=_budget(plan),
        limit=limit,
        most_prompts=plan.resolved.constants.physics["most_prompts"],
        request_time=plan.request_time,
        alike=plan.variation == 0.0,
        variation=plan.variation,
        arrivals_squared=plan.serving.arrivals_squared,
        prompts_squared=((plan.serving.prompt_variation or 0.0) * plan.prompt / plan.new) ** 2,
        in_step=replicas_in_step(plan.resolved.parallel, plan.replicas),
        batches=batches,
    )
    return timing, load, disaggregated.workers_of(plan, batches)


def _budget(plan: ServerPlan) -> float:
    """Return the tokens of prompts in a step: those of whole prompts, where these are not cut."""
    if plan.chunked:
        return plan.budget
    return max(plan.budget // plan.new, 1.0) * plan.new


def steady_state(plan: ServerPlan, timing: Timing, load: Load, workers: Workers | None) -> Steady | None:
    """Return the steady state of the whole server under its load; None where it falls behind."""
    poisson = plan.serving.scattered
    if plan.request_rate is not None:
        if workers is not None:
            return disaggregated.open_loop_state(timing, load, workers, plan.request_rate)
        servers = plan.replicas * load.batches
        steady = fetched.open_loop_state(timing, load, plan.hits, plan.request_rate / servers, poisson=poisson)
        return None if steady is None else _whole(steady, servers)
    steady = at_concurrency(plan, timing, load, workers, plan.concurrency or load.most_requests(plan.replicas))
    return steady if plan.serving.num_prompts is None else _over_a_run(plan, timing, load, steady)


def _over_a_run(plan: ServerPlan, timing: Timing, load: Load, steady: Steady) -> Steady:
    """Return the means over a benchmark run of the whole server; a long one is a steady state."""
    requests = float(plan.serving.num_prompts or 0)
    concurrency = plan.concurrency or requests
    timing, load = of_few(plan, timing, load, concurrency)
    servers = plan.replicas * load.batches
    each, in_flight = max(requests / servers, 1.0), max(concurrency / servers, 1.0)
    if not whole_run.is_short(load, each, in_flight):
        return steady
    load = replace(load, request_time=load.request_time + plan.hits.wait(0.0))
    return _whole(whole_run.run(timing, load, plan.prompt, steady, each, in_flight), servers)


def at_concurrency(plan: ServerPlan, timing: Timing, load: Load, workers: Workers | None, concurrency: float) -> Steady:
    """Return the steady state of the whole server with so many requests under way."""
    if workers is not None:
        return disaggregated.closed_loop_state(timing, load, workers, concurrency)
    timing, load = of_few(plan, timing, load, concurrency)
    servers = plan.replicas * load.batches
    return _whole(fetched.closed_loop_state(timing, load, plan.hits, concurrency / servers), servers)


def of_few(plan: ServerPlan, timing: Timing, load: Load, concurrency: float | None) -> tuple[Timing, Load]:
    """Return what fewer requests than batches in flight see: some of the batches are empty, and nobody waits for them."""
    if concurrency is None or concurrency / plan.replicas >= load.batches:
        return timing, load
    batches = max(concurrency / plan.replicas, 1.0)
    return timing_of(plan, 1.0, batches), replace(load, batches=batches, limit=1.0)


def _whole(one: Steady, replicas: float) -> Steady:
    """Return the state of all replicas, and all batches in flight on them: requests are dealt out evenly."""
    return replace(
        one, request_rate=one.request_rate * replicas, running=one.running * replicas, waiting=one.waiting * replicas
    )
