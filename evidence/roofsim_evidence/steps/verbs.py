"""What `evidence` does with steps on one GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.errors import Place, Problem, UnknownNameError, did_you_mean
from roofsim.report.tabular import flat, rows_to_csv, to_json
from roofsim_evidence.steps.cases import load_cases, predict_steps
from roofsim_evidence.steps.scorecard import scorecard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.calibrate.cases import Case
    from roofsim_evidence.pages import DocsPage
    from roofsim_evidence.steps.cases import StepPrediction


def score(*, source: Sequence[str] = (), json: bool = False, csv: bool = False) -> str:
    """Return the errors by source, or a row for every step."""
    rows = predict_steps(_chosen(source))
    if json:
        return to_json([_row(row) for row in rows])
    if csv:
        return rows_to_csv([flat(_row(row)) for row in rows])
    from roofsim_evidence.steps.text import scores_text

    return scores_text(rows)


def fit(*, write: bool = False) -> str:
    """Fit the constants of steps."""
    from roofsim_evidence.steps.files import fit_and_write

    return "\n".join(fit_and_write(write=write))


def page() -> DocsPage:
    """Return docs/accuracy.md."""
    from roofsim_evidence.steps.page import page as filled

    return filled(scorecard(predict_steps(load_cases())))


def _chosen(sources: Sequence[str]) -> list[Case]:
    known = sorted({case.source for case in load_cases()})
    for name in sources:
        if name not in known:
            raise UnknownNameError(Problem(f"no source {name!r}. {did_you_mean(name, known)}", Place("--source")))
    return [case for case in load_cases() if not sources or case.source in sources]


def _row(row: StepPrediction) -> dict[str, Any]:
    low, high = row.interval or (None, None)
    case = row.case
    return {
        "name": case.name,
        "source": case.source,
        "gpu": case.gpu,
        "measured": case.measured,
        "predicted": row.predicted,
        "error": row.error,
        "low": low,
        "high": high,
        "fitted": case.fits,
        "architecture": row.architecture,
        "model": case.model,
        "family": case.family,
        "precision": case.precision,
        "regime": case.regime,
    }
