"""Laws of time and memory: scaling, elasticities, monotonicity, sums."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofsim
from roofsim.analyze.sensitivity import elasticities
from roofsim.cost.scales import Scales
from roofsim.graph.ops import CacheAppend, parts_of
from tests.scenarios import FAMILIES, TINY, TINY_LLAMA, evaluated

CASES = dict(FAMILIES.items())


@settings(max_examples=20)
@given(st.floats(min_value=0.01, max_value=100.0), st.sampled_from([1, 4, 64]))
def test_a_card_faster_in_everything_is_faster_by_as_much(k, batch):
    evaluation = evaluated(TINY_LLAMA, micro_batch_size=batch, precision="bf16")
    scaled = evaluation.reprice(Scales(**dict.fromkeys(Scales.resources(), k)))
    assert scaled.step == pytest.approx(evaluation.step.step / k, rel=1e-9)


@pytest.mark.parametrize("family", CASES)
def test_scaling_of_every_family(family):
    case = CASES[family]
    evaluation = evaluated(case["model"], precision="bf16", micro_batch_size=4, **case["workload"])
    scaled = evaluation.reprice(Scales(**dict.fromkeys(Scales.resources(), 3.0)))
    assert scaled.step == pytest.approx(evaluation.step.step / 3.0, rel=1e-9)


@pytest.mark.parametrize("family", CASES)
@pytest.mark.parametrize("batch", [1, 32])
def test_elasticities_sum_to_minus_one(family, batch):
    case = CASES[family]
    evaluation = evaluated(case["model"], precision="bf16", micro_batch_size=batch, **case["workload"])
    worth = elasticities(evaluation.reprice)
    assert sum(worth.values()) == pytest.approx(-1.0, abs=1e-3)
    assert all(-1.0 - 1e-6 <= value <= 1e-9 for value in worth.values())


@settings(max_examples=25)
@given(st.sampled_from(Scales.resources()), st.floats(min_value=1.0, max_value=50.0))
def test_more_of_a_resource_never_hurts(resource, factor):
    evaluation = evaluated(TINY_LLAMA, micro_batch_size=8, precision="bf16")
    assert evaluation.reprice(Scales(**{resource: factor})).step <= evaluation.step.step * (1 + 1e-12)


@pytest.mark.parametrize("family", CASES)
def test_results_are_plain_consistent_numbers(family):
    case = CASES[family]
    result = roofsim.run({"model": case["model"], "workload": {**case["workload"], "precision": "bf16"}})
    data = result.to_dict()
    json.dumps(data, allow_nan=False)
    assert data["step_time"] > 0
    assert sum(data["time"].values()) == pytest.approx(data["step_time"])
    memory = data["memory"]
    assert sum(memory["components"].values()) == pytest.approx(memory["peak"])
    assert memory["allocated_peak"] <= memory["reserved"] <= memory["device_total"] == memory["peak"]
    assert memory["fits"] == (memory["peak"] <= memory["capacity"])
    assert data["hardware_flops"] >= data["model_flops"] > 0
    assert 0 < data["mfu"] <= data["hfu"] < 1
    assert data["runner_up"]["headroom"] is None or data["runner_up"]["headroom"] >= 1
    assert data["parameters"]["active"] <= data["parameters"]["total"]
    work = sum(row["time"] for classes in data["work"].values() for row in classes.values())
    assert work == pytest.approx(result.device_time)


@settings(max_examples=20)
@given(st.integers(1, 64), st.integers(1, 64))
def test_larger_batches_take_longer_and_more_memory(a, b):
    small, large = sorted((a, b))
    first, second = (evaluated(TINY, micro_batch_size=batch, precision="bf16") for batch in (small, large))
    assert first.step.device <= second.step.device
    assert first.profiles[0].peak <= second.profiles[0].peak


@settings(max_examples=15)
@given(st.integers(2, 8), st.sampled_from(["full", "selective"]), st.sampled_from(["bf16", "fp32", "bf16-amp"]))
def test_recomputation_never_saves_more(layers, policy, precision):
    model = TINY_LLAMA | {"num_layers": layers}
    plain, again = (evaluated(model, recompute=recompute, precision=precision) for recompute in ("none", policy))
    assert again.profiles[0].saved_activations <= plain.profiles[0].saved_activations
    assert again.step.device >= plain.step.device


@settings(max_examples=15)
@given(st.integers(1, 5), st.integers(1, 6))
def test_each_further_micro_batch_takes_the_same(micro, count):
    times = [
        evaluated(TINY, micro_batch_size=micro, global_batch_size=micro * m, precision="bf16").step.device
        for m in (count, count + 1, count + 2)
    ]
    assert times[2] - times[1] == pytest.approx(times[1] - times[0], rel=1e-9)


CARDS = ("v100", "a100", "h100", "b200", "rtx3090", "rtx4090", "l4", "t4", "mi300x", "rx7900xtx", "h20-96gb")


@pytest.mark.parametrize("gpu", CARDS)
@pytest.mark.parametrize("model", ["gpt3-1.3b", "resnet50"])
def test_no_kernel_runs_above_the_rates_of_its_card(gpu, model):
    precision = "fp16"
    evaluation = evaluated(model, micro_batch_size=8, precision=precision, hardware_gpu=gpu)
    device = evaluation.device
    headroom = device.architecture.clock_headroom
    for priced in evaluation.priced:
        for (_, work), cost in zip(priced.works, priced.prices(), strict=True):
            skips = "winograd" in work.compute_keys
            assert skips or work.compute_share <= headroom * (1 + 1e-9), (work.compute_keys, work.compute_share)
            assert cost.time >= work.flops / (work.flop_peak * headroom * (4.0 if skips else 1.0)) * (1 - 1e-9)
            moved = max(float(work.traffic) - float(device.cache or 0.0), 0.0)  # what no cache can have kept
            assert cost.time >= moved / (device.bandwidth * 1.15) * (1 - 1e-9), work.bandwidth_key


@pytest.mark.parametrize("gpu", ["h100", "h200", "b200", "l40s", "mi300x"])
def test_decoding_with_narrow_weights_is_faster(gpu):
    request = {"phase": "decode", "context_length": 512, "engine": "vllm", "hardware_gpu": gpu}
    wide, narrow = (evaluated("llama3-8b", precision=name, **request) for name in ("bf16", "fp8"))
    assert narrow.step.step < 0.9 * wide.step.step
    assert narrow.profiles[0].components["parameters"] < 0.65 * wide.profiles[0].components["parameters"]


@pytest.mark.parametrize("engine", ["vllm", "tensorrt-llm", "sglang", "llama.cpp", "exllamav2", "huggingface"])
@pytest.mark.parametrize("gpu", ["a100", "h100", "rtx4090"])
def test_decoding_is_no_faster_than_reading_weights_and_cache(engine, gpu):
    evaluation = evaluated(
        "llama3-8b",
        phase="decode",
        batch_size=16,
        context_length=2048,
        engine=engine,
        hardware_gpu=gpu,
        precision="fp16",
    )
    moved = 2 * 7.5e9 + 16 * 2048 * 2 * 8 * 128 * 32 * 2
    least = moved / evaluation.device.bandwidth
    assert least < evaluation.step.step < 8 * least


@pytest.mark.parametrize("engine", ["vllm", "exllamav2"])
def test_appending_to_a_cache_moves_what_is_appended(engine):
    evaluation = evaluated(
        "llama3-8b", phase="decode", batch_size=16, context_length=2048, engine=engine, precision="fp16"
    )
    graph = evaluation.program.stages[0].graph
    kernels = [op for op in graph if any(isinstance(part, CacheAppend) for part in parts_of(op))]
    appends = [part for op in kernels for part in parts_of(op) if isinstance(part, CacheAppend)]
    assert appends
    assert all(op.bytes_written() <= 16 * 8 * 128 * 2 for op in appends)
    # A kernel that rotates as well writes queries of 32 heads beside.
    assert all(op.bytes_written() <= 16 * 128 * 2 * (32 + 8 + 8) for op in kernels)


@pytest.mark.parametrize(
    ("fact", "value", "effect"),
    [
        ("host_time_per_step", "50 ms", 0.05),
        ("host_time_per_sequence", "1 ms", 0.016),
        ("fusion", [], None),
    ],
)
def test_engine_facts_have_an_effect(fact, value, effect):
    request = {"phase": "decode", "batch_size": 16, "context_length": 512, "engine": "vllm", "precision": "bf16"}
    before = evaluated("llama3-8b", **request)
    after = evaluated("llama3-8b", **request, engine_facts={fact: value})
    if effect is None:
        assert after.step.step != pytest.approx(before.step.step, rel=1e-4)
    else:
        own = before.resolved.engine
        used = own.launch.host_time_per_step if fact.endswith("step") else 16 * own.launch.host_time_per_sequence
        assert after.step.device - before.step.device == pytest.approx(effect - used, rel=0.05)


def test_younger_attention_kernels_are_faster_where_it_is_known():
    request = {
        "phase": "prefill",
        "prompt_length": 16384,
        "engine": "vllm",
        "hardware_gpu": "h100",
        "precision": "bf16",
    }
    times = [
        evaluated("llama3-8b", **request, engine_facts={"attention_generation_on": {"hopper": name}}).step.device
        for name in ("memory_efficient", "flash2", "flash3")
    ]
    assert times == sorted(times, reverse=True)
    assert times[0] > 1.1 * times[2]


def test_half_accumulation_doubles_the_rate_of_geforce_cards():
    request = {"phase": "prefill", "prompt_length": 4096, "hardware_gpu": "rtx3090", "precision": "fp16"}
    full, half = (
        evaluated("llama3-8b", **request, engine="exllamav2", engine_facts={"matmul_accumulation": name}).step.device
        for name in ("fp32", "fp16")
    )
    # What feeds the units holds the full rate, the slower one nothing: less than double.
    assert 1.4 < full / half < 2.0


def test_facts_that_are_not_priced_say_so():
    result = roofsim.run(
        "gpt2-124m", engine="vllm", phase="decode", context_length=64, engine_facts={"preallocated_share": 0.8}
    )
    assert any("preallocated_share is stated, but this version does not model it" in text for text in result.warnings)


@pytest.mark.parametrize("change", [0.5, 2.0])
def test_more_bandwidth_by_override_is_what_the_scales_say(change):
    plain = evaluated("resnet50", micro_batch_size=64, precision="bf16", hardware_gpu="h100")
    bandwidth = f"{3.35 * change} TB/s"
    over = evaluated(
        "resnet50", micro_batch_size=64, precision="bf16", hardware_gpu="h100",
        hardware_override={"gpu.memory.bandwidth": bandwidth},
    )  # fmt: skip
    assert plain.reprice(Scales(memory_bandwidth=change)).step == pytest.approx(over.step.step, rel=1e-6)
