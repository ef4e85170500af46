"""Make the page of a comparison: who wins and how surely, a row for each card, rooflines side by side, speed against price."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.report import words
from roofsim.report.html import rooflines, winners
from roofsim.report.html.blocks import (
    CellTable,
    Chart,
    Data,
    LegendKey,
    Panels,
    Prose,
    ReportPage,
    Section,
    filled,
    pointer,
)
from roofsim.report.html.marks import intervals, scatter
from roofsim.report.html.of_run import assumptions, memory_bars, time_bars
from roofsim.report.html.svg import PlotAxis
from roofsim.report.palette import cause

if TYPE_CHECKING:
    from roofsim.compare.rows import Comparison, Row
    from roofsim.report.html.asked import AskedReport

#: Cards of known price from which speed is drawn against price.
_PRICED: Final = 2


def page(comparison: Comparison, asked: AskedReport) -> ReportPage:
    """Return the page of a comparison."""
    runs = [(place, row) for place, row in enumerate(comparison) if row.result is not None]
    charts: dict[str, Any] = {
        "rooflines": [
            rooflines.roofline_data(row.evaluation, row.label) for _, row in runs if row.evaluation is not None
        ],
        "map": winners.map_data(comparison, asked),
    }
    data = Data({"answer": comparison.to_dict(), "charts": charts})
    bars = [(row.label, ("answer", "rows", place)) for place, row in runs]
    first = comparison.results[0] if comparison.results else None
    notes = (*comparison.notes, *(f"{row.label}: {row.reason}" for row in comparison if row.reason))
    return ReportPage(
        verb=asked.verb,
        headline=_headline(comparison),
        subtitle=() if first is None else (words.batch_line(first),),
        verdict=tuple(comparison.sentence.replace(". Cheapest", ".\nCheapest").split("\n")),
        sections=filled(
            Section(title="Step time, with its error bar", blocks=(_intervals(data, runs),) if runs else ()),
            Section(title="The cards", blocks=(_table(data, comparison),)),
            Section(title="Where the time goes", blocks=(time_bars(data, bars, ends=False),) if runs else ()),
            Section(title="Rooflines", blocks=(_rooflines(charts["rooflines"]),)),
            Section(title="Which card wins where", blocks=winners.charts(charts["map"], ("charts", "map"))),
            Section(title="Memory", blocks=(memory_bars(data, bars),) if runs else ()),
            Section(title="Speed against price", blocks=(_prices(data, comparison, runs),)),
            Section(title="Notes", blocks=(Prose(lines=tuple(notes)),) if notes else ()),
            *(() if first is None else assumptions(data, ("answer", "rows", runs[0][0]), first)),
        ),
        data=data.data,
    )


def _headline(comparison: Comparison) -> str:
    cards = words.count(len(comparison))
    if not comparison.results:
        return f"None of {cards} cards runs it"
    scenario = comparison.results[0].scenario
    return f"{scenario['model']['name']} · {scenario['workload']['phase']} on {cards} cards"


def _intervals(data: Data, runs: list[tuple[int, Row]]) -> Chart:
    rows = []
    for place, row in runs:
        at = ("answer", "rows", place)
        ends = data.at(pointer(*at, "step_time_interval"))
        color = cause(None if row.result is None else row.result.bound)
        rows.append((row.label, pointer(*at, "step_time"), data.at(pointer(*at, "step_time")), ends, color, row.fits))
    longest = max(max(value, *(ends or (0.0,))) for _, _, value, ends, _, _ in rows)
    axis = PlotAxis(label="seconds of a step (80 % interval)", low=0.0, high=longest * 1.03, write=_seconds)
    bounds = dict.fromkeys(row.result.bound for _, row in runs if row.result is not None and row.result.bound)
    legend = [LegendKey(name=f"limited by {words.BOUND_WORDS[one]}", colour=cause(one), shape="dot") for one in bounds]
    if not all(row.fits for _, row in runs):
        legend.append(LegendKey(name="hollow: does not fit in memory", colour="var(--quiet)", shape="hollow"))
    return intervals(
        rows,
        axis,
        words.seconds,
        about="Predicted step time of each card and its 80 % interval: "
        "where intervals overlap much, the order may be the other way round.",
        legend=legend,
        data="/answer/rows",
    )


def _seconds(value: float) -> str:
    return words.seconds(value) if value else "0"


def _table(data: Data, comparison: Comparison) -> CellTable:
    unit = comparison.unit or "samples"
    heads = (
        "card",
        "step",
        f"{unit}/s",
        "vs first",
        "80 % interval",
        "limited by",
        "memory",
        "of",
        "fits",
        "USD/h",
        f"{unit}/USD",
    )
    rows: list[tuple[Any, ...]] = []
    for place, row in enumerate(comparison):
        at = ("answer", "rows", place)
        if row.result is None:
            rows.append((row.label, *("-",) * 4, "cannot run", *("-",) * 5))
            continue
        ends = [data.shown(pointer(*at, "relative_interval", end), _times) for end in (0, 1)]
        memory = row.result.memory
        rows.append(
            (
                row.label,
                data.shown(pointer(*at, "step_time"), words.seconds),
                data.shown(pointer(*at, "rate"), words.count),
                data.shown(pointer(*at, "relative"), _times),
                (ends[0], " to ", ends[1]) if row.relative_interval else "-",
                words.short_bound(row.result.bound),
                data.shown(pointer(*at, "memory", "peak"), words.gibibytes),
                data.shown(pointer(*at, "memory", "capacity"), words.gibibytes),
                words.room_cell(memory.verdict, float(memory.device_total), float(memory.capacity)),
                data.shown(pointer(*at, "cost", "usd_per_hour"), words.dollars),
                data.shown(pointer(*at, "units_per_usd"), words.count),
            )
        )
    prices = {row.result.cost["price"] for row in comparison if row.result is not None and row.result.cost.get("price")}
    below = (
        f"Prices: {'; '.join(sorted(prices))}. Prices of different kinds are not ranked against each other."
        if prices
        else ""
    )
    numeric = (False, True, True, True, True, False, True, True, False, True, True)
    return CellTable(heads=heads, rows=tuple(rows), numeric=numeric, below=below, caption="One row per card")


def _times(value: float) -> str:
    return f"{value:.2f}x"


def _rooflines(cards: list[dict[str, Any]]) -> Panels | None:
    if not cards:
        return None
    ends = rooflines.ends_of(cards)
    drawn = tuple(
        rooflines.roofline(card, ("charts", "rooflines", place), ends=ends, small=True)
        for place, card in enumerate(cards)
    )
    bounds = dict.fromkeys(point["bound"] for card in cards for point in card["points"] if point["bound"])
    return Panels(
        charts=drawn,
        about="One panel per card, all on the same axes. One mark per class of ops; its area is its share of the step.",
        legend=tuple(
            LegendKey(name=f"limited by {words.BOUND_WORDS[one]}", colour=cause(one), shape="dot") for one in bounds
        ),
    )


def _prices(data: Data, comparison: Comparison, runs: list[tuple[int, Row]]) -> Chart | None:
    del data
    known = [
        (
            row.label,
            float(row.result.cost["usd_per_hour"]),
            float(row.rate),
            pointer("answer", "rows", place, "rate"),
            row.fits,
        )
        for place, row in runs
        if row.result is not None and row.rate and row.result.cost.get("usd_per_hour")
    ]
    if len(known) < _PRICED:
        return None
    unit = comparison.unit or "samples"
    x = PlotAxis(
        label="price, USD per hour",
        low=0.0,
        high=1.15 * max(one[1] for one in known),
        write=lambda value: f"{value:g}",
        unit="USD/h",
    )
    y = PlotAxis(
        label=f"speed, {unit} per second",
        low=0.0,
        high=1.12 * max(one[2] for one in known),
        write=words.count,
        unit=f"{unit}/s",
    )
    return scatter(
        [
            (name, price, rate, key, f"{name}: {words.count(rate)} {unit}/s for {words.dollars(price)} USD/h", fits)
            for name, price, rate, key, fits in known
        ],
        x,
        y,
        name="",
        about=f"What an hour costs and what it brings: the further up and to the left, the more {unit} for a dollar. "
        "Prices may be of different kinds; the table says which.",
        data="/answer/rows",
    )
