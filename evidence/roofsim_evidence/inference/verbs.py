"""What `evidence` does with inference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim_evidence.inference import page as pages
from roofsim_evidence.inference.cases import predict_all
from roofsim_evidence.inference.times import times

if TYPE_CHECKING:
    from roofsim_evidence.pages import DocsPage


def score() -> str:
    """Return the errors by engine and regime."""
    rows, _ = predict_all()
    return pages.scores(times(rows), lambda row: f"{row.case.software}, {row.case.regime}")


def page() -> DocsPage:
    """Return docs/inference-accuracy.md."""
    return pages.page(*predict_all())
