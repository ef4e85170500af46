"""Print a recorded step that was carried over to other hardware."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from roofsim.report import words
from roofsim.report.grid import Grid, number, text
from roofsim.report.trace_check import WRITERS

if TYPE_CHECKING:
    from rich.console import Console

    from roofsim.decide.transplant import Transplant
    from roofsim.traces.carry import CarriedRow

_OPS: Final = 10


def print_transplant(console: Console, answer: Transplant) -> None:
    """Print an answer."""
    step = answer.mapping.step
    console.print(Text(_title(answer), style="bold"))
    console.print(Text(f"carried over from {answer.source} to {answer.target}", style="dim"))
    name = f"{step.name}: " if step.name else ""
    kernels = (
        f"{words.count(len(step.kernels))} kernels, {words.percent(answer.mapping.share)} of their time mapped to ops"
    )
    console.print(Text(f"trace of {WRITERS[step.form]}: {name}{words.seconds(step.seconds)}, {kernels}"))
    for note in answer.notes:
        console.print(Text(f"note: {note}"))
    if answer.carried is None:
        return
    console.print(_steps(answer))
    console.print(_table("class", answer.carried.classes, spread=True))
    ops = answer.carried.ops
    console.print(_table("op, the longest there", ops[:_OPS], more=len(ops) - _OPS))
    for line in sentences(answer):
        console.print(Text(line, style="bold"))


def _title(answer: Transplant) -> str:
    """Say what was run, and where; of a trace alone what its calls say."""
    if not answer.alone:
        return words.headline(answer.before)
    workload = answer.before.scenario["workload"]
    return (
        f"trace alone · {workload['phase']} · {answer.source} · {workload['precision']['name']} · {workload['engine']}"
    )


def _steps(answer: Transplant) -> Grid:
    assert answer.carried is not None
    grid = Grid(
        [text("step"), number("recorded"), number("predicted"), number("carried over"), number("80 % interval")]
    )
    ends = "-" if answer.interval is None else " .. ".join(words.seconds(end) for end in answer.interval)
    grid.add(answer.source, words.seconds(answer.mapping.step.seconds), _predicted(answer.before.step_time), "-", "-")
    grid.add(answer.target, "-", _predicted(answer.after.step_time), words.seconds(answer.carried.step), ends)
    return grid


def _predicted(seconds: object) -> str:
    return words.seconds(float(str(seconds)))


def _table(head: str, rows: tuple[CarriedRow, ...], more: int = 0, *, spread: bool = False) -> Grid:
    runs, range_ = ([number("of its runs")], [number("80 % interval")]) if spread else ([], [])
    heads = [number("recorded"), number("residual"), *runs, number("predicted there"), number("carried over"), *range_]
    grid = Grid([text(head), *heads])
    for row in rows:
        residual = "-" if row.residual is None else f"{row.residual:.2f}"
        ends = "-" if row.spread is None else f"{row.spread[0]:.2f} .. {row.spread[1]:.2f}"
        low_high = "-" if row.interval is None else " .. ".join(map(words.seconds, row.interval))
        amounts = (words.seconds(row.predicted_there), words.seconds(row.carried), *([low_high] if spread else []))
        grid.add(row.name, words.seconds(row.recorded), residual, *([ends] if spread else []), *amounts)
    if more > 0:
        grid.add(f"... and {more} more", *[""] * len(heads))
    return grid


def sentences(answer: Transplant) -> list[str]:
    """Say what the step would be, and what that rests on."""
    moved, step = answer.carried, answer.mapping.step
    if moved is None or answer.speedup is None:
        return list(answer.notes)
    pace = (
        f"{answer.speedup:.2f} times as fast" if answer.speedup >= 1.0 else f"{1.0 / answer.speedup:.2f} times as slow"
    )
    lines = [
        f"On {answer.target} this step would take {words.seconds(moved.step)} ({pace}), against {_recorded(answer)}."
    ]
    if step.form != "roofsim":
        lines.append("The host is as it was recorded: a faster or slower CPU there is not in it.")
    if moved.assumed > 0.01:
        lines.append(
            f"{words.percent(moved.assumed)} of the kernels' time fits no op, and is scaled like the rest of its class."
        )
    if moved.added or moved.dropped:
        gone = f"{words.seconds(moved.dropped)} of what was recorded does not"
        lines.append(f"{words.seconds(moved.added)} runs there only, as predicted; {gone}.")
    return lines


def _recorded(answer: Transplant) -> str:
    return f"{words.seconds(answer.mapping.step.seconds)} recorded on {answer.source}"


def sentence(answer: Transplant) -> str:
    """Say it in one line."""
    return " ".join(sentences(answer))
