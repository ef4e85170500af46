"""Fill docs/external-inference.md: measurements of inference that nothing was fitted to."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from roofsim.calibrate.cases import SERVED
from roofsim_evidence.cases import load
from roofsim_evidence.external import scores
from roofsim_evidence.pages import DocsPage, filled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.calibrate.cases import Case
    from roofsim.calibrate.predict import Prediction

    Rows = Sequence[Prediction]

PATH: Final = "docs/external-inference.md"
LABELS: Final = {
    "tensorrt-llm-0.17": "TensorRT-LLM 0.17, saturated servers",
    "tensorrt-llm-0.6": "TensorRT-LLM 0.5 and 0.6.1, static batches and first tokens",
    "rocm-vllm": "vLLM 0.10 on MI300X, static batches",
    "gpt-fast": "gpt-fast, decode of one sequence",
    "diffusers-torch2": "diffusers on PyTorch 2.0, one denoising step",
    "llm-inference-bench": "LLM-Inference-Bench, static batches",
    "vllm-pulls": "vLLM's pull request 23197, static batches",
    "autoawq-pulls": "AutoAWQ's pull request 320, decode",
    "hardware-corner": "Hardware Corner (llama.cpp), GeForce cards at 16,384 tokens",
    "llama.cpp-2025": "llama.cpp's pull requests of 2025, mixtures of experts",
    "inferencex": "InferenceX, servers of mixtures of experts, time per token",
    "llm-inference-speed": "LLM-inference-speed-benchmarks (llama.cpp)",
}


def external_cases() -> tuple[Case, ...]:
    """Return the measurements that may not be fitted, in the order of their file."""
    return load("external-inference")


def by_source(rows: Rows) -> str:
    """Return the table of scores by source."""
    return scores(rows, lambda row: LABELS[row.case.source])


def page(rows: Rows, unpriced: Sequence[tuple[Case, str]]) -> DocsPage:
    """Return the page."""
    counts = Counter(why for _, why in unpriced)
    text = filled(
        "external-inference.md",
        total=len(rows) + len(unpriced),
        sources=by_source(rows),
        cards=scores(rows, lambda row: f"{row.case.gpu}, {row.case.software}, {_kind(row.case)}"),
        gpus=scores(rows, lambda row: f"{row.case.source}, {row.case.gpus:02d} GPU"),
        models=scores(rows, lambda row: f"{row.case.family}, {row.case.software}"),
        unpriced=[(number, why) for why, number in sorted(counts.items())],
    )
    return DocsPage(path=PATH, text=text)


def _kind(case: Case) -> str:
    return "server" if case.quantity in SERVED else case.regime
