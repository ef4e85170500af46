"""Print the table of a sweep: a row per point with its values, its step, what limits it and its memory, or why it cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from roofsim.analyze.verdicts import DOES_NOT_FIT, TIGHT
from roofsim.report import words

if TYPE_CHECKING:
    from rich.console import Console

    from roofsim.search.table import SweepTable

#: Points that are printed; `to_rows` has all.
MOST: Final = 60


def print_sweep(console: Console, swept: SweepTable) -> None:
    """Print the points of a sweep, the first of many."""
    rows = swept.to_rows()
    table = Table(box=SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    for path in swept.axes:
        table.add_column(Text(path), justify="left", overflow="fold")
    for head in ("step", "limited by", "memory"):
        table.add_column(Text(head), justify="left" if head == "limited by" else "right", overflow="fold")
    for row in rows[:MOST]:
        own = [Text(_value(row[path])) for path in swept.axes]
        table.add_row(
            *own, *map(Text, _cells(row)), style=None if row["feasible"] and row.get("memory.fits") else "dim"
        )
    console.print(table)
    console.print(Text(summary(swept)))
    if len(rows) > MOST:
        console.print(Text(f"The first {MOST} points are shown; to_rows() has all.", style="dim"))


def summary(swept: SweepTable) -> str:
    """Return how many points there are, and how many of them are possible and fit."""
    said = [f"{words.count(len(swept))} points", f"{words.count(int(swept.feasible.sum()))} possible"]
    if "memory.fits" in swept.rows:
        fits = sum(value is True for value in swept["memory.fits"].ravel().tolist())
        said.append(f"{words.count(fits)} fit in memory{_tight(swept)}")
    return ", ".join(said)


def _tight(swept: SweepTable) -> str:
    """Say of how many points the interval of their memory holds the capacity."""
    count = sum(code == TIGHT for code in swept.rows.get("memory.verdict", np.empty(0)).ravel().tolist())
    return f" ({words.count(count)} of them tight)" if count else ""


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return "own" if value is None else str(value)


def _cells(row: dict[str, Any]) -> tuple[str, str, str]:
    if not row["feasible"]:
        return "-", f"not possible: {row['reason']}", "-"
    step, peak = row.get("step_time"), row.get("memory.peak")
    verdict = row.get("memory.verdict") or (DOES_NOT_FIT if row.get("memory.fits") is False else "")
    room = {TIGHT: " (tight)", DOES_NOT_FIT: " (does not fit)"}.get(verdict, "")
    bound = words.BOUND_WORDS.get(row.get("bound") or "", "-")
    return (
        "-" if step is None else words.seconds(step),
        bound,
        "-" if peak is None else f"{words.gibibytes(peak)}{room}",
    )
