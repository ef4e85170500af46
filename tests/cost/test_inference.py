"""Kernels of inference: the models of single kernels inside steps, merged kernels, pieces of a prefill, arrays of sizes."""

from __future__ import annotations

import numpy as np
import pytest

from roofsim.cost.kernels.models.silicon import full_clock_share, power_share
from roofsim.cost.kernels.table import constants_for, constants_of, factor_of
from roofsim.graph.ops import Attention, Cast, GroupedMatmul, Matmul, Softmax, parts_of
from roofsim.spec.constants.physics import shipped_physics
from tests.scenarios import evaluated, resolved

DECODE = {
    "phase": "decode",
    "context_length": 1024,
    "batch_size": 8,
    "precision": "fp16",
    "hardware_gpu": "a100-sxm4-80gb",
}
PREFILL = {"phase": "prefill", "prompt_length": 2048, "batch_size": 1, "precision": "fp16", "hardware_gpu": "rtx4090"}


def launches(evaluation, stage=0):
    graph = evaluation.priced[stage]
    return sum(work.launches * graph.counts[index] for index, work in graph.works)


def attention_time(**changes):
    evaluation = evaluated("llama3-8b", **(DECODE | {"engine": "tensorrt-llm"} | changes))
    costs = evaluation.priced[0].per_op()
    return next(float(cost.time) for cost in costs if any(isinstance(part, Attention) for part in parts_of(cost.op)))


def test_constants_come_from_the_generation_then_the_architecture_then_all():
    own = constants_of("attention_decode", "hopper", "flash3", "16-bit")
    assert own[0]
    assert own[1] != constants_of("attention_decode", "hopper", "trtllm", "16-bit")[1]
    assert constants_of("attention_decode", "hopper", "cudnn", "16-bit")[0]
    measured, lent = constants_of("attention_decode", "ampere-ga10x", "flash2", "16-bit")
    assert not measured
    assert 0.5 < lent["bandwidth"] < 1.1


def test_consumer_cards_take_after_workstation_cards_and_boards_after_the_most_similar_one():
    _, lent = constants_of("attention_decode", "turing", "flash2", "16-bit", narrow=True)
    assert lent != constants_of("attention_decode", "turing", "flash2", "16-bit")[1]
    ada, rtx = (
        constants_of("attention_decode", name, None, "16-bit")[1]["bandwidth"] for name in ("ada", "blackwell-rtx")
    )
    assert min(ada, rtx) <= lent["bandwidth"] <= max(ada, rtx)
    decode = {
        gpu: constants_for(evaluated("gpt2-124m", hardware_gpu=gpu).device, "attention_decode", "flash3", "16-bit")
        for gpu in ("h100", "h800-sxm-80gb", "h200-sxm-141gb", "h20-96gb")
    }
    assert decode["h800-sxm-80gb"] == decode["h100"] != decode["h200-sxm-141gb"] == decode["h20-96gb"]


def test_power_holds_back_products_of_boards_with_little_of_it():
    corner = shipped_physics()["sustained_corner"]
    shares = [power_share(362e12 * 2.26e-12 / watts, corner) for watts in (100.0, 350.0, 10000.0)]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0, abs=0.01)
    # What an L40S sustains of its peak at 350 W, at full clock; a board with power to spare keeps its share.
    assert full_clock_share(0.57, 362e12 * 2.26e-12 / 350.0, 1.5) == pytest.approx(1.0, abs=0.03)
    assert full_clock_share(0.57, 0.8, 1.5) == 0.57


def test_a_generation_without_measurements_follows_its_factor():
    hopper = resolved("gpt2-124m", hardware_gpu="h100").architecture
    assert factor_of(hopper, "attention_prefill", "flash2") < 1.0
    assert factor_of(hopper, "attention_prefill", "flash3") == 1.0


def test_decode_attention_reads_the_cache_and_not_faster_than_memory():
    short, long = attention_time(context_length=2048), attention_time(context_length=65536)
    bytes_more = 8 * (65536 - 2048) * 2 * 8 * 128 * 2
    assert long - short > bytes_more / 2.04e12
    assert long - short < 2.0 * bytes_more / 2.04e12


def test_one_sequence_cannot_fill_the_card_without_splitting():
    split = attention_time(batch_size=1, context_length=32768)
    whole = attention_time(batch_size=1, context_length=32768, engine_facts={"decode_attention": "single_query"})
    assert whole > 1.5 * split


@pytest.mark.parametrize("fact", ["qkv", "gate_up", "residual_norm", "gated_activation"])
def test_merging_saves_launches(fact):
    names = {"qkv", "gate_up", "residual_norm", "gated_activation"}
    with_it, without = (
        evaluated("llama3-8b", **DECODE, engine="sglang", engine_facts={"fusion": sorted(fusion)})
        for fusion in (names, names - {fact})
    )
    assert launches(without) - launches(with_it) >= 31.0
    assert with_it.step.step < without.step.step


def test_the_cache_is_written_in_as_many_launches_as_stated():
    none, two = (
        evaluated("llama3-8b", **DECODE, engine="vllm", engine_facts={"decode_cache_write_kernels": number})
        for number in (0.0, 2.0)
    )
    assert launches(two) - launches(none) == pytest.approx(64.0)


def test_a_prefill_in_pieces_attends_to_half_of_the_scores_and_reads_weights_again():
    facts = {"prefill_chunk": None}
    pieces = evaluated("llama3-8b", **PREFILL, engine="llama.cpp@2025-03")
    whole = evaluated("llama3-8b", **PREFILL, engine="llama.cpp@2025-03", engine_facts=facts)
    stage = pieces.program.stages[0]
    assert stage.times == 4.0
    assert pieces.stage_time("prefill") == pieces.step.step
    softmax = next(op for op in stage.graph if isinstance(op, Softmax))
    full = next(op for op in whole.program.stages[0].graph if isinstance(op, Softmax))
    share = float(np.mean(softmax.inputs[0].numel)) * stage.times / full.inputs[0].numel
    assert share == pytest.approx((1.0 + 1.0 / 4.0) / 2.0)
    assert (
        np.asarray(pieces.profiles[0].components["key_value_cache"])[-1]
        == whole.profiles[0].components["key_value_cache"]
    )


def test_wide_activations_convert_around_products_of_a_prefill_only():
    prefill = evaluated("llama3-8b", **PREFILL, engine="llama.cpp").program.stages[0].graph
    decode = evaluated("llama3-8b", **DECODE, engine="llama.cpp").program.stages[0].graph
    products = [op for op in prefill if isinstance(op, Matmul)]
    assert all(op.inputs[0].dtype.name == "fp16" and op.outputs[0].dtype.name == "fp16" for op in products)
    assert sum(isinstance(op, Cast) for op in prefill) >= 2 * len(products)
    products = [op for op in decode if isinstance(op, Matmul)]
    assert all(op.inputs[0].dtype.name == "fp32" and str(op.math) == "fp16" for op in products)


def test_a_floor_in_cycles_follows_the_clock():
    slow, fast = (
        evaluated("llama3-8b", **(DECODE | {"hardware_gpu": gpu}), engine="llama.cpp").priced[0].context.device
        for gpu in ("a100-sxm4-80gb", "rtx4090")
    )
    assert slow.architecture.kernel_floor > 1.5 * fast.architecture.kernel_floor


def test_few_tokens_wake_few_experts():
    def experts(batch):
        evaluation = evaluated(
            "qwen3-30b-a3b", **(DECODE | {"batch_size": batch, "hardware_gpu": "h100"}), engine="vllm"
        )
        costs = evaluation.priced[0].per_op()
        return sum(float(cost.time) * cost.op.count for cost in costs if isinstance(cost.op, GroupedMatmul))

    # 51.6 against 8 experts by chance; so few leave part of the units without a tile, and the bandwidth with them.
    assert 4.0 < experts(8) / experts(1) < 6.4
    assert experts(2048) < 3.0 * experts(256)


def test_tokens_are_brought_to_experts_in_as_many_launches_as_stated():
    few, many = (
        evaluated("qwen3-30b-a3b", **DECODE, engine="vllm", engine_facts={"expert_kernels": number})
        for number in (3.0, 9.0)
    )
    assert launches(many) - launches(few) == pytest.approx(6.0 * 48.0)


@pytest.mark.parametrize("gpu", ["a100-sxm4-80gb", "rtx3090", "p100-pcie-16gb"])
def test_a_cache_of_wide_types_streams_at_the_rate_of_its_class(gpu):
    """Nobody measured kernels that read it: the model says that ordinary units stream it, at the bandwidth of attention."""
    step = evaluated(
        "llama3.2-1b",
        hardware_gpu=gpu,
        phase="decode",
        precision="fp32",
        engine="llama.cpp",
        context_length=16384,
        batch_size=4,
    )
    device, priced = step.device, step.priced[0]
    places = [place for place, (index, _) in enumerate(priced.works) if isinstance(priced.graph.ops[index], Attention)]
    assert places
    for place in places:
        work, price = priced.works[place][1], priced.prices()[place]
        streamed = float(work.traffic) / (float(device.bandwidth) * device.bandwidth_share("attention"))
        assert streamed < float(price.time) - float(price.launch) < 1.5 * streamed
