"""List an op graph: what runs, what it makes of what, how long it takes and what binds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from roofsim.report import words
from roofsim.report.grid import Grid, number, text

if TYPE_CHECKING:
    from rich.console import Console

    from roofsim.graph.diagram import Diagram

#: Rows where nobody says how many.
TOP: Final = 30


def print_diagram(console: Console, diagram: Diagram, top: int | None = None) -> None:
    """Print the first `top` ops in program order."""
    print_headline(console, diagram)
    rows = [has for _, has in diagram.nodes(data=True)]
    table = Grid(
        [text("op"), text("phase", 3), text("class", 4), number("times", 2), text("output", 1), number("time"),
         number("share"), text("bound", 5)],
        roomy=False,
    )  # fmt: skip
    for row in rows[: top or TOP]:
        table.add(*_cells(row))
    console.print(table)
    rest = len(rows) - (top or TOP)
    if rest > 0:
        console.print(
            f"{words.count(rest)} more; --top {len(rows)} shows all, --output FILE writes them",
            style="dim",
            highlight=False,
        )


def print_headline(console: Console, diagram: Diagram) -> None:
    """Print what a graph is of, how large it is, and what part of the step it shows."""
    step = float(diagram.graph["step_time"])
    console.print(Text(str(diagram.graph["name"]), style="bold"))
    shown = sum(has["time"] for _, has in diagram.nodes(data=True))
    console.print(
        f"{words.count(len(diagram))} operations, {words.count(diagram.number_of_edges())} edges, "
        f"{words.seconds(shown)} of a step of {words.seconds(step)}",
        highlight=False,
    )


def _cells(row: dict[str, Any]) -> list[str]:
    beside = row["beside"] and not row["time"]
    return [
        row["name"],
        row["phase"],
        row["function"],
        words.count(row["repeat"]),
        row["output"],
        f"({words.seconds(row['beside'])})" if beside else words.seconds(row["time"]) if row["time"] else "-",
        words.percent(row["share"]) if row["time"] else "-",
        "beside" if beside else words.short_bound(row["bound"]) if row["bound"] else "",
    ]
