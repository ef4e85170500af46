"""Answer what reaches a target: how much of each resource alone, which mix, how many GPUs, and which cards of the catalog."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.printed import Printed, flattened
from roofsim.analyze.used_prices import UsedPrice, quote_in, used_prices
from roofsim.api import answer, resolve_document
from roofsim.compare.rows import unit_of
from roofsim.decide.card_reach import CardReach, cards_that_reach, verdict_of
from roofsim.decide.changes import read_changes, with_changes
from roofsim.decide.market import market_of
from roofsim.decide.mixes import PricedMix, cheapest_mix, least_mix
from roofsim.decide.resources import BOUGHT, KEYS, Needed, floor_of, lanes_of, needed
from roofsim.decide.rule_of_thumb import RuleOfThumb, rule_of_thumb
from roofsim.decide.target import Target, read_target
from roofsim.errors import NoDataError, Problem, SpecError
from roofsim.evaluate import evaluate
from roofsim.records import dataclass, replace
from roofsim.spec.scenario.document import load_scenario, with_override
from roofsim.spec.settle.held import LEAST

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from roofsim.analyze.result import Result
    from roofsim.decide.resources import Lanes
    from roofsim.evaluate import Evaluation
    from roofsim.spec.hardware.price import Quote
    from roofsim.spec.hardware.schema import Gpu
    from roofsim.spec.reading.source import Document
    from roofsim.spec.resolve import Resolved
    from roofsim.spec.scenario.workload import Scenario

SCHEMA: Final = "roofsim/need/1"
#: Multiples of the scenario's GPUs that are tried.
MULTIPLES: Final = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
#: A figure that is a whole number of stacks but for rounding takes no stack more.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, kw_only=True)
class MoreGpus:
    """The fewest GPUs that reach a target, by doubling, or the closest where none does.

    Attributes
    ----------
    share
        Seconds of their step over those that the target allows it: of a target of cost what they cost over what they may.
    closer
        Whether they are closer to the target than the scenario as it is: of a cost, GPUs that cost more than they gain are not.
    """

    gpus: int
    changes: str
    step_time: float
    reached: bool
    share: float
    closer: bool

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return dict(self.__dict__)


@dataclass(frozen=True, kw_only=True, repr=False)
class Need(Printed):
    """The answer of `roofsim.need`.

    Attributes
    ----------
    target, allowed
        What is asked for, and the seconds that a step may take for it.
    now
        The scenario as it is.
    resources
        Name -> how much of it alone reaches the target.
    mix
        Factors that reach it together with the least growth; empty where it is met, None where no mix reaches it.
    cheapest_mix
        Memory bandwidth and tensor FLOP/s that reach it together for the least price on a market of cards; None where they do not,
        where it is met, or where no market prices them.
    mix_floor
        Seconds of a step with a million times as much of all that a mix is made of, and what most of it waits for.
    gpus
        What more GPUs do; None where no multiple of them is possible.
    cards
        Cards of the catalog that reach it, the cheapest hour first, those without a price after them.
    rule
        The practitioners' formula beside it, where there is one.
    """

    target: Target
    allowed: float
    now: Result
    resources: dict[str, Needed]
    mix: dict[str, float] | None
    cheapest_mix: PricedMix | None
    mix_floor: tuple[float, str]
    gpus: MoreGpus | None
    cards: tuple[CardReach, ...]
    tried: int
    rule: RuleOfThumb | None

    @property
    def quote(self) -> Quote | None:
        """The price of an hour of the scenario's card; None where none is known."""
        return quote_in(self.now.cost, self.now.scenario["hardware"]["gpus"])

    @property
    def prices(self) -> tuple[UsedPrice, ...]:
        """The prices of an hour that the answer rests on, that of the scenario's card first."""
        own = (str(self.now.scenario["hardware"]["gpu"]), self.quote)
        return used_prices((own, *((card.gpu, card.quote) for card in self.cards)))

    @property
    def met(self) -> bool:
        """Whether the predicted step of the scenario as it is is short enough; `reached` asks whether it fits, too."""
        return float(self.now.step_time) <= self.allowed

    @property
    def interval(self) -> tuple[float, float] | None:
        """Ends of the 80 % interval of the scenario's step."""
        ends = self.now.step_time_interval
        return None if ends is None else (float(ends[0]), float(ends[1]))

    @property
    def verdict(self) -> str:
        """Whether the step as it is is short enough, as far as its interval tells: as that of a `CardReach`."""
        return verdict_of(float(self.now.step_time), self.interval, self.allowed)

    @property
    def fits(self) -> bool:
        """Whether the scenario as it is has enough memory."""
        return bool(self.now.memory.fits)

    @property
    def reached(self) -> bool:
        """Whether the predicted step is short enough, and it fits."""
        return self.met and self.fits

    def to_dict(self) -> dict[str, Any]:
        """Return plain data of schema roofsim/need/1."""
        return {
            "schema": SCHEMA,
            "target": self.target.to_dict() | {"step_time": self.allowed, "unit": unit_of(self.now)},
            "met": self.met,
            "fits": self.fits,
            "reached": self.reached,
            "verdict": self.verdict,
            "now": self.now.to_dict(),
            "resources": {name: one.to_dict() for name, one in self.resources.items()},
            "mix": self.mix,
            "cheapest_mix": None if self.cheapest_mix is None else self.cheapest_mix.to_dict(),
            "mix_floor": {"step_time": self.mix_floor[0], "bound": self.mix_floor[1]},
            "gpus": None if self.gpus is None else self.gpus.to_dict(),
            "cards": [card.to_dict() for card in self.cards],
            "cards_tried": self.tried,
            "prices": [one.to_dict() for one in self.prices],
            "price_held": self.target.kind == "cost",
            "rule_of_thumb": None if self.rule is None else self.rule.to_dict(),
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a flat row for each resource, then one for each card."""
        rows = [{"kind": "resource", "name": name, **one.to_dict()} for name, one in self.resources.items()]
        rows += [{"kind": "card", "name": card.gpu, **card.to_dict()} for card in self.cards]
        return [flattened(row) for row in rows]


def need(
    scenario: str | Path | dict[str, Any] | Scenario,
    *,
    step_time: float | str | None = None,
    tokens_per_second: float | str | None = None,
    time_to_first_token: float | str | None = None,
    cost: float | str | None = None,
    days: float | str | None = None,
    tokens: float | str | None = None,
    **overrides: Any,
) -> Need:
    """Say what reaches a target: how much of each resource alone, which mix, how many GPUs, and which cards.

    Parameters
    ----------
    step_time, time_to_first_token
        Seconds, or a text with a unit (``"60ms"``).
    tokens_per_second
        Units of work per second (tokens, or images), of all GPUs together.
    cost
        Dollars per million tokens or images.
    days, tokens
        Days for so many tokens or images.
    overrides
        Values of the scenario, as for `roofsim.run`.

    Returns
    -------
    Need
        Factors and figures of resources in SI units, seconds of steps, dollars per hour.

    Raises
    ------
    SpecError
        When the request is wrong: no target or several, one that the scenario does not have.
    """
    asked = {
        "step_time": step_time, "tokens_per_second": tokens_per_second, "time_to_first_token": time_to_first_token, "cost": cost,
        "days": days,
    }  # fmt: skip
    return need_document(load_scenario(scenario, overrides), read_target(asked, tokens))


def need_document(document: Document, target: Target) -> Need:
    """Answer a request that was read already; see `need`.

    Raises
    ------
    SpecError
        When the scenario is wrong, or has no such figure.
    """
    if target.kind == "time_to_first_token":
        document = _up_to_the_first_token(document)
    evaluation = evaluate(resolve_document(document))
    now = answer(evaluation)
    allowed = target.step_time(now)
    cards, tried = cards_that_reach(document, evaluation, now, target)
    met = float(now.step_time) <= allowed
    market = market_of(evaluation.resolved.precision.math)
    lanes = lanes_of(document, now.scenario, evaluation)
    bought = lanes.distinct(BOUGHT)
    return Need(
        target=target,
        allowed=allowed,
        now=now,
        resources=_resources(evaluation, now, allowed, lanes),
        mix={} if met else least_mix(evaluation, allowed, bought, lanes=lanes),
        cheapest_mix=None if met else cheapest_mix(evaluation, allowed, market),
        mix_floor=floor_of(evaluation, BOUGHT),
        gpus=_more_gpus(document, now, target),
        cards=cards,
        tried=tried,
        rule=rule_of_thumb(evaluation, now, allowed),
    )


def _up_to_the_first_token(document: Document) -> Document:
    """Return the prefill of a scenario that generates.

    Raises
    ------
    SpecError
        For a phase that has no first token.
    """
    phase = resolve_document(document).workload.phase
    if phase not in ("prefill", "generate"):
        hint = "Ask for --step-time, or set --phase generate with --prompt-length."
        raise SpecError(Problem(f"{phase} has no time to the first token", path="time_to_first_token", hint=hint))
    document = with_override(document, "workload.phase", "prefill", "time_to_first_token")
    return with_override(document, "workload.output_length", None, "time_to_first_token")


# -- resources ----------------------------------------------------------------------------------------------------------


def _resources(evaluation: Evaluation, now: Result, allowed: float, lanes: Lanes) -> dict[str, Needed]:
    """Return what each resource alone needs; the capacity of memory shortens no step."""
    stated, keys = _stated(evaluation.resolved, lanes), _keys(evaluation.resolved, lanes)
    resources = {}
    for rate in (*lanes.distinct(BOUGHT), "host_issue_rate", "launch_rate"):
        one, (value, unit) = needed(evaluation, lanes.moved(rate), allowed), stated.get(rate, (None, None))
        one = one.from_on(_least(evaluation.resolved.gpu)) if rate == "power" else one
        amount = None if value is None or one.factor is None else value * one.factor
        resources[rate] = replace(one, value=amount, unit=unit, keys=keys.get(rate, ()))
    peak, capacity, step = float(now.memory.device_total), float(now.memory.capacity), float(now.step_time)
    bound = max(evaluation.step.resources, key=lambda name: float(evaluation.step.resources[name]))
    met = step <= allowed
    resources["memory_capacity"] = Needed(
        factor=peak / capacity if met else None, value=peak, unit="B", floor=step, floor_bound=bound
    )
    memory = evaluation.resolved.gpu.memory
    for name, whole in (("memory_bandwidth", memory.bandwidth), ("memory_capacity", memory.capacity)):
        resources[name] = replace(resources[name], stacks=_stacks(resources[name].value, whole, memory.stacks))
    return resources


def _keys(resolved: Resolved, lanes: Lanes) -> dict[str, tuple[str, ...]]:
    """Return the keys of a scenario that state each resource; a limit that is set is no part of the card's own power."""
    keys = {name: (key,) for name, key in KEYS.items() if name != "power" or resolved.gpu.power_held == 1.0}
    return keys | {lanes.name: lanes.keys or keys.get(lanes.name, ())}


def _least(gpu: Gpu) -> float:
    """Return the least factor on a card's power limit: cards draw so much without any work, and none is held to less."""
    return LEAST / gpu.power_held


def _stacks(value: float | None, whole: float, count: int | None) -> tuple[int, int] | None:
    """Return the whole stacks of a card's own kind that have so much together, and those that it has."""
    if value is None or count is None:
        return None
    return max(math.ceil(value / (whole / count) * (1.0 - _ROUNDING)), 1), count


def _stated(resolved: Resolved, lanes: Lanes) -> dict[str, tuple[float | None, str]]:
    """Return the figures that rates are factors on, and their units; none of lanes that several figures state."""
    gpu, system = resolved.gpu, resolved.system
    link = system.link or gpu.link
    host = [one.bandwidth for one in (gpu.host_link, system.host_link) if one is not None and one.bandwidth is not None]
    figures = {
        "tensor_flops": (gpu.peak.get(resolved.precision.math), "FLOP/s"),
        "vector_flops": (gpu.vector_peak.get("fp32"), "FLOP/s"),
        "memory_bandwidth": (gpu.memory.bandwidth, "B/s"),
        "power": (gpu.tdp, "W"),
        "intra_node_link": (None if link is None else link.bandwidth, "B/s"),
        "inter_node_link": (system.node_network, "B/s"),
        "host_link": (min(host, default=None), "B/s"),
        "storage": (system.storage.read, "B/s"),
    }
    return figures if lanes.one_figure else figures | {lanes.name: (None, "B/s")}


# -- more GPUs, and other cards -----------------------------------------------------------------------------------------


def _more_gpus(document: Document, now: Result, target: Target) -> MoreGpus | None:
    """Return the fewest GPUs that reach a target: as replicas that share the batch of a step, or as tensor ranks."""
    closest: tuple[float, MoreGpus] | None = None
    as_it_is = float(now.step_time) / target.step_time(now)
    for multiple in MULTIPLES:
        for changes in ways_to_spread(now, multiple):
            try:
                made = with_changes(document, read_changes(changes), now.scenario)
                result = answer(evaluate(resolve_document(made)), limits=False)
                share = float(result.step_time) / target.step_time(result)
            except (SpecError, NoDataError):
                continue
            shown = ", ".join(
                f"{key.rpartition('.')[2]}={value}" for key, value in changes.items() if value is not None
            )
            gpus = int(result.scenario["hardware"]["gpus"])
            reached = share <= 1.0 and bool(result.memory.fits)
            one = MoreGpus(
                gpus=gpus,
                changes=shown,
                step_time=float(result.step_time),
                reached=reached,
                share=share,
                closer=share < as_it_is,
            )
            if one.reached:
                return one
            if closest is None or share < closest[0]:
                closest = share, one
    return None if closest is None else closest[1]


def ways_to_spread(now: Result, multiple: int) -> Iterator[dict[str, Any]]:
    """Yield the changes that spread a scenario over so many times its GPUs."""
    parallel, workload = now.scenario["parallel"], now.scenario["workload"]
    whole = {"hardware.gpus": now.scenario["hardware"]["gpus"] * multiple, "parallel.data": None}
    kept = {"workload.global_batch_size": workload["global_batch_size"]} if workload["phase"] == "train" else {}
    yield whole | kept
    yield whole | kept | {"parallel.tensor": parallel["tensor"] * multiple}
