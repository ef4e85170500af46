"""What `evidence` does with the mechanisms of steps on several GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim_evidence.multi_gpu.ablation import page as ablations
from roofsim_evidence.multi_gpu.cases import measured_cases
from roofsim_evidence.steps.cases import predict_steps

if TYPE_CHECKING:
    from roofsim_evidence.pages import DocsPage


def page() -> DocsPage:
    """Return docs/mechanisms/evidence.md."""
    return ablations(predict_steps(measured_cases()))
