"""Print the table of a sweep: a row per point with its values, its step, what limits it and its memory, or why it cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.verdicts import DOES_NOT_FIT, TIGHT
from roofsim.report import words
from roofsim.report.amounts import written
from roofsim.report.grid import Column, Grid, number, text
from roofsim.search.axes import axis_unit
from roofsim.search.table import PRICE
from roofsim.units import humanize

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray
    from rich.console import Console

    from roofsim.search.table import SweepTable

#: Points that are printed; `to_rows` has all.
MOST: Final = 60
#: What is shown of a point where nobody says which figures, and how it is headed.
_HEADS: Final = {"step_time": "step", "bound": "limited by", "memory.peak": "memory"}
#: Figures that are shown of a table that has none of these.
_MOST_FIGURES: Final = 6


def print_sweep(
    console: Console, swept: SweepTable, *, order: NDArray[np.int64] | None = None, figures: Sequence[str] = ()
) -> None:
    """Print the points of a sweep, the first of many.

    Parameters
    ----------
    order
        Places of the points that are printed; the first 60, if left out.
    figures
        Dotted keys of what is shown of each; step, limit and memory, if left out.
    """
    rows = swept.to_rows(range(min(len(swept), MOST)) if order is None else order.tolist())
    figures = [key for key in figures or _HEADS if key in swept.rows] or list(swept.rows)[:_MOST_FIGURES] or ["bound"]
    units = {path: axis_unit(path) for path in swept.axes}
    grid = Grid([*map(text, swept.axes), *(_column(swept, key) for key in figures)], roomy=False)
    for row in rows:
        own = [value_text(row[path], units[path]) for path in swept.axes]
        grid.add(*own, *_cells(row, figures))
    console.print(grid)
    prices = prices_of(swept) if any(key.startswith("cost.") for key in figures) else []
    for line in (*summary(swept), *prices, *_left_out(len(rows), len(swept))):
        console.print(line, markup=False, highlight=False)


def _column(swept: SweepTable, key: str) -> Column:
    """Return the column of a figure: of numbers, or of words, as where it says why points are not possible."""
    words_stand_there = key not in swept.rows or swept[key].dtype.kind in "bO" or key == "step_time_interval"
    return (text if words_stand_there else number)(_HEADS.get(key, key))


def _left_out(shown: int, all_of_them: int) -> list[str]:
    return (
        [
            f"{words.count(shown)} {'point is' if shown == 1 else 'points are'} shown; --json, --csv and to_rows() have all."
        ]
        if shown < all_of_them
        else []
    )


def summary(swept: SweepTable) -> list[str]:
    """Return how many points are possible and fit, which has the shortest step, and why others are not possible."""
    said = [f"{words.count(len(swept))} points", f"{words.count(int(swept.feasible.sum()))} possible"]
    if "memory.fits" in swept.rows:
        fits = sum(value is True for value in swept["memory.fits"].ravel().tolist())
        said.append(f"{words.count(fits)} fit in memory{_tight(swept)}")
    best = swept.best()
    return [
        ", ".join(said),
        *(
            [f"shortest step{_that_fits(swept)}: {_point_text(swept, best)}"]
            if best is not None and len(swept) > 1
            else []
        ),
        *(f"not possible: {words.count(count)}, {_example(swept, code)}" for code, count in swept.refused().items()),
    ]


def prices_of(swept: SweepTable) -> list[str]:
    """Return whose prices the costs rest on, and that they are of several markets where they are; nothing where none is known."""
    if not set(PRICE) <= swept.rows.keys():
        return []
    columns = [swept[key].ravel()[swept.feasible.ravel()].tolist() for key in PRICE]
    said = {words: market for words, *market in zip(*columns, strict=True) if words is not None}
    if not said:
        return []
    markets = {tuple(market) for market in said.values()}
    apart = "; prices of several markets, each point as `run` has it: compare with care" if len(markets) > 1 else ""
    return [f"prices of an hour: {'; '.join(sorted(said))}{apart}"]


def _example(swept: SweepTable, code: str) -> str:
    """Return why the first of the points is not possible that break a rule."""
    first = swept.reason_code.ravel().tolist().index(code)
    return f"{'for example: ' if swept.refused()[code] > 1 else ''}{swept.refusals.text(first)}"


def _that_fits(swept: SweepTable) -> str:
    return " that fits" if "memory.fits" in swept.rows else ""


def _point_text(swept: SweepTable, place: int) -> str:
    row = swept.to_rows([place])[0]
    values = [f"{path} {value_text(row[path], axis_unit(path))}" for path in swept.axes]
    return f"{', '.join(values)}: {words.seconds(row['step_time'])}"


def _tight(swept: SweepTable) -> str:
    """Say of how many points the interval of their memory holds the capacity."""
    count = sum(code == TIGHT for code in swept.rows["memory.verdict"].ravel().tolist()) if _has_verdict(swept) else 0
    return f" ({words.count(count)} of them tight)" if count else ""


def _has_verdict(swept: SweepTable) -> bool:
    return "memory.verdict" in swept.rows


def value_text(value: Any, unit: str | None = None) -> str:
    """Return a value of an axis as people write it; numbers of quantities are in SI units."""
    if value is None:
        return "own"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return humanize(value, unit, 4) if unit is not None else f"{value:g}" if isinstance(value, float) else str(value)


def _cells(row: dict[str, Any], figures: Sequence[str]) -> list[str]:
    if not row["feasible"]:
        return [f"not possible: {row['reason']}" if key == _widest(figures) else "-" for key in figures]
    verdict = row.get("memory.verdict") or (DOES_NOT_FIT if row.get("memory.fits") is False else "")
    room = {TIGHT: " (tight)", DOES_NOT_FIT: " (does not fit)"}.get(verdict, "")
    return [written(key, row.get(key)) + (room if key == "memory.peak" else "") for key in figures]


def _widest(figures: Sequence[str]) -> str:
    """Return the column that says why a point is not possible: that of words, or the last."""
    return "bound" if "bound" in figures else figures[-1]
