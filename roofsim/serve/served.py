"""Hold what a server does: its room, its rates and latencies, and their plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.money import HOURS_PER_MONTH, MILLION, SECONDS_PER_HOUR, cost
from roofsim.analyze.printed import Drawn
from roofsim.analyze.verdicts import missing_there
from roofsim.records import dataclass
from roofsim.serve.ranges import error_of, first_token_range, rate_range, token_range
from roofsim.serve.sizing import broken
from roofsim.serve.watts import watts_of
from roofsim.units import humanize

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roofsim.serve.conditioning import Conditioning
    from roofsim.serve.disaggregated import Workers
    from roofsim.serve.latencies import TokenLatencies
    from roofsim.serve.load import Load, Steady
    from roofsim.serve.plan import ServerPlan
    from roofsim.serve.request_log import RequestLog
    from roofsim.serve.room import Room
    from roofsim.serve.simulation import Simulated
    from roofsim.serve.sizing import SizedServer
    from roofsim.serve.timing import Timing
    from roofsim.spec.resolve import Resolved

SCHEMA: Final = "roofsim/serve/1"
#: Percentiles of latencies that an answer names.
PERCENTS: Final = (50.0, 90.0, 99.0)


@dataclass(frozen=True, kw_only=True, repr=False)
class Served(Drawn):
    """The answer. Rates are those of the whole server.

    Attributes
    ----------
    steady
        The steady state under the load; None: there is none, because `highest_rate` is less than what comes, or because not
        one request fits (`reason` says which).
    bounds
        What binds passes over prompts, and decode steps; empty where not one request fits.
    compute_bound_at, products_bound_at
        Running requests of a replica from which decode steps wait for arithmetic more than for memory, and from which their
        products with weights do (each request adds a cache to read, so that whole steps may never); None: never.
    highest_rate
        Requests per second that the server sustains at most; 0 where not one request fits.
    curve
        Steady states with more and more requests under way; none where not one request fits.
    conditioning
        What less capacity would make of the latencies of requests that come at a rate; None for other loads.
    latencies
        How far apart latencies of requests lie that come at a rate; None for other loads.
    sized
        Of a server that is to keep bounds on its latencies: the rate that it sustains, and the replicas that a rate needs.
    requests
        Those of a file, whose means the plan has.
    """

    plan: ServerPlan
    room: Room
    timing: Timing
    load: Load
    workers: Workers | None
    steady: Steady | None
    bounds: dict[str, dict[str, Any]]
    compute_bound_at: float | None
    products_bound_at: float | None
    highest_rate: float
    curve: tuple[tuple[float, Steady], ...]
    notes: tuple[str, ...]
    conditioning: Conditioning | None = None
    latencies: TokenLatencies | None = None
    sized: SizedServer | None = None
    requests: RequestLog | None = None
    simulated: Simulated | None = None

    @property
    def kind(self) -> str:
        """Return ``closed``, ``open`` or ``saturated``."""
        if self.plan.request_rate is not None:
            return "open"
        return "closed" if self.plan.concurrency is not None else "saturated"

    @property
    def max_requests(self) -> float:
        """Requests that run at once on the whole server."""
        return self.load.most_requests(self.plan.replicas)

    @property
    def highest_rate_range(self) -> tuple[float, float]:
        """The 80 % range of `highest_rate`."""
        return rate_range(self.highest_rate, self.plan.resolved)

    @property
    def verdict(self) -> str | None:
        """Whether the server keeps up: ``sustainable``, ``tight`` where the 80 % interval does not tell, ``not_sustainable``.

        None where no rate of arrivals is stated, or nothing fits.
        """
        rate = self.plan.request_rate
        if rate is None or not self.room.fits:
            return None
        low, high = self.highest_rate_range
        return "sustainable" if rate < low else "not_sustainable" if rate > high else "tight"

    @property
    def keeps_target(self) -> bool | None:
        """Whether the bounds hold at the load that is answered for; None without bounds."""
        if self.sized is None:
            return None
        return self.latencies is not None and not broken(self.latencies, self.sized.sizing.target)

    def percentiles(self, percents: Iterable[float] = PERCENTS) -> dict[str, dict[str, Any]] | None:
        """Return latencies of requests that come at a rate by percent of the requests; None for other loads.

        Ranges are how far the model may be off (80 %); ``queueing`` is what is beyond a request that is alone on the server.
        """
        if self.latencies is None:
            return None
        return {f"{percent:g}": percentile(self.latencies, percent, self.plan.resolved) for percent in percents}

    @property
    def reason(self) -> str | None:
        """Why there are no latencies: nothing fits, or more comes than the server can do; None where there are."""
        if not self.room.fits:
            return f"does not fit: {missing(self.plan, self.room)}"
        if self.steady is None:
            rate = self.plan.request_rate or 0.0
            return (
                f"not sustainable: {rate:.4g} requests/s arrive, the server completes {self.highest_rate:.4g} at most"
            )
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, of schema roofsim/serve/1; seconds, bytes, tokens, dollars."""
        return as_data(self)

    def rows(self) -> list[dict[str, Any]]:
        """Return the curve as rows of a table; where nothing fits, one row without figures that says why."""
        rows = [point(self, index) for index in range(len(self.curve))]
        return rows or [{"concurrency": 0.0, "reason": self.reason}]

    def rates(self, steady: Steady) -> dict[str, float | None]:
        """Return the rates of a steady state of the whole server."""
        output = steady.request_rate * self.plan.given
        each = steady.time_per_output_token
        return {
            "requests_per_second": steady.request_rate,
            "output_tokens_per_second": output,
            "output_tokens_per_second_per_gpu": output / self.plan.gpus,
            "input_tokens_per_second": steady.request_rate * self.plan.prompt,
            "tokens_per_second_per_user": None if not each else 1.0 / each,
        }

    def money(self) -> dict[str, Any]:
        """Return dollars per hour and per million tokens; prompts pay for the time that they add to steps."""
        resolved, steady = self.plan.resolved, self.steady
        rate = 0.0 if steady is None else steady.request_rate * self.plan.given
        watts = None if steady is None else watts_of(self.plan, steady)
        costs = cost(resolved.gpu, resolved.system, self.plan.gpus, 1.0, rate, "output_tokens", watts)
        hourly, each = (
            costs["usd_per_hour"],
            {"usd_per_million_input_tokens_apart": None, "usd_per_million_output_tokens_apart": None},
        )
        if hourly is not None and steady is not None:
            second = hourly / SECONDS_PER_HOUR * MILLION / steady.request_rate
            each = {
                "usd_per_million_input_tokens_apart": second * steady.prompt_share / self.plan.prompt,
                "usd_per_million_output_tokens_apart": second * (1.0 - steady.prompt_share) / self.plan.given,
            }
        kept = ("usd_per_hour", "usd_per_million_output_tokens", "kwh_per_million_output_tokens", "price_date", "price")
        monthly = None if hourly is None else hourly * HOURS_PER_MONTH
        return {name: costs[name] for name in kept} | {"usd_per_month": monthly} | each

    @property
    def output_range(self) -> tuple[float, float] | None:
        """The 80 % range of the output tokens per second; None in an open loop, where what goes out is what comes in."""
        if self.steady is None or self.kind == "open":
            return None
        return rate_range(self.steady.request_rate * self.plan.given, self.plan.resolved)

    def ranges(self) -> dict[str, tuple[float, float] | None]:
        """Return the 80 % ranges of the times to the first token, and per token."""
        steady, resolved = self.steady, self.plan.resolved
        if steady is None:
            return {"time_to_first_token": None, "time_per_output_token": None}
        each = steady.time_per_output_token
        return {
            "time_to_first_token": first_token_range(steady, resolved),
            "time_per_output_token": None if each is None else token_range(each, resolved),
        }


def missing(plan: ServerPlan, room: Room) -> str:
    """Say what not one request fits for the lack of."""
    elsewhere = missing_there(room.missing_off_device)
    if elsewhere:
        return elsewhere
    whose = "one request" if plan.limits.context is None else f"a cache of {plan.limits.context:,.0f} tokens"
    each = " on each GPU" if plan.gpus > 1 else ""
    return f"{humanize(room.shortfall, 'B', 3)} missing{each} for {whose}"


def percentile(latencies: TokenLatencies, percent: float, resolved: Resolved) -> dict[str, Any]:
    """Return both latencies at a percentile, each with its 80 % range and with what other requests make of it."""
    figures: dict[str, Any] = {}
    alone, each = latencies.alone, latencies.each
    of = {
        "time_to_first_token": (latencies.first.percentile(percent), alone.first.percentile(percent)),
        "time_per_output_token": (None if each is None else each.percentile(percent), alone.each),
    }
    for name, (seconds, lone) in of.items():
        figures |= {name: seconds, f"{name}_range": None, f"{name}_queueing": None}
        if seconds is not None and lone is not None:
            figures[f"{name}_range"] = [seconds * end for end in error_of(resolved, name)]
            figures[f"{name}_queueing"] = max(seconds - lone, 0.0)
    return figures


def as_data(served: Served) -> dict[str, Any]:
    """Return plain data, of schema roofsim/serve/1; seconds, bytes, tokens, dollars."""
    plan, steady, ranges = served.plan, served.steady, served.ranges()
    parallel = plan.resolved.parallel
    return {
        "schema": SCHEMA,
        "scenario": {
            "model": plan.resolved.model.name,
            "precision": plan.resolved.precision.name,
            "engine": plan.resolved.engine.name,
            "gpu": plan.resolved.gpu.name,
            "gpus": plan.gpus,
            "system": plan.resolved.system.name,
            "tensor": parallel.tensor,
            "pipeline": parallel.pipeline,
            "expert": parallel.expert,
            "replicas": parallel.data,
            "prompt_length": plan.prompt,
            "cached_prompt_length": plan.cached,
            "output_length": plan.output,
            "beam_width": plan.beams,
            "num_return_sequences": plan.samples,
            "max_num_batched_tokens": plan.budget,
            "chunked_prefill": plan.chunked,
            "max_num_seqs": plan.max_num_seqs,
            "serving": plan.serving.model_dump(),
        },
        "load": {"kind": served.kind, "concurrency": plan.concurrency, "request_rate": plan.request_rate},
        "fits": served.room.fits,
        "sustainable": steady is not None,
        "verdict": served.verdict,
        "reason": served.reason,
        "latency": None
        if steady is None
        else {
            "time_to_first_token": steady.time_to_first_token,
            "time_to_first_token_range": ranges["time_to_first_token"],
            "time_per_output_token": steady.time_per_output_token,
            "time_per_output_token_range": ranges["time_per_output_token"],
            "end_to_end": steady.end_to_end,
            "kv_transfer": None if served.workers is None else served.workers.transfer,
            "percentiles": served.percentiles(),
        },
        "conditioning": None if served.conditioning is None else served.conditioning.to_dict(),
        "throughput": None
        if steady is None
        else served.rates(steady) | {"output_tokens_per_second_range": served.output_range},
        **_target(served),
        **({} if served.requests is None else {"requests": served.requests.to_dict()}),
        "running": None if steady is None else steady.running,
        "waiting": None if steady is None else steady.waiting,
        "prompt_share": None if steady is None else steady.prompt_share,
        "bounds": served.bounds,
        "decode_compute_bound_at": served.compute_bound_at,
        "decode_products_compute_bound_at": served.products_bound_at,
        "saturation": {
            "requests_per_second": served.highest_rate if served.room.fits else None,
            "requests_per_second_range": served.highest_rate_range if served.room.fits else None,
            "output_tokens_per_second_per_gpu": served.highest_rate * plan.given / plan.gpus
            if served.room.fits
            else None,
            "max_requests": served.max_requests,
        },
        "memory": served.room.to_dict(),
        "prefix_cache": plan.hits.to_dict() if plan.stated_cached or plan.hits.capacity else None,
        "cost": served.money(),
        "curve": [point(served, index) for index in range(len(served.curve))],
        "simulated": None if served.simulated is None else served.simulated.to_dict(),
        "assumed": list(plan.assumed),
        "warnings": list(served.notes),
    }


def _target(served: Served) -> dict[str, Any]:
    """Return what comes of bounds on latencies; without bounds nothing."""
    return {} if served.sized is None else served.sized.to_dict() | {"keeps_target": served.keeps_target}


def point(served: Served, index: int) -> dict[str, Any]:
    """Return one point of the curve over loads."""
    concurrency, steady = served.curve[index]
    return {
        "concurrency": concurrency,
        "time_to_first_token": steady.time_to_first_token,
        "time_per_output_token": steady.time_per_output_token,
        "end_to_end": steady.end_to_end,
        **served.rates(steady),
    }
