"""The largest rate that a server sustains within bounds on its latencies, what limits it, and what laxer bounds would bring."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.records import dataclass, field
from roofsim.serve.ranges import error_of
from roofsim.serve.target import BOUNDS

if TYPE_CHECKING:
    from roofsim.serve.latencies import TokenLatencies
    from roofsim.serve.server import Server
    from roofsim.serve.spread import LatencySpread
    from roofsim.serve.target import LatencyTarget

#: Doublings between the least rate that is tried and the highest that the server completes.
_DOUBLINGS: Final = 10
#: Halvings of these: a rate is found to less than a thousandth; of ends of ranges, and of what-ifs, to one percent.
_HALVINGS: Final = 14
_ROUGHLY: Final = 10
#: By how much a bound, or the room for requests, is relaxed to see what that brings.
LAXER: Final = 0.1
#: More requests per second that count as more, as a share.
_COUNTS: Final = 0.01
#: What limits, where none of the bounds does.
ROOM, CAPACITY = "room", "capacity"


@dataclass(frozen=True, kw_only=True)
class Relaxed:
    """What would come of more of one thing.

    Attributes
    ----------
    laxer
        Requests per second with 10 % more of it.
    without
        Requests per second without the bound, and what limits them then; None for what is no bound.
    """

    laxer: float
    without: float | None = None
    then: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"laxer": self.laxer, "without": self.without, "then": self.then}


@dataclass(frozen=True, kw_only=True)
class Sizing:
    """The largest rate of a server within bounds. Requests per second of the whole server; seconds.

    Attributes
    ----------
    rate, rates
        The largest, and its 80 % range; 0: not even a request now and then keeps the bounds.
    limits
        ``time_to_first_token``, ``time_per_output_token``, ``room`` (for requests at once) or ``capacity``; None at rate 0.
    at_limit
        The latencies at the percentile, at that rate; at rate 0 those of a request that is alone.
    relaxed
        What 10 % more of each would bring, and what each bound costs.
    reason
        Why there is no rate; None where there is one.
    """

    target: LatencyTarget
    rate: float
    rates: tuple[float, float]
    limits: str | None
    at_limit: dict[str, float | None]
    relaxed: dict[str, Relaxed]
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class SizedServer:
    """A server that was sized.

    Attributes
    ----------
    sizing
        Of what the scenario describes: one replica, where it states no GPUs.
    stated
        Whether the scenario says how many GPUs the server has.
    request_rate
        Requests per second that are to be served; None: nobody said.
    replicas, gpus
        That serve them, or of the scenario where no rate is stated; None: no number does.
    replicas_range
        Replicas at the ends of the 80 % range of the rate that one sustains; None at an end where no number does.
    unit
        Replicas of the scenario itself, whose rate is that of `sizing`.
    hint
        What would keep the bounds where nothing does.
    """

    sizing: Sizing
    stated: bool
    request_rate: float | None
    replicas: int | None
    gpus: int | None
    replicas_range: tuple[int | None, int | None]
    unit: float
    hint: str | None = None

    @property
    def each(self) -> float:
        """Requests per second that one replica sustains."""
        return self.sizing.rate / self.unit

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        sizing = self.sizing
        return {
            "slo": sizing.target.to_dict()
            | {
                "limits": sizing.limits,
                "at_limit": sizing.at_limit,
                "relaxed": {name: relaxed.to_dict() for name, relaxed in sizing.relaxed.items()},
                "reason": sizing.reason,
                "hint": self.hint,
            },
            "max_request_rate": sizing.rate,
            "max_request_rate_range": list(sizing.rates),
            "max_request_rate_per_replica": self.each,
            "replicas": self.replicas,
            "replicas_range": list(self.replicas_range),
            "gpus": self.gpus,
        }


@dataclass(frozen=True)
class RateSearch:
    """TokenLatencies of one server at rates, each worked out once."""

    server: Server
    highest_of_queue: float | None = None
    known: dict[float, TokenLatencies | None] = field(default_factory=dict)

    @classmethod
    def on(cls, server: Server) -> RateSearch:
        """Return the search on a server."""
        return cls(server, server.highest_of_queue)

    def at(self, rate: float) -> TokenLatencies | None:
        """Return the spreads of the latencies at a rate; None where the server falls behind."""
        if rate not in self.known:
            self.known[rate] = self.server.with_rate(rate).latencies(self.highest_of_queue)
        return self.known[rate]

    def keeps(self, target: LatencyTarget, rate: float) -> bool:
        """Tell whether the bounds hold at a rate."""
        latencies = self.at(rate)
        return latencies is not None and not broken(latencies, target)

    def largest(self, target: LatencyTarget, halvings: int = _HALVINGS) -> float:
        """Return the largest rate at which the bounds hold; 0: there is none.

        The rates that are tried do not depend on the bounds, so that laxer bounds never give less.
        """
        highest = self.server.highest_rate
        if highest <= 0.0 or not self.keeps(target, highest * 2.0**-_DOUBLINGS):
            return 0.0
        low, high = -float(_DOUBLINGS), 0.0
        for _ in range(halvings):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.keeps(target, highest * 2.0**middle) else (low, middle)
        return float(highest * 2.0**low)


def broken(latencies: TokenLatencies, target: LatencyTarget) -> list[str]:
    """Return the names of the latencies that break their bounds."""
    share = target.share
    kinds: dict[str, tuple[LatencySpread | None, float | None]] = {
        "ttft": (latencies.first, target.ttft),
        "tpot": (latencies.each, target.tpot),
    }
    return [
        BOUNDS[name]
        for name, (spread, bound) in kinds.items()
        if spread is not None and bound is not None and spread.within(bound) < share
    ]


def size_of(server: Server, target: LatencyTarget, *, fully: bool = True) -> Sizing:
    """Return the largest rate of a server that has room for a request; without `fully`, with no range and no what-ifs."""
    return sizing_of(RateSearch.on(server), target, fully=fully)


def sizing_of(search: RateSearch, target: LatencyTarget, *, fully: bool = True) -> Sizing:
    """Return `size_of` of the server that a search is on, with what it has worked out already."""
    rate = search.largest(target)
    if rate <= 0.0:
        return _none(search, target)
    latencies = search.at(rate)
    assert latencies is not None
    relaxed = _relaxed(search, target, rate) if fully else {}
    return Sizing(
        target=target,
        rate=rate,
        rates=_range(search, target, rate) if fully else (rate, rate),
        limits=_of_most_use(relaxed, rate) or _next_to_break(search, target, rate),
        at_limit=at_percentile(latencies, target.percentile),
        relaxed=relaxed,
    )


def at_percentile(latencies: TokenLatencies, percent: float) -> dict[str, float | None]:
    """Return both latencies at a percentile."""
    return {
        "time_to_first_token": latencies.first.percentile(percent),
        "time_per_output_token": None if latencies.each is None else latencies.each.percentile(percent),
    }


def _next_to_break(search: RateSearch, target: LatencyTarget, rate: float) -> str:
    """Return what breaks first with a little more."""
    latencies = search.at(rate * (1.0 + _COUNTS))
    names = [] if latencies is None else broken(latencies, target)
    return names[0] if names else CAPACITY


def _relaxed(search: RateSearch, target: LatencyTarget, rate: float) -> dict[str, Relaxed]:
    """Return what more of each thing would bring."""
    ways = {}
    for name, latency in BOUNDS.items():
        bound = getattr(target, name)
        if bound is None:
            continue
        laxer = max(search.largest(target.changed({name: bound * (1.0 + LAXER)}), _ROUGHLY), rate)
        other = target.changed({name: None})
        without = max(search.largest(other, _ROUGHLY), rate)
        ways[latency] = Relaxed(laxer=laxer, without=without, then=_next_to_break(search, other, without))
    roomy = RateSearch.on(search.server.with_room_for(1.0 + LAXER))
    return ways | {ROOM: Relaxed(laxer=max(roomy.largest(target, _ROUGHLY), rate))}


def _of_most_use(relaxed: dict[str, Relaxed], rate: float) -> str | None:
    """Return that of which more would bring most; None where none brings much."""
    name = max(relaxed, key=lambda each: relaxed[each].laxer, default=None)
    return name if name is not None and relaxed[name].laxer > rate * (1.0 + _COUNTS) else None


def _range(search: RateSearch, target: LatencyTarget, rate: float) -> tuple[float, float]:
    """Return the 80 % range of a rate: of servers whose steps all take longer, or less, by what measurements say.

    A server whose every step takes f times as long has, at a rate r, f times the latencies of this one at f r.
    """
    ends = []
    for end in (1, 0):
        factors = {name: error_of(search.server.plan.resolved, latency)[end] for name, latency in BOUNDS.items()}
        slower = error_of(search.server.plan.resolved, "output_tokens_per_second")[end]
        bounds = {
            name: None if (bound := getattr(target, name)) is None else bound / factor
            for name, factor in factors.items()
        }
        ends.append(search.largest(target.changed(bounds), _ROUGHLY) / slower)
    return min(ends[0], rate), max(ends[1], rate)


# -- no rate -----------------------------------------------------------------------------------------------------------


def _none(search: RateSearch, target: LatencyTarget) -> Sizing:
    """Return what to say where no rate keeps the bounds."""
    least = search.server.highest_rate * 2.0**-_DOUBLINGS
    latencies = search.at(least)
    alone: dict[str, float | None] = dict.fromkeys(BOUNDS.values())
    return Sizing(
        target=target,
        rate=0.0,
        rates=(0.0, _range(search, target, 0.0)[1]),
        limits=None,
        at_limit=alone if latencies is None else at_percentile(latencies, target.percentile),
        relaxed={},
        reason="the server falls behind" if latencies is None else _why_none(latencies, target, least),
    )


def _why_none(latencies: TokenLatencies, target: LatencyTarget, rate: float) -> str:
    """Say which bound a request breaks that is all but alone."""
    from roofsim.units import humanize

    said, alone = [], latencies.alone
    names = broken(latencies, target)
    if "time_per_output_token" in names and target.tpot is not None and alone.each is not None:
        each = humanize(alone.each, "s", 3)
        said.append(
            f"a single request already takes {each} per token, and the bound is {humanize(target.tpot, 's', 3)}"
        )
    if "time_to_first_token" in names and target.ttft is not None:
        first = humanize(alone.first.percentile(target.percentile), "s", 3)
        bound = humanize(target.ttft, "s", 3)
        said.append(
            f"the first token of a single request already takes {first} (p{target.percentile:g}), and the bound is {bound}"
        )
    return "; ".join(said) or f"not even {rate:.2g} requests/s keep the bounds"
