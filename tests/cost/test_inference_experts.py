"""Mixtures of experts and latent attention in servers: whose kernels, what travels, what is merged."""

from __future__ import annotations

import pytest

from roofsim.api import resolve
from roofsim.cost.kernels.table import constants_of
from roofsim.evaluate import evaluate
from roofsim.graph.ops import Attention, Cast, Collective, GroupedMatmul, Matmul


def priced(model, engine, phase="decode", gpu="h100", tensor=1, precision="bf16", **workload):
    sizes = {"decode": {"batch_size": 16, "context_length": 2048}, "prefill": {"batch_size": 1, "prompt_length": 4096}}
    scenario = {
        "model": model,
        "workload": {"engine": engine, "phase": phase, "precision": precision, **sizes[phase], **workload},
        "hardware": {"gpu": gpu, "gpus": tensor},
        "parallel": {"tensor": tensor},
    }
    return evaluate(resolve(scenario))


def costs(evaluation, kind):
    return [cost for cost in evaluation.priced[0].per_op() if isinstance(cost.op, kind)]


def seconds(evaluation, kind):
    return sum(float(cost.time) * cost.op.count for cost in costs(evaluation, kind))


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_experts_run_in_the_kernels_of_their_engine(engine):
    name = {"tensorrt-llm": "trtllm"}.get(engine, engine)
    measured, own = constants_of("moe_gemm", "hopper", name, "fp8_block")
    assert measured
    assert own != constants_of("moe_gemm", "hopper", None, "fp8_block")[1]
    facts = {"measured_as": None}
    of_all = priced("qwen3-235b-a22b", engine, precision="fp8", tensor=4, engine_facts=facts)
    of_own = priced("qwen3-235b-a22b", engine, precision="fp8", tensor=4)
    assert seconds(of_own, GroupedMatmul) != pytest.approx(seconds(of_all, GroupedMatmul), rel=0.01)


def test_cards_without_measurements_borrow_from_the_engine_elsewhere():
    measured, lent = constants_of("moe_gemm", "cdna3", "trtllm", "16-bit")
    assert not measured
    assert lent == constants_of("moe_gemm", "rdna4", "trtllm", "16-bit")[1]
    assert lent != constants_of("moe_gemm", "cdna3", None, "16-bit")[1]


def test_a_latent_cache_is_read_once_and_by_its_own_kernels():
    def attention(**workload):
        return costs(priced("deepseek-v3", "sglang", gpu="b200", tensor=8, precision="fp8", **workload), Attention)[0]

    long, longer = (attention(batch_size=64, context_length=length) for length in (16384, 32768))
    entry = 64 * 16384 * 576 * 2.0
    more = float(longer.memory_bandwidth) - float(long.memory_bandwidth)
    assert 0.55 < entry / 8e12 / more < 0.95
    assert constants_of("mla_decode", "blackwell", "sglang", "16-bit")[0]


def test_routers_multiply_in_the_models_type_and_choose_in_one_kernel():
    fused, modules = (
        priced("deepseek-v3", "vllm", gpu="b200", tensor=8, precision="fp8", engine_facts={"router": router})
        for router in ("fused", "modules")
    )

    def router(evaluation):
        return [cost for cost in evaluation.priced[0].per_op() if ".router." in cost.op.name]

    product = next(cost.op for cost in router(fused) if isinstance(cost.op, Matmul))
    wide = next(cost.op for cost in router(modules) if isinstance(cost.op, Matmul))
    assert [str(op.inputs[1].dtype) for op in (product, wide)] == ["bf16", "fp32"]
    assert sum(float(cost.time) for cost in router(fused)) < 0.4 * sum(float(cost.time) for cost in router(modules))


@pytest.mark.parametrize(("engine", "passes"), [("vllm", 1.5), ("tensorrt-llm", 2.5)])
def test_tokens_are_converted_before_they_are_copied(engine, passes):
    """In fp8 a token's row is converted once, not once for each of its eight experts; results are read once."""
    evaluation = priced("qwen3-235b-a22b", engine, "prefill", tensor=4, precision="fp8")
    rows = next(cost.op for cost in costs(evaluation, GroupedMatmul)).inputs[0]
    moved = [
        work.traffic
        for index, work in evaluation.priced[0].works
        if (op := evaluation.program.stages[0].graph.ops[index]) and ".experts." in op.name
        and (".permute." in op.name or (isinstance(op, Cast) and op.outputs[0] is rows))
    ]  # fmt: skip
    assert float(sum(moved)) < passes * rows.bytes


def test_routed_and_shared_experts_are_summed_once_over_tensor_ranks():
    evaluation = priced("deepseek-v3", "sglang", gpu="b200", tensor=8, precision="fp8")
    summed = [
        cost.op.name for cost in costs(evaluation, Collective)
        if cost.op.name.startswith("layers.") and cost.op.name.endswith("all_reduce")
    ]  # fmt: skip
    assert len(summed) == 2


def test_input_of_merged_projections_is_converted_once():
    evaluation = priced("llama3-8b", "sglang", gpu="b200", precision="nvfp4")
    casts = [cost for cost in costs(evaluation, Cast) if cost.op.name.startswith("layers.self_attention.")]
    assert [float(cost.time) > 0.0 for cost in casts if "query" in cost.op.name] == [True]
    assert all(float(cost.time) == 0.0 for cost in casts if ".key." in cost.op.name or ".value." in cost.op.name)


def test_units_that_were_cut_down_are_used_better():
    """An H20 has a sixth of an H100's peak on more than half of its units."""

    def rate(gpu):
        evaluation = priced("qwen3-30b-a3b", "sglang", "prefill", gpu)
        return sum(float(cost.op.executed_flops()) for cost in costs(evaluation, GroupedMatmul)) / sum(
            float(cost.time) for cost in costs(evaluation, GroupedMatmul)
        )

    assert rate("h20") > 0.55 * 148e12
    assert rate("h100") < 0.5 * 989e12
