"""Print what power limits cost and save, and draw it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from roofsim.analyze.verdicts import TIGHT
from roofsim.report import words
from roofsim.report.grid import Grid, number, text
from roofsim.report.job import figure
from roofsim.units import humanize

if TYPE_CHECKING:
    from rich.console import Console

    from roofsim.decide.power import AtLimit, PowerCurve


#: Share of work per joule below which a limit gains nothing.
_NOTHING: Final = 0.005


def print_power(console: Console, curve: PowerCurve) -> None:
    """Print the sentence, then a line for each limit."""
    console.print(Text(sentence(curve), style="bold"))
    table = Grid(
        [
            number("limit"),
            number("drawn"),
            number("step"),
            number(f"{curve.unit}/s"),
            number("speed"),
            number(f"{curve.unit}/J"),
            text(""),
        ]
    )
    for one in curve.rows:
        mark = "; ".join(_marks(curve, one))
        if not one.kept:
            mark = "streaming and waiting draw more: slower, by how much is not known"
        figures = (
            words.seconds(one.step_time),
            words.count(one.rate),
            words.percent(one.speed),
            figure(one.per_joule),
        )
        table.add(
            f"{one.limit:.0f} W",
            f"{one.drawn:.0f} W",
            *(figures if one.kept else ("?",) * len(figures)),
            mark,
        )
    console.print(table)
    if curve.memory == TIGHT:
        console.print(Text("Memory is tight: the scenario may not fit."))
    console.print(Text("Watts of one GPU, by what its kernels draw on average; hosts are not counted."))


def _marks(curve: PowerCurve, one: AtLimit) -> list[str]:
    """Return what to say of a limit beside its figures."""
    marks = []
    if one is curve.best:
        marks.append("best per joule" if _beyond(curve) is None else "best per joule of what was measured")
    if one.clock is not None:
        marks.append(f"clock falls to {humanize(one.clock, 'Hz', 3)}")
    return marks if one.measured else [*marks, "extrapolated, below what was measured"]


def _beyond(curve: PowerCurve) -> AtLimit | None:
    """Return the limit that would do noticeably more per joule than the best, if only what was not measured holds."""
    most = curve.beyond
    return None if most is None or most.per_joule / curve.best.per_joule - 1.0 < _NOTHING else most


def sentence(curve: PowerCurve) -> str:
    """Return the answer in a sentence: of limits at which cards were measured, and what the rest would do by extrapolation."""
    best, first, most = curve.best, curve.rows[0], _beyond(curve)
    gain, head = best.per_joule / first.per_joule - 1.0, f"{curve.gpus} x {curve.gpu}: "
    if most is not None:
        head += (
            f"of limits from {_lowest_measured(curve):.0f} W on (cards were measured at such shares of their power) "
        )
    if gain < _NOTHING:
        said = f"{'none' if most is not None else 'no limit'} does noticeably more {curve.unit} per joule than {first.limit:.0f} W"
    else:
        said = f"{best.limit:.0f} W do the most {curve.unit} per joule, {_more(best, first)}"
    if not best.measured:
        said += ", by extrapolation: no card was measured at so low a share of its power"
    if most is None:
        return f"{head}{said}."
    return f"{head}{said}. Below that the prediction is an extrapolation: {most.limit:.0f} W would do {_more(most, first)}."


def _lowest_measured(curve: PowerCurve) -> float:
    return min(one.limit for one in curve.rows if one.measured)


def _more(one: AtLimit, first: AtLimit) -> str:
    """Return what a limit does per joule, beside the first and at which speed."""
    gain = one.per_joule / first.per_joule - 1.0
    said = f"{figure(one.per_joule)}, {words.percent(gain)} more than {first.limit:.0f} W"
    return f"{said}, at {words.percent(one.speed)} of the speed"
