"""Laws of time and memory: scaling, elasticities, monotonicity, sums."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofsim
from roofsim.analyze.sensitivity import elasticities
from roofsim.cost.pricing import Scales
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
    found = elasticities(evaluation.reprice)
    assert sum(found.values()) == pytest.approx(-1.0, abs=1e-3)
    assert all(-1.0 - 1e-6 <= value <= 1e-9 for value in found.values())


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
