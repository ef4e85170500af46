"""Print scores as a table for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE
from rich.table import Table

from roofsim_evidence.score import GROUPINGS, fitted, grouped, held_out, score
from roofsim_evidence.steps.baseline import Baseline, fit_baseline
from roofsim_evidence.steps.tables import pair, score_cells, share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from roofsim_evidence.score import Prediction


def print_scores(console: Console, rows: Sequence[Prediction]) -> None:
    """Print held-out errors by source and in all, the fitted rows' below, and which rows those are."""
    baseline = fit_baseline(rows) if fitted(rows) else None
    table = Table(box=SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("rows")
    for head in ("n", "median", "mean", "p90", "worst", "bias", "rank", "coverage", "one MFU: median / p90"):
        table.add_column(head, justify="right")
    for name, members in grouped(held_out(rows), GROUPINGS["source"]).items():
        table.add_row(name, *_cells(members, baseline))
    table.add_section()
    for name, members in {"held out": held_out(rows), "may be fitted": fitted(rows), "all": list(rows)}.items():
        if members:
            table.add_row(name, *_cells(members, baseline), style="bold" if name == "held out" else None)
    console.print(table)
    console.print(
        f"{len(fitted(rows))} of these {len(rows)} rows may be fitted (every third in sorted order; column 'fitted' of --csv). "
        "Sources are scored on the other rows."
    )
    if baseline is not None:
        console.print(f"One MFU: model FLOPs / (dense peak x {share(baseline.overall)}), fitted to the same rows.")


def _cells(rows: Sequence[Prediction], baseline: Baseline | None) -> list[str]:
    other = None if baseline is None else score(rows, baseline.seconds(rows))
    return [*score_cells(score(rows)), pair(other)]
