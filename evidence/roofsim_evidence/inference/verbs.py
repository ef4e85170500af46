"""What `evidence` does with inference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.output import save_text
from roofsim.spec.constants import inference_spreads
from roofsim_evidence.inference import page as pages
from roofsim_evidence.inference.cases import predict_all
from roofsim_evidence.inference.widths import FILE, text_of, times
from roofsim_evidence.places import constants

if TYPE_CHECKING:
    from roofsim_evidence.pages import DocsPage


def score() -> str:
    """Return the errors by engine and regime."""
    rows, _ = predict_all()
    return pages.scores(times(rows), lambda row: f"{row.case.software}, {row.case.regime}")


def fit(*, write: bool = False, transfer: bool = False) -> str:
    """Fit the widths of intervals; `transfer`: only fit without each source, card and family, and store the predictions."""
    if transfer:
        from roofsim_evidence.folds.verbs import transfer as left_out

        return left_out(("inference", "servers"))
    text = text_of(predict_all()[0])
    if write:
        save_text(constants() / FILE, text)
        inference_spreads.shipped.cache_clear()
    return text


def page() -> DocsPage:
    """Return docs/inference-accuracy.md."""
    return pages.page(*predict_all())
