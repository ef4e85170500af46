"""What `evidence` does with measurements of inference that nothing may be fitted to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim_evidence.inference import external_page as pages
from roofsim_evidence.inference.cases import predict_all

if TYPE_CHECKING:
    from roofsim_evidence.pages import DocsPage


def score() -> str:
    """Return the errors by source."""
    rows, _ = predict_all(pages.external_cases())
    return pages.by_source(rows)


def page() -> DocsPage:
    """Return docs/external-inference.md."""
    return pages.page(*predict_all(pages.external_cases()))
