"""The answer for a server of one pass, and how it looks as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.money import cost
from roofsim.analyze.printed import Drawn
from roofsim.analyze.watts import drawn_watts
from roofsim.records import asdict, dataclass
from roofsim.units import humanize

if TYPE_CHECKING:
    from roofsim.serve.one_pass.batching import Batcher
    from roofsim.serve.one_pass.plan import OnePassPlan
    from roofsim.serve.one_pass.simulation import SimulatedBatches

SCHEMA: Final = "roofsim/serve/1"


@dataclass(frozen=True, kw_only=True)
class OnePassSteady:
    """The steady state of a whole server; seconds and requests per second.

    Attributes
    ----------
    latency
        From a request's arrival to its answer, mean; `latency_range`: its 80 % range, without an upper end where the server
        might fall behind.
    percentiles
        Percent of the requests -> seconds that these do not exceed.
    batch
        Mean requests of a batch.
    """

    latency: float
    latency_range: tuple[float, float | None]
    percentiles: dict[str, float]
    request_rate: float
    batch: float


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """The most that keeps a bound on latencies: requests per second of the whole server, and their 80 % range.

    `rate` 0: not even a request alone is answered in time.
    """

    bound: float
    percent: float
    rate: float
    rates: tuple[float, float]


@dataclass(frozen=True, kw_only=True, repr=False)
class ServedPasses(Drawn):
    """The answer. Rates are those of the whole server.

    Attributes
    ----------
    steady
        The steady state under the load; None: more comes than the server can do, nothing keeps the bound, or it does not fit.
    bounded
        What keeps the bound on latencies; None: nobody stated one, or it does not fit.
    """

    plan: OnePassPlan
    batcher: Batcher
    steady: OnePassSteady | None
    bounded: Bounded | None
    notes: tuple[str, ...]
    simulated: SimulatedBatches | None = None

    @property
    def kind(self) -> str:
        """Return ``closed``, ``open``, ``bounded`` (at the bound on latencies) or ``saturated``."""
        if self.plan.request_rate is not None:
            return "open"
        if self.plan.concurrency is not None:
            return "closed"
        return "saturated" if self.plan.serving.latency_bound is None else "bounded"

    @property
    def highest_rate(self) -> float:
        """Requests per second that the whole server completes at most, whatever they wait."""
        return self.batcher.highest_rate

    @property
    def highest_rate_range(self) -> tuple[float, float]:
        """The 80 % range of `highest_rate`."""
        low, high = self.plan.spread
        return self.highest_rate / high, self.highest_rate / low

    @property
    def verdict(self) -> str | None:
        """Whether the server keeps up with a stated rate: ``sustainable``, ``tight`` within the interval, ``not_sustainable``."""
        rate = self.plan.request_rate
        if rate is None or not self.plan.fits:
            return None
        low, high = self.highest_rate_range
        return "sustainable" if rate < low else "not_sustainable" if rate > high else "tight"

    @property
    def reason(self) -> str | None:
        """Why there are no latencies; None where there are."""
        if not self.plan.fits:
            missing = float(self.plan.memory.device_total) - float(self.plan.memory.capacity)
            return f"does not fit: {humanize(missing, 'B', 3)} missing for a batch of {self.plan.most:.0f}"
        if self.steady is not None:
            return None
        if self.plan.request_rate is not None:
            rate = f"{self.plan.request_rate:.4g}"
            return f"not sustainable: {rate} requests/s arrive, the server completes {self.highest_rate:.4g} at most"
        return "not even a request alone is answered within the bound"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, of schema roofsim/serve/1; seconds, bytes, requests, dollars."""
        return as_data(self)

    def money(self) -> dict[str, Any]:
        """Return dollars per hour, and per million requests."""
        resolved, rate = self.plan.resolved, 0.0 if self.steady is None else self.steady.request_rate
        costs = cost(resolved.gpu, resolved.system, self.plan.gpus, 1.0, rate, "requests", drawn_watts(self.plan.full))
        names = ("usd_per_hour", "usd_per_million_requests", "kwh_per_million_requests", "price_date", "price")
        return {name: costs[name] for name in names}

    def rows(self) -> list[dict[str, Any]]:
        """Return what batches of each size take and bring."""
        if not self.plan.fits:
            return [{"batch_size": self.plan.most, "reason": self.reason}]
        sizes = sorted({*(point for point in self.plan.times.points if point < self.plan.most), self.plan.most})
        return [
            {
                "batch_size": size,
                "time": self.plan.times.at(size),
                "requests_per_second": self.plan.replicas * size / self.plan.times.at(size),
            }
            for size in sizes
        ]


def as_data(served: ServedPasses) -> dict[str, Any]:
    """Return plain data, of schema roofsim/serve/1; seconds, bytes, requests, dollars."""
    plan, steady, bounded = served.plan, served.steady, served.bounded
    resolved, workload = plan.resolved, plan.resolved.workload
    return {
        "schema": SCHEMA,
        "scenario": {
            "model": resolved.model.name,
            "precision": resolved.precision.name,
            "engine": resolved.engine.name,
            "gpu": resolved.gpu.name,
            "gpus": plan.gpus,
            "system": resolved.system.name,
            "tensor": resolved.parallel.tensor,
            "replicas": plan.replicas,
            "image_size": workload.image_size,
            "sequence_length": workload.sequence_length,
            "max_batch_size": plan.most,
            "max_queue_delay": plan.serving.max_queue_delay or 0.0,
        },
        "load": {"kind": served.kind, "concurrency": plan.concurrency, "request_rate": plan.request_rate},
        "fits": plan.fits,
        "sustainable": steady is not None,
        "verdict": served.verdict,
        "reason": served.reason,
        "latency": None
        if steady is None
        else {
            "end_to_end": steady.latency,
            "end_to_end_range": steady.latency_range,
            "percentiles": steady.percentiles,
        },
        "throughput": None
        if steady is None
        else {
            "requests_per_second": steady.request_rate,
            "requests_per_second_per_gpu": steady.request_rate / plan.gpus,
        },
        "batch_size": None if steady is None else steady.batch,
        "slo": None
        if bounded is None
        else {
            "latency": bounded.bound,
            "percentile": bounded.percent,
            "max_request_rate": bounded.rate,
            "max_request_rate_range": bounded.rates,
        },
        "saturation": {
            "requests_per_second": served.highest_rate if plan.fits else None,
            "requests_per_second_range": served.highest_rate_range if plan.fits else None,
        },
        "batches": served.rows(),
        "memory": {
            "device_total": float(plan.memory.device_total),
            "capacity": float(plan.memory.capacity),
            "fits": plan.fits,
        },
        "cost": served.money(),
        "simulated": None if served.simulated is None else asdict(served.simulated),
        "assumed": list(plan.assumed),
        "warnings": list(served.notes),
    }
