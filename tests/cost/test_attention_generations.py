"""Generations of attention kernels on H100 against the paper that measured them side by side."""

from __future__ import annotations

import pytest

from roofsim.api import run

#: arXiv 2407.08608: TFLOP/s forward with a causal mask (figure 5), and how much faster forward is than backward without one
#: (figures 5 and 6); heads of 128, 16,384 tokens.
FIGURES = {"flash2": (335.0, 370.0 / 322.0), "cudnn": (539.0, 595.0 / 516.0), "flash3": (616.0, 648.0 / 561.0)}


def rates(generation, gpu="h100-sxm5-80gb"):
    """Return FLOP/s of fused attention with a causal mask, forward and backward, where power does not limit it."""
    workload = {"engine": "megatron-core", "precision": "bf16", "micro_batch_size": 1, "sequence_length": 16384}
    facts = {"attention_generation": generation}
    hardware = {"gpu": gpu, "override": {"gpu.tdp": "20 kW"}}
    work = run({"model": "llama2-7b", "workload": workload | {"engine_facts": facts}, "hardware": hardware}).to_dict()[
        "work"
    ]
    seen = [work[phase]["attention"] for phase in ("forward", "backward")]
    return [one["flops"] / 2.0 / one["time"] for one in seen]


@pytest.mark.parametrize("generation", FIGURES)
def test_generations_reach_what_was_measured_on_h100(generation):
    """Half of the scores count with a mask; what the diagonal wastes is within 8 %."""
    causal, ratio = FIGURES[generation]
    forward, backward = rates(generation)
    assert forward == pytest.approx(causal * 1e12, rel=0.08)
    assert forward / backward == pytest.approx(ratio, rel=0.1)


def test_backward_kernels_pay_for_fp32_sums_of_the_queries_gradient():
    """Sums in fp32, cleared before and converted behind, are traffic that goes with the tokens, products with their square."""

    def ratio(generation, length):
        workload = {"engine": "megatron-core", "precision": "bf16", "micro_batch_size": 1, "sequence_length": length}
        workload["engine_facts"] = {"attention_generation": generation}
        hardware = {"gpu": "h100-sxm5-80gb", "override": {"gpu.tdp": "20 kW"}}
        work = run({"model": "llama2-7b", "workload": workload, "hardware": hardware}).to_dict()["work"]
        return work["backward"]["attention"]["time"] / work["forward"]["attention"]["time"]

    for generation in ("flash2", "cudnn"):
        assert ratio(generation, 2048) > ratio(generation, 8192)
    assert ratio("flash1", 2048) < ratio("flash1", 8192)  # keeps the gradient of a block of queries on chip


def test_kernels_fed_from_registers_lose_more_at_less_power():
    """FlashAttention-2 multiplies with Ampere's instructions: at 500 W it is slowed as much as its energy asks for."""

    def at(watts, generation):
        workload = {"engine": "megatron-core", "precision": "bf16", "micro_batch_size": 1, "sequence_length": 131072}
        workload["engine_facts"] = {"attention_generation": generation}
        hardware = {"gpu": "h100-sxm5-80gb", "override": {"gpu.tdp": watts}}
        work = run({"model": "llama2-7b", "workload": workload, "hardware": hardware}).to_dict()["work"]
        return work["forward"]["attention"]["time"]

    assert at("500 W", "flash2") > 1.2 * at("5 kW", "flash2")
    assert at("500 W", "flash2") > at("500 W", "cudnn")
