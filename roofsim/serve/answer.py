"""Put together the answer of `serve`: latencies and rates under the load, limits, what fits, costs, a curve over loads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from roofsim.records import replace
from roofsim.serve import disaggregated, fetched, whole_run
from roofsim.serve.bounds import bounds_of, turning
from roofsim.serve.conditioning import conditioning_of
from roofsim.serve.hits import hits_of
from roofsim.serve.in_step import replicas_in_step
from roofsim.serve.load import Load, Steady
from roofsim.serve.plan import ServerPlan, plan_of
from roofsim.serve.room import Room, room_of
from roofsim.serve.served import Served
from roofsim.serve.timing import Timing, timing_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.serve.conditioning import Conditioning
    from roofsim.serve.disaggregated import Workers
    from roofsim.serve.simulation import Simulated
    from roofsim.spec.reading.source import Document
    from roofsim.spec.resolve import Resolved

#: Rounds in which requests that come at a rate, and what of their prefixes is found, agree.
_GUESSES: Final = 3


def serve_document(document: Document, resolve: Callable[[Document], Resolved], *, simulated: bool = False) -> Served:
    """Answer a request; see `roofsim.serve`."""
    plan = plan_of(document, resolve)
    room = room_of(plan)
    limit = min(plan.max_num_seqs, float(room.max_requests))
    if not room.fits:
        return _without_room(plan, room)
    plan = _with_hits(plan, room, limit)
    timing, load, workers = _server(plan, limit)
    highest = _highest(plan, timing, load, workers)
    steady = _steady(plan, timing, load, workers)
    curve = _curve(plan, timing, load, workers)
    if (
        plan.request_rate is None
    ):  # tiles of products make the last few requests now and then a trifle dearer than they bring
        highest = max(highest, *(one.request_rate for _, one in curve), 0.0 if steady is None else steady.request_rate)
    conditioning = None
    if plan.request_rate is not None and steady is not None and highest > 0.0:
        at = partial(_at_rate, plan, timing, load, workers)
        conditioning = conditioning_of(plan.request_rate, highest, steady, at)
    served = Served(
        plan=plan,
        room=room,
        timing=timing,
        load=load,
        workers=workers,
        steady=steady,
        bounds=bounds_of(plan, *_of_few(plan, timing, load, plan.concurrency), steady),
        compute_bound_at=turning(plan, load),
        products_bound_at=turning(plan, load, products=True),
        highest_rate=highest,
        curve=curve,
        conditioning=conditioning,
        notes=_notes(plan, room, load, conditioning),
    )
    return replace(served, simulated=_simulated(served)) if simulated else served


def _without_room(plan: ServerPlan, room: Room) -> Served:
    """Return the answer where not one request fits: what is missing, and no rate of what cannot run."""
    timing, load, workers = _server(plan, 0.0)
    return Served(
        plan=plan,
        room=room,
        timing=timing,
        load=load,
        workers=workers,
        steady=None,
        bounds={},
        compute_bound_at=None,
        products_bound_at=None,
        highest_rate=0.0,
        curve=(),
        notes=(*plan.resolved.warnings, *room.notes),
    )


def _with_hits(plan: ServerPlan, room: Room, limit: float) -> ServerPlan:
    """Return the plan with where prefixes are found; that depends on how many requests run, and that on it again."""
    asked = plan.serving.num_prefixes is not None or plan.serving.host_key is not None
    if not asked or plan.stated_cached <= 0.0:
        return plan if plan.serving.host_key is None else replace(plan, hits=hits_of(plan, room, 0.0))
    running = limit if plan.concurrency is None else min(plan.concurrency / plan.replicas, limit)
    if plan.request_rate is None:
        return replace(plan, hits=hits_of(plan, room, running))
    for _ in range(_GUESSES):
        planned = replace(plan, hits=hits_of(plan, room, running))
        timing, load, workers = _server(planned, limit)
        steady = _steady(planned, timing, load, workers)
        running = limit if steady is None else min(steady.running / plan.replicas, limit)
    return planned


def _server(plan: ServerPlan, limit: float) -> tuple[Timing, Load, Workers | None]:
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
        in_step=replicas_in_step(plan.resolved.parallel, plan.replicas),
        batches=batches,
    )
    return timing, load, disaggregated.workers_of(plan, batches)


def _budget(plan: ServerPlan) -> float:
    """Return the tokens of prompts in a step: those of whole prompts, where these are not cut."""
    if plan.chunked:
        return plan.budget
    return max(plan.budget // plan.new, 1.0) * plan.new


def _highest(plan: ServerPlan, timing: Timing, load: Load, workers: Workers | None) -> float:
    if workers is not None:
        return disaggregated.highest_rate(timing, load, workers)
    highest = fetched.highest_rate(timing, load, plan.hits, closes=plan.request_rate is None)
    return highest * plan.replicas * load.batches


def _steady(plan: ServerPlan, timing: Timing, load: Load, workers: Workers | None) -> Steady | None:
    """Return the steady state of the whole server."""
    poisson = plan.serving.arrivals != "constant"
    if plan.request_rate is not None:
        if workers is not None:
            return disaggregated.open_loop_state(timing, load, workers, plan.request_rate)
        servers = plan.replicas * load.batches
        steady = fetched.open_loop_state(timing, load, plan.hits, plan.request_rate / servers, poisson=poisson)
        return None if steady is None else _whole(steady, servers)
    steady = at_concurrency(plan, timing, load, workers, plan.concurrency or load.most_requests(plan.replicas))
    return steady if plan.serving.num_prompts is None else _over_a_run(plan, timing, load, steady)


def _at_rate(plan: ServerPlan, timing: Timing, load: Load, workers: Workers | None, rate: float) -> Steady | None:
    """Return the steady state of the same server with requests that come at another rate."""
    return _steady(replace(plan, request_rate=rate), timing, load, workers)


def _over_a_run(plan: ServerPlan, timing: Timing, load: Load, steady: Steady) -> Steady:
    """Return the means over a benchmark run of the whole server; a long one is a steady state."""
    requests = float(plan.serving.num_prompts or 0)
    concurrency = plan.concurrency or requests
    timing, load = _of_few(plan, timing, load, concurrency)
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
    timing, load = _of_few(plan, timing, load, concurrency)
    servers = plan.replicas * load.batches
    return _whole(fetched.closed_loop_state(timing, load, plan.hits, concurrency / servers), servers)


def _of_few(plan: ServerPlan, timing: Timing, load: Load, concurrency: float | None) -> tuple[Timing, Load]:
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


def _curve(plan: ServerPlan, timing: Timing, load: Load, workers: Workers | None) -> tuple[tuple[float, Steady], ...]:
    """Return steady states from one request under way to as many as fit, in steps of about the same ratio."""
    chosen, value = [], plan.replicas
    most = load.most_requests(plan.replicas)
    while value < most:
        chosen.append(value)
        value *= 2.0
    chosen.append(most)
    return tuple((one, at_concurrency(plan, timing, load, workers, one)) for one in chosen)


# -- what must be said -----------------------------------------------------------------------------------------------


def _notes(plan: ServerPlan, room: Room, load: Load, conditioning: Conditioning | None) -> tuple[str, ...]:
    notes = [*plan.resolved.warnings, *room.notes]
    most = load.most_requests(plan.replicas)
    if plan.concurrency is not None and plan.concurrency > most:
        notes.append(
            f"{plan.concurrency:.0f} requests are in flight, but only {most:.0f} run at once; the others wait for room"
        )
    steep = plan.resolved.constants.physics["steep_load"]
    if conditioning is not None and conditioning.load > steep:
        notes.append(conditioning.sentence())
    if load.alike and plan.request_rate is None:
        notes.append(
            "all outputs have the same length: prompts that fill several passes stay together, and requests decode in lockstep"
            if plan.facts.batching == "apart"
            else "all outputs have the same length: prompts may bunch, up to the upper end of the range of the first token"
        )
    experts = bool(plan.resolved.model.traits().experts)
    if experts:
        notes.append(
            "mixture of experts: measured times per token differ more from the estimate than those of dense models"
        )
    if experts and plan.serving.lora is not None:
        notes.append("no adapters on experts")
    return tuple(notes)


def _simulated(served: Served) -> Simulated | None:
    from roofsim.serve.simulation import simulate

    plan = served.plan
    if served.steady is None:
        return None
    batches = 1.0 if served.workers is not None else served.load.batches
    share = batches if served.workers is not None else plan.replicas * batches
    concurrency = None if plan.request_rate is not None else (plan.concurrency or served.max_requests) / share
    simulated = simulate(
        served.timing,
        served.load,
        plan.prompt,
        workers=served.workers,
        concurrency=concurrency,
        rate=None if plan.request_rate is None else plan.request_rate / share,
        poisson=plan.serving.arrivals != "constant",
        variation=plan.variation,
    )
    return replace(simulated, request_rate=simulated.request_rate * batches, in_flight=simulated.in_flight * batches)
