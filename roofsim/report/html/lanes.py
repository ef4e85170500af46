"""Draw when things happen: a row for each stage of a pipeline, or each stream of a rank, with a box for each piece of work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.timeline import COMPUTE, STREAMS
from roofsim.report import words
from roofsim.report.html.bars import twice
from roofsim.report.html.blocks import Chart, LegendKey, pointer
from roofsim.report.html.svg import PlotAxis, SvgDrawing, measure, shortened_to
from roofsim.report.palette import WORK, ink_on

if TYPE_CHECKING:
    from roofsim.analyze.timeline import Span, Timeline

#: Boxes shorter than this share of the step are drawn together with their neighbours of the same kind.
_FINEST: Final = 1.0 / 700.0
#: Rows that are drawn at most: of more stages, the first and the last.
_MOST: Final = 24
_STREAM_WORDS: Final = {"context_ring": "context ring", "expert_tensor": "expert tensor"}


def timeline_data(timeline: Timeline) -> dict[str, Any]:
    """Return the rows of a timeline: boxes with start and seconds; neighbours of a kind that nobody could tell apart are one."""
    piped = len(timeline.lanes) > 1
    rows: dict[str, list[Span]] = {}
    for span in timeline.spans:
        name = timeline.lanes[span.lane].name if piped else _STREAM_WORDS.get(span.stream, span.stream)
        if not piped or span.stream == COMPUTE:
            rows.setdefault(name, []).append(span)
    order = [lane.name for lane in timeline.lanes] if piped else [_STREAM_WORDS.get(one, one) for one in STREAMS]
    shown = [name for name in order if name in rows]
    end = max((span.start + span.seconds for spans in rows.values() for span in spans), default=timeline.step)
    left_out = shown[_MOST // 2 : -_MOST // 2] if len(shown) > _MOST else []
    return {
        "step_time": timeline.step,
        "end": end,
        "whole": timeline.is_whole,
        "left_out": len(left_out),
        "rows": [
            {"name": name, "boxes": _joined(rows[name], end, numbered=timeline.micro_batches > 1)}
            for name in shown
            if name not in left_out
        ],
    }


def _joined(spans: list[Span], end: float, *, numbered: bool) -> list[dict[str, Any]]:
    boxes: list[dict[str, Any]] = []
    for span in sorted(spans, key=lambda span: span.start):
        last = boxes[-1] if boxes else None
        close = last is not None and span.start - last["start"] - last["seconds"] < _FINEST * end
        small = last is not None and (span.seconds < 2.0 * _FINEST * end or last["seconds"] < 2.0 * _FINEST * end)
        if last is not None and close and small and last["kind"] == span.kind:
            last["seconds"] = max(span.start + span.seconds - last["start"], last["seconds"])
            last["busy"] += span.seconds
            last["pieces"] += 1
            continue
        boxes.append(
            {
                "start": span.start,
                "seconds": span.seconds,
                "busy": span.seconds,
                "kind": span.kind,
                "name": span.name,
                "number": span.facts.get("micro_batch") if numbered else None,
                "pieces": 1,
            }
        )
    return boxes


def lanes(data: dict[str, Any], steps: tuple[Any, ...]) -> Chart:
    """Return the drawing; `steps` lead to its data on the page."""
    kinds = [kind for kind in WORK if any(box["kind"] == kind for row in data["rows"] for box in row["boxes"])]
    left_out = f" {data['left_out']} stages in the middle are left out." if data["left_out"] else ""
    written = "" if data["whole"] else ", the micro batches that are written out"
    about = (
        f"What each row does over {words.seconds(data['end'])}{written}."
        f"{left_out} Pieces of one kind that are too short to see are drawn as one."
    )
    return twice(
        lambda width: _lanes(data, width, about, steps),
        name="",
        about=about,
        legend=tuple(LegendKey(name=kind, colour=WORK[kind]) for kind in kinds),
        data=pointer(*steps),
    )


def _lanes(data: dict[str, Any], width: float, about: str, steps: tuple[Any, ...]) -> SvgDrawing:
    rows, each = data["rows"], 26.0 if len(data["rows"]) <= 8 else 20.0
    left = min(max((measure(row["name"]) for row in rows), default=0.0) + 12.0, 0.3 * width)
    bottom = 6.0 + each * len(rows)
    drawing = SvgDrawing(width, bottom + 40.0, about)
    axis = PlotAxis(label="time since the start of the step, seconds", low=0.0, high=data["end"] or 1.0, write=_since)

    def x(value: float) -> float:
        return left + axis.share(value) * (width - left - 8.0)

    for tick in axis.ticks(int((width - left) // 74.0)):
        half = measure(axis.write(tick)) / 2.0
        drawing.line(x(tick), 4.0, x(tick), bottom, "grid")
        drawing.text(min(x(tick), width - half), bottom + 16.0, axis.write(tick), anchor="middle", kind="t q")
    for place, row in enumerate(rows):
        y = 6.0 + place * each
        drawing.text(left - 8.0, y + each / 2.0 + 3.0, shortened_to(row["name"], left - 10.0), anchor="end", kind="t n")
        for number, box in enumerate(row["boxes"]):
            _box(drawing, box, x, y, each - 4.0, pointer(*steps, "rows", place, "boxes", number, "seconds"))
    drawing.text((left + width) / 2.0, bottom + 35.0, axis.label, anchor="middle", kind="t q")
    return drawing


def _box(drawing: SvgDrawing, box: dict[str, Any], x: Any, y: float, tall: float, key: str) -> None:
    start, end = x(box["start"]), x(box["start"] + box["seconds"])
    many = f"\n{box['pieces']} pieces, busy for {words.seconds(box['busy'])}" if box["pieces"] > 1 else ""
    tip = f"{box['name']}{' ...' if many else ''}\n{words.seconds(box['seconds'])} from {_since(box['start'])}{many}"
    colour = WORK[box["kind"]]
    drawing.shape(
        "rect",
        tip=tip,
        x=start,
        y=y,
        width=max(end - start - (0.6 if end - start > 3.0 else 0.0), 0.5),
        height=tall,
        fill=colour,
        class_="m",
        data_key=key,
        data_value=repr(box["seconds"]),
    )
    number = "" if box["number"] is None or box["pieces"] > 1 else str(box["number"])
    if number and end - start > measure(number, 10.5) + 4.0 and box["kind"] != "wait":
        drawing.text(
            (start + end) / 2.0, y + tall / 2.0 + 4.0, number, anchor="middle", kind="t s i", fill=ink_on(colour)
        )


def _since(value: float) -> str:
    return words.seconds(value) if value else "0"
