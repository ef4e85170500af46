"""Tests of how surely a layout wins: the rates at which another does, what cannot be told apart, and the choice by regret."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import roofsim
from roofsim.report.plan import surely
from roofsim.search.planning.robustness import RATES, WIDEST, Rival, factors, ratio_to, regrets, turns
from tests.surely import sure

MODEL = {
    "family": "decoder", "num_layers": 4, "hidden_size": 2048, "num_attention_heads": 16, "vocab_size": 8192,
    "max_sequence_length": 2048,
}  # fmt: skip
SCENARIO: dict[str, Any] = {
    "model": MODEL,
    "workload": {"sequence_length": 1024, "global_batch_size": 8, "engine": "megatron-core", "precision": "bf16"},
    "hardware": {"gpu": "a100-sxm4-80gb"},
}
AXES: dict[str, list[Any]] = {
    "parallel.sharding": ["none"],
    "workload.micro_batch_size": [1, 2],
    "parallel.sequence": [True],
    "parallel.account_for_embedding": [False],
    "parallel.account_for_loss": [False],
    "workload.recompute": ["none"],
}


@pytest.fixture(scope="module")
def plan():
    return roofsim.plan(SCENARIO, gpus=8, axes=AXES, top=6)


def step(changes, bandwidth):
    hardware = changes["hardware"] | {"override": {"gpu": {"memory": {"bandwidth": bandwidth}}}}
    sections = {name: SCENARIO.get(name, {}) | changes[name] for name in ("parallel", "workload")}
    return roofsim.run({"model": MODEL, **sections, "hardware": SCENARIO["hardware"] | hardware}).step_time


def test_another_layout_wins_where_the_plan_says_so(plan):
    turn = sure(plan.robustness)["rates"]["memory_bandwidth"]["more"]
    assert 1.0 < turn["factor"] < WIDEST
    best = plan.top[0].changes
    other = next(one.changes for one in plan.top if one.id == turn["id"])
    usual = roofsim.resolve(SCENARIO).gpu.memory.bandwidth
    before, after = (f"{usual * turn['factor'] * part} B/s" for part in (0.95, 1.05))
    assert step(best, before) < step(other, before)
    assert step(best, after) > step(other, after)


def test_the_plan_says_so_in_words(plan):
    said = "\n".join(surely(plan))
    turn = sure(plan.robustness)["rates"]["memory_bandwidth"]["more"]
    place = [one.id for one in plan.top].index(turn["id"]) + 1
    assert f"Another wins if device memory is {100 * (turn['factor'] - 1):.0f} % faster (#{place})." in said
    assert "No other of these wins if the speed of the network between nodes alone is off by up to 2x." in said
    assert ("One of several" in said) == bool(plan.robustness["one_of_several"])


def test_those_inside_the_error_bars_are_named(plan):
    alike = plan.robustness["one_of_several"]
    for one in plan.top[1:]:
        low, high = one.ratio
        assert low <= one.step_time / plan.best.step_time * (1 + 1e-9)
        assert high >= one.step_time / plan.best.step_time * (1 - 1e-9)
        assert (one.id in alike) == (low <= 1.0)


def test_shared_errors_cancel(plan):
    """Two layouts on one machine err alike: their ratio is surer than either step."""
    for one in plan.top[1:]:
        low, high = one.ratio
        assert math.log(high / low) < math.log(one.interval[1] / one.interval[0])


def test_a_robust_choice_has_the_least_regret(plan):
    robust = roofsim.plan(SCENARIO, gpus=8, axes=AXES, top=6, robust=True)
    shares = [sure(one.regret) for one in robust.top]
    assert shares == sorted(shares)
    assert sure(robust.robustness)["regret"] == shares[0]
    assert robust.lower_bound == plan.lower_bound
    assert robust.to_dict()["top"][0]["regret"] == shares[0]
    assert "Chosen by regret" in "\n".join(surely(robust))


def candidate(number, value, interval, compute, widest=0.0):
    """Return a layout whose step is so much compute, and otherwise links; `widest` of it only this layout has."""
    software = {"phase": "train", "precision": "bf16", "engine": "megatron-core"}
    scenario = {"hardware": {"gpu": "h100", "system": "hgx"}, "model": {"family": "decoder"}, "workload": software}
    time = {"compute": compute * value, "exposed_communication": (1.0 - compute) * value}
    terms = {"train": (interval, interval)} | ({"crowded": (0.0, widest)} if widest else {})

    def reprice(scales):
        return SimpleNamespace(step=value * (compute / scales.tensor_flops + (1.0 - compute) / scales.inter_node_link))

    evaluation: Any = SimpleNamespace(reprice=reprice, step=SimpleNamespace(step=value))
    result: Any = SimpleNamespace(scenario=scenario, time=time, own_kernels=0.0, interval_terms=terms)
    return Rival(number, value, evaluation, result)


def test_turns_are_where_two_lines_meet():
    """A step of 0.9 / f + 0.1 and one of 0.55 / f + 0.55 are the same at f = 7 / 9."""
    one, two = candidate(1, 1.0, 0.1, 0.9), candidate(2, 1.1, 0.1, 0.5)
    both = turns([one, two])
    assert sure(both["tensor_flops"][0]).factor == pytest.approx(0.35 / 0.45, rel=2e-3)
    assert sure(both["tensor_flops"][0]).place == 1
    assert both["tensor_flops"][1] is None
    assert sure(both["inter_node_link"][1]).factor == pytest.approx(0.45 / 0.35, rel=2e-3)
    assert both["memory_bandwidth"] == (None, None)
    assert set(both) == set(RATES)
    assert factors()[len(factors()) // 2] == 1.0


def test_a_layout_that_may_be_much_slower_has_regret():
    steady, risky = candidate(1, 1.02, 0.1, 0.8), candidate(2, 1.0, 0.1, 0.8, widest=0.2)
    first, second = regrets([steady, risky])
    assert first == pytest.approx(0.02)
    assert second == pytest.approx(math.exp(0.2) / 1.02 - 1.0)
    low, high = sure(ratio_to(steady, risky))
    assert low < 1.0 < high
    assert np.isclose(high, 1.02)


def test_memory_is_as_sure_as_it_is():
    plan = roofsim.plan(SCENARIO, gpus=4, axes=AXES | {"parallel.tensor": [1, 2]}, objective="memory", top=3)
    assert all(both == {"less": None, "more": None} for both in sure(plan.robustness)["rates"].values())
