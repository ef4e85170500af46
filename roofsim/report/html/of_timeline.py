"""Make the page of a timeline: when things happen, who waits, and what of the communication shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.analyze.result import plain
from roofsim.report import words
from roofsim.report.html import lanes
from roofsim.report.html.blocks import CellTable, Data, Prose, ReportPage, Section, Tiles, filled, pointer

if TYPE_CHECKING:
    from roofsim.analyze.timeline import Timeline
    from roofsim.report.html.asked import AskedReport


def page(timeline: Timeline, asked: AskedReport) -> ReportPage:
    """Return the page of a timeline."""
    charts = {"timeline": lanes.timeline_data(timeline)}
    data = Data({"answer": plain(timeline.to_dict()), "charts": charts})
    busiest = max(timeline.lanes, key=lambda lane: lane.busy)
    waiting = max(timeline.lanes, key=lambda lane: lane.waits)
    several = len(timeline.lanes) > 1
    said = f"{busiest.name} works longest, {waiting.name} waits {words.percent(waiting.waits / timeline.step)} of the step."
    schedule = "" if timeline.schedule is None else f", schedule {timeline.schedule}"
    return ReportPage(
        verb=asked.verb,
        headline=timeline.title,
        subtitle=(f"micro batches: {timeline.micro_batches}{schedule}",),
        verdict=(said[0].upper() + said[1:],) if several else (),
        sections=filled(
            Section(title="The answer", blocks=(_tiles(data, several),)),
            Section(title="When things happen", blocks=(lanes.lanes(charts["timeline"], ("charts", "timeline")),)),
            Section(title="Stages", blocks=(_lanes(data),) if several else ()),
            Section(title="Communication", blocks=(_collectives(data),)),
            Section(
                title="Notes",
                blocks=(Prose(lines=tuple(f"{note}." for note in timeline.notes)),) if timeline.notes else (),
            ),
        ),
        data=data.data,
    )


def _tiles(data: Data, several: bool) -> Tiles:
    tiles: list[tuple[str, Any, tuple[Any, ...]]] = [("step time", data.shown("/answer/step_time"), ())]
    if several:
        tiles.append(("micro batches", data.shown("/answer/micro_batches", words.count), ("of a step",)))
    return Tiles(tiles=tuple(tiles))


def _lanes(data: Data) -> CellTable:
    keys = {
        "ranks": words.count,
        "micro_batch": words.seconds,
        "of_slowest": words.percent,
        "busy": words.seconds,
        "waits": words.seconds,
        "waits_share": words.percent,
    }
    rows = [
        (lane["name"], *(data.shown(pointer("answer", "lanes", place, key), write) for key, write in keys.items()))
        for place, lane in enumerate(data.at("/answer/lanes"))
    ]
    heads = ("stage", "ranks", "micro batch", "of the slowest", "busy", "waits", "share")
    return CellTable(heads=heads, rows=tuple(rows), numeric=(False, *(True,) * 6))


def _collectives(data: Data) -> CellTable | None:
    rows = [
        (
            row["stage"],
            row["group"],
            row["phase"],
            *(
                data.shown(pointer("answer", "collectives", place, key), words.seconds)
                for key in ("time", "exposed", "hidden")
            ),
        )
        for place, row in enumerate(data.at("/answer/collectives"))
    ]
    if not rows:
        return None
    heads = ("stage", "group", "phase", "per step", "exposed", "hidden")
    return CellTable(heads=heads, rows=tuple(rows), numeric=(False, False, False, True, True, True))
