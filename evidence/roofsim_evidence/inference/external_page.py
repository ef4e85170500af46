"""Fill docs/external-inference.md: measurements of inference that nothing was fitted to."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from roofsim.calibrate.cases import SERVED
from roofsim.calibrate.score import grouped, score
from roofsim_evidence.cases import load
from roofsim_evidence.markdown import table
from roofsim_evidence.pages import DocsPage, filled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
HEADS: Final = ("group", "n", "median error", "p90", "within 25 %", "measured / predicted", "rank", "in interval")


def external_cases() -> tuple[Case, ...]:
    """Return the measurements that may not be fitted, in the order of their file."""
    return load("external-inference")


def ratio(row: Prediction) -> float:
    """Return measured over predicted seconds (of rates: the inverse)."""
    quotient = row.case.measured / row.predicted
    return 1.0 / quotient if row.case.quantity == "output_tokens_per_second" else quotient


def scores(rows: Rows, key: Callable[[Prediction], str]) -> str:
    """Return the table of scores by group, and of all rows."""
    return table(HEADS, [_cells(name, mine) for name, mine in [*grouped(rows, key).items(), ("all", list(rows))]])


def _cells(name: str, rows: Rows) -> tuple[str, ...]:
    scored, ratios = score(rows), sorted(map(ratio, rows))
    near = sum(abs(row.error) <= 0.25 for row in rows) / len(rows)
    rank = "" if scored.rank is None else f"{scored.rank:.2f}"
    inside = "" if scored.coverage is None else f"{scored.coverage:.0%}"
    spread = f"{ratios[len(ratios) // 2]:.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})"
    return (name, str(scored.n), f"{scored.median:.1%}", f"{scored.p90:.1%}", f"{near:.0%}", spread, rank, inside)


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
