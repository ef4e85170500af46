"""What `evidence` does with steps on several GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.output import save_text
from roofsim.spec.constants import many_gpus
from roofsim_evidence.multi_gpu import page as pages
from roofsim_evidence.multi_gpu.cases import load_multi_cases, measured_cases
from roofsim_evidence.multi_gpu.notes import COMPOSED
from roofsim_evidence.multi_gpu.widths import FILE, text_of
from roofsim_evidence.places import constants
from roofsim_evidence.steps.cases import predict_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim_evidence.pages import DocsPage


def score() -> str:
    """Return the errors by set."""
    return pages.sets(predict_steps(measured_cases()))


def fit(*, write: bool = False, transfer: bool = False) -> str:
    """Fit the widths of intervals; `transfer`: only fit without each source, card and family, and store the predictions."""
    if transfer:
        from roofsim_evidence.folds.verbs import transfer as left_out

        return left_out(("multi-gpu",))
    text = text_of(predict_steps(measured_cases()))
    if write:
        save_text(constants() / FILE, text)
        many_gpus.shipped.cache_clear()
    return text


def page() -> DocsPage:
    """Return docs/multi-gpu-accuracy.md."""
    composed = [case for case in load_multi_cases() if case.source == COMPOSED]
    return pages.page(predict_steps(measured_cases()), predict_steps(composed))


def ablate(*, mechanisms: Sequence[str] = ()) -> str:
    """Return the table of mechanisms, or of some."""
    from roofsim_evidence.multi_gpu.ablation import mechanisms_named, rows_of_table

    chosen = mechanisms_named(mechanisms)
    return rows_of_table(predict_steps(measured_cases()), chosen)
