"""Pairs of cards that differ in one thing, and caps: what that one thing is worth lies within what physics allows."""

from __future__ import annotations

from typing import Any

import pytest

import roofsim
from tests.surely import sure

DECODE: dict[str, Any] = {"phase": "decode", "engine": "vllm"}
TRAIN: dict[str, Any] = {"batch": 8, "precision": "bf16-amp"}


def ratio(model: str, change: dict[str, Any], **overrides: Any) -> float:
    """Return the speed with a change over that before."""
    return sure(roofsim.whatif(model, change, **overrides).outcomes[0].ratio)


def test_an_a100_of_80_gb_decodes_faster_and_trains_as_fast():
    other, faster = {"gpu": "a100-sxm4-80gb"}, 2.039 / 1.555
    decode = ratio("llama3-8b", other, gpu="a100-sxm4-40gb", context_length=1024, batch=8, **DECODE)
    train = ratio("gpt2-774m", other, gpu="a100-sxm4-40gb", **TRAIN)
    assert 1.12 < decode <= faster
    assert 1.0 <= train < 1.0 + 0.6 * (faster - 1.0)
    assert train < decode


def test_an_h200_decodes_faster_by_no_more_than_its_bandwidth():
    decode = ratio("llama3-8b", {"gpu": "h200"}, gpu="h100", context_length=4096, batch=32, **DECODE)
    assert 1.2 < decode <= 4.8 / 3.35


def test_a_resnet_with_a_third_of_the_bandwidth_is_two_to_three_times_slower():
    slower = ratio("resnet50", {"memory.bandwidth": "300 GB/s"}, gpu="v100", batch=64, precision="fp16-amp")
    assert 2.0 < 1.0 / slower < 3.0


def test_an_sxm_board_is_faster_by_its_power_alone():
    faster = ratio("gpt2-774m", {"gpu": "a100-sxm4-40gb"}, gpu="a100-pcie-40gb", **TRAIN)
    powered = ratio("gpt2-774m", {"tdp": "400 W"}, gpu="a100-pcie-40gb", **TRAIN)
    assert 1.0 < faster < 400.0 / 250.0
    assert faster == pytest.approx(powered, rel=0.1)


def test_a_cap_costs_less_speed_than_power():
    scenario: dict[str, Any] = {"gpu": "h100", "sequence_length": 2048, "optimizer": "adamw-fused"}
    answer = roofsim.whatif("llama3-8b", {"tdp": "500 W"}, also=[{"tdp": "400 W"}, {"tdp": "300 W"}], **scenario)
    speeds = [sure(outcome.ratio) for outcome in answer.outcomes]
    assert 1.0 >= speeds[0] > speeds[1] > speeds[2]
    for watts, speed in zip((500, 400, 300), speeds, strict=True):
        assert speed > watts / 700
    energies = [sure(outcome.result).cost["kwh_per_million_tokens"] for outcome in answer.outcomes]
    assert energies == sorted(energies, reverse=True)


def test_a_500_watt_h100_is_slower_where_power_binds():
    speed = ratio("gpt2-774m", {"gpu": "h100-sxm5-96gb-500w"}, gpu="h100", **TRAIN)
    assert 500.0 / 700.0 < speed <= 1.05


def test_a_reduction_over_two_nodes_takes_as_long_as_their_network_lets_it():
    """MI300X have an adapter each, eight A100 of a p4d share 400 Gbit/s."""
    two, one = {}, {}
    for system in ("azure-nd-mi300x-v5", "aws-p4d"):
        rows = roofsim.collectives(system, "all_reduce", ranks=[8, 16], sizes=["1 GiB"]).to_rows()
        one[system], two[system] = (row["seconds"] for row in rows)
    assert two["azure-nd-mi300x-v5"] == pytest.approx(one["azure-nd-mi300x-v5"], rel=0.1)
    assert two["aws-p4d"] > 3.0 * one["aws-p4d"]
    assert two["aws-p4d"] > 2**30 / 50e9  # each node sends at least the message once


def test_samples_that_are_prepared_elsewhere_leave_the_step_to_the_gpus():
    asked = {"bytes_per_sample": "110 kB", "decode_time": "8 ms", "workers": 8}
    scenario: dict[str, Any] = {"gpus": 8, "micro_batch_size": 256, "precision": "fp16-amp", "input": asked}
    answer = roofsim.whatif("resnet50", {"input.decode_time": "0 ms"}, **scenario)
    assert answer.before.bound == "host_compute"
    assert answer.before.step_time == pytest.approx(256 * 8e-3 / 8, rel=0.01)
    assert sure(answer.outcomes[0].result).bound == "memory_bandwidth"
