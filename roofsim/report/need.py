"""Print what reaches a target: each resource alone, the mix, more GPUs, the cards, and the practitioners' formula beside it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from rich.text import Text

from roofsim.decide.resources import HOST, LINK, MEASURED
from roofsim.report import words
from roofsim.report.grid import Grid, number, text
from roofsim.report.prices import star
from roofsim.units import humanize

if TYPE_CHECKING:
    from rich.console import Console

    from roofsim.decide.card_reach import CardReach
    from roofsim.decide.need import MoreGpus, Need
    from roofsim.decide.resources import Needed
    from roofsim.decide.rule_of_thumb import RuleOfThumb

#: Cards that are printed.
_MOST: Final = 12
#: Factor up to which a resource is as much as there is.
_SAME: Final = 1.005
_NAMES: Final = {"memory_capacity": "memory capacity"}
#: Share of the step that a resource must take off to be worth a line.
_NOTHING: Final = 1e-4
#: What the traffic between GPUs counts as.
LANES: Final = ("intra_node_link", "host_link")
#: Digits of a factor to try, its places behind the point at most, and what is rounding only.
_DIGITS: Final = 4
_PLACES: Final = 12
_ROUNDING: Final = 1e-9


def print_need(console: Console, answer: Need) -> None:
    """Print an answer."""
    console.print(Text(words.headline(answer.now), style="bold"))
    for line in filter(None, (words.batch_line(answer.now), words.layout_line(answer.now))):
        console.print(Text(line, style="dim"))
    console.print(Text(target_line(answer)))
    for line in held_price(answer):
        console.print(Text(line))
    console.print(_resources(answer))
    for line in _below(answer):
        console.print(Text(line))
    if answer.cards:
        console.print(_cards(answer))
    if stars := starred_line(answer):
        console.print(Text(stars, style="dim"))
    console.print(Text(sentence(answer), style="bold"))


def target_line(answer: Need) -> str:
    """Say what is asked for, and where the scenario stands."""
    asked, now = target_words(answer), float(answer.now.step_time)
    said = f"target: {asked}"
    if answer.target.kind not in ("step_time", "time_to_first_token"):
        said += f", a step of {words.seconds(answer.allowed)}"
    return f"{said}; now {words.seconds(now)}: {standing(answer)}"


def standing(answer: Need) -> str:
    """Say whether the scenario meets the target as it is: in time, as far as its interval tells, and in memory."""
    now = float(answer.now.step_time)
    said = "met" if answer.reached else "short enough" if answer.met else f"{now / answer.allowed:.3g} times too long"
    if answer.verdict == "undecided":
        said += f", undecided by its 80 % interval, {_between(answer.interval)}"
    return said if answer.fits else f"{said}, {'but' if answer.met else 'and'} does not fit in memory"


def _between(ends: tuple[float, float] | None) -> str:
    return "-" if ends is None else f"{words.seconds(ends[0])} .. {words.seconds(ends[1])}"


def held_price(answer: Need) -> list[str]:
    """Say of a target of cost at which price it is reached; nothing of others."""
    cost = answer.now.cost
    if answer.target.kind != "cost" or cost["usd_per_hour"] is None:
        return []
    price = f"{words.dollars(cost['usd_per_hour'])} USD/h ({cost['price']}{words.price_range(cost)})"
    return [f"At {price}, which is held while a resource grows: a card with more of it would cost more."]


def starred_line(answer: Need) -> str:
    """Say what is marked among the cards that are printed: prices of another market; nothing where there are none."""
    if all(card.comparable for card in answer.cards[:_MOST]):
        return ""
    first = answer.prices[0]
    return f"* not the market of {first.gpu} ({first.quote.words()}): compare with care."


def target_words(answer: Need) -> str:
    """Return the target in words."""
    target, unit = answer.target, words.unit_of(answer.now)
    shown = {
        "step_time": f"a step of {words.seconds(target.value)}",
        "time_to_first_token": f"the first token after {words.seconds(target.value)}",
        "tokens_per_second": f"{words.count(target.value)} {unit}/s",
        "cost": f"{words.dollars(target.value)} USD per million {unit}",
        "days": f"{words.count(target.tokens or 0.0)} {unit} in {words.plural(f'{target.value:g}', 'day')}",
    }
    return shown[target.kind]


def _resources(answer: Need) -> Grid:
    """Return a line for each resource that the step has to do with: those that reach the target first."""
    grid = Grid(
        [
            text("resource alone"),
            number("factor"),
            number("that is", 1),
            number("at most to"),
            text("then waits for", 2),
        ]
    )
    now = float(answer.now.step_time)
    rows = sorted(answer.resources.items(), key=lambda item: (item[1].factor is None, item[1].factor or item[1].floor))
    for name, one in rows:
        if _plays(one, now) or name == "memory_capacity":
            floor = words.seconds(one.floor)
            grid.add(
                _name(name),
                factor_words(one),
                amount_words(one),
                floor,
                words.BOUND_WORDS.get(one.floor_bound, ""),
            )
    return grid


def _plays(one: Needed, now: float) -> bool:
    """Tell whether a million times as much shortens the step, or less lengthens it."""
    return one.floor < now * (1.0 - _NOTHING)


def _name(resource: str) -> str:
    return _NAMES.get(resource, words.RESOURCE_WORDS.get(resource, resource))


def factor_words(one: Needed) -> str:
    """Return how much of a resource there must be, as a factor on what there is."""
    if one.factor is None:
        return "no amount"
    return "any" if one.any else f"{one.factor:.3g}x"


def amount_words(one: Needed) -> str:
    """Return the same as an amount: of what any amount of is enough, the least that there is."""
    if not one.factor or one.value is None or one.unit is None:
        return "-"
    amount = humanize(one.value, one.unit, 3)
    return f"from {amount}" if one.any else amount


def _below(answer: Need) -> list[str]:
    lines = []
    idle = [_name(name) for name, one in answer.resources.items() if not _plays(one, float(answer.now.step_time))]
    idle = [name for name in idle if name != _name("memory_capacity")]
    if idle:
        lines.append(f"More of these changes nothing: {', '.join(idle)}.")
    lines += [*_lanes(answer), *_to_try(answer)]
    for name in ("memory_bandwidth", "memory_capacity"):
        one = answer.resources[name]
        if one.stacks is None or not one.reached or answer.reached or one.value is None or one.unit is None:
            continue
        wanted, there = one.stacks
        if wanted > there:
            figure = humanize(one.value, one.unit, 3)
            lines.append(f"{figure} of {_name(name)} takes {wanted} stacks such as this card's; it has {there}.")
    if answer.mix is None:
        seconds, bound = answer.mix_floor
        left = f"{words.seconds(seconds)} remain, most of them for {words.BOUND_WORDS.get(bound, bound)}"
        lines.append(f"No mix of what a card or node has more of reaches it: {left}.")
    elif len(answer.mix) > 1:
        lines.append(f"With the least growth in all (the smallest product of factors): {_mix(answer.mix)}.")
    if (priced := answer.cheapest_mix) is not None:
        cost = f"{priced.price:.3g} times as much (80 % interval {priced.low:.3g} .. {priced.high:.3g})"
        lines.append(
            f"The cheapest mix at the market's prices: {_mix(priced.factors)}; a card with that would cost {cost}."
        )
    if answer.gpus is not None and (answer.gpus.reached or not answer.met) and not answer.reached:
        lines.append(_more_gpus(answer, answer.gpus))
    if (rule := answer.rule) is not None:
        lines.append(_rule(rule))
    return lines


def _more_gpus(answer: Need, more: MoreGpus) -> str:
    """Say what more GPUs do: reach the target, come closest, or only move away from it."""
    step = words.seconds(more.step_time)
    if more.reached:
        return f"More GPUs: {more.changes} reaches it, a step of {step}."
    if more.closer:
        return f"More GPUs: {more.changes} comes closest of all multiples, a step of {step}."
    if answer.target.kind != "cost":
        return f"More GPUs lead away from it: {more.changes} is the closest of all multiples, a step of {step}."
    there, here = (
        words.dollars(answer.target.value * share)
        for share in (more.share, float(answer.now.step_time) / answer.allowed)
    )
    unit = words.unit_of(answer.now)
    said = f"{more.changes} comes closest of all multiples, a step of {step} at {there} USD per million {unit}, against {here} now"
    return f"More GPUs only cost more: {said}."


def _rule(rule: RuleOfThumb) -> str:
    """Hold a rule of thumb beside the prediction."""
    formula = f"Rule of thumb ({rule.formula}): {humanize(rule.value, rule.unit, 3)} of {_name(rule.resource)} per GPU"
    if rule.ours is None:
        ours = ", with which the prediction does not reach it, nor with any amount of that alone"
    elif rule.ours == 0.0:
        ours = ", where by the prediction any amount is enough"
    else:
        ours = f", where the prediction needs {humanize(rule.ours, rule.unit, 3)}"
    return f"{formula}{ours}: {'; '.join(rule.reasons)}."


def _lanes(answer: Need) -> list[str]:
    """Say which resource the traffic between GPUs counts as, where it is not that over links of their own alone."""
    one = next((answer.resources[name] for name in LANES if name in answer.resources), None)
    if one is None or one.keys in ((), (LINK,)) or not _plays(one, float(answer.now.step_time)):
        return []
    system = answer.now.scenario["hardware"]["system"]
    if HOST not in one.keys:
        return [f"What GPUs of {system} exchange is priced by rates that were measured: {MEASURED} moves them."]
    if one.keys == (HOST,):
        return [f"What GPUs of {system} exchange goes over their links to the host: {HOST} moves both."]
    return [
        f"What GPUs of {system} exchange goes over several lanes, which are one resource here: {' and '.join(one.keys)}."
    ]


def _to_try(answer: Need) -> list[str]:
    """Say how to try the resource of which the least growth reaches the target; nothing of one that no key states."""
    alone = [one for one in answer.resources.values() if one.factor and one.keys]
    if answer.met or not alone:
        return []
    best = min(alone, key=lambda one: one.factor or 0.0)
    factor = rounded_up(best.factor or 0.0)
    return [f"To try it: roofsim whatif ... --set {','.join(f'{key}={factor}x' for key in best.keys)}."]


def rounded_up(factor: float) -> str:
    """Return a factor with four digits that is not below it.

    >>> rounded_up(48.70123), rounded_up(2.0), rounded_up(123456.7)
    ('48.71', '2', '123500')
    """
    size = 10.0 ** (math.floor(math.log10(factor)) - _DIGITS + 1)
    digits = f"{math.ceil(factor / size * (1.0 - _ROUNDING)) * size:.{_DIGITS}g}"
    return f"{float(digits):.{_PLACES}f}".rstrip("0").rstrip(".")


def _mix(factors: dict[str, float]) -> str:
    return ", ".join(f"{_name(rate)} {factor:.3g}x" for rate, factor in factors.items() if factor > _SAME)


def _cards(answer: Need) -> Grid:
    heads = [
        text("card that reaches it"),
        number("step"),
        number("80 % interval", 2),
        text("sure", 1),
        number("USD/h"),
        text("price", 3),
    ]
    rest = len(answer.cards) - _MOST
    more = f"{rest} more; --json has all." if rest > 0 else ""
    grid = Grid(heads, caption=more)
    for card in answer.cards[:_MOST]:
        hourly = (
            "?" if card.usd_per_hour is None else words.dollars(card.usd_per_hour) + star(comparable=card.comparable)
        )
        grid.add(card.gpu, words.seconds(card.step_time), _ends(card), _sure(card), hourly, card.price or "")
    return grid


def _ends(card: CardReach) -> str:
    return _between(card.interval)


def _sure(card: CardReach) -> str:
    return "yes" if card.verdict == "reaches" else "undecided"


def sentence(answer: Need) -> str:
    """Say the answer in a sentence or two."""
    asked = target_words(answer)
    if answer.reached:
        return f"It reaches {asked} as it is." if answer.verdict == "reaches" else _perhaps(answer)
    alone = [(one.factor, name) for name, one in answer.resources.items() if one.factor]
    said = f"For {asked}: "
    if answer.met:
        said += f"it is fast enough but does not fit; it needs {words.gibibytes(float(answer.now.memory.device_total))}"
    elif alone:
        factor, name = min(alone)
        said += f"{factor:.3g} times the {_name(name)} alone"
    else:
        best = min(answer.resources.items(), key=lambda item: item[1].floor)
        said += f"no resource alone is enough, {_name(best[0])} comes closest, with {words.seconds(best[1].floor)}"
    if not answer.met and not answer.fits:
        said += f"; it does not fit, either, and needs {words.gibibytes(float(answer.now.memory.device_total))}"
    card = answer.cards[0] if answer.cards else None
    if card is None:
        return f"{said}; none of {words.count(answer.tried)} cards of the catalog reaches it in this number."
    price = "" if card.usd_per_hour is None else f", {words.dollars(card.usd_per_hour)} USD/h ({card.price})"
    doubt = "" if card.verdict == "reaches" else "; its interval does not decide"
    return f"{said}. The {'cheapest' if price else 'first'} card that reaches it: {card.gpu}{price}{doubt}."


def _perhaps(answer: Need) -> str:
    """Say that the prediction reaches the target and its interval does not, and which card surely does."""
    asked, now = target_words(answer), words.seconds(float(answer.now.step_time))
    said = f"Undecided: it reaches {asked} as it is by its predicted step of {now}, but the 80 % interval ends at "
    said += f"{words.seconds((answer.interval or (0.0, 0.0))[1])}"
    sure = next((card for card in answer.cards if card.verdict == "reaches"), None)
    if sure is None:
        return f"{said}; of no card does the whole interval reach it."
    price = "" if sure.usd_per_hour is None else f", {words.dollars(sure.usd_per_hour)} USD/h"
    return f"{said}. The {'cheapest' if price else 'first'} card whose whole interval reaches it: {sure.gpu}{price}."
