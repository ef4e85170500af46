"""What `evidence` does with measurements of training that nothing may be fitted to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim_evidence.inference.cases import predict_all
from roofsim_evidence.multi_gpu import external_page as pages

if TYPE_CHECKING:
    from roofsim_evidence.pages import DocsPage


def score() -> str:
    """Return the errors by source."""
    rows, _ = predict_all(pages.external_cases())
    return pages.by_source(rows)


def page() -> DocsPage:
    """Return docs/external-training.md."""
    return pages.page(*predict_all(pages.external_cases()))
