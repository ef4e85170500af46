"""Print the cheapest servers that keep bounds on latencies: the winner, a row for each, and what became of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from roofsim.report import words
from roofsim.report.grid import Grid, number, text
from roofsim.report.prices import prices_line, star
from roofsim.report.serving_target import LIMITS, bounds_of

if TYPE_CHECKING:
    from rich.console import Console

    from roofsim.search.serving.answer import ServerChoice, ServerChoices

#: Objectives in words.
OBJECTIVES: Final = {
    "usd_per_month": "USD per month",
    "usd_per_million_output_tokens": "USD per million output tokens",
    "gpus": "GPUs",
}


def print_servers(console: Console, answer: ServerChoices) -> None:
    """Print the answer first, then what stands behind it."""
    console.print(Text(headline(answer), style="bold"))
    console.print(f"{_rate(answer)}; {bounds_of(answer.target)}", style="dim", highlight=False)
    if answer.top:
        console.print(_table(answer))
        for place, one in enumerate(answer.top[1:], 2):
            console.print(f"{place}. {one.why}", highlight=False, markup=False)
    for line in filter(None, (prices_line(answer.prices), *counted(answer))):
        console.print(line, highlight=False, markup=False)


def headline(answer: ServerChoices) -> str:
    """Return the answer in a line."""
    best = answer.best
    if best is None:
        return "No server of these keeps the bounds"
    count = f"{words.count(best.replicas)} replica{'' if best.replicas == 1 else 's'}"
    gpus = f"{words.count(best.gpus)} GPU{'' if best.gpus == 1 else 's'}"
    line = f"{chosen(answer, best)} on {gpus} ({count}): {_value(answer, best)}"
    rivals = sum(one.undecided for one in answer.top)
    if not rivals:
        return line
    others = "one other is" if rivals == 1 else f"{rivals} others are"
    return f"{line}; {others} within the error of the model"


def chosen(answer: ServerChoices, one: ServerChoice) -> str:
    """Return what was chosen for a server, in words: its card, and the values of the axes."""
    parts = [one.gpu]
    for key in answer.axes:
        section, _, name = key.partition(".")
        if key not in ("hardware.gpu", "hardware.gpus", "parallel.data"):
            value: Any = one.changes.get(section, {})
            for part in name.split("."):
                value = value.get(part) if isinstance(value, dict) else None
            said = name.split(".")[-1].replace("_", " ")
            parts.append(str(value) if name in ("precision", "engine") else f"{said} {_shown(value)}")
    return ", ".join(parts)


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key.replace('_', ' ')} {each}" for key, each in value.items())
    return "as it is" if value is None else str(value)


def _rate(answer: ServerChoices) -> str:
    if answer.request_rate is None:
        return "at the largest rate that each sustains"
    return f"{words.count(answer.request_rate)} requests/s"


def _value(answer: ServerChoices, one: ServerChoice) -> str:
    if one.value is None:
        return "no price is known"
    shown = words.count(one.value) if answer.objective == "gpus" else words.dollars(one.value)
    low, high = one.values
    ends = [
        None if end is None else words.dollars(end) if answer.objective != "gpus" else words.count(end)
        for end in (low, high)
    ]
    span = f"from {ends[0]}, or the bounds are not kept" if ends[1] is None else f"80 % range {ends[0]} .. {ends[1]}"
    return f"{shown} {OBJECTIVES[answer.objective]} ({span})"


def _table(answer: ServerChoices) -> Grid:
    percent = f"p{answer.target.percentile:g}"
    grid = Grid(
        [
            number(""),
            text("server"),
            number("GPUs"),
            number("replicas"),
            number("requests/s per replica"),
            number(f"first token {percent}"),
            number(f"per token {percent}"),
            text("limited by", leaves=2),
            number("USD/h", leaves=1),
            number("USD per million tokens"),
        ]
    )
    for place, one in enumerate(answer.top, 1):
        at = one.sizing.at_limit
        first, each = at["time_to_first_token"], at["time_per_output_token"]
        grid.add(
            str(place),
            chosen(answer, one),
            words.count(one.gpus),
            words.count(one.replicas),
            words.count(one.each),
            "" if first is None else words.seconds(first),
            "" if each is None else words.seconds(each),
            LIMITS[one.sizing.limits or "capacity"],
            _dollars(one.hourly, one),
            _dollars(one.usd_per_million, one),
        )
    return grid


def _dollars(value: float | None, one: ServerChoice) -> str:
    return "" if value is None else f"{words.dollars(value)}{star(comparable=one.comparable)}"


def counted(answer: ServerChoices) -> list[str]:
    """Return what became of all servers of the space, and the bound that none beats."""
    lines = []
    if answer.lower_bound is not None and answer.best is not None:
        bound = words.dollars(answer.lower_bound) if answer.objective != "gpus" else words.count(answer.lower_bound)
        lines.append(f"No server of this space has less than {bound} {OBJECTIVES[answer.objective]}.")
    fail = answer.considered - answer.priced - answer.cut
    said = f"{words.count(answer.considered)} servers in {words.seconds(answer.seconds)}: {words.count(answer.priced)} sized"
    said += f", {words.count(answer.cut)} left out by a bound" if answer.cut else ""
    lines.append(f"{said}, {words.count(fail)} cannot run.")
    lines += [f"- {words.count(count)}: {answer.reasons[code]}" for code, count in answer.refused.items()]
    return lines
