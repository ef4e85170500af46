"""Print memory: the ledger with its intervals, what is alive at the peak, stages, one tensor's life, the curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from roofsim.analyze.host import host_notes
from roofsim.analyze.intervals import memory_intervals, memory_is_measured
from roofsim.analyze.ledger import at_last_context
from roofsim.analyze.verdicts import FITS, TIGHT
from roofsim.memory.in_flight import waiting_bytes
from roofsim.report import room, words
from roofsim.report.grid import Columnwise, Grid, number, text

if TYPE_CHECKING:
    from rich.console import Console

    from roofsim.analyze.result import Memory
    from roofsim.evaluate import Evaluation
    from roofsim.memory.profile import MemoryProfile
    from roofsim.program import Stage

#: Eighths of a character cell, for the memory curve in text.
_BARS: Final = " ▁▂▃▄▅▆▇█"
#: Phases that the curve names by their first letters.
_PHASES: Final = ("forward", "backward", "recompute", "optimizer")
_CURVE_WIDTH: Final = 80
_FIGURES: Final = {"allocated_peak": "allocated", "reserved": "reserved", "device_total": "device total"}


def print_memory(console: Console, evaluation: Evaluation, ledger: Memory) -> None:
    """Print the ledger, the peaks of the phases and the curve."""
    console.print(Text(f"{evaluation.resolved.model.name} on {evaluation.resolved.gpu.name}", style="bold"))
    print_shortfall(console, ledger)
    table = Grid([text("at the peak"), number("bytes"), number("share")])
    peak = float(ledger.device_total)
    for name, amount in ledger.components.items():
        table.add(name.replace("_", " "), words.gibibytes(float(amount)), words.percent(float(amount) / peak))
    table.line()
    table.add("device total (peak)", words.gibibytes(peak), "100.0 %")
    console.print(table)
    console.print(
        f"allocated {words.gibibytes(float(ledger.allocated_peak))} <= reserved {words.gibibytes(float(ledger.reserved))} <= "
        f"device {words.gibibytes(peak)}; capacity {words.gibibytes(float(ledger.capacity))}: {room.room(ledger)}"
    )
    _print_intervals(console, evaluation, ledger)
    console.print(
        f"saved for the backward pass when the forward pass ends: {words.gibibytes(float(ledger.saved_activations))}"
    )
    if ledger.off_device:
        console.print(f"off device: {words.off_device(ledger.off_device)} (per GPU)")
        for note in host_notes(evaluation, ledger.off_device):
            console.print(f"Note: {note}.", style="bold", highlight=False)
    console.print(f"peak in the {ledger.peak_phase} phase, at {ledger.peak_op}")
    for stage, profile in zip(evaluation.program.stages, evaluation.profiles, strict=True):
        _print_stage(console, stage, profile)


def print_shortfall(console: Console, ledger: Memory) -> None:
    """Print that a scenario does not fit, or may not, before anything else is said of it; nothing where it fits."""
    if ledger.verdict != FITS:
        capacity, taken = words.gibibytes(float(ledger.capacity)), words.gibibytes(float(ledger.device_total))
        verdict, _, why = room.room(ledger).partition(", ")
        console.print(Text(f"{verdict}: {taken} of {capacity}, {why}", style="bold"))


def _print_intervals(console: Console, evaluation: Evaluation, ledger: Memory) -> None:
    intervals = memory_intervals(ledger, evaluation.resolved)
    shown = (f"{_FIGURES[name]} {_span(span)}" for name, span in intervals.items())
    basis = "" if memory_is_measured(evaluation.resolved) else " (no run of this engine was measured)"
    console.print(f"80 % intervals{basis}: {', '.join(shown)}")
    if ledger.verdict == TIGHT:
        console.print("the capacity lies within the interval, so it may or may not fit", style="yellow")


def _print_stage(console: Console, stage: Stage, profile: MemoryProfile) -> None:
    at_end = at_last_context(profile) if stage.averaged else profile
    phases = ", ".join(
        f"{name} {words.gibibytes(float(value))}" for name, value in at_end.phase_peaks.items() if _number(value)
    )
    console.print(f"peaks of {stage.name}: {phases}", style="dim")
    if _number(stage.in_flight) and float(stage.in_flight) > 1.0:
        waiting = words.gibibytes(float(waiting_bytes(profile, stage.in_flight)))
        console.print(
            f"in flight: {words.count(float(stage.in_flight))} micro batches; the waiting ones hold {waiting}",
            style="dim",
        )
    if at_end.curve:
        _print_bars(console, at_end.curve, float(at_end.peak))


def _number(value: Any) -> bool:
    return isinstance(value, float)


def _print_bars(console: Console, curve: list[tuple[str, str, dict[str, float]]], peak: float) -> None:
    totals = [sum(point[2].values()) for point in curve]
    width = min(_CURVE_WIDTH, console.width, len(totals))
    columns = [
        totals[index * len(totals) // width : max((index + 1) * len(totals) // width, index * len(totals) // width + 1)]
        for index in range(width)
    ]
    bars = "".join(_BARS[round(8 * max(column) / peak)] for column in columns)
    phases = "".join(curve[index * len(curve) // width][1][0] for index in range(width))
    console.print(f"allocated over the step, 0 to {words.gibibytes(peak)}:")
    console.print(bars, highlight=False)
    meanings = ", ".join(f"{phase[0]} {phase}" for phase in _PHASES if phase[0] in phases)
    console.print(f"{phases}   {meanings}", style="dim", highlight=False, overflow="fold")


def print_alive(console: Console, rows: list[dict[str, Any]], *, by: str, top: int) -> None:
    """Print what is alive at the peak by op, layer or role, the first `top` rows, and a line for the rest."""
    table = Grid(
        [
            text(f"alive at the peak, by {by}"),
            number("bytes"),
            number("share"),
            number("storages", 1),
            text("counts as", 2),
        ]
    )
    for row in rows[:top]:
        cells = (words.gibibytes(row["bytes"]), words.percent(row["share"]), words.count(row["storages"]))
        table.add(row["name"], *cells, row["of"].replace("_", " "))
    table.line()
    table.add("allocated peak", words.gibibytes(sum(row["bytes"] for row in rows)), "100.0 %", "", "")
    console.print(table)
    if len(rows) > top:
        rest = words.gibibytes(sum(row["bytes"] for row in rows[top:]))
        console.print(f"... and {len(rows) - top} more, {rest} in all (--top {len(rows)} shows them)", style="dim")


def print_stages(console: Console, rows: list[dict[str, Any]]) -> None:
    """Print one column a stage: what it holds, its peak, its components."""
    lines: dict[str, list[str]] = {
        "ranks of the pipeline": [words.count(row["stages"]) for row in rows],
        "layers": [words.count(row["layers"]) for row in rows],
        "micro batches in flight": [words.count(row["in_flight"]) for row in rows],
    }
    for name in rows[0]["components"]:
        lines[name.replace("_", " ")] = [words.gibibytes(row["components"][name]) for row in rows]
    for name, shown in _FIGURES.items():
        lines[shown] = [words.gibibytes(row[name]) for row in rows]
    lines["80 % interval"] = [_span(row["device_total_interval"]) for row in rows]
    lines["fits"] = [words.room_cell(row["verdict"]) for row in rows]
    lines["peak in"] = [row["peak_phase"] for row in rows]
    console.print(Columnwise("stage", [row["name"] for row in rows], lines, under=("parameters", "allocated")))
    for row in rows:
        console.print(f"peak of {row['name']} at {row['peak_op']}", style="dim")


def _span(interval: tuple[float, float] | None) -> str:
    if interval is None:
        return "-"
    low, high = map(words.gibibytes, interval)
    unit = high.rpartition(" ")[2]
    return f"{low.removesuffix(' ' + unit) if low.endswith(' ' + unit) else low} to {high}"


def print_lives(console: Console, rows: list[dict[str, Any]]) -> None:
    """Print the life of each tensor of a name."""
    for row in rows:
        console.print(Text(f"{row['name']} ({row['stage']})", style="bold"))
        table = Table(box=SIMPLE, pad_edge=False, show_header=False)
        table.add_column(style="dim")
        table.add_column(overflow="fold")
        for name, value in _life(row):
            table.add_row(name, value)
        console.print(table)


def _life(row: dict[str, Any]) -> list[tuple[str, str]]:
    shape = " x ".join(words.count(size) for size in row["shape"]) or "one number"
    times = "" if row["copies"] == 1.0 else f", {words.count(row['copies'])} of them"
    return [
        ("bytes", f"{words.gibibytes(row['bytes'])}: {shape} {row['type']}{times}"),
        ("role", f"{row['role'].replace('_', ' ')}, layer {row['layer']}"),
        ("born by", "before the step" if row["born_by"] is None else f"{row['born_by']} ({row['born_in']})"),
        ("enters the next layer as", row["handed_on_as"] or "-"),
        (
            "last read by",
            "nothing" if row["last_read_by"] is None else f"{row['last_read_by']} ({row['last_read_in']})",
        ),
        ("saved for backward", "yes" if row["saved_for_backward"] else "no"),
        ("storage", f"{row['storage']}, {words.gibibytes(row['storage_bytes'])}, counts as {_counts_as(row)}"),
        ("freed after", row["storage_freed_after"] or "not within the step"),
        ("shares it with", ", ".join(row["shares_storage_with"]) or "nothing"),
        ("alive at the peak", words.gibibytes(row["alive_at_peak"]) if row["alive_at_peak"] else "no"),
    ]


def _counts_as(row: dict[str, Any]) -> str:
    return str(row["counts_as"] or "nothing").replace("_", " ")


def print_curve(console: Console, rows: list[dict[str, Any]]) -> None:
    """Print the curve of every stage, ops of equal memory in one line."""
    table = Grid([text("stage", 1), text("phase"), text("op"), number("allocated")])
    peaks = {stage: max(row["allocated"] for row in rows if row["stage"] == stage) for stage in _stages(rows)}
    before: tuple[Any, ...] = ()
    for row in rows:
        now = (row["stage"], row["phase"], words.gibibytes(row["allocated"]))
        top = row["allocated"] == peaks[row["stage"]]
        if now != before or top:
            table.add(row["stage"], row["phase"], row["op"], now[2] + (" < peak" if top else ""))
        before = now
    console.print(table)


def _stages(rows: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["stage"] for row in rows))
