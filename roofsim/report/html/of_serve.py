"""Make the page of a server: what it does under the load, what it would do under others, what limits it and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.result import plain
from roofsim.report import words
from roofsim.report.html.blocks import (
    CellTable,
    Chart,
    Data,
    FactList,
    LegendKey,
    Prose,
    ReportPage,
    Section,
    Tiles,
    filled,
    pointer,
)
from roofsim.report.html.plane import Dot, Guide, Plane, Stroke, chart
from roofsim.report.html.svg import PlotAxis
from roofsim.report.palette import card, dash

if TYPE_CHECKING:
    from roofsim.report.html.asked import AskedReport

#: Figure of a point of the curve -> its name, in the order in which they are drawn.
_LATENCIES: Final = {
    "time_to_first_token": "first token",
    "time_per_output_token": "per output token",
    "time": "one batch",
}
_VERDICT: Final = ("sustains", "replicas", "verdict", "first token", "throughput", "latency", "saturation")


def page(served: Any, asked: AskedReport) -> ReportPage:
    """Return the page of a server of tokens, or of one pass."""
    told = _words_of(served)
    rows = told.answer_rows(served)
    said = dict(rows)
    answer = plain(served.to_dict())
    curve = next((key for key in ("curve", "batches") if isinstance(answer.get(key), list)), "curve")
    data = Data({"answer": answer})
    notes = answer.get("warnings") or []
    return ReportPage(
        verb=asked.verb,
        headline=told.headline(served),
        subtitle=(),
        verdict=tuple(f"{name}: {' '.join(said[name].split())}" for name in _VERDICT if name in said)[:3],
        sections=filled(
            Section(
                title="The answer", blocks=(_tiles(data), FactList(rows=tuple((name, (line,)) for name, line in rows)))
            ),
            Section(title="Other loads", blocks=(*_curves(data, curve), _table(data, curve))),
            Section(
                title="Notes",
                blocks=(Prose(lines=tuple(f"{note}." for note in notes), tone="warning"),) if notes else (),
            ),
            Section(
                title="Assumptions: what the scenario does not state",
                blocks=(Prose(lines=tuple(answer.get("assumed") or ())),) if answer.get("assumed") else (),
            ),
        ),
        data=data.data,
    )


def _words_of(served: Any) -> Any:
    """Return the module that says what a server of its kind does."""
    from roofsim.report import serving, serving_passes
    from roofsim.serve.served import Served

    return serving if isinstance(served, Served) else serving_passes


def _tiles(data: Data) -> Tiles | None:
    tiles: list[tuple[str, Any, tuple[Any, ...]]] = []
    for key, name in (("time_to_first_token", "first token"), ("time_per_output_token", "per output token")):
        at = ("answer", "latency", key)
        if data.at(pointer(*at)) is not None:
            ends = tuple(data.shown(pointer("answer", "latency", f"{key}_range", end), words.seconds) for end in (0, 1))
            known = data.at(pointer("answer", "latency", f"{key}_range")) is not None
            tiles.append(
                (
                    name,
                    data.shown(pointer(*at), words.seconds),
                    ("80 % range ", ends[0], " to ", ends[1]) if known else (),
                )
            )
    for key, name, below in (("output_tokens_per_second", "throughput", "output tokens per second"),):
        if data.at(pointer("answer", "throughput", key)) is not None:
            tiles.append((name, data.shown(pointer("answer", "throughput", key), words.count), (below,)))
    most = pointer("answer", "saturation", "requests_per_second")
    if data.at(most) is not None:
        tiles.append(("at most", data.shown(most, words.count), ("requests per second, at saturation",)))
    return Tiles(tiles=tuple(tiles)) if tiles else None


#: Figures of a point of the curve that are seconds, and others that are counted, with their heads; those that it has are shown.
_SECONDS: Final = {
    "time_to_first_token": "first token",
    "time_per_output_token": "per output token",
    "end_to_end": "whole request",
    "time": "batch",
}
_COUNTS: Final = {
    "concurrency": "requests in flight",
    "batch_size": "batch",
    "requests_per_second": "requests/s",
    "output_tokens_per_second": "output tokens/s",
    "tokens_per_second_per_user": "tokens/s per user",
}


def _table(data: Data, curve: str) -> CellTable | None:
    rows = data.at(pointer("answer", curve)) or []
    writers = dict.fromkeys(_COUNTS, words.count) | dict.fromkeys(_SECONDS, words.seconds)
    keys = [key for key in writers if any(row.get(key) is not None for row in rows)]
    if not rows:
        return None
    cells = [
        tuple(data.shown(pointer("answer", curve, place, key), writers[key]) for key in keys)
        for place in range(len(rows))
    ]
    return CellTable(
        heads=tuple((_COUNTS | _SECONDS)[key] for key in keys), rows=tuple(cells), numeric=(True,) * len(keys)
    )


# -- curves ---------------------------------------------------------------------------------------------------------


def _curves(data: Data, curve: str) -> tuple[Chart | None, ...]:
    rows = data.at(pointer("answer", curve)) or []
    if len(rows) < 2:
        return ()
    return _frontier(rows, curve), _latency(data, rows, curve)


def _frontier(rows: list[dict[str, Any]], curve: str) -> Chart | None:
    keys = "tokens_per_second_per_user", "output_tokens_per_second_per_gpu"
    points = [(place, row) for place, row in enumerate(rows) if all(row.get(key) for key in keys)]
    if len(points) < 2:
        return None
    dots = tuple(
        Dot(
            x=row[keys[0]],
            y=row[keys[1]],
            colour=card(0),
            radius=4.5,
            label=words.count(row["concurrency"]),
            key=pointer("answer", curve, place, keys[1]),
            value=row[keys[1]],
            tip=f"{words.count(row['concurrency'])} requests in flight\n{words.count(row[keys[0]])} tokens/s per user\n"
            f"{words.count(row[keys[1]])} output tokens/s per GPU",
        )
        for place, row in points
    )
    line = Stroke(points=tuple((dot.x, dot.y) for dot in dots), colour=card(0))
    x = PlotAxis(
        label="speed that a user sees, tokens per second",
        low=0.0,
        high=1.08 * max(dot.x for dot in dots),
        write=words.count,
    )
    y = PlotAxis(
        label="throughput of a GPU, output tokens per second",
        low=0.0,
        high=1.1 * max(dot.y for dot in dots),
        write=words.count,
    )
    about = "Throughput against the speed that each user sees; the numbers are requests in flight. "
    about += "More of them serve more users, slower."
    return chart(
        Plane(x=x, y=y, lines=(line,), dots=dots, tall=280.0),
        name="Throughput against speed",
        about=about,
        data=f"/answer/{curve}",
    )


def _latency(data: Data, rows: list[dict[str, Any]], curve: str) -> Chart | None:
    load = "requests_per_second"
    kinds = [key for key in _LATENCIES if any(row.get(key) for row in rows)]
    if not kinds or not all(row.get(load) for row in rows):
        return None
    lines, dots = [], []
    for number, kind in enumerate(kinds):
        points = [(place, row[load], row[kind]) for place, row in enumerate(rows) if row.get(kind)]
        lines.append(Stroke(points=tuple((x, y) for _, x, y in points), colour=card(number), dash=dash(number)))
        dots += [
            Dot(
                x=x,
                y=y,
                colour=card(number),
                radius=4.0,
                key=pointer("answer", curve, place, kind),
                value=y,
                tip=f"{_LATENCIES[kind]}: {words.seconds(y)}\nat {words.count(x)} requests/s",
            )
            for place, x, y in points
        ]
    most = data.at(pointer("answer", "saturation", "requests_per_second"))
    rules = (Guide(axis="x", at=most, label="saturation"),) if most else ()
    values = [dot.y for dot in dots]
    x = PlotAxis(
        label="load, requests per second",
        low=0.0,
        high=1.06 * max(*(dot.x for dot in dots), most or 0.0),
        write=words.count,
    )
    y = PlotAxis(
        label="latency, seconds",
        low=0.6 * min(values),
        high=1.6 * max(values),
        write=words.seconds,
        unit="s",
        logarithmic=True,
    )
    legend = [LegendKey(name=_LATENCIES[kind], colour=card(number), shape="line") for number, kind in enumerate(kinds)]
    about = "Mean latency over the load; beyond saturation requests wait ever longer."
    plane = Plane(x=x, y=y, lines=tuple(lines), dots=tuple(dots), rules=rules, tall=280.0)
    return chart(plane, name="Latency over the load", about=about, legend=legend, data=f"/answer/{curve}")
