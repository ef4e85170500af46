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
    marks = ["best per joule"] if one is curve.best else []
    if one.clock is not None:
        marks.append(f"clock falls to {humanize(one.clock, 'Hz', 3)}")
    return marks if one.measured else [*marks, "below what was measured"]


def sentence(curve: PowerCurve) -> str:
    """Return the answer in a sentence."""
    best, first = curve.best, curve.rows[0]
    gain = best.per_joule / first.per_joule - 1.0
    if gain < _NOTHING:
        return f"{curve.gpus} x {curve.gpu}: no limit does noticeably more {curve.unit} per joule than {first.limit:.0f} W."
    return (
        f"{curve.gpus} x {curve.gpu}: {best.limit:.0f} W do the most {curve.unit} per joule, {words.percent(gain)} more than "
        f"{first.limit:.0f} W, at {words.percent(best.speed)} of the speed."
    )
