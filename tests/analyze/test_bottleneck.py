"""What binds a step: synthetic steps with known answers, and the cases that shares of the time got wrong."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import roofsim
from roofsim.analyze.bottleneck import RATES_OF, UNBOUND, bottleneck, bound_of
from roofsim.analyze.ops import op_rows
from roofsim.cost.scales import Scales
from roofsim.numeric import maximum
from roofsim.report import words
from roofsim.report.serving import _turning
from roofsim.report.text import print_result
from roofsim.schedule.step import TIME_KEYS, StepTime
from tests.scenarios import evaluated
from tests.surely import sure

QUANTISED = {
    "phase": "decode", "context_length": 512, "precision": "q4_k_m", "engine": "llama.cpp", "hardware_gpu": "a100",
}  # fmt: skip
QUANTISED_KEYS = {key.removeprefix("hardware_"): value for key, value in QUANTISED.items()}


def synthetic(formula, *names):
    """Return the step and the repricing of a formula on the factors of rates, which waits for resources of some names."""

    def reprice(scales):
        rates = {name: getattr(scales, name) for name in Scales.resources()}
        step, bubble = formula(**rates)
        resources = dict.fromkeys(names, 0.0 * step) | ({"bubble": bubble} if "bubble" in names else {})
        return StepTime(
            step=step, breakdown=dict.fromkeys(TIME_KEYS, 0.0), resources=resources, waits={}, device=step, busy=step,
            host=0.0, power=0.0,
        )  # fmt: skip

    return reprice(Scales()), reprice


def verdict(formula, *names):
    verdict = bottleneck(*synthetic(formula, *names))
    return verdict.bound, verdict.runner_up, verdict.headroom


def test_every_rate_belongs_to_one_resource():
    assert sorted([*(rate for rates in RATES_OF.values() for rate in rates), *UNBOUND]) == sorted(Scales.resources())


@pytest.mark.parametrize("ratio", [1.01, 1.5, 3.7, 60.0, 5000.0])
def test_terms_one_after_the_other_are_level_at_their_ratio(ratio):
    bound, then, headroom = verdict(
        lambda tensor_flops, memory_bandwidth, **_: (ratio / tensor_flops + 1.0 / memory_bandwidth, 0.0),
        "compute", "memory_bandwidth",
    )  # fmt: skip
    assert (bound, then) == ("compute", "memory_bandwidth")
    assert headroom == pytest.approx(ratio, rel=1e-3)


@pytest.mark.parametrize("ratio", [1.003, 1.35, 2.0, 7.3, 900.0])
def test_a_hard_corner_is_found_to_three_digits(ratio):
    bound, then, headroom = verdict(
        lambda power, memory_bandwidth, **_: (maximum(ratio / power, 1.0 / memory_bandwidth), 0.0),
        "memory_bandwidth", "power",
    )  # fmt: skip
    assert (bound, then) == ("power", "memory_bandwidth")
    assert headroom == pytest.approx(ratio, rel=5e-4)


def test_rates_of_one_resource_count_together():
    def formula(tensor_flops, vector_flops, memory_bandwidth, **_):
        return 3.0 / tensor_flops + 3.0 / vector_flops + 4.0 / memory_bandwidth, 0.0

    assert verdict(formula, "memory_bandwidth", "compute") == (
        "compute",
        "memory_bandwidth",
        pytest.approx(1.5, rel=1e-3),
    )


def test_what_hides_behind_the_bound_comes_next_though_it_is_worth_nothing_now():
    def formula(tensor_flops, memory_bandwidth, launch_rate, **_):
        return maximum(6.0 / tensor_flops, 5.0 / memory_bandwidth) + 2.0 / launch_rate, 0.0

    bound = verdict(formula, "compute", "memory_bandwidth", "launch")
    assert bound == ("compute", "memory_bandwidth", pytest.approx(1.2, rel=5e-4))


def test_never_is_said_where_no_factor_changes_the_verdict():
    assert verdict(lambda power, **_: (2.0 / power, 0.0), "compute", "power") == ("power", "compute", None)
    slowly = verdict(
        lambda power, tensor_flops, **_: (power**-0.6 * tensor_flops**-0.4, 0.0), "power", "compute", "launch"
    )
    assert slowly == ("power", "compute", None)


def test_far_headroom_is_no_end_of_a_grid():
    bound, then, headroom = verdict(
        lambda power, launch_rate, **_: (20_000.0 / power + 1.0 / launch_rate, 0.0), "launch", "power"
    )
    assert (bound, then) == ("power", "launch")
    assert headroom == pytest.approx(20_000.0, rel=1e-3)


@pytest.mark.parametrize(("idle", "expected"), [(1.9, "compute"), (2.1, "bubble")])
def test_a_bubble_binds_where_its_share_exceeds_the_largest_elasticity(idle, expected):
    def formula(tensor_flops, memory_bandwidth, **_):
        return 2.0 / tensor_flops + 1.0 / memory_bandwidth + idle, idle

    assert verdict(formula, "compute", "memory_bandwidth", "bubble")[0] == expected


def test_headroom_of_a_bubble_is_how_many_times_shorter_it_must_be():
    def formula(tensor_flops, memory_bandwidth, **_):
        idle = 3.5 / tensor_flops + 1.5 / memory_bandwidth  # 5 of 7 seconds, and compute decides of 4.5
        return 1.0 / tensor_flops + 1.0 / memory_bandwidth + idle, idle

    bound = verdict(formula, "compute", "memory_bandwidth", "bubble")
    assert bound == ("bubble", "compute", pytest.approx(1.5, rel=1e-3))  # 5 / 1.5 = 1 + 3.5 / 1.5


def test_one_question_costs_one_pricing_or_few():
    step, reprice = synthetic(
        lambda tensor_flops, memory_bandwidth, **_: (3.0 / tensor_flops + 1.0 / memory_bandwidth, 0.0),
        "compute", "memory_bandwidth", "launch", "power",
    )  # fmt: skip
    rows = []

    def counted(scales):
        rows.append(max(np.size(value) for value in vars(scales).values()))
        return reprice(scales)

    assert bottleneck(step, counted).bound == bound_of(step, reprice)
    assert len(rows) <= 3
    assert sum(rows) < 241


# -- the cases that shares of the time got wrong ---------------------------------------------------------------------


def test_what_compute_units_cannot_draw_is_no_bandwidth():
    """Kernels for vectors keep few loads in flight: on an A100 its units set the rate, whatever the memory gives."""
    result = roofsim.run("llama3-8b", **QUANTISED_KEYS | {"engine": "llama.cpp@2024-05"})
    assert {result.bound, sure(result.runner_up)["bound"]} == {"compute", "launch"}
    assert sure(result.elasticity)["memory_bandwidth"] == pytest.approx(0.0, abs=5e-3)
    assert 1.0 < sure(result.runner_up)["headroom"] < 1.5
    assert result.time["memory_bandwidth"] < 0.02 * result.step_time
    first = words.bound_sentence(result).partition(" would be next, once ")[0]
    assert "compute" in first
    assert "kernel launches" in first


def test_cards_with_the_same_units_decode_alike_and_faster_units_help():
    small, large, wide = (
        evaluated("llama3-8b", **QUANTISED | {"hardware_gpu": gpu}, **more)
        for gpu, more in (
            ("a100-sxm4-40gb", {}), ("a100-sxm4-80gb", {}),
            ("a100-sxm4-80gb", {"hardware_override": {"gpu.clock.boost": "1.8 GHz"}}),
        )
    )  # fmt: skip
    assert small.step.step == pytest.approx(large.step.step, rel=2e-3)
    assert wide.step.step < 0.95 * large.step.step


def test_ops_are_bound_by_what_speeds_them_up():
    evaluation = evaluated("llama3-8b", **QUANTISED)
    bounds = {row["name"]: row["bound"] for row in op_rows(evaluation)}
    assert bounds["layers.mlp.down.matmul"] == "compute"
    faster = evaluation.reprice(Scales(memory_bandwidth=2.0)).step
    assert faster == pytest.approx(evaluation.step.step, rel=5e-3)


@pytest.mark.parametrize("gpu", ["a100", "b200", "rtx4090"])
@pytest.mark.parametrize("model", ["resnet50", "gpt2-124m"])
def test_shares_of_the_time_are_elasticities_on_one_card(model, gpu):
    result = roofsim.run(model, gpu=gpu, micro_batch_size=64, precision="bf16", optimizer="none")
    for name, rates in RATES_OF.items():
        if name in ("compute", "memory_bandwidth", "launch") and sure(result.elasticity)["power"] > -0.01:
            share = result.time[name] / result.step_time
            assert share == pytest.approx(-sum(sure(result.elasticity)[rate] for rate in rates), abs=0.02)


def test_the_verdict_of_a_network_is_that_of_its_own_step():
    result = roofsim.run("stable-diffusion-xl-pipeline", phase="forward", gpu="a100", precision="fp16")
    assert {row["bound"] for row in result.networks} <= set(RATES_OF)
    alone = max(result.networks, key=lambda row: row["time"])
    assert alone["time"] > 0.9 * result.step_time
    assert alone["bound"] == result.bound


@pytest.mark.parametrize("gpu", ["a100", "h100"])
def test_turning_points_are_where_the_verdict_turns(gpu):
    """From there on arithmetic binds a decode step for good; of half as many requests it does not. Tiles turn it in between."""
    from roofsim.serve.surface import Passes

    served = roofsim.serve("llama3-8b", gpu=gpu, prompt_length=64, output_length=32, concurrency=8)
    assert served.products_bound_at is not None
    passes = Passes(served.plan.resolved)
    for factor, expected in ((0.25, False), (0.5, False), (1.1, True), (1.5, True), (4.0, True)):
        step = passes.decode(served.products_bound_at * factor, 1.0)
        assert (bound_of(step.step, step.reprice) in ("compute", "power")) == expected


# -- words -----------------------------------------------------------------------------------------------------------


def sentence(bound, then, headroom, pipeline=1, **elasticity):
    result: Any = SimpleNamespace(
        scenario={"parallel": {"pipeline": pipeline}}, bound=bound, elasticity=elasticity,
        runner_up={"bound": then, "headroom": headroom},
    )  # fmt: skip
    return words.bound_sentence(result)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ("memory_bandwidth", "launch", 2.4),
            "memory bandwidth; kernel launches would be next, once memory is 2.4 times as fast",
        ),
        (
            ("launch", "memory_bandwidth", 4.5),
            "kernel launches; memory bandwidth would be next, once kernel launches are 4.5 times as fast",
        ),
        (("power", "compute", 1.07), "power; compute would be next, once the power limit is 1.07 times as high"),
        (
            ("intra_node_link", "power", 12345.6),
            "the links inside the node; power would be next, once these links are 12,346 times as fast",
        ),
        (("host_compute", "bubble", 1.001), "the CPU of the host and waits for slower ranks, about equally"),
        (("power", "launch", None), "power alone: nothing else takes over, however much more of it there is"),
    ],
)
def test_sentences(arguments, expected):
    assert sentence(*arguments) == expected


def test_sentences_name_the_rate_that_matters():
    assert sentence("compute", "power", 2.0, tensor_flops=-0.1, vector_flops=-0.5).startswith(
        "compute (vector units); "
    )
    assert sentence("compute", "power", 2.0, tensor_flops=-0.3, vector_flops=-0.3).startswith("compute; ")
    assert sentence("launch", "power", 2.0, host_issue_rate=-0.9, launch_rate=-0.05).startswith(
        "kernel launches (issued by the host); "
    )


def test_sentences_of_waits():
    assert sentence("bubble", "power", 2.0, pipeline=4) == (
        "the pipeline bubble (fewer stages or more micro batches shorten it); power would be next, once it is "
        "50.0 % shorter"
    )
    assert sentence("bubble", "power", 4.0) == (
        "waits for slower ranks; power would be next, once they are 75.0 % shorter"
    )


def test_latency_is_said_apart_from_rates():
    result = roofsim.run(
        "gpt2-124m", phase="decode", context_length=16, gpu="h100", gpus=4, tensor=4, engine="vllm", precision="bf16"
    )
    target = io.StringIO()
    print_result(Console(file=target, width=500), result)
    worth = sure(result.elasticity)
    assert sum(worth.values()) == pytest.approx(-1.0, abs=1e-3)
    assert worth["latency"] < -0.01
    assert "of it is latency between GPUs, which none of these shortens." in target.getvalue()


@pytest.mark.parametrize(
    ("steps", "products", "expected"),
    [
        (None, None, "decode steps are never limited by compute or power, and neither are their weight GEMMs"),
        (
            None, 296.1,
            "decode steps are never limited by compute or power; their weight GEMMs are from 296 requests per step",
        ),
        (
            178.0, 152.0,
            "decode steps are limited by compute or power from 178 requests per step; their weight GEMMs from 152",
        ),
    ],
)  # fmt: skip
def test_sentences_of_turning_points(steps, products, expected):
    served: Any = SimpleNamespace(compute_bound_at=steps, products_bound_at=products)
    assert _turning(served) == expected
