"""What `evidence` does with training steps of MLPerf submissions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.calibrate.predict import predict_cases
from roofsim_evidence.mlperf_training import page as pages
from roofsim_evidence.mlperf_training.cases import logged_peaks, training_cases
from roofsim_evidence.plain import plainly
from roofsim_evidence.steps.cases import predict_steps

if TYPE_CHECKING:
    from roofsim_evidence.pages import DocsPage


def score() -> str:
    """Return the errors by benchmark."""
    return pages.by_benchmark(predict_steps(training_cases()))


def page() -> DocsPage:
    """Return docs/mlperf-training.md."""
    cases = training_cases()
    return pages.page(predict_steps(cases), predict_steps(map(plainly, cases)), predict_cases(logged_peaks()))
