"""Print a recorded step beside its prediction: how much of it is mapped, what differs, what shows, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from roofsim.report import words
from roofsim.report.grid import Grid, number, text
from roofsim.traces.idle import GAPS
from roofsim.traces.mapping import ENOUGH

if TYPE_CHECKING:
    from rich.console import Console

    from roofsim.traces.compare import ComparedRow, TraceComparison

#: Rows of ops and of layers that text shows.
_OPS: Final = 10
_LAYERS: Final = 6
#: Reasons that are written out.
_WHYS: Final = 5
#: What wrote a trace.
WRITERS: Final = {
    "kineto": "PyTorch's profiler",
    "roofsim": "roofsim",
    "nsight": "Nsight Systems",
    "rocprof": "rocprof",
}


def print_trace_check(console: Console, answer: TraceComparison) -> None:
    """Print a comparison."""
    for line in headlines(answer):
        console.print(Text(line))
    console.print(_table("class", answer.classes))
    console.print(_ops(answer))
    for row in [row for row in answer.ops[:_OPS] if row.cause][:_WHYS]:
        console.print(Text(f"{row.name}: {row.why}", style="dim"))
    layers = [row for row in answer.layers if row.measured or row.predicted]
    if len(layers) > 1:
        console.print(_table("layer", layers[:_LAYERS], more=len(layers) - _LAYERS))
    if len(answer.streams) > 1:
        console.print(_streams(answer))
    console.print(_gaps(answer))


def headlines(answer: TraceComparison) -> list[str]:
    """Say what was read, how much of it is mapped, and what contradicts the scenario."""
    step = answer.mapping.step
    spread = "" if len(step.steps) < 2 else f", the median of {len(step.steps)} ({_ends(step.steps)})"
    name = f"{step.name}: " if step.name else ""
    work = f"{words.count(len(step.kernels))} kernels, {words.seconds(step.busy)} of work on the device"
    heavy = f", and {words.percent(answer.mapping.heavy)} of products and attention are in both"
    needed = "" if answer.decides else f"; a verdict needs {words.percent(ENOUGH)} of each"
    lines = [
        f"trace of {WRITERS[step.form]}: {name}{words.seconds(step.seconds)}{spread}, {work}",
        f"{words.percent(answer.mapping.share)} of that work is mapped to ops of the scenario{heavy}{needed}",
    ]
    lines += [f"note: {remark}" for remark in answer.remarks]
    if answer.unmapped and not answer.decides:
        longest = ", ".join(f"{name} ({words.seconds(seconds)})" for name, seconds in list(answer.unmapped.items())[:4])
        lines.append(f"not mapped: {longest}")
    return lines


def _ends(steps: tuple[float, ...]) -> str:
    return f"{words.seconds(min(steps))} .. {words.seconds(max(steps))}"


def _ratio(row: ComparedRow) -> str:
    return "-" if row.ratio is None else f"{row.ratio:.2f}"


def _table(head: str, rows: tuple[ComparedRow, ...] | list[ComparedRow], more: int = 0) -> Grid:
    heads = [number("kernels"), number("measured"), number("predicted"), number("ratio"), number("roofline")]
    grid = Grid([text(head), *heads])
    for row in rows:
        roofline = words.seconds(row.roofline) if row.roofline else "-"
        amounts = (words.seconds(row.measured), words.seconds(row.predicted), _ratio(row), roofline)
        grid.add(row.name, words.count(row.kernels), *amounts)
    if more > 0:
        grid.add(f"... and {more} more", "", "", "", "", "")
    return grid


def _ops(answer: TraceComparison) -> Grid:
    heads = [number("runs"), number("measured"), number("predicted"), number("roofline")]
    grid = Grid([text("op, those that differ most"), *heads, text("cause")])
    for row in answer.ops[:_OPS]:
        roofline = words.seconds(row.roofline) if row.roofline else "-"
        amounts = (words.seconds(row.measured), words.seconds(row.predicted), roofline)
        grid.add(row.name, words.count(row.runs), *amounts, row.cause or ("" if row.measured <= row.predicted else "-"))
    return grid


def _streams(answer: TraceComparison) -> Grid:
    grid = Grid([text("stream"), text("mostly"), number("kernels"), number("measured"), number("predicted")])
    for row in answer.streams:
        amounts = (words.seconds(row.measured), words.seconds(row.predicted))
        grid.add(row.name, row.group.replace("_", " "), words.count(row.kernels), *amounts)
    return grid


def _gaps(answer: TraceComparison) -> Grid:
    grid = Grid([text("beside the kernels"), number("measured"), number("share"), text("what it is", 1)])
    whole = answer.mapping.step.seconds
    for name, seconds in sorted(answer.gaps.items(), key=lambda item: -item[1]):
        share = words.percent(seconds / whole)
        grid.add(f"device idle: {name.replace('_', ' ')}", words.seconds(seconds), share, GAPS[name])
    if answer.exposed or answer.predicted_exposed:
        predicted = f"no kernel runs beside; {words.seconds(answer.predicted_exposed)} predicted"
        share = words.percent(answer.exposed / whole)
        grid.add("exposed communication", words.seconds(answer.exposed), share, predicted)
    if answer.copies:
        share = words.percent(answer.copies / whole)
        grid.add("exposed copies", words.seconds(answer.copies), share, "to or from the host, no kernel beside")
    return grid


def trace_sentences(answer: TraceComparison) -> list[str]:
    """Say in sentences what a trace shows, the largest first."""
    if not answer.decides:
        return []
    whole, lines = answer.mapping.step.seconds, []
    for row in answer.ops[:3]:
        more = row.measured - row.predicted
        if row.cause and more > 0.01 * whole:
            lines.append(f"{row.name} takes {words.seconds(more)} more than predicted ({row.cause}): {row.why}.")
    late = sum(answer.gaps.get(name, 0.0) for name in ("launch", "synchronization", "between_steps"))
    if late > 0.05 * whole:
        lines.append(
            f"The device waits {words.seconds(late)} of the step ({words.percent(late / whole)}) for its host."
        )
    return lines
