"""Make the page of a search for servers that keep bounds: the cheapest, their cost against latency, what became of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.analyze.result import plain
from roofsim.report import servers as told
from roofsim.report import words
from roofsim.report.html.blocks import (
    CellTable,
    Chart,
    Data,
    LegendKey,
    Prose,
    ReportPage,
    Section,
    Tiles,
    filled,
    pointer,
)
from roofsim.report.html.plane import Dot, Plane, Stroke, chart
from roofsim.report.html.svg import PlotAxis
from roofsim.report.palette import card
from roofsim.report.prices import prices_line, starred
from roofsim.report.serving_target import LIMITS, bounds_of

if TYPE_CHECKING:
    from roofsim.report.html.asked import AskedReport
    from roofsim.search.serving.answer import ServerChoice, ServerChoices

#: Latency of a server -> its name on an axis.
_LATENCIES = {
    "time_per_output_token": "mean time per output token, seconds",
    "time_to_first_token": "mean time to the first token, seconds",
}


def page(answer: ServerChoices, asked: AskedReport) -> ReportPage:
    """Return the page of a search for servers."""
    data = Data({"answer": plain(answer.to_dict())})
    best = answer.best
    rate = "the largest rate that each sustains"
    if answer.request_rate is not None:
        rate = f"{words.count(answer.request_rate)} requests/s"
    differences = tuple(f"{place}. {one.why}" for place, one in enumerate(answer.top[1:], 2) if one.why)
    return ReportPage(
        verb=asked.verb,
        headline="No server keeps the bounds" if best is None else "The cheapest server that keeps the bounds",
        subtitle=(f"At {rate}; {bounds_of(answer.target)}",),
        verdict=(f"{told.headline(answer)}.", *filter(None, (prices_line(answer.prices),))),
        sections=filled(
            None if best is None else Section(title="The cheapest", blocks=(_tiles(data, best),)),
            Section(
                title="Cost and latency",
                blocks=tuple(_against(data, answer, latency) for latency in _LATENCIES),
            ),
            Section(
                title="The best servers",
                blocks=(_table(data, answer), Prose(lines=differences) if differences else None),
            ),
            Section(title="What became of the others", blocks=(Prose(lines=tuple(told.counted(answer))),)),
        ),
        data=data.data,
    )


def _tiles(data: Data, best: ServerChoice) -> Tiles:
    at = ("answer", "top", 0)
    tiles: list[tuple[str, Any, tuple[Any, ...]]] = []
    if best.usd_per_million is not None:
        key = pointer(*at, "usd_per_million_tokens")
        tiles.append(("cost", data.shown(key, _dollars), ("per million output tokens",)))
    for name, label in (("time_to_first_token", "first token"), ("time_per_output_token", "per output token")):
        key = pointer(*at, "latency", name)
        if data.at(key) is not None:
            tiles.append((label, data.shown(key, words.seconds), ("mean at that rate",)))
    rate = data.shown(pointer(*at, "request_rate"), words.count)
    tiles.append(("rate", rate, ("requests per second",)))
    tiles.append(("GPUs", data.shown(pointer(*at, "gpus"), words.count), (f"{best.gpu}",)))
    return Tiles(tiles=tuple(tiles))


def _dollars(value: float) -> str:
    return f"{words.dollars(value)} USD"


def front(points: list[tuple[float, float]]) -> list[int]:
    """Return which points no other is as good as in both figures, by the first of them.

    >>> front([(3.0, 1.0), (1.0, 3.0), (2.0, 4.0), (2.0, 2.0)])
    [1, 3, 0]
    """
    kept: list[int] = []
    for place in sorted(range(len(points)), key=lambda at: (points[at], at)):
        if not kept or points[place][1] < points[kept[-1]][1]:
            kept.append(place)
    return kept


def _against(data: Data, answer: ServerChoices, latency: str) -> Chart | None:
    """Draw what a million tokens cost against a latency; the line joins those that no other of them beats in both."""
    known = []
    for place, one in enumerate(answer.top):
        key = pointer("answer", "top", place, "latency", latency)
        cost, seconds = one.usd_per_million, data.at(key)
        if cost is not None and seconds is not None:
            known.append((place, one, key, cost, seconds))
    if len(known) < 2:
        return None
    best = front([(cost, seconds) for *_, cost, seconds in known])
    dots = tuple(
        Dot(
            x=cost,
            y=seconds,
            colour=card(0),
            radius=5.0,
            hollow=at not in best,
            sparse=True,
            label=f"{place + 1}",
            key=key,
            value=seconds,
            tip=f"{place + 1}. {told.chosen(answer, one)}\n{_dollars(cost)} per million output tokens\n{words.seconds(seconds)}",
        )
        for at, (place, one, key, cost, seconds) in enumerate(known)
    )
    line = Stroke(points=tuple((dots[at].x, dots[at].y) for at in best), colour=card(0))
    x = PlotAxis(
        label="USD per million output tokens", low=0.0, high=1.1 * max(dot.x for dot in dots), write=words.dollars
    )
    y = PlotAxis(label=_LATENCIES[latency], low=0.0, high=1.15 * max(dot.y for dot in dots), write=_seconds, unit="s")
    name = {"time_per_output_token": "Cost against time per token", "time_to_first_token": "Cost against first token"}[
        latency
    ]
    about = (
        "Each server of the table by its number. Filled, on the line: no other of these is both as cheap and as fast."
    )
    legend = (LegendKey(name="none is cheaper and faster", colour=card(0)),)
    return chart(
        Plane(x=x, y=y, lines=(line,) if len(best) > 1 else (), dots=dots, tall=280.0),
        name=name,
        about=about,
        legend=legend,
        data="/answer/top",
    )


def _seconds(value: float) -> str:
    return words.seconds(value) if value else "0"


def _table(data: Data, answer: ServerChoices) -> CellTable | None:
    if not answer.top:
        return None
    percent = f"p{answer.target.percentile:g}"
    rows = []
    for place, one in enumerate(answer.top):
        at, dollars = ("answer", "top", place), starred(words.dollars, comparable=one.comparable)
        rows.append(
            (
                str(place + 1),
                told.chosen(answer, one),
                data.shown(pointer(*at, "gpus"), words.count),
                data.shown(pointer(*at, "replicas"), words.count),
                data.shown(pointer(*at, "max_request_rate_per_replica"), words.count),
                data.shown(pointer(*at, "at_limit", "time_to_first_token"), words.seconds),
                data.shown(pointer(*at, "at_limit", "time_per_output_token"), words.seconds),
                LIMITS[one.sizing.limits or "capacity"],
                data.shown(pointer(*at, "usd_per_hour"), dollars),
                data.shown(pointer(*at, "usd_per_million_tokens"), dollars),
            )
        )
    heads = (
        "#",
        "server",
        "GPUs",
        "replicas",
        "requests/s per replica",
        f"first token {percent}",
        f"per token {percent}",
        "limited by",
        "USD/h",
        "USD per million tokens",
    )
    numeric = (True, False, True, True, True, True, True, False, True, True)
    return CellTable(heads=heads, rows=tuple(rows), numeric=numeric)
