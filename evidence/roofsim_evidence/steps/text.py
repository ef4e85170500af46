"""Print scores of steps as a table, beside a model of one constant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.calibrate.score import GROUPINGS, fitted, grouped, score
from roofsim.report.scores import HEADS, score_cells, share
from roofsim_evidence.columns import out_of_fold, without
from roofsim_evidence.markdown import table
from roofsim_evidence.steps.baseline import Baseline, fit_baseline
from roofsim_evidence.steps.tables import pair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim_evidence.steps.cases import StepPrediction


def scores_text(rows: Sequence[StepPrediction]) -> str:
    """Return the errors by source and in all, each without the source in the fit."""
    baseline = fit_baseline(rows) if fitted(rows) else None
    left_out = without("source", "steps", rows)
    groups = grouped(left_out, GROUPINGS["source"]) | {"all": left_out}
    cells = [[name, *_cells(members, baseline)] for name, members in groups.items() if members]
    lines = [
        table(("rows", *HEADS, "one MFU: median / p90"), cells),
        "",
        (
            f"Constants may be fitted to {len(fitted(rows))} of these {len(rows)} rows ('fitted' of --csv); each is predicted "
            f"by constants that never saw its source. {out_of_fold('steps', rows).about}"
        ).rstrip(),
    ]
    if baseline is not None:
        lines.append(
            f"One MFU: model FLOPs / (dense peak x {share(baseline.overall)}), of other publishers' rows for each row."
        )
    return "\n".join(lines)


def _cells(rows: Sequence[StepPrediction], baseline: Baseline | None) -> list[str]:
    other = None if baseline is None else score(rows, baseline.seconds(rows))
    return [*score_cells(score(rows)), pair(other)]
