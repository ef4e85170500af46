"""Find what money buys: real cards with more of a resource, more GPUs, better nodes; and what is not worth it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.limit_words import BOUND_WORDS
from roofsim.analyze.shares import WAIT_NAMES
from roofsim.analyze.used_prices import quote_in
from roofsim.decide.advice import LEAST, Advice, advice_of, command_of, warned_of
from roofsim.decide.cards import on_every_card
from roofsim.decide.changes import read_changes
from roofsim.decide.jobs import gain_of, mixed
from roofsim.decide.market import key_of, peak_of
from roofsim.decide.measurement import mostly
from roofsim.decide.need import ways_to_spread
from roofsim.decide.prices import IDLE, compute_of, doubled
from roofsim.decide.resources import KEYS, lanes_of
from roofsim.decide.side_by_side import Prices, SideBySide, priced
from roofsim.decide.whatif import OPS
from roofsim.records import dataclass, field, replace
from roofsim.spec import catalog
from roofsim.spec.hardware.schema import Gpu, System
from roofsim.spec.reading.validate import validate
from roofsim.units import percent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from roofsim.decide.jobs import Gain, Job

#: A card has more of a resource from this factor on.
_MORE: Final = 1.1
_CHEAPEST: Final = "the cheapest of the "
#: What else money buys: rates.
_OTHERS: Final = ("intra_node_link", "inter_node_link", "host_link", "host_issue_rate", "power", "storage")
#: What makes the host launch kernels twice as fast.
_FASTER_HOST: Final = "host.issue_factor=0.5x"
#: Percent of speed for one percent more of a rate up to which a step does not depend on it.
_NOTICED: Final = 1e-3
#: Links between GPUs, of which one has none.
_LINKS: Final = ("intra_node_link", "inter_node_link")
#: Share of a difference from which on it is said to be the host's.
_MOSTLY: Final = 0.5
#: Waits for the host, as tables of ops call them.
_HOST: Final = tuple(WAIT_NAMES[name][0] for name in ("launches", "between_passes"))


@dataclass(frozen=True, kw_only=True)
class Purchases:
    """What is worth its money if it is as fast as predicted, what is not, and how many candidates were tried."""

    worth: tuple[Advice, ...]
    not_worth: tuple[Advice, ...]
    tried: int
    others: Mapping[str, float]
    """Resource beside bandwidth and compute -> share of speed that twice as much of it buys."""


@dataclass(frozen=True, kw_only=True)
class OtherWay:
    """Share of speed that twice as much of a resource buys, and the change that makes it so; empty where no key does."""

    gain: float
    change: str


@dataclass
class _Cards:
    """Cards of the catalog that run every job: how many times as fast they are, and their prices beside that of the card now."""

    ratio: dict[str, float] = field(default_factory=dict)
    prices: dict[str, SideBySide] = field(default_factory=dict)

    def dearer(self, name: str) -> float:
        """Return dollars of an hour over those now; 0 where a price is not known."""
        return self.prices[name].ratio or 0.0

    def cost(self, name: str) -> float | None:
        """Return dollars for the same work over those now; None where a price is not known."""
        ratio = self.prices[name].ratio
        return None if ratio is None else ratio / self.ratio[name]


def purchases(jobs: Sequence[Job], elasticity: dict[str, float]) -> Purchases:
    """Return what money buys for a mix, the least dollars per hour first."""
    cards, compute = _cards(jobs), compute_of(elasticity)
    worth, poor = _of_cards(jobs, cards, compute)
    worth += [one for make in (_more_gpus, _nodes) for one in make(jobs)]
    others = _other_ways(jobs, elasticity)
    worth += _more_of_others(jobs, others)
    worth.sort(key=lambda one: (one.usd is None, one.cost_ratio is None, one.cost_ratio or 0.0, -one.gain))
    poor = [*_idle_resources(jobs, compute, others), *poor]
    return Purchases(
        worth=tuple(worth),
        not_worth=tuple(poor),
        tried=len(cards.ratio),
        others={name: way.gain for name, way in others.items()},
    )


def _cards(jobs: Sequence[Job]) -> _Cards:
    """Price every job on every card; those that run and hold all of them."""
    tables = []
    for job in jobs:
        asking, figures = job.asking, ("step_time", "throughput", "memory.fits", "cost")
        rows = on_every_card(asking.document, figures, asking.evaluation.resolved)
        tables.append({row["hardware.gpu"]: row for row in rows if row["memory.fits"]})
    cards, first = _Cards(), jobs[0].asking
    prices, gpus = Prices(first.document), first.before.scenario["hardware"]["gpus"]
    for name, row in tables[0].items():
        if all(name in table for table in tables):
            steps = [float(table[name]["step_time"]) for table in tables]
            before = [float(job.asking.before.step_time) for job in jobs]
            cards.ratio[name] = mixed(jobs, [old / new for old, new in zip(before, steps, strict=True)])
            shown = quote_in({key.removeprefix("cost."): value for key, value in row.items()}, gpus)
            cards.prices[name] = prices.beside(name, shown)
    return cards


def _amounts(jobs: Sequence[Job], compute: str) -> dict[str, Callable[[Gpu], float]]:
    math = jobs[0].asking.evaluation.resolved.precision.math
    return {
        "memory_bandwidth": lambda gpu: float(gpu.memory.bandwidth),
        compute: lambda gpu: peak_of(gpu, compute, math),
        "memory_capacity": lambda gpu: float(gpu.memory.capacity),
    }


def _of_cards(jobs: Sequence[Job], cards: _Cards, compute: str) -> tuple[list[Advice], list[Advice]]:
    """Return the real cards to buy, and the dear ones with more of what the mix does not need.

    Where a job does not fit now, every card that holds it may be bought, faster or not.
    """
    own = jobs[0].asking.evaluation.resolved.gpu
    gpus = {name: validate(Gpu, catalog.load("gpu", name)) for name in cards.ratio if name != own.name}
    lacking = any(not job.asking.before.memory.fits for job in jobs)
    more = {}
    for resource, amount in _amounts(jobs, compute).items():
        have = amount(own)
        more[resource] = {
            name: amount(gpu) / have for name, gpu in gpus.items() if have and amount(gpu) >= _MORE * have
        }
    poor = {} if lacking else _dear(cards, more)
    faster = [name for name in gpus if name not in poor and (lacking or cards.ratio[name] >= 1.0 + LEAST)]
    if not lacking:
        del more["memory_capacity"]
    reasons = _reasons(cards, faster, more, "cards that hold it" if lacking else "faster cards")
    worth = [one for name, why in reasons.items() if (one := _card(jobs, cards, name, _joined(why))) is not None]
    if lacking:
        worth = [replace(one, decided=True) for one in worth]
    dearer = [_card(jobs, cards, name, why_not(jobs, gpus[name], why, compute)) for name, why in poor.items()]
    return worth, [replace(one, measure=None, measure_command=None) for one in dearer if one is not None]


def _dear(cards: _Cards, more: Mapping[str, Mapping[str, float]]) -> dict[str, list[str]]:
    """Return the cheapest cards with more of a resource that cost more than now and gain next to nothing: card -> resources."""
    poor: dict[str, list[str]] = {}
    for resource, having in more.items():
        dear = {name: ratio for name in having if (ratio := cards.dearer(name)) > 1.0}
        for name in _least({name: price for name, price in dear.items() if cards.ratio[name] < 1.0 + IDLE}):
            poor.setdefault(name, []).append(resource)
    return poor


def _reasons(
    cards: _Cards, faster: Sequence[str], more: Mapping[str, Mapping[str, float]], which: str
) -> dict[str, list[str]]:
    """Return the cards that are proposed, and why: card -> reasons. `which` says what they are among."""
    reasons: dict[str, list[str]] = {}
    for resource, having in more.items():
        best = {name: _by_price(cards, name) for name in faster if name in having and cards.prices[name].ratio}
        for name in _least(best):
            reasons.setdefault(name, []).append(
                f"{_CHEAPEST}{which} with more {_WORDS[resource]} ({having[name]:.3g}x)"
            )
    cost = {name: value for name in faster if (value := cards.cost(name)) is not None}
    cheapest, fastest = _least(cost), _least({name: -cards.ratio[name] for name in faster})
    at_home = _least({name: value for name, value in cost.items() if cards.prices[name].comparable})
    said = dict.fromkeys(at_home, f"the least dollars per unit of the {which} at one seller")
    said |= dict.fromkeys(cheapest, f"the least dollars per unit of the {which}")
    for name, why in said.items():
        reasons.setdefault(name, []).append(why)
    for name in dict.fromkeys((*_least({name: -cards.ratio[name] for name in cost}), *fastest)):
        reasons.setdefault(name, []).append(
            "the fastest of the catalog" if name in fastest else "the fastest with a price"
        )
    return reasons


def _least(values: Mapping[str, Any]) -> list[str]:
    """Return the card with the least value, if there is any."""
    return [min(values, key=lambda name: values[name])] if values else []


def _joined(reasons: Sequence[str]) -> str:
    """Return reasons in one line: what a card is the cheapest of in one clause."""
    cheapest = [one for one in reasons if one.startswith(_CHEAPEST)]
    parts = [one.rpartition(" with ")[2] for one in cheapest[1:]]
    others = [one for one in reasons if one not in cheapest]
    return "; ".join([" and ".join((*cheapest[:1], *parts)), *others] if cheapest else others)


def why_not(jobs: Sequence[Job], gpu: Gpu, more: Sequence[str], compute: str) -> str:
    """Say what a dearer card has more of, and why that gains next to nothing: it is idle, or others limit."""
    own = jobs[0].asking.evaluation.resolved.gpu
    amounts = _amounts(jobs, compute)
    has = " and ".join(f"{amounts[name](gpu) / amounts[name](own):.3g}x the {_WORDS[name]}" for name in more)
    if all(name == "memory_capacity" or doubled(jobs, name) < IDLE for name in more):
        return f"{has}, which this does not need{_slower_by(jobs, gpu.name)}"
    limits = [_limits_on(job, gpu.name) for job in jobs]
    waits: dict[str, float] = {}
    for job, shares in zip(jobs, limits, strict=True):
        for name, share in shares.items():
            waits[name] = waits.get(name, 0.0) + job.share * share
    if not waits:
        return has
    most = max(waits, key=lambda name: waits[name])
    return f"{has}, but {percent(waits[most])} of its time waits for {BOUND_WORDS[most]}{_with_less(amounts, gpu, own)}"


def _slower_by(jobs: Sequence[Job], gpu: str) -> str:
    """Return what most of the difference is where a card is slower, in words; nothing where it is not."""
    gain = gain_of(jobs, read_changes({"gpu": gpu}), everywhere=True)
    if gain is None or gain.ratio >= 1.0 - LEAST:
        return ""
    cause = mostly(jobs, gain)
    return f"; it is slower{f' ({cause})' if cause else ''}"


def _with_less(amounts: Mapping[str, Callable[[Gpu], float]], gpu: Gpu, own: Gpu) -> str:
    """Return what a card has noticeably less of than another, in words; nothing where it has no less of anything."""
    shares = {name: of(gpu) / of(own) for name, of in amounts.items() if of(own)}
    if gpu.tdp and own.tdp:
        shares["power"] = float(gpu.tdp) / float(own.tdp)
    less = [f"{share:.2g}x the {_WORDS.get(name, name)}" for name, share in shares.items() if 0.0 < share < 1.0 / _MORE]
    return f"; it has {' and '.join(less)}" if less else ""


def _limits_on(job: Job, gpu: str) -> dict[str, float]:
    """Return the share of a job's time that waits for each resource on another card."""
    evaluation = job.asking.evaluated(read_changes({"gpu": gpu}))
    if evaluation is None:
        return {}
    step = evaluation.step
    return {name: float(seconds) / float(step.step) for name, seconds in step.resources.items()}


def _by_price(cards: _Cards, name: str) -> tuple[bool, float, float]:
    """Return what puts the cheapest first: those with a price that can be compared before others, then the faster."""
    return not cards.prices[name].comparable, cards.dearer(name), -cards.ratio[name]


_WORDS: Final = {
    "memory_bandwidth": "memory bandwidth",
    "tensor_flops": "tensor FLOP/s",
    "vector_flops": "FLOP/s of ordinary units",
    "memory_capacity": "memory",
}


def _card(jobs: Sequence[Job], cards: _Cards, name: str, why: str) -> Advice | None:
    gain = gain_of(jobs, read_changes({"gpu": name}), everywhere=True)
    if gain is None:
        return None
    prices, gpus = cards.prices[name], jobs[0].asking.before.scenario["hardware"]["gpus"]
    by_host = _share_of_host(gain) > _MOSTLY
    said = f"{why}; mostly by the CPU of the host that it usually has" if by_host and gain.ratio > 1.0 else why
    advice = advice_of(jobs, gain, kind="card", change=f"gpu={name}", why=said)
    return replace(advice, by_host=by_host, **priced(prices, gpus, gain.ratio))


def _share_of_host(gain: Gain) -> float:
    """Return which share of a difference is that the host launches kernels faster or slower."""
    causes = [cause for one in gain.outcomes if one is not None for cause in one.by.get(OPS, ())]
    whole = sum(abs(cause.seconds) for cause in causes)
    return sum(abs(cause.seconds) for cause in causes if cause.cause in _HOST) / whole if whole else 0.0


def _other_ways(jobs: Sequence[Job], elasticity: Mapping[str, float]) -> dict[str, OtherWay]:
    """Return what twice as much gains of each resource beside bandwidth and compute that a step depends on, alone."""
    asking = jobs[0].asking
    lanes = lanes_of(asking.document, asking.stated, asking.evaluation)
    several = asking.evaluation.resolved.gpus > 1
    ways = {}
    for resource in lanes.distinct(_OTHERS):
        rates = lanes.moved(resource)
        used = resource == "power" or -sum(elasticity.get(rate, 0.0) for rate in rates) > _NOTICED
        if used and (several or resource not in _LINKS):
            keys = lanes.keys if resource == lanes.name and several else (KEYS.get(resource),)
            change = ",".join(f"{key}=2x" for key in keys if key is not None)
            change = _FASTER_HOST if resource == "host_issue_rate" else change
            ways[resource] = OtherWay(gain=doubled(jobs, *rates), change=change)
    return ways


def _more_of_others(jobs: Sequence[Job], others: Mapping[str, OtherWay]) -> Iterator[Advice]:
    """Yield what twice as much gains of links, of the host and of power, alone: no price of them is known."""
    for resource, way in others.items():
        gain = gain_of(jobs, read_changes(way.change), everywhere=True) if way.change and way.gain >= IDLE else None
        if gain is not None and gain.ratio >= 1.0 + IDLE and gain.fits:
            why = "twice as much of it alone; it has no price"
            yield replace(advice_of(jobs, gain, kind=resource, change=way.change, why=why), cost_ratio=None)


def _idle_resources(jobs: Sequence[Job], compute: str, others: Mapping[str, OtherWay]) -> list[Advice]:
    """Return the resources of which twice as much buys next to nothing."""
    math = jobs[0].asking.evaluation.resolved.precision.math
    sides = {"memory_bandwidth": "memory.bandwidth=2x"}
    if peak_of(jobs[0].asking.evaluation.resolved.gpu, compute, math):
        sides[compute] = f"{key_of(compute, math)}=2x"
    idle = []
    ways = {rate: OtherWay(gain=doubled(jobs, rate), change=change) for rate, change in sides.items()} | dict(others)
    for rate, way in ways.items():
        if way.gain < IDLE and way.change:
            command, why = command_of(jobs, way.change), "twice as much of it alone"
            idle.append(Advice(kind=rate, change=way.change, command=command, gain=way.gain, why=why))
    memory = jobs[0].asking.before.memory
    if bool(memory.fits) and float(memory.device_total) < float(memory.capacity) / 2.0:
        change = "memory.capacity=2x"
        why = "less than half of it is taken; it is worth something with a larger batch only"
        idle.append(Advice(kind="memory_capacity", change=change, command=command_of(jobs, change), gain=0.0, why=why))
    return idle


def _more_gpus(jobs: Sequence[Job]) -> Iterator[Advice]:
    """Yield twice the GPUs: the same step spread over them, or twice the work per step, whichever is faster."""
    now = jobs[0].asking.before
    tried: list[tuple[Gain, str, str]] = []
    twice = {"hardware.gpus": 2 * now.scenario["hardware"]["gpus"], "parallel.data": None}
    ways = [
        (twice, "each with the batch of now"),
        *((way, "the same work shared out") for way in ways_to_spread(now, 2)),
    ]
    for changes, how in ways:
        made = {key: value for key, value in changes.items() if value is not None}
        gain = gain_of(jobs, read_changes(made), everywhere=True)
        if gain is not None and gain.ratio >= 1.0 + LEAST and gain.fits and not warned_of(jobs, gain):
            tried.append((gain, ",".join(f"{key}={value}" for key, value in made.items()), how))
    if tried:
        gain, change, how = max(tried, key=lambda one: one[0].ratio)
        yield _with_price(jobs, gain, "gpus", change, f"twice the GPUs, {how}")


def _with_price(jobs: Sequence[Job], gain: Gain, kind: str, change: str, why: str) -> Advice:
    after, before = gain.outcomes[0], jobs[0].asking.before.cost["usd_per_hour"]
    hourly = None if after is None or after.result is None else after.result.cost["usd_per_hour"]
    usd = None if hourly is None or before is None else float(hourly) - float(before)
    price = None if after is None or after.result is None else after.result.cost["price"]
    return advice_of(jobs, gain, kind=kind, change=change, why=why, usd=usd, price=price)


def _nodes(jobs: Sequence[Job]) -> Iterator[Advice]:
    """Yield the node of the catalog that is fastest with the same cards, where several run: better links or network."""
    resolved = jobs[0].asking.evaluation.resolved
    if resolved.gpus == 1:
        return
    faster: list[tuple[Gain, str]] = []
    for name in catalog.names("system"):
        system = validate(System, catalog.load("system", name))
        if name != resolved.system.name and system.gpu in (None, resolved.gpu.name) and not system.stand_in:
            gain: Any = gain_of(jobs, read_changes({"hardware.system": name}), everywhere=True)
            if gain is not None and gain.ratio >= 1.0 + LEAST and gain.fits:
                faster.append((gain, name))
    if faster:
        gain, name = max(faster, key=lambda one: one[0].ratio)
        yield _with_price(
            jobs, gain, "links", f"hardware.system={name}", "the node with the fastest links for these cards"
        )
