"""What `evidence` does with peaks of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim_evidence.memory import page as pages
from roofsim_evidence.memory.cases import predict_all, stated

if TYPE_CHECKING:
    from roofsim_evidence.pages import DocsPage


def score() -> str:
    """Return the errors by source and quantity."""
    return pages.scores(stated(predict_all()))


def page() -> DocsPage:
    """Return docs/memory-accuracy.md."""
    return pages.page(predict_all())
