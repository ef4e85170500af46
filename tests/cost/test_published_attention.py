"""Fused attention of training reaches what NVIDIA publishes of cuDNN's kernels, on every card and in both widths."""

from __future__ import annotations

from typing import Any

import pytest

from roofsim import views
from roofsim.api import resolve

#: (card, sequences, heads, type, tokens) -> TFLOP/s forward and backward, causal, heads of 128, eight key heads
#: (NVIDIA/cudnn-frontend, benchmark/sdpa_benchmark_training: cuDNN 9.13 on B200, 9.18 on GB200; benchmark/attention_training: 9.26
#: on H200 and GB300).
PUBLISHED = {
    ("h200-sxm-141gb", 2, 64, "bf16", 8192): (651, 537),
    ("h200-sxm-141gb", 2, 64, "bf16", 16384): (626, 533),
    ("b200-sxm-180gb", 1, 128, "bf16", 8192): (1384, 995),
    ("b200-sxm-180gb", 1, 128, "bf16", 32768): (1515, 1180),
    ("b200-sxm-180gb", 1, 128, "fp8", 8192): (1502, 1255),
    ("b200-sxm-180gb", 1, 128, "fp8", 32768): (1781, 1582),
    ("gb200", 1, 64, "bf16", 8192): (1563, 1279),
    ("gb200", 1, 64, "bf16", 32768): (1686, 1441),
    ("gb200", 1, 64, "fp8", 8192): (1862, 1485),
    ("gb200", 1, 64, "fp8", 32768): (2115, 1713),
    ("gb300", 2, 64, "bf16", 8192): (1941, 1430),
    ("gb300", 2, 64, "bf16", 32768): (2090, 1437),
    ("gb300", 2, 64, "fp8", 8192): (2840, 1764),
    ("gb300", 2, 64, "fp8", 32768): (3046, 2062),
}
#: The same of AMD's kernels (ROCm/aiter, op_tests/cpp/mha/README.md, "BWD-a16"), at the cards' power.
ATTAINED = {
    ("mi300x", 8, 64, "bf16", 2048, "750 W"): (452, 382),
    ("mi300x", 8, 64, "bf16", 8192, "750 W"): (551, 474),
    ("mi300x", 1, 64, "bf16", 8192, "750 W"): (518, 482),
    ("mi355x", 8, 64, "bf16", 2048, "1400 W"): (963, 817),
    ("mi355x", 8, 64, "bf16", 8192, "1400 W"): (1312, 1068),
    ("mi355x", 1, 64, "bf16", 8192, "1400 W"): (1300, 1065),
}


def rates(gpu: str, batch: int, heads: int, width: str, tokens: int, **override: object) -> tuple[float, float]:
    """Return TFLOP/s forward and backward, half of the scores counted, at a power that limits nothing."""
    model = {
        "family": "decoder", "num_layers": 1, "hidden_size": heads * 128, "num_attention_heads": heads, "num_key_value_heads": 8,
        "vocab_size": 1024, "intermediate_size": 128, "max_sequence_length": tokens,
    }  # fmt: skip
    scenario = {
        "model": model,
        "workload": {
            "phase": "train", "micro_batch_size": batch, "sequence_length": tokens, "engine": "megatron-core",
            "precision": {"compute": "fp8", "attention": "fp8"} if width == "fp8" else width,
        },
        "hardware": {"gpu": gpu, "override": {"gpu.tdp": "100 kW"} | override},
    }  # fmt: skip
    times = {row["phase"]: row["time"] for row in views.ops(scenario).to_rows() if row["class"] == "attention"}
    work = 2.0 * batch * heads * tokens**2 * 128
    return work / times["forward"] / 1e12, 2.5 * work / times["backward"] / 1e12


@pytest.mark.parametrize("shape", PUBLISHED)
def test_attention_takes_what_published_kernels_take(shape):
    forward, backward = PUBLISHED[shape]
    assert list(rates(*shape)) == pytest.approx([forward, backward], rel=0.18)


@pytest.mark.parametrize("shape", ATTAINED)
def test_attention_takes_what_kernels_of_amd_take(shape):
    *sizes, watts = shape
    forward, backward = ATTAINED[shape]
    assert list(rates(*sizes, **{"gpu.tdp": watts})) == pytest.approx([forward, backward], rel=0.14)


def test_units_for_exponentials_speed_up_scores_and_backward_kernels_less():
    """A backward kernel takes one exponential for two and a half times the products."""
    shape = ("gb300", 1, 64, "fp8", 16384)
    fewer: dict[str, Any] = {"gpu.exponentials_per_clock": 16}
    fast, slow = rates(*shape), rates(*shape, **fewer)
    assert fast[0] / slow[0] > fast[1] / slow[1] > 1.05


def test_pytorch_takes_cudnn_first_on_cards_of_data_centres_from_2_11_on():
    def kernel(engine: str, architecture: str) -> str | None:
        return resolve({"model": "gpt2", "workload": {"engine": engine}}).engine.attention_on(architecture)

    for name in ("pytorch-eager", "pytorch-compile"):
        assert kernel(name, "hopper") == kernel(name, "blackwell") == "cudnn"
        assert kernel(f"{name}@2.10", "blackwell") == "flash2"
        assert kernel(f"{name}@2.1", "hopper") == "flash1"
        assert kernel(name, "ada") == "flash2"
