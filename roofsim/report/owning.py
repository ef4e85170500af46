"""Print whether to rent or to buy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from roofsim.report import words
from roofsim.report.grid import Grid, number, text
from roofsim.report.job import assumed, figure

if TYPE_CHECKING:
    from rich.console import Console

    from roofsim.decide.owning import Owning


def print_owning(console: Console, answer: Owning) -> None:
    """Print the sentence, what both cost, and what that rests on."""
    console.print(Text(sentence(answer), style="bold"))
    table = Grid([text(""), number("USD/h"), number(f"USD/M {answer.unit}")])
    for name, hourly in (("rented", answer.rent), ("owned", answer.own)):
        each = answer.usd_per_million[name]
        cells = ("?", "?") if hourly is None or each is None else (words.dollars(hourly), words.dollars(each))
        table.add(f"{name}, {answer.gpus} x {answer.gpu}", *cells)
    console.print(table)
    total = sum(answer.parts.values())
    parts = ", ".join(f"{name} {figure(usd)} ({words.percent(usd / total)})" for name, usd in answer.parts.items())
    console.print(Text(f"owning, USD over all years: {parts}"))
    console.print(
        Text(f"bought: {figure(answer.purchase)} USD: {answer.purchase_words}; rented: {answer.rent_words or '?'}")
    )
    for line in (*_even(answer), *_against(answer), *assumed(answer.assumptions)):
        console.print(Text(line))
    console.print(Text("Hosts, networks, storage and people are not counted but where the purchase price has them."))


def sentence(answer: Owning) -> str:
    """Return the answer in a sentence."""
    busy = words.percent(answer.utilisation)
    if answer.rent is None:
        return f"An owned hour costs {words.dollars(answer.own)} USD; no price to rent {answer.gpu} is known (--rent)."
    first, second = ("Buy", "rented") if answer.verdict == "buy" else ("Rent", "owned")
    less, more = sorted((answer.own, answer.rent))
    even = (
        "owning never costs less"
        if answer.break_even is None
        else f"owning costs less from {words.percent(answer.break_even)} utilisation on"
    )
    return (
        f"{first}: at {busy} utilisation an hour costs {words.dollars(less)} USD against {words.dollars(more)} "
        f"{second}; {even}."
    )


def _even(answer: Owning) -> list[str]:
    lines = [
        f"break-even rent: {words.dollars(answer.even_rent / answer.gpus)} USD per GPU and hour at this utilisation"
    ]
    if answer.rent_low is not None and answer.rent is not None and answer.rent_low < answer.rent:
        even = answer.break_even_low
        less = (
            "owning never costs less"
            if even is None
            else f"owning costs less from {words.percent(even)} utilisation on"
        )
        lines.append(f"at the lowest rent published, {words.dollars(answer.rent_low)} USD/h, {less}")
    if answer.months is not None:
        lines.append(f"the purchase is paid by rents saved after {figure(answer.months)} months")
    return lines


def _against(answer: Owning) -> list[str]:
    other = answer.against
    if other is None:
        return []
    line = f"{other.gpus} x {other.gpu} do {figure(other.speed)} times the work"
    if other.even_rent is not None:
        line += f": worth up to {words.dollars(other.even_rent / other.gpus)} USD per GPU and hour"
        if other.rent is not None:
            line += f", known price {words.dollars(other.rent / other.gpus)}"
    return [line, *(f"Note: {note}." for note in other.notes)]
