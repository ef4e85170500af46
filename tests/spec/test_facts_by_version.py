"""Engines by version: what serves today, and what was otherwise before."""

from __future__ import annotations

import pytest

from roofsim.api import resolve, run, serve
from roofsim.spec.engine.find import version_assumed

CARD = {"gpu": "h200"}


def decoded(engine: str, model: str) -> float:
    workload = {"phase": "decode", "engine": engine, "batch_size": 128, "context_length": 2048, "precision": "fp8"}
    return float(run({"model": model, "workload": workload, "hardware": CARD}).step_time)


def test_grouped_heads_before_and_after_xqa():
    """TensorRT-LLM before 0.7 multiplied shared heads on ordinary units; heads with keys of their own still are."""
    assert decoded("tensorrt-llm@0.6", "llama2-70b") > 1.15 * decoded("tensorrt-llm@0.9", "llama2-70b")
    assert decoded("tensorrt-llm@0.9", "llama2-70b") == decoded("tensorrt-llm", "llama2-70b")
    assert decoded("tensorrt-llm@0.6", "llama2-7b") == pytest.approx(decoded("tensorrt-llm@0.9", "llama2-7b"), rel=1e-9)


def served(engine: str):
    workload = {"engine": engine, "prompt_length": 512, "output_length": 128, "concurrency": 64}
    return serve({"model": "llama3-8b", "workload": workload, "hardware": CARD})


def test_first_and_second_engine_of_vllm():
    """V0 ran prompts before decode steps, at most 256 requests; V1 runs both in one step."""
    old, new = served("vllm@0.6.3"), served("vllm@0.8.2")
    assert (old.plan.facts.batching, new.plan.facts.batching) == ("apart", "mixed")
    assert old.max_requests == 256.0 < new.max_requests
    assert served("vllm").steady == new.steady
    assert old.plan.resolved.engine.attention_on("hopper") == "flash2"
    assert new.plan.resolved.engine.attention_on("hopper") == "flash3"
    assert served("vllm@2024-01").plan.resolved.engine.attention_on("hopper", decodes=True) == "paged"


def test_transformers_before_scaled_dot_product_attention():
    def seconds(engine: str) -> float:
        workload = {"phase": "prefill", "engine": engine, "batch_size": 1, "prompt_length": 2048}
        return float(run({"model": "llama2-7b", "workload": workload, "hardware": CARD}).step_time)

    assert seconds("huggingface@4.35") > 1.3 * seconds("huggingface@4.36")
    assert seconds("huggingface@4.36") == seconds("huggingface@5.2") > seconds("huggingface")


@pytest.mark.parametrize(
    ("engine", "assumed"),
    [("vllm", True), ("vllm@0.9", False), ("vllm@2025-06", False), ("llama.cpp+no-flash", True), ("tensorflow", False)],
)
def test_a_version_is_assumed_where_it_matters_and_nobody_says(engine, assumed):
    workload = {"phase": "forward", "engine": engine, "micro_batch_size": 1}
    if engine.startswith("tensorflow"):
        workload["sequence_length"] = 128
    model = "bert-base" if engine.startswith("tensorflow") else "llama3-8b"
    chosen = resolve({"model": model, "workload": workload, "hardware": CARD})
    assert version_assumed(chosen.engine, str(chosen.workload.engine)) is assumed
