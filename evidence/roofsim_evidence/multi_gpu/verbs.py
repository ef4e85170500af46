"""What `evidence` does with steps on several GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim_evidence.multi_gpu import page as pages
from roofsim_evidence.multi_gpu.cases import load_multi_cases, measured_cases
from roofsim_evidence.multi_gpu.notes import COMPOSED
from roofsim_evidence.steps.cases import predict_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim_evidence.pages import DocsPage


def score() -> str:
    """Return the errors by set."""
    return pages.sets(predict_steps(measured_cases()))


def page() -> DocsPage:
    """Return docs/multi-gpu-accuracy.md."""
    composed = [case for case in load_multi_cases() if case.source == COMPOSED]
    return pages.page(predict_steps(measured_cases()), predict_steps(composed))


def ablate(*, mechanisms: Sequence[str] = ()) -> str:
    """Return the table of mechanisms, or of some."""
    from roofsim_evidence.multi_gpu.ablation import mechanisms_named, rows_of_table

    chosen = mechanisms_named(mechanisms)
    return rows_of_table(predict_steps(measured_cases()), chosen)
