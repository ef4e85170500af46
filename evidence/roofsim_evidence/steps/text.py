"""Print scores of steps as a table, beside a model of one constant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.calibrate.score import GROUPINGS, fitted, grouped, held_out, score
from roofsim.report.scores import HEADS, score_cells, share
from roofsim_evidence.markdown import table
from roofsim_evidence.steps.baseline import Baseline, fit_baseline
from roofsim_evidence.steps.tables import pair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim_evidence.steps.cases import StepPrediction


def scores_text(rows: Sequence[StepPrediction]) -> str:
    """Return held-out errors by source and in all, the fitted rows' below, and which rows those are."""
    baseline = fit_baseline(rows) if fitted(rows) else None
    groups = grouped(held_out(rows), GROUPINGS["source"])
    groups |= {"held out": held_out(rows), "may be fitted": fitted(rows), "all": list(rows)}
    cells = [[name, *_cells(members, baseline)] for name, members in groups.items() if members]
    lines = [
        table(("rows", *HEADS, "one MFU: median / p90"), cells),
        "",
        (
            f"{len(fitted(rows))} of these {len(rows)} rows may be fitted (every third in sorted order; column 'fitted' of --csv). "
            "Sources are scored on the other rows."
        ),
    ]
    if baseline is not None:
        lines.append(f"One MFU: model FLOPs / (dense peak x {share(baseline.overall)}), fitted to the same rows.")
    return "\n".join(lines)


def _cells(rows: Sequence[StepPrediction], baseline: Baseline | None) -> list[str]:
    other = None if baseline is None else score(rows, baseline.seconds(rows))
    return [*score_cells(score(rows)), pair(other)]
