"""Print and draw the time of collectives by size and number of ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.report import words
from roofsim.report.figure import LARGE, SMALL, ink, new_figure, save_figure
from roofsim.report.grid import Grid, number, text
from roofsim.units import humanize

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from matplotlib.axes import Axes
    from rich.console import Console

#: From light to dark: few ranks to many.
COLOURS: Final = ("#8ecae6", "#4c9fc8", "#4c72b0", "#2f4b8a", "#c99a6b", "#dd8452", "#c44e52", "#8c2d3a", "#55a868")
BOUNDS: Final = {"latency": "latency", "intra_node": "node links", "inter_node": "network"}
MARKS: Final = {"latency": "o", "intra_node": "s", "inter_node": "D"}


def print_collectives(console: Console, rows: list[dict[str, Any]]) -> None:
    """Print one line a size and number of ranks."""
    table = Grid(
        [number("ranks"), number("nodes", 2), number("size"), number("time"), number("bus bandwidth"), number("latency", 4),
         number("node links", 5), number("network", 3), text("bound", 1)], roomy=False,
    )  # fmt: skip
    last = rows[0]["ranks"] if rows else 0
    for row in rows:
        if row["ranks"] != last:
            table.line()
            last = row["ranks"]
        shares = [row[part] / row["seconds"] if row["seconds"] else 0.0 for part in BOUNDS]
        table.add(
            words.count(row["ranks"]),
            words.count(row["nodes"]),
            humanize(row["bytes"], "B", 4, binary=True),
            words.seconds(row["seconds"]),
            humanize(row["bus_bandwidth"], "B/s", 3) if row["bus_bandwidth"] else "-",
            *(words.percent(share) for share in shares),
            BOUNDS[row["bound"]],
        )
    console.print(f"{rows[0]['op']} on {rows[0]['system']}" if rows else "nothing to show")
    console.print(table)


def draw_collectives(rows: list[dict[str, Any]], path: Path | None = None) -> Any:
    """Return the picture of time and bus bandwidth against message size, one line a number of ranks."""
    figure = new_figure(13.0, 6.0)
    left, right = figure.subplots(1, 2)
    left.set_yscale("log")
    _lines(left, rows, "seconds", "time", words.seconds)
    _lines(right, rows, "bus_bandwidth", "bus bandwidth", lambda value: humanize(value, "B/s", 3))
    right.set_ylim(bottom=0.0)
    handles = [left.plot([], [], MARKS[part], color=ink(), markersize=5)[0] for part in BOUNDS]
    bounds = left.legend(handles, list(BOUNDS.values()), title="limited by", loc="lower right", fontsize=SMALL)
    left.add_artist(bounds)
    left.legend(title="ranks", loc="upper left", fontsize=SMALL)
    figure.suptitle(f"{rows[0]['op']} on {rows[0]['system']}", fontsize=LARGE)
    return save_figure(figure, path, repeatable=True)


def _lines(axes: Axes, rows: list[dict[str, Any]], value: str, title: str, text: Callable[[float], str]) -> None:
    from matplotlib.ticker import FuncFormatter

    ranks = list(dict.fromkeys(row["ranks"] for row in rows))
    for index, count in enumerate(ranks):
        mine = sorted((row for row in rows if row["ranks"] == count), key=lambda row: row["bytes"])
        colour = COLOURS[index * (len(COLOURS) - 1) // max(len(ranks) - 1, 1)]
        nodes = mine[0]["nodes"]
        label = f"{count}" if nodes == 1 else f"{count} on {nodes} nodes"
        axes.plot(
            [row["bytes"] for row in mine], [row[value] for row in mine], color=colour, linewidth=1.6, label=label
        )
        for part, mark in MARKS.items():
            dots = [row for row in mine if row["bound"] == part]
            axes.plot([row["bytes"] for row in dots], [row[value] for row in dots], mark, color=colour, markersize=5)
    axes.set(xscale="log", xlabel="message", ylabel=title)
    axes.xaxis.set_major_locator(_powers(rows))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: humanize(size, "B", 3, binary=True)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda number, _: text(number) if number > 0.0 else "0"))
    axes.minorticks_off()
    axes.grid(visible=True, linewidth=0.6)
    axes.tick_params(axis="x", rotation=45, labelsize=9)


def _powers(rows: list[dict[str, Any]]) -> Any:
    """Return ticks at the sizes shown, at most a dozen of them."""
    from matplotlib.ticker import FixedLocator

    sizes = sorted({row["bytes"] for row in rows})
    return FixedLocator(sizes[:: -(-len(sizes) // 12)])
