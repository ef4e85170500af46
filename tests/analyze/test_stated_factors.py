"""A factor on a resource is a factor on the figures that files state: elasticities are the differences that overrides make."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from roofsim.analyze.sensitivity import elasticities
from roofsim.api import resolve
from roofsim.cost.scales import Scales
from roofsim.evaluate import evaluate

#: Rate -> the figures of files that it is a factor on.
FIGURES = {
    "tensor_flops": ("gpu.peak",),
    "vector_flops": ("gpu.vector_peak",),
    "memory_bandwidth": ("gpu.memory.bandwidth",),
    "power": ("gpu.tdp",),
    "intra_node_link": ("system.link.bandwidth",),
    "inter_node_link": ("system.node_network",),
    "host_link": ("gpu.host_link.bandwidth", "system.host_link.bandwidth"),
    "host_memory": ("system.host.memory_bandwidth",),
}
STEP = 1e-3
CASES: dict[str, dict[str, Any]] = {
    "sharded": {"scenario": "llama3-8b", "gpu": "h100", "gpus": 64, "sharding": "fsdp", "sequence_length": 4096},
    "decode": {"scenario": "llama3-8b", "gpu": "h100", "phase": "decode", "context_length": 1024, "batch_size": 8},
    "experts": {"scenario": "mixtral-8x7b", "gpu": "h100", "gpus": 8, "tensor": 8, "phase": "prefill", "prompt_length": 2048},
    "two nodes": {"scenario": "llama3-70b", "gpu": "a100", "gpus": 16, "tensor": 16, "phase": "prefill", "prompt_length": 1024},
    "images": {"scenario": "resnet50", "gpu": "a100", "batch_size": 64, "precision": "fp16-amp"},
    "encoder": {"scenario": "bert-large", "gpu": "a100", "batch_size": 16, "sequence_length": 512, "precision": "fp16-amp"},
    "offload": {
        "scenario": "gpt2-124m", "gpu": "h100", "gpus": 8, "engine": "deepspeed", "sharding": "full",
        "parallel.offload": {"optimizer_state": "host", "activations": "host"},
    },
}  # fmt: skip
for served in ("decode", "experts", "two nodes"):
    CASES[served]["engine"] = "vllm"


def step_with(case: dict[str, Any], rate: str, factor: float) -> float:
    return float(evaluate(resolve(**case, **dict.fromkeys(FIGURES[rate], f"{factor:.9f}x"))).step.step)


@pytest.mark.parametrize("name", CASES)
def test_elasticities_are_differences_of_overrides(name: str) -> None:
    case = CASES[name]
    resolved = resolve(**case)
    worth = elasticities(evaluate(resolved).reprice)
    assert sum(worth.values()) == pytest.approx(-1.0, abs=1e-3)
    for rate in FIGURES:
        if abs(float(worth[rate])) < 1e-6 and (rate.endswith("node_link") or rate.startswith("host")):
            continue  # nothing of it takes part, and the node may not state it
        more, less = (np.log(step_with(case, rate, 1.0 + way * STEP)) for way in (1, -1))
        difference = (more - less) / (np.log1p(STEP) - np.log1p(-STEP))
        assert float(worth[rate]) == pytest.approx(difference, abs=1e-3), rate


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("rate", ["tensor_flops", "memory_bandwidth", "vector_flops"])
def test_twice_as_much_is_twice_the_figure(name: str, rate: str) -> None:
    """Corners of one kernel are followed by their slope: over a factor of two these differ by less than half a percent."""
    case = CASES[name]
    scaled = float(evaluate(resolve(**case)).reprice(Scales(**{rate: 2.0})).step)
    assert scaled == pytest.approx(step_with(case, rate, 2.0), rel=4e-3)
