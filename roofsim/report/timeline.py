"""Print a timeline: what each stage does of the step, what of the communication shows, a picture in letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from roofsim.analyze.timeline import COMPUTE
from roofsim.report import words
from roofsim.report.grid import Grid, number, text

if TYPE_CHECKING:
    from rich.console import Console

    from roofsim.analyze.timeline import Timeline

#: Columns of the picture in letters at most, and of the names beside it.
WIDTH: Final = 96
_NAMES: Final = 10
#: Stages that it shows at most, and rows of the table.
MOST_ROWS: Final = 32
LETTERS: Final = {"forward": "F", "backward": "B", "weight gradients": "W", "optimizer": "o", "recompute": "R"}


def print_timeline(console: Console, timeline: Timeline) -> None:
    """Print the step, its stages, its collectives."""
    console.print(Text(timeline.title, style="bold"))
    line = f"step {words.seconds(timeline.step)}, micro batches: {timeline.micro_batches}"
    console.print(line if timeline.schedule is None else f"{line}, schedule {timeline.schedule}", highlight=False)
    if len(timeline.lanes) > 1:
        _print_stages(console, timeline)
        _print_letters(console, timeline)
    if timeline.collectives:
        _print_collectives(console, timeline.collectives)
    if not timeline.collectives and len(timeline.lanes) == 1:
        console.print("one GPU, so no collectives; --trace and --plot show the ops of the step", style="dim")
    for note in timeline.notes:
        console.print(f"Note: {note}.", style="yellow", highlight=False)


def _print_stages(console: Console, timeline: Timeline) -> None:
    table = Grid(
        [
            text("stage"),
            number("ranks", 1),
            number("micro batch"),
            number("vs. slowest", 2),
            number("busy"),
            number("waits"),
            number("share"),
        ]
    )
    for first, last, row in _alike(timeline.to_dict()["lanes"]):
        name = row["name"] if first == last else f"stages {first}-{last}"
        table.add(
            name,
            words.count(row["ranks"]),
            words.seconds(row["micro_batch"]),
            words.percent(row["of_slowest"]),
            words.seconds(row["busy"]),
            words.seconds(row["waits"]),
            words.percent(row["waits_share"]),
        )
    console.print(table)


def _alike(rows: list[dict[str, Any]]) -> list[tuple[int, int, dict[str, Any]]]:
    """Return (first, last, row) of runs of stages that take the same."""
    runs: list[tuple[int, int, dict[str, Any]]] = []
    for place, row in enumerate(rows):
        if runs and all(row[key] == runs[-1][2][key] for key in ("micro_batch", "busy", "waits")):
            runs[-1] = (runs[-1][0], place, runs[-1][2])
        else:
            runs.append((place, place, row))
    return runs


def _print_letters(console: Console, timeline: Timeline) -> None:
    """Draw what each stage does, a column a slice of the time written out."""
    work = [span for span in timeline.spans if span.stream == COMPUTE]
    whole = max(span.start + span.seconds for span in work)
    width = max(min(WIDTH, console.width - _NAMES), 10)
    end = min(min(span.seconds for span in work if "micro_batch" in span.facts) * width / 2.0, whole)
    if end < whole:
        console.print(f"the first {words.seconds(end)}:", style="dim", highlight=False)
    for place, lane in enumerate(timeline.lanes[:MOST_ROWS]):
        cells = [" "] * width
        for span in work:
            if span.lane == place and span.start < end:
                first, last = (int(at / end * width) for at in (span.start, span.start + span.seconds))
                cells[first : max(last, first + 1)] = LETTERS[span.kind] * max(last - first, 1)
        console.print(f"{lane.name:>9} {''.join(cells[:width])}", highlight=False, no_wrap=True)
    console.print(
        "F forward, B backward, W weight gradients, o optimizer; blank: waiting", style="dim", highlight=False
    )


def _print_collectives(console: Console, rows: list[dict[str, Any]]) -> None:
    stages = len({row["stage"] for row in rows}) > 1
    heads = [text("stage")] if stages else []
    numbers = [number("per step"), number("exposed"), number("hidden", 1), number("share exposed", 2)]
    table = Grid([*heads, text("group"), text("phase"), *numbers])
    before = None
    for row in rows:
        if stages and before not in (None, row["stage"]):
            table.line()
        before = row["stage"]
        share = row["exposed"] / row["time"] if row["time"] else 0.0
        cells = [row["stage"]] if stages else []
        table.add(
            *cells,
            row["group"],
            row["phase"],
            words.seconds(row["time"]),
            words.seconds(row["exposed"]),
            words.seconds(row["hidden"]),
            words.percent(share),
        )
    console.print(table)
