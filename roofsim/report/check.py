"""Print a measured run beside its prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from roofsim.report import words
from roofsim.report.grid import Grid, number, text

if TYPE_CHECKING:
    from rich.console import Console

    from roofsim.decide.check import Check, CheckedFigure
    from roofsim.decide.explained import LikelyCause

_SECONDS: Final = ("step_time", "latency", "time")
#: Share of a distance that a cause must close to be said to explain it.
_WHOLLY: Final = 0.9


def print_check(console: Console, answer: Check) -> None:
    """Print an answer."""
    console.print(Text(words.headline(answer.result), style="bold"))
    for line in filter(None, (words.batch_line(answer.result), words.layout_line(answer.result))):
        console.print(Text(line, style="dim"))
    if answer.trace is not None:
        from roofsim.report.trace_check import print_trace_check

        print_trace_check(console, answer.trace)
    if answer.figures:
        console.print(_figures(answer))
    if any(one.factor is not None or one.measured is not None for one in answer.times):
        console.print(_times(answer))
    if answer.causes:
        console.print(_causes(answer))
    for line in sentences(answer):
        console.print(Text(line, style="bold"))


def _amount(figure: str, value: float) -> str:
    head = figure.partition(".")[0]
    if head in _SECONDS:
        return words.seconds(value)
    return words.gibibytes(value) if head == "memory" else words.count(value)


def _figures(answer: Check) -> Grid:
    heads = [number("measured"), number("predicted"), number("ratio", 2), number("80 % interval"), text("inside")]
    grid = Grid([text("figure"), *heads])
    for one in answer.figures:
        ends = "-" if one.interval is None else " .. ".join(_amount(one.figure, end) for end in one.interval)
        inside = {True: "yes", False: "no", None: "-"}[one.inside]
        measured, predicted = (_amount(one.figure, value) for value in (one.measured, one.predicted))
        grid.add(one.figure, measured, predicted, f"{one.ratio:.2f}", ends, inside)
    return grid


def _times(answer: Check) -> Grid:
    known = any(one.measured is not None for one in answer.times)
    heads = [text("where the time goes"), number("predicted"), *([number("measured")] if known else [])]
    grid = Grid([*heads, number("alone it would have to be")])
    for one in answer.times:
        measured = [] if not known else ["-" if one.measured is None else words.seconds(one.measured)]
        factor = "cannot explain it" if one.factor is None else f"{one.factor:.2f}x as long"
        grid.add(words.BOUND_WORDS.get(one.kind, one.kind), words.seconds(one.predicted), *measured, factor)
    return grid


def _causes(answer: Check) -> Grid:
    keys = [one.figure for one in answer.figures]
    heads = [text("what would explain it"), number("closes"), *(number(key, 2) for key in keys)]
    grid = Grid([*heads, text("the scenario says", 3), text("look at", 1)])
    for one in answer.causes:
        cells = [_amount(key, one.predicted[key]) if key in one.predicted else "-" for key in keys]
        grid.add(shown(one), words.percent(one.closes), *cells, "otherwise" if one.stated else "nothing", one.meaning)
    return grid


def shown(one: LikelyCause) -> str:
    """Return a cause with room to break it over lines; of one that changes many numbers alike what they are."""
    parts = one.cause.split(",")
    if len(parts) > 2 and len({part.partition("=")[2] for part in parts}) == 1:
        return f"{one.group}={parts[0].partition('=')[2]}"
    return ", ".join(part.strip() for part in parts)


def sentences(answer: Check) -> list[str]:
    """Say whether each figure is inside its interval, and what would explain what is not."""
    lines = [*(f"{note}." for note in answer.notes), *(_sentence(one) for one in answer.figures), *_too_large(answer)]
    if answer.trace is not None:
        from roofsim.report.trace_check import trace_sentences

        lines += trace_sentences(answer.trace)
    if len(answer.too_large) == len(answer.figures):
        return lines
    if answer.inside:
        return [*lines, "No cause is called for: the model is not surer than this."]
    best = next(iter(sorted(answer.causes, key=lambda one: -one.closes)), None)
    if best is None:
        return [*lines, f"None of {words.count(answer.tried)} facts that were tried explains half of the difference."]
    how = "would explain it" if best.closes >= _WHOLLY else f"would explain {words.percent(best.closes)} of it"
    said = "; the scenario says otherwise" if best.stated else ""
    return [*lines, f"{shown(best)} {how}{said}. Shown by: {best.command}"]


def _too_large(answer: Check) -> list[str]:
    """Say of memory that was measured and is more than the card has that this card cannot have held it."""
    if not answer.too_large:
        return []
    figures = " and ".join(f"{_amount(one.figure, one.measured)} of {one.figure}" for one in answer.too_large)
    card = words.card_name(answer.result.scenario["hardware"]["gpu"])
    has = words.gibibytes(float(answer.result.memory.capacity))
    said = f"{card} has {has}: it cannot have held {figures}"
    return [f"{said}. The run was on a card with more, or the amount is of several GPUs or in another unit."]


def _sentence(one: CheckedFigure) -> str:
    where = {True: "inside the 80 % interval", False: "outside of the 80 % interval", None: "no interval is known"}[
        one.inside
    ]
    measured, predicted = (_amount(one.figure, value) for value in (one.measured, one.predicted))
    return f"{one.figure}: {measured} measured, {predicted} predicted, {one.ratio:.2f} times the prediction: {where}."
