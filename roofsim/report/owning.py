"""Print whether to rent or to buy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from roofsim.analyze.verdicts import TIGHT
from roofsim.report import words
from roofsim.report.grid import Grid, number, text
from roofsim.report.job import assumed, figure

if TYPE_CHECKING:
    from rich.console import Console

    from roofsim.decide.owned import Ends
    from roofsim.decide.owning import Owning

_LAST: Final = "Hosts, networks, storage and people are not counted but where the purchase price has them."


def print_owning(console: Console, answer: Owning) -> None:
    """Print the sentence, what both cost, and what that rests on."""
    console.print(Text(sentence(answer), style="bold"))
    table = Grid([text(""), number("USD/h"), number(f"USD/M {answer.unit}"), text("80 % interval")])
    for name, hourly in (("rented", answer.rent), ("owned", answer.own)):
        each, span = answer.usd_per_million[name], answer.usd_per_million_interval[name]
        cells = ("?", "?") if hourly is None or each is None else (words.dollars(hourly), words.dollars(each))
        table.add(f"{name}, {answer.gpus} x {answer.gpu}", *cells, "" if span is None else _span(span))
    console.print(table)
    if answer.memory == TIGHT:
        console.print(Text("Memory is tight: the scenario may not fit."))
    total = sum(answer.parts.values())
    parts = ", ".join(f"{name} {figure(usd)} ({words.percent(usd / total)})" for name, usd in answer.parts.items())
    console.print(Text(f"owning, USD over all years: {parts}"))
    console.print(
        Text(f"bought: {figure(answer.purchase)} USD: {answer.purchase_words}; rented: {answer.rent_words or '?'}")
    )
    for line in (*_even(answer), *_paid(answer), *_against(answer), *assumed(answer.assumptions), _LAST):
        console.print(Text(line))


def sentence(answer: Owning) -> str:
    """Return the answer in a sentence: against whose rent, and whether it turns with the seller."""
    if answer.rent is None:
        return f"An owned hour costs {words.dollars(answer.own)} USD; no price to rent {answer.gpu} is known (--rent)."
    head = {"buy": "Buy", "rent": "Rent", "depends": "It depends on the seller"}[answer.verdict]
    said = (
        f"{head}: at {words.percent(answer.utilisation)} utilisation an hour costs {words.dollars(answer.own)} USD owned "
        f"({answer.purchase_source}) against {words.dollars(answer.rent)} rented ({answer.rent_words})"
    )
    if not _has_lower(answer) or answer.verdict == "rent":
        return f"{said}; {_from(answer.break_even)}."
    lowest = f"{words.dollars(answer.rent_low or 0.0)} at the lowest published ({answer.rent_low_words or 'unnamed'})"
    if answer.verdict == "depends":
        return f"{said} and {lowest}: {_from(answer.break_even)}, or {_from(answer.break_even_low, '')}."
    return f"{said} and {lowest}; {_from(answer.break_even)}, or {_from(answer.break_even_low, '')}."


def _has_lower(answer: Owning) -> bool:
    """Tell whether another seller asks less than the rent that is shown."""
    return answer.rent_low is not None and answer.rent is not None and answer.rent_low < answer.rent


def _from(even: float | None, owning: str = "owning ") -> str:
    if even is None:
        return f"{owning}never costs less" if owning else "at the lowest never"
    share = words.percent(even)
    return f"owning costs less from {share} utilisation on" if owning else f"from {share} at the lowest"


def _even(answer: Owning) -> list[str]:
    rent, span = answer.even_rent / answer.gpus, answer.even_rent_interval
    line = f"break-even rent: {words.dollars(rent)} USD per GPU and hour at this utilisation"
    if span is not None:
        low, high = (end / answer.gpus for end in span)
        line += f", 80 % interval {_span((low, high))}: only electricity depends on the predicted speed"
        if answer.rent is not None and span[0] <= answer.rent <= span[1]:
            line += "; the rent lies inside, so that either may cost less"
    lines = [line]
    if _has_lower(answer):
        lowest = words.dollars(answer.rent_low or 0.0)
        lines.append(f"at the lowest rent published, {lowest} USD/h, {_from(answer.break_even_low)}")
    return lines


def _paid(answer: Owning) -> list[str]:
    """Return when rents saved have paid the purchase, at the rent shown and at the lowest."""
    if answer.rent is None:
        return []
    said = [f"the purchase {_paid_at(answer, 'rent', answer.rent, answer.months, paid=bool(answer.paid_back))}"]
    if _has_lower(answer):
        lowest = answer.rent_low or 0.0
        said.append(_paid_at(answer, "rent_low", lowest, answer.months_low, paid=bool(answer.paid_back_low)))
    return ["; ".join(said)]


def _paid_at(answer: Owning, which: str, rent: float, months: float | None, *, paid: bool) -> str:
    """Return when rents saved have paid the purchase, which is no other answer than the verdict at that rent."""
    at = f"at {words.dollars(rent)} USD/h{' rented' if which == 'rent' else ', the lowest rent'}"
    use = f"within the {'year' if answer.years == 1.0 else f'{answer.years:g} years'} of use"
    if months is None:
        return f"is never paid by rents saved {at}: electricity and hosting cost as much"
    if paid:
        return f"is paid by rents saved after {figure(months)} months {at}"
    if answer.verdicts[which] == "buy":
        return f"is not paid by rents saved {use} {at}: the sale at the end makes up for the rest"
    return f"is not paid back {use} {at}"


def _against(answer: Owning) -> list[str]:
    other = answer.against
    if other is None:
        return []
    name, notes = f"{other.gpus} x {other.gpu}", [f"Note: {note}." for note in other.notes]
    if other.short is not None:
        return [f"{name}: does not fit, {other.short}", *notes]
    line = f"{name} do {figure(other.speed)} times the work{_of_interval(other.speed_interval)}"
    if other.even_rent is not None:
        ends = other.even_rent_interval
        each = None if ends is None else (ends[0] / other.gpus, ends[1] / other.gpus)
        line += f": worth up to {words.dollars(other.even_rent / other.gpus)} USD per GPU and hour{_of_interval(each)}"
        line += f" beside {words.dollars((answer.rent or 0.0) / answer.gpus)}"
        if other.rent is not None:
            line += f", known price {words.dollars(other.rent / other.gpus)} ({other.rent_words})"
    return [line, *notes]


def _of_interval(ends: Ends | None) -> str:
    return "" if ends is None else f" ({_span(ends)})"


def _span(ends: Ends) -> str:
    return f"{words.dollars(ends[0])} .. {words.dollars(ends[1])}"
