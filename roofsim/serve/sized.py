"""Size a server to bounds on its latencies: the rate that one replica sustains, replicas for a stated rate, and what they do."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from roofsim.errors import SpecError
from roofsim.records import replace
from roofsim.serve.answer import answer_of, without_room
from roofsim.serve.problems import problem
from roofsim.serve.server import server_of
from roofsim.serve.sizing import SizedServer, Sizing, size_of
from roofsim.serve.target import BOUNDS
from roofsim.spec.scenario.document import with_override

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.serve.request_log import RequestLog
    from roofsim.serve.served import Served
    from roofsim.serve.server import Server
    from roofsim.serve.target import LatencyTarget
    from roofsim.spec.reading.source import Document
    from roofsim.spec.resolve import Resolved

#: A rate that is no load yet, while a server's highest one is sought.
_PROBE: Final = 1.0
#: Of a replica, what is not worth another one: rounding.
_ROUNDING: Final = 1e-9
#: Of the highest rate, at which requests come now and then.
_SELDOM: Final = 2.0**-10
#: Replicas that are proposed at most.
_MOST: Final = 10**6


def serve_to_target(
    document: Document,
    resolve: Callable[[Document], Resolved],
    target: LatencyTarget,
    *,
    simulated: bool = False,
    requests: RequestLog | None = None,
) -> Served:
    """Answer for the server that keeps bounds: as many replicas as a stated rate needs, or one at the largest rate it sustains.

    Raises
    ------
    SpecError
        When the request is wrong.
    """
    unit, rate = unit_of(document, resolve, target)
    stated = states_gpus(document)
    if not unit.room.fits:
        served = without_room(replace(unit, plan=replace(unit.plan, request_rate=rate)))
        return replace(served, sized=_nothing(unit, target, rate, served.reason or "", stated=stated))
    sizing = size_of(unit, target)
    sized = sized_of(unit, sizing, rate, stated=stated)
    if sizing.rate <= 0.0:
        sized = replace(sized, hint=way_out(document, resolve, target))
    final = _final(document, unit, sized)
    return replace(answer_of(_server(final, resolve, unit, sized), simulated=simulated, requests=requests), sized=sized)


def unit_of(
    document: Document, resolve: Callable[[Document], Resolved], target: LatencyTarget
) -> tuple[Server, float | None]:
    """Return the server that a scenario describes, of which there may be several, and the rate that all are to serve.

    Raises
    ------
    SpecError
        When the request is wrong, or its load is none that bounds are on.
    """
    workload = document.data.get("workload") if isinstance(document.data, dict) else None
    given = workload if isinstance(workload, dict) else {}
    if given.get("concurrency") is not None:
        message = "bounds on latencies are kept by requests that come at a rate, not by a fixed number in flight"
        raise problem(
            document, "concurrency", message, "Leave it out; give request_rate, or no load for the largest rate."
        )
    if given.get("request_rate") is None:
        document = with_override(document, "workload.request_rate", _PROBE, "serve")
    server = server_of(document, resolve)
    if target.tpot is not None and server.plan.output <= 1.0:
        message = "requests of one output token have no time per token to bound"
        raise problem(document, "output_length", message, "Leave tpot out, or give a longer output.")
    return server, None if given.get("request_rate") is None else server.plan.request_rate


def states_gpus(document: Document) -> bool:
    """Tell whether a scenario says how many GPUs, or replicas, a server has."""
    return document.states("hardware", "gpus") or document.states("parallel", "data")


def sized_of(unit: Server, sizing: Sizing, rate: float | None, *, stated: bool) -> SizedServer:
    """Return how many replicas serve a rate."""
    own, together = _replicas(unit)
    share = together / own
    whole = [_copies(rate, one * share) for one in (sizing.rate, sizing.rates[1], sizing.rates[0])]
    counts = [None if one is None else round(one * together) for one in whole]
    if rate is None and counts[0] is not None:
        counts[0] = round(own)
    return SizedServer(
        sizing=sizing,
        stated=stated,
        request_rate=rate,
        replicas=counts[0],
        gpus=None if counts[0] is None else round(counts[0] * unit.plan.gpus / own),
        unit=own,
        replicas_range=(counts[1], counts[2]),
    )


def _replicas(unit: Server) -> tuple[float, float]:
    """Return the replicas of a server, and those that only come together: they share experts.

    Where prompts and decode have workers of their own, all of these are one replica.
    """
    if unit.workers is not None:
        return 1.0, 1.0
    return unit.plan.replicas, max(unit.load.in_step, 1.0)


def _copies(rate: float | None, sustained: float) -> int | None:
    """Return how many servers of such a rate serve another; None: no number does."""
    if sustained <= 0.0:
        return None
    if rate is None:
        return 1
    copies = max(math.ceil(rate / sustained * (1.0 - _ROUNDING)), 1)
    return copies if copies <= _MOST else None


def _final(document: Document, unit: Server, sized: SizedServer) -> Document:
    """Return the scenario of the server that is answered for: with all its replicas, at its rate."""
    rate = sized.request_rate
    if rate is None or sized.stated or sized.replicas is None:
        own = sized.sizing.rate if rate is None else rate
        return with_override(document, "workload.request_rate", own or _PROBE, "serve")
    apart = unit.plan.serving.disaggregated
    if apart is None:
        return with_override(document, "hardware.gpus", sized.gpus, "serve")
    for name in ("prefill_workers", "decode_workers"):
        number = sized.replicas * getattr(apart, name)
        document = with_override(document, f"workload.serving.disaggregated.{name}", number, "serve")
    return document


def _server(document: Document, resolve: Callable[[Document], Resolved], unit: Server, sized: SizedServer) -> Server:
    """Return the server that is answered for; where nothing keeps the bounds, that of a request now and then."""
    server = server_of(document, resolve)
    if sized.sizing.rate > 0.0 or sized.request_rate is not None:
        return server
    return server.with_rate(unit.highest_rate * _SELDOM)


def _nothing(unit: Server, target: LatencyTarget, rate: float | None, reason: str, *, stated: bool) -> SizedServer:
    """Return what to say where not one request fits."""
    alone: dict[str, float | None] = dict.fromkeys(BOUNDS.values())
    sizing = Sizing(target=target, rate=0.0, rates=(0.0, 0.0), limits=None, at_limit=alone, relaxed={}, reason=reason)
    return sized_of(unit, sizing, rate, stated=stated)


# -- the way out -------------------------------------------------------------------------------------------------------


def way_out(document: Document, resolve: Callable[[Document], Resolved], target: LatencyTarget) -> str:
    """Return what would keep bounds that nothing keeps: more tensor ranks, where these do."""
    others = "a faster card, narrower weights (--precision), laxer bounds"
    unit, _ = unit_of(document, resolve, target)
    ranks = max(unit.plan.resolved.parallel.tensor, 1) * 2
    if states_gpus(document):
        document = with_override(document, "hardware.gpus", None, "serve")
        document = with_override(document, "parallel.data", None, "serve")
    while ranks <= unit.plan.resolved.places:
        try:
            wider, _ = unit_of(with_override(document, "parallel.tensor", ranks, "serve"), resolve, target)
        except SpecError:
            break
        if wider.room.fits and (rate := size_of(wider, target, fully=False).rate) > 0.0:
            return f"--tensor {ranks} keeps them, up to {rate:.3g} requests/s; so may {others}"
        ranks *= 2
    return f"more tensor ranks in one node do not keep them; {others} may"
