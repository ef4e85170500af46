"""Put together the answer of `serve`: latencies and rates under the load, limits, what fits, costs, a curve over loads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from roofsim.records import replace
from roofsim.serve.bounds import bounds_of, turning
from roofsim.serve.conditioning import conditioning_of
from roofsim.serve.request_log import drawn
from roofsim.serve.served import Served
from roofsim.serve.server import at_concurrency, of_few, server_of, steady_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.serve.conditioning import Conditioning
    from roofsim.serve.disaggregated import Workers
    from roofsim.serve.load import Load, Steady
    from roofsim.serve.plan import ServerPlan
    from roofsim.serve.request_log import RequestLog
    from roofsim.serve.room import Room
    from roofsim.serve.server import Server
    from roofsim.serve.simulation import Simulated
    from roofsim.serve.timing import Timing
    from roofsim.spec.reading.source import Document
    from roofsim.spec.resolve import Resolved


def serve_document(
    document: Document,
    resolve: Callable[[Document], Resolved],
    *,
    simulated: bool = False,
    requests: RequestLog | None = None,
) -> Served:
    """Answer a request; see `roofsim.serve`."""
    server = server_of(document, resolve)
    if not server.room.fits:
        return without_room(server)
    return answer_of(server, simulated=simulated, requests=requests)


def answer_of(server: Server, *, simulated: bool = False, requests: RequestLog | None = None) -> Served:
    """Answer for a server that has room for a request; `requests` are those whose means its plan has."""
    requests = drawn(server.plan) if requests is None else requests
    plan, timing, load, workers, room = server.plan, server.timing, server.load, server.workers, server.room
    highest, steady = server.highest_rate, server.steady()
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
        bounds=bounds_of(plan, *of_few(plan, timing, load, plan.concurrency), steady),
        compute_bound_at=turning(plan, load),
        products_bound_at=turning(plan, load, products=True),
        highest_rate=highest,
        curve=curve,
        conditioning=conditioning,
        latencies=server.latencies(),
        requests=requests,
        notes=(*_notes(plan, room, load, conditioning), *(() if requests is None else requests.notes())),
    )
    return replace(served, simulated=_simulated(served)) if simulated else served


def without_room(server: Server) -> Served:
    """Return the answer where not one request fits: what is missing, and no rate of what cannot run."""
    return Served(
        plan=server.plan,
        room=server.room,
        timing=server.timing,
        load=server.load,
        workers=server.workers,
        steady=None,
        bounds={},
        compute_bound_at=None,
        products_bound_at=None,
        highest_rate=0.0,
        curve=(),
        notes=(*server.plan.resolved.warnings, *server.room.notes),
    )


def _at_rate(plan: ServerPlan, timing: Timing, load: Load, workers: Workers | None, rate: float) -> Steady | None:
    """Return the steady state of the same server with requests that come at another rate."""
    return steady_state(replace(plan, request_rate=rate), timing, load, workers)


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
        poisson=plan.serving.scattered,
        variation=plan.variation,
        log=served.requests,
    )
    return replace(simulated, request_rate=simulated.request_rate * batches, in_flight=simulated.in_flight * batches)
