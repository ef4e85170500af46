"""Hold the answer of a search over servers: the cheapest that keep bounds on latencies, what became of the others, and a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.printed import Printed, flattened
from roofsim.analyze.used_prices import UsedPrice, used_prices
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roofsim.serve.sizing import Sizing
    from roofsim.serve.target import LatencyTarget
    from roofsim.spec.hardware.price import Quote

#: What is least of the best: dollars of the servers that a rate needs, dollars of tokens, or, without a price, GPUs.
BILL, TOKENS, GPUS = "usd_per_month", "usd_per_million_output_tokens", "gpus"
SCHEMA: Final = "roofsim/plan/1"


@dataclass(frozen=True, kw_only=True)
class ServerChoice:
    """One server of the answer, with as many replicas as the rate needs.

    Attributes
    ----------
    id
        Its number in the space.
    changes
        Section of a scenario -> the keys that it sets; merged into the scenario, `roofsim serve` answers for it.
    sizing
        What one of its replicas, or the stated GPUs, sustain.
    each
        Requests per second that one replica sustains.
    replicas, gpus
        Of the whole server.
    request_rate
        Requests per second that it serves; without a stated rate the most that it sustains.
    time_to_first_token, time_per_output_token
        Mean seconds at that rate.
    interval
        The 80 % range of the time per token.
    memory
        Bytes on a GPU, with the cache that the engine takes.
    hourly
        Dollars per hour; None: no price is known.
    value
        What is least of the best, and its 80 % range; None: not known.
    undecided
        Whether the model cannot tell it from the best.
    why
        How it differs from the best, in words.
    price, comparable
        The price of an hour of a card, None where none is known; whether it is of the market of the best's.
    """

    id: int
    changes: Mapping[str, Mapping[str, Any]]
    gpu: str
    gpus: int
    replicas: int
    request_rate: float
    output: float
    sizing: Sizing
    each: float
    time_to_first_token: float
    time_per_output_token: float | None
    interval: tuple[float, float] | None
    memory: float
    hourly: float | None
    monthly: float | None
    value: float | None
    values: tuple[float | None, float | None]
    undecided: bool = False
    why: str = ""
    price: Quote | None = None
    comparable: bool = True

    @property
    def usd_per_million(self) -> float | None:
        """Dollars of a million output tokens at that rate."""
        from roofsim.analyze.money import MILLION, SECONDS_PER_HOUR

        if self.hourly is None or self.request_rate <= 0.0:
            return None
        return self.hourly / SECONDS_PER_HOUR * MILLION / (self.request_rate * self.output)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            **{section: dict(keys) for section, keys in self.changes.items()},
            "id": self.id,
            "step_time": self.time_per_output_token,
            "step_time_interval": None if self.interval is None else list(self.interval),
            "memory_peak": self.memory,
            "usd_per_million_tokens": self.usd_per_million,
            "usd_per_hour": self.hourly,
            "usd_per_month": self.monthly,
            "price": None if self.price is None else self.price.words(),
            "price_comparable": self.comparable,
            "value": self.value,
            "value_range": list(self.values),
            "replicas": self.replicas,
            "gpus": self.gpus,
            "request_rate": self.request_rate,
            "max_request_rate": self.sizing.rate,
            "max_request_rate_range": list(self.sizing.rates),
            "max_request_rate_per_replica": self.each,
            "limits": self.sizing.limits,
            "at_limit": dict(self.sizing.at_limit),
            "latency": {
                "time_to_first_token": self.time_to_first_token,
                "time_per_output_token": self.time_per_output_token,
            },
            "undecided": self.undecided,
            "why": self.why,
        }


@dataclass(frozen=True, kw_only=True, repr=False)
class ServerChoices(Printed):
    """The answer of a search over servers.

    Attributes
    ----------
    objective
        What is least of the best: ``usd_per_month`` for a stated rate, else ``usd_per_million_output_tokens``; ``gpus`` where no
        card has a price.
    request_rate
        Requests per second that are to be served; None: nobody said.
    considered, refused, priced, cut
        Numbers of servers: in the space, that cannot run or keep no bound, whose rates were worked out, and left out because their
        bound says that they cannot be among the first.
    reasons
        Reason -> what it says of the first server that it is true of.
    lower_bound
        No server of the space that can run has less of the objective; None: none can, or it has no price.
    """

    scenario: Mapping[str, Any]
    target: LatencyTarget
    request_rate: float | None
    objective: str
    axes: Mapping[str, list[Any]]
    considered: int
    refused: Mapping[str, int]
    reasons: Mapping[str, str]
    priced: int
    cut: int
    lower_bound: float | None
    seconds: float
    top: tuple[ServerChoice, ...]
    assumed: tuple[str, ...] = ()

    @property
    def prices(self) -> tuple[UsedPrice, ...]:
        """The prices of an hour that costs rest on, that of the best first."""
        return used_prices((one.gpu, one.price) for one in self.top)

    @property
    def best(self) -> ServerChoice | None:
        """The best server; None where none keeps the bounds."""
        return self.top[0] if self.top else None

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a flat row of each of the best servers; where none keeps the bounds, a row for each reason."""
        rows = [flattened(one.to_dict()) for one in self.top]
        return rows or [{"refused": count, "reason": self.reasons[code]} for code, count in self.refused.items()]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, of schema ``roofsim/plan/1``."""
        best = self.best
        return {
            "schema": SCHEMA,
            "scenario": dict(self.scenario),
            "objective": self.objective,
            "constraints": [],
            "slo": self.target.to_dict(),
            "request_rate": self.request_rate,
            "max_request_rate": None if best is None else best.sizing.rate,
            "replicas": None if best is None else best.replicas,
            "space": {"axes": {key: list(values) for key, values in self.axes.items()}, "points": self.considered},
            "considered": self.considered,
            "evaluated": self.priced,
            "cut": self.cut,
            "refused": dict(self.refused),
            "reasons": dict(self.reasons),
            "seconds": self.seconds,
            "lower_bound": self.lower_bound,
            "assumed": list(self.assumed),
            "prices": [one.to_dict() for one in self.prices],
            "top": [one.to_dict() for one in self.top],
            "front": [],
            "robustness": None,
        }
