"""Draw timelines: the table of micro batches by stage, or the streams of a rank over the step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.timeline import COMPUTE, STREAMS
from roofsim.report import words
from roofsim.report.figure import DPI, LARGE, NORMAL, SMALL, ink, new_figure, paper, save_figure
from roofsim.report.palette import WORK, ink_on

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from roofsim.analyze.timeline import Span, Timeline

#: Colours of further chunks of interleaved stages: lighter, so that the model's parts can be told apart.
FADE: Final = 0.55
#: Micro batches beyond which the picture has panels of the beginning and the end beside the whole.
MOST_IN_ONE: Final = 24
#: Pieces of work that such a panel shows side by side: as many as leave room for their numbers.
SIDE_BY_SIDE: Final = 70
#: Boxes of one colour in a row beyond which they have no outline.
MOST_OUTLINED: Final = 100
WIDTH = 15.0


def draw_timeline(timeline: Timeline, path: Path | None = None) -> Any:
    """Return the picture of a timeline, written to a file where one is named."""
    piped = len(timeline.lanes) > 1
    panels = _panels(timeline) if piped else [("", 0.0, _end(timeline))]
    rows = len(timeline.lanes) if piped else len({span.stream for span in timeline.spans})
    height = max(min(0.34 * rows, 11.0), 1.0) + 1.0
    figure = new_figure(WIDTH, height * len(panels) + 0.9)
    for place, (title, start, end) in enumerate(panels):
        axes = figure.add_subplot(len(panels), 1, place + 1)
        (_stages if piped else _streams)(axes, timeline, start, end)
        axes.set_title(title, fontsize=NORMAL, loc="left")
    figure.axes[-1].set_xlabel("time since the start of the step")
    _legend(figure, timeline)
    figure.suptitle(_headline(timeline), fontsize=LARGE)
    return save_figure(figure, path)


def _headline(timeline: Timeline) -> str:
    parts = [timeline.title]
    if timeline.schedule is not None:
        parts.append(f"{timeline.schedule}, {len(timeline.lanes)} stages, {timeline.micro_batches} micro batches")
    parts.append(f"step {words.seconds(timeline.step)}")
    if not timeline.is_whole:
        parts.append(timeline.notes[0])
    return " · ".join(parts)


def _end(timeline: Timeline) -> float:
    """Return when the last of what is drawn ends: of pipelines the work of the stages, whose waits are blank."""
    piped = len(timeline.lanes) > 1
    return max(span.start + span.seconds for span in timeline.spans if not piped or span.stream == COMPUTE)


def _panels(timeline: Timeline) -> list[tuple[str, float, float]]:
    end = _end(timeline)
    if timeline.shown_micro_batches <= MOST_IN_ONE:
        return [("", 0.0, end)]
    shortest = min(span.seconds for span in timeline.spans if "micro_batch" in span.facts and span.stream == COMPUTE)
    window = min(SIDE_BY_SIDE * shortest, end / 2.0)
    return [("the whole step", 0.0, end), ("its beginning", 0.0, window), ("its end", end - window, end)]


# -- stages ---------------------------------------------------------------------------------------------------------


def _stages(axes: Axes, timeline: Timeline, start: float, end: float) -> None:
    """Draw one row a stage, one box a pass, with the number of its micro batch where it fits."""
    inside = [
        span
        for span in timeline.spans
        if span.stream == COMPUTE and span.start < end and span.start + span.seconds > start
    ]
    _bars(axes, [(span.lane, span) for span in inside])
    widest = max((len(_number(span)) for span in timeline.spans), default=0)
    for span in inside:
        # As much room as the widest number takes, so that boxes of one width are all numbered or none of them.
        if (span.seconds / (end - start)) * WIDTH * DPI > 5.0 * (1 + widest) and span.start >= start:
            axes.text(
                span.start + span.seconds / 2.0,
                span.lane,
                _number(span),
                ha="center",
                va="center",
                fontsize=SMALL,
                color=ink_on(WORK[span.kind]),
                clip_on=True,
            )
    axes.set_yticks(range(len(timeline.lanes)), [lane.name for lane in timeline.lanes], fontsize=SMALL)
    _time_axis(axes, start, end, len(timeline.lanes))


def _number(span: Span) -> str:
    return str(span.facts["micro_batch"]) if "micro_batch" in span.facts else ""


def _bars(axes: Axes, rows: list[tuple[int, Span]], *, outlined: bool = True) -> None:
    """Draw boxes, of each colour and row at once."""
    groups: dict[tuple[int, Any], list[tuple[float, float]]] = {}
    for row, span in rows:
        groups.setdefault((row, _colour(span)), []).append((span.start, span.seconds))
    for (row, colour), boxes in groups.items():
        edge = paper() if outlined and len(boxes) < MOST_OUTLINED else colour
        axes.broken_barh(boxes, (row - 0.42, 0.84), facecolors=colour, edgecolors=edge, linewidth=0.4)


def _colour(span: Span) -> Any:
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(WORK[span.kind])
    if not span.facts.get("chunk"):
        return (red, green, blue)
    keep = FADE ** min(int(span.facts["chunk"]), 3)
    return tuple(1.0 - (1.0 - part) * keep for part in (red, green, blue))


# -- streams --------------------------------------------------------------------------------------------------------


def _streams(axes: Axes, timeline: Timeline, start: float, end: float) -> None:
    used = [stream for stream in STREAMS if any(span.stream == stream for span in timeline.spans)]
    rows = {stream: row for row, stream in enumerate(used)}
    _bars(axes, [(rows[span.stream], span) for span in timeline.spans], outlined=False)
    axes.set_yticks(range(len(used)), used)
    _time_axis(axes, start, end, len(used))


def _time_axis(axes: Axes, start: float, end: float, rows: int) -> None:
    axes.set_xlim(start, end)
    axes.set_ylim(rows - 0.4, -0.6)
    axes.xaxis.set_major_formatter(lambda value, _: words.seconds(value) if value else "0")
    axes.grid(visible=True, axis="x", alpha=0.4)
    axes.set_axisbelow(True)


def _legend(figure: Any, timeline: Timeline) -> None:
    from matplotlib.patches import Patch

    piped = len(timeline.lanes) > 1
    kinds = [
        kind
        for kind in WORK
        if any(span.kind == kind and (not piped or span.stream == COMPUTE) for span in timeline.spans)
    ]
    handles = [Patch(color=WORK[kind], label=kind) for kind in kinds]
    if any(span.facts.get("chunk") for span in timeline.spans):
        handles.append(Patch(facecolor=paper(), edgecolor=paper(), label="lighter: other chunks of a stage's layers"))
    if piped:
        handles.append(Patch(facecolor=paper(), edgecolor=ink(), linewidth=0.6, label="blank: waits for other stages"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=SMALL, frameon=False)
