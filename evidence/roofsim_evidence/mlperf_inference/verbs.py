"""What `evidence` does with rates and latencies of MLPerf Inference submissions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim_evidence.mlperf_inference import page as pages
from roofsim_evidence.mlperf_inference.cases import latencies, plainly, predict_each, rates, unsaid

if TYPE_CHECKING:
    from roofsim_evidence.pages import DocsPage


def score() -> str:
    """Return the errors of rates by benchmark, and how many have no answer."""
    rows, without = predict_each(rates())
    said = [f"{case.name}: {reason}" for case, reason in without]
    return "\n".join([pages.by_benchmark(rows), *said])


def page() -> DocsPage:
    """Return docs/mlperf-inference.md."""
    plain = predict_each(map(plainly, rates()))
    return pages.page(predict_each(rates()), plain, predict_each(latencies()), unsaid())
