"""Print advice on a job or a mix of jobs: one page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rich.text import Text

from roofsim.decide.remedies import AGAINST, lacking
from roofsim.errors import Place, SpecError
from roofsim.report import words
from roofsim.report.grid import Column, Grid, number, text
from roofsim.report.prices import at_one_seller, others_said, star
from roofsim.spec.scenario.document import section_path

if TYPE_CHECKING:
    from rich.console import Console

    from roofsim.decide.advice import Advice
    from roofsim.decide.advise import Advised

#: Limits that are printed, and the least share of the time that one must have.
_LIMITS: Final = 4
_LEAST: Final = 0.02
#: Key of a scenario with its section, at the start of a change.
_PATH: Final = re.compile(r"(?:^|(?<=, ))(?:parallel|hardware|workload)\.(?P<key>[\w.]+)(?==)")
#: What is said where there is nothing to change, and nothing to buy; by whether a job does not fit.
_NOTHING: Final = {
    False: (
        "Nothing that was tried is surely faster on the same hardware.",
        "Nothing that was tried is surely worth buying.",
    ),
    True: (
        "Nothing that was tried makes it fit on the same hardware.",
        "No card and no number of GPUs that was tried makes it fit.",
    ),
}
_KINDS: Final = {
    "memory_bandwidth": "bandwidth",
    "tensor_flops": "compute",
    "memory_capacity": "memory",
    "gpus": "more GPUs",
    "intra_node_link": "node links",
    "inter_node_link": "network",
}


def print_advice(console: Console, answer: Advised) -> None:
    """Print an answer."""
    several = len(answer.jobs) > 1
    for job in answer.jobs:
        share = f" ({words.percent(job.share)} of the time)" if several else ""
        console.print(Text(f"{words.headline(job.asking.before)}{share}", style="bold"))
        for line in filter(None, (words.batch_line(job.asking.before), words.layout_line(job.asking.before))):
            console.print(Text(line, style="dim"))
    console.print(Text(f"\n{answer.verdict}", style="bold"))
    console.print(Text(limits_line(answer)))
    for note in dict.fromkeys(note for job in answer.jobs for note in job.asking.before.warnings):
        console.print(Text(f"Note: {note}."))
    for line in filter(None, (_market_line(answer),)):
        console.print(Text(line, style="dim"))
    free, buy = _NOTHING[bool(lacking(answer.jobs))]
    for title, every, nothing in (("to change for free", answer.free, free), ("to buy", answer.buy, buy)):
        console.print(_table(title, every) if every else Text(f"\n{nothing}"))
    if answer.undecided:
        console.print(_undecided(answer.undecided))
    if answer.not_worth:
        console.print(_not_worth(answer.not_worth))
    lines = (*_notes(answer), _against(answer), _prices_line(answer), _shown_by(answer), *_deciding(answer.undecided))
    for line in filter(None, lines):
        console.print(Text(line, style="dim"))


def _notes(answer: Advised) -> list[str]:
    """Return what is to be known of each proposal that does not hold of the scenario as it is."""
    every = (*answer.free, *answer.buy, *answer.undecided)
    return [f"{_change(one)}: {'; '.join(one.notes)}." for one in every if one.notes]


def _against(answer: Advised) -> str:
    """Say what gains and costs are against, where the scenario as it is cannot run."""
    return AGAINST if lacking(answer.jobs) and (answer.free or answer.buy) else ""


def _prices_line(answer: Advised) -> str:
    """Say whose prices these are, and which are of another market."""
    cost = answer.jobs[0].asking.before.cost
    own, now = cost["price"], cost["usd_per_hour"]
    priced = [one for one in (*answer.buy, *answer.undecided) if one.price is not None]
    if own is None:
        return ""
    at_one = at_one_seller(
        ((one.change, str(one.price), one.usd_per_hour_now) for one in priced if one.comparable), now
    )
    said = ". ".join((f"Prices now: {own}", *at_one))
    return f"{said}.{others_said(str(one.price) for one in priced if not one.comparable)}"


def limits_line(answer: Advised) -> str:
    """Say what the time waits for."""
    parts = [
        f"{words.BOUND_WORDS[name]} {words.percent(share)}"
        for name, share in list(answer.limits.items())[:_LIMITS]
        if share >= _LEAST
    ]
    return f"Time by what it waits for: {', '.join(parts)}."


def _market_line(answer: Advised) -> str:
    market = answer.market
    if market is None or all(one.percent is None for one in answer.marginals):
        return ""
    what = "hourly prices" if market.kind == "hourly" else "purchase prices"
    parts = [
        f"{market.exponents[name]:.2f} +- {market.errors[name]:.2f} % for 1 % more {shown}"
        for name, shown in (
            ("memory_bandwidth", "bandwidth"),
            ("tensor_flops", "tensor FLOP/s"),
            ("vector_flops", "FLOP/s of ordinary units"),
            ("memory_capacity", "memory"),
        )
        if name in market.exponents
    ]
    scatter = words.percent(market.scatter)
    return f"Market: {words.count(market.cards)} {what} ask {', '.join(parts)} (single prices scatter by {scatter})."


def _table(title: str, every: tuple[Advice, ...]) -> Grid:
    heads = [
        Column(title, whole=True),
        text("what", 4),
        number("faster"),
        number("80 % interval", 2),
        number("USD/h", 1),
    ]
    grid = Grid([*heads, number("cost per unit", 3), text("why", 5)])
    for one in every:
        grid.add(_change(one), _kind(one), _more(one.gain), _ends(one), _dollars(one), _ratio(one), one.why)
    return grid


def _undecided(every: tuple[Advice, ...]) -> Grid:
    heads = [
        Column("undecided", whole=True),
        number("faster"),
        number("80 % interval", 2),
        number("USD/h", 3),
        text("to decide, time", 1),
    ]
    grid = Grid(heads)
    for one in every:
        grid.add(_change(one), _more(one.gain), _ends(one), _dollars(one), one.measure or "")
    return grid


def _deciding(every: tuple[Advice, ...]) -> list[str]:
    """Return the command that writes the measurement of each candidate; say of which no script times the kernels."""
    lines = [f"{_change(one)}: {one.measure_command}" for one in every if one.measure_command is not None]
    others = [_change(one) for one in every if one.measure_command is None]
    if lines:
        lines.insert(
            0, "What decides, as a script to run on the card; with --calibration its result narrows the interval:"
        )
    if others:
        lines.append(f"No script times what decides on {'; '.join(others)}, or half of it: time a step of each.")
    return lines


def _not_worth(every: tuple[Advice, ...]) -> Grid:
    grid = Grid([Column("not worth it", whole=True), text("what", 2), number("buys"), text("why", 1)])
    for one in every:
        grid.add(_change(one), _kind(one), _more(one.gain), one.why)
    return grid


def _change(one: Advice) -> str:
    """Return a change as ``--set`` takes it, with room to break it over lines."""
    spaced = one.change.replace(", ", ",").replace(",", ", ")
    return _PATH.sub(lambda match: match["key"] if _is_short(match) else match[0], spaced)


def _is_short(match: re.Match[str]) -> bool:
    """Tell whether a key means the same without its section."""
    try:
        return section_path(match["key"], Place("--set")) == section_path(match[0], Place("--set"))
    except SpecError:
        return False


def _kind(one: Advice) -> str:
    return _KINDS.get(one.kind, one.kind.replace("_", " "))


def _more(gain: float) -> str:
    return f"{100.0 * gain:+.0f} %" if abs(gain) >= 0.1 else f"{100.0 * gain:+.1f} %"


def _ends(one: Advice) -> str:
    return "-" if one.interval is None else f"{_more(one.interval[0])} .. {_more(one.interval[1])}"


def _dollars(one: Advice) -> str:
    if one.usd is None:
        return "?"
    if one.usd == 0.0:
        return "0"
    return f"{'+' if one.usd > 0.0 else '-'}{words.dollars(abs(one.usd))}{star(comparable=one.comparable)}"


def _ratio(one: Advice) -> str:
    return "?" if one.cost_ratio is None else f"{one.cost_ratio:.2f}x{star(comparable=one.comparable)}"


def _shown_by(answer: Advised) -> str:
    every = (*answer.free, *answer.buy, *answer.undecided, *answer.not_worth)
    head = f"{words.count(answer.tried)} changes and cards were tried."
    return head if not every else f"{head} Each line is one command (--json has them all): {every[0].command}"
