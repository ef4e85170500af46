"""Print scores of predictions as a table for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.box import SIMPLE
from rich.table import Table

from roofsim.calibrate.score import grouped, score

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from roofsim.calibrate.predict import Prediction
    from roofsim.calibrate.score import Score

HEADS: Final = ("n", "median", "mean", "p90", "worst", "bias", "rank", "coverage")
#: Rows of one's own that are listed one by one before the scores.
FEW: Final = 30
#: Where the pages are that say more.
PAGE: Final = "docs/accuracy.md"


def share(value: float | None, *, signed: bool = False) -> str:
    """Return a share in percent with one decimal, or a dash.

    >>> share(-0.0312, signed=True)
    '-3.1 %'
    """
    return "-" if value is None else f"{100.0 * value:{'+' if signed else ''}.1f} %"


def score_cells(score: Score) -> list[str]:
    """Return the cells of a score: number of rows, errors, bias, rank correlation, coverage."""
    errors = [share(value) for value in (score.median, score.mean, score.p90, score.worst)]
    rank = "-" if score.rank is None else f"{score.rank:.3f}"
    return [str(score.n), *errors, share(score.bias, signed=True), rank, share(score.coverage)]


def table_of(*names: str) -> Table:
    """Return an empty table of scores behind some columns of names."""
    table = Table(box=SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    for name in names:
        table.add_column(name)
    for head in HEADS:
        table.add_column(head, justify="right")
    return table


def print_predictions(console: Console, rows: Sequence[Prediction]) -> None:
    """Print each of a few predictions beside its measurement, and the errors by source and in all."""
    if not rows:
        return
    if len(rows) <= FEW:
        console.print(_each(rows))
    table = table_of("measurements")
    groups = grouped(rows, lambda row: row.case.source or row.case.quantity)
    for name, members in groups.items():
        table.add_row(name, *score_cells(score(members)))
    if len(groups) > 1:
        table.add_section()
        table.add_row("all", *score_cells(score(rows)))
    console.print(table)
    console.print("Errors are |predicted / measured - 1|; bias above zero: more is predicted than was measured.")


def _each(rows: Sequence[Prediction]) -> Table:
    from roofsim.calibrate.cases import QUANTITIES
    from roofsim.units import humanize

    table = Table(box=SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("measurement", "quantity"):
        table.add_column(name)
    for name in ("measured", "predicted", "error", "80 % interval"):
        table.add_column(name, justify="right")
    for row in rows:
        unit = QUANTITIES[row.case.quantity]

        def shown(value: float, unit: str = unit) -> str:
            return humanize(value, unit, 3) if unit else f"{value:,.4g}"

        ends = "-" if row.interval is None else f"{shown(row.interval[0])} to {shown(row.interval[1])}"
        table.add_row(
            row.case.name,
            row.case.quantity,
            shown(row.case.measured),
            shown(row.predicted),
            share(row.error, signed=True),
            ends,
        )
    return table


def print_published(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    """Print the scores of published measurements, a section for each set."""
    table = table_of("measurements", "source")
    last = rows[0]["measurements"] if rows else ""
    for row in rows:
        if row["measurements"] != last:
            table.add_section()
        first = row["measurements"] if row["measurements"] != last or row is rows[0] else ""
        last = row["measurements"]
        errors = [share(row[name]) for name in ("median", "mean", "p90", "worst")]
        rank = "-" if row["rank"] is None else f"{row['rank']:.3f}"
        table.add_row(
            first,
            row["source"],
            str(row["n"]),
            *errors,
            share(row["bias"], signed=True),
            rank,
            share(row["coverage"]),
            style="bold" if row["source"] == "all" else None,
        )
    console.print(table)
    console.print(
        "Published measurements, each predicted without its source in the fits. Errors are |predicted / measured - 1|; bias above "
        f"zero: more is predicted than was measured. {PAGE} of the repository says more; your own: roofsim validate FILE.jsonl"
    )
