"""What `evidence` does with peaks of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.output import save_text
from roofsim_evidence.memory import page as pages
from roofsim_evidence.memory.cases import predict_all, stated
from roofsim_evidence.memory.widths import FILE, text_of
from roofsim_evidence.places import constants

if TYPE_CHECKING:
    from roofsim_evidence.pages import DocsPage


def score() -> str:
    """Return the errors by source and quantity."""
    return pages.scores(stated(predict_all()))


def fit(*, write: bool = False, transfer: bool = False) -> str:
    """Fit the widths of intervals; `transfer`: only predict without each source, and store the predictions."""
    if transfer:
        from roofsim_evidence.folds.verbs import transfer as left_out

        return left_out(("memory",))
    text = text_of(predict_all())
    if write:
        save_text(constants() / FILE, text)
    return text


def page() -> DocsPage:
    """Return docs/memory-accuracy.md."""
    return pages.page(predict_all())
