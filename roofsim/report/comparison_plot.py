"""Draw a comparison: one roofline for all cards, time bars, memory bars, and speed against price where prices are known."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.report.comparison import folded
from roofsim.report.figure import LARGE, NORMAL, SMALL, ink, new_figure, paper, save_figure
from roofsim.report.palette import MEMORY, card
from roofsim.report.plot import bytes_axis, legend_below, time_bars
from roofsim.report.roofline_plot import BESIDE, rooflines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from roofsim.compare.rows import Comparison, Row

#: Cards of known price from which a comparison draws speed against price.
FEWEST_PRICES: Final = 3
#: Rows from which the bars need more height.
_ROWS: Final = 6
#: Points that a character of a name beside its dot takes.
_CHARACTER: Final = 5.5


def draw_comparison(comparison: Comparison, path: Path | None = None) -> Any:
    """Return the picture of the rows that run; those that cannot stand among the bars by name. What-ifs are rows of their own."""
    rows = list(comparison)
    runs = [row for row in rows if row.runs]
    sold = len({row.card.gpu for row in runs if _price(row) is not None}) >= FEWEST_PRICES
    bands, bars = max(-(-len(runs) // BESIDE), 1), 4.0 + 0.38 * max(len(rows) - _ROWS, 0)
    figure = new_figure(17.0 if sold else 14.0, 4.2 * bands + bars)
    grid = figure.add_gridspec(2, 3 if sold else 2, height_ratios=(4.2 * bands, bars))
    cards = [(row.label, row.evaluation) for row in runs if row.evaluation is not None]
    rooflines(figure, grid[0, :], cards)
    time_bars(figure.add_subplot(grid[1, 0]), [(folded(row.label), row.result) for row in rows])
    _memory_bars(figure.add_subplot(grid[1, 1]), rows)
    if sold:
        _prices(figure.add_subplot(grid[1, 2]), runs)
    scenario = comparison.results[0].scenario
    figure.suptitle(f"{scenario['model']['name']} · {scenario['workload']['phase']}", fontsize=LARGE)
    return save_figure(figure, path)


def _memory_bars(axes: Axes, rows: list[Row]) -> None:
    names = [folded(row.label) for row in rows]
    memories = [None if row.result is None else row.result.memory for row in rows]
    left = np.zeros(len(rows))
    for key in next(memory.components for memory in memories if memory is not None):
        values = np.array([0.0 if memory is None else float(memory.components[key]) for memory in memories])
        if values.any():
            axes.barh(names, values, left=left, color=MEMORY[key], label=key.replace("_", " "))
            left += values
    longest = float(left.max())
    for place, memory in enumerate(memories):
        if memory is None:
            axes.text(0.0, place, " cannot run", va="center", fontsize=SMALL)
            continue
        capacity = float(memory.capacity)
        longest = max(longest, capacity)
        axes.plot([capacity, capacity], [place - 0.45, place + 0.45], color=ink(), linewidth=2.0)
    bytes_axis(axes.xaxis, longest)
    axes.set_xlim(0.0, longest * 1.08)
    axes.invert_yaxis()
    axes.set_title("memory at the peak (mark: capacity)", fontsize=NORMAL)
    legend_below(axes)
    axes.grid(visible=True, axis="x", alpha=0.3)


def _price(row: Row) -> float | None:
    """Return what the cards of a row were sold for, where that is known; nobody sold a card that is changed."""
    if row.result is None or row.card.override:
        return None
    purchase = row.result.cost["usd_purchase"]
    return None if purchase is None else float(purchase)


def _prices(axes: Axes, rows: list[Row]) -> None:
    """Draw a dot a row whose cards were sold at a known price, and name those that were not."""
    rented: list[str] = []
    dots: list[tuple[str, float, float]] = []
    for row in rows:
        price, speed = _price(row), row.rate or 0.0
        if price is None:
            rented.append(row.label)
            continue
        axes.scatter(price, speed, s=80.0, color=card(0), edgecolors=paper(), linewidths=0.5, zorder=3)
        dots.append((folded(row.label), price, speed))
    unit = "tokens" if rows[0].unit == "tokens" else "samples"
    axes.set(xlabel="purchase price, USD", ylabel=f"{unit} per second", title="speed against price")
    axes.set_xlim(left=0.0, right=1.28 * axes.get_xlim()[1])
    axes.set_ylim(bottom=0.0, top=1.12 * axes.get_ylim()[1])
    _name_dots(axes, dots)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.locator_params(axis="x", nbins=5)
    axes.grid(alpha=0.3)
    if rented:
        _beside(axes, rented)


def _name_dots(axes: Axes, dots: Sequence[tuple[str, float, float]]) -> None:
    """Write a name beside each dot, on the side where no other name or dot stands and the picture does not end."""
    scale = 72.0 / axes.get_figure(root=True).dpi  # type: ignore[union-attr]
    at = [tuple(float(part) * scale for part in axes.transData.transform((x, y))) for _, x, y in dots]
    end = float(axes.transAxes.transform((1.0, 1.0))[0]) * scale
    taken = [(x - 5.0, x + 5.0, y - 5.0, y + 5.0) for x, y in at]
    for (name, price, speed), (x, y) in zip(dots, at, strict=True):
        lines = name.splitlines()
        wide, tall = _CHARACTER * max(map(len, lines)), 12.0 * len(lines)
        sides = [(right, up) for right in (True, False) for up in (True, False)]
        boxes = {
            (right, up): (
                *((x + 6, x + 6 + wide) if right else (x - 6 - wide, x - 6)),
                *((y + 5, y + 5 + tall) if up else (y - tall, y)),
            )
            for right, up in sides
        }
        right, up = min(
            sides, key=lambda side: (boxes[side][1] > end, sum(_meet(boxes[side], other) for other in taken))
        )
        taken.append(boxes[right, up])
        axes.annotate(
            name,
            (price, speed),
            xytext=(6 if right else -6, 5 if up else -12),
            textcoords="offset points",
            ha="left" if right else "right",
            fontsize=SMALL,
        )


def _meet(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Tell whether two boxes overlap: left, right, bottom, top."""
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


def _beside(axes: Axes, rented: list[str]) -> None:
    """Name the rows without a price in the corner, where cheap and fast cards do not stand."""
    text = textwrap.fill("no price known: " + ", ".join(rented), 40)
    axes.text(0.98, 0.03, text, transform=axes.transAxes, ha="right", fontsize=SMALL).set_in_layout(False)
