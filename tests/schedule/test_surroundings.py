"""Stragglers and inputs: expected maxima from tables, input-bound steps by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from roofsim.api import resolve, run
from roofsim.errors import SpecError
from roofsim.evaluate import evaluate
from roofsim.numeric import largest_of
from roofsim.records import replace
from roofsim.schedule.surroundings import meetings_of
from roofsim.spec.constants.links import shipped_links
from roofsim.spec.constants.physics import shipped_physics
from roofsim.spec.mechanisms import ALL
from roofsim.spec.scenario.layout import layout_of
from tests.surely import sure

RESNET = {
    "model": "resnet50",
    "workload": {"micro_batch_size": 256, "precision": "fp16-amp"},
    "parallel": {"data": 8},
    "hardware": {"gpu": "a100-sxm4-80gb", "gpus": 8},
}


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [(1.0, 0.0), (2.0, 0.56419), (3.0, 0.84628), (5.0, 1.16296), (10.0, 1.53875), (100.0, 2.50759), (1000.0, 3.24144)],
)
def test_largest_of_many(ranks, expected):
    """Expected largest order statistics of the normal distribution (Harter, Biometrika 48, 1961)."""
    assert largest_of(ranks) == pytest.approx(expected, abs=1e-5)


def test_largest_of_arrays():
    ranks = np.array([[1.0, 8.0], [8.0, 64.0]])
    assert np.asarray(largest_of(ranks)).tolist() == [[largest_of(float(n)) for n in row] for row in ranks]


def test_stragglers_lengthen_a_step():
    """Chips of one name differ in arithmetic, ranks by what is stated; the two are independent."""
    calm, rough = run(RESNET), run(RESNET, hardware__jitter=0.03)
    alike = calm.step_time - calm.time["bubble"]
    assert calm.time["bubble"] == pytest.approx(
        shipped_physics()["chip_spread"] * calm.time["compute"] * largest_of(8.0)
    )
    spread = ((0.03 * alike) ** 2 + (shipped_physics()["chip_spread"] * calm.time["compute"]) ** 2) ** 0.5
    assert rough.step_time == pytest.approx(alike + spread * largest_of(8.0))
    assert sum(rough.time.values()) == pytest.approx(rough.step_time)
    assert rough.time["bubble"] == pytest.approx(rough.step_time - alike)


LLAMA = {
    "model": "llama3-8b",
    "workload": {"engine": "torchtitan", "micro_batch_size": 1, "sequence_length": 4096},
    "parallel": {"sharding": "full"},
    "hardware": {"gpu": "h100"},
}


def waits(gpus, mechanisms=ALL, **given):
    """Return what nodes wait for one another, as a share of the step without it."""
    resolved = replace(
        resolve(LLAMA, hardware__gpus=gpus, workload__global_batch_size=4 * gpus, **given), mechanisms=mechanisms
    )
    return meetings_of(resolved, layout_of(resolved.parallel))


def test_one_node_loses_nothing_and_more_nodes_never_lose_less():
    lost = [waits(gpus) for gpus in (1, 8, 16, 24, 64, 512, 4096, 16384)]
    assert lost[:2] == [0.0, 0.0]
    assert all(fewer < more for fewer, more in pairwise(lost[1:]))
    noise = shipped_links().network("infiniband").noise
    assert lost[4] == pytest.approx(noise * largest_of(8.0))
    assert waits(4096, replace(ALL, noise=False)) == 0.0


def test_nodes_that_meet_less_often_level_out():
    """Under full sharding every layer is a meeting, under sharded gradients every micro batch, else the step's end."""
    full, gradients, optimizer, none = (
        waits(512, parallel__sharding=level) for level in ("full", "gradients", "optimizer", "none")
    )
    assert full > 5 * gradients > 5 * optimizer == 5 * none > 0.0
    assert gradients == pytest.approx(optimizer * 4**0.5)
    # shards inside a node: only the end of the step is a meeting of all
    assert waits(512, parallel__sharding={"full": 8}) == none


def test_what_nodes_wait_is_part_of_the_step():
    many = {"hardware__gpus": 512, "workload__global_batch_size": 2048}
    evaluation = evaluate(resolve(LLAMA, **many))
    calm = evaluate(replace(resolve(LLAMA, **many), mechanisms=replace(ALL, noise=False, chips=False))).step
    assert evaluation.step.waits["stragglers"] > waits(512) * calm.step
    assert sum(evaluation.step.breakdown.values()) == pytest.approx(evaluation.step.step)
    assert 1.03 < evaluation.step.step / calm.step < 1.1


def test_replicas_that_serve_do_not_wait_for_one_another():
    server = {"workload__phase": "forward", "workload__global_batch_size": None}
    alone = run({**RESNET, "parallel": {"data": 1}, "hardware": {"gpu": "a100-sxm4-80gb", "gpus": 1}}, **server)
    assert run(RESNET, **server).step_time == pytest.approx(alone.step_time)


def fed(**given):
    return run(RESNET, workload__input={"bytes_per_sample": "110 kB"} | given)


def test_enough_workers_hide_the_input():
    result = fed(decode_time="8 ms", workers=64)
    assert result.step_time == pytest.approx(run(RESNET).step_time, rel=1e-3)
    assert result.time["input"] < 1e-3 * result.step_time
    assert result.bound == run(RESNET).bound


def test_few_workers_bind():
    result = fed(decode_time="8 ms", workers=4)
    assert result.step_time == pytest.approx(256 * 8e-3 / 4, rel=1e-3)
    assert result.bound == "host_compute"
    assert result.time["input"] == pytest.approx(result.step_time - run(RESNET).step_time)
    assert sum(result.time.values()) == pytest.approx(result.step_time)
    assert result.elasticity["host_compute"] == pytest.approx(-1.0, abs=0.01)
    assert sum(result.elasticity.values()) == pytest.approx(-1.0, abs=0.01)
    assert result.runner_up["bound"] == run(RESNET).bound


def test_cores_are_shared():
    override = {"system.host.cores": 16}
    result = run(
        RESNET,
        workload__input={"bytes_per_sample": "110 kB", "decode_time": "8 ms", "workers": 64},
        hardware__override=override,
    )
    assert result.step_time == pytest.approx(2048 * 8e-3 / 16, rel=1e-3)


def test_slow_storage_binds():
    override = {"system.storage.read": "100 MB/s"}
    result = run(RESNET, workload__input={"bytes_per_sample": "110 kB"}, hardware__override=override)
    assert result.bound == "storage"
    assert result.step_time == pytest.approx(2048 * 110e3 / 100e6, rel=1e-3)
    assert sure(result.elasticity)["storage"] == pytest.approx(-1.0, abs=0.01)


@pytest.mark.parametrize(
    ("read", "network", "bound"), [(100, "200 Gbit/s", "storage"), (9000, "1 Gbit/s", "inter_node_link")]
)
def test_storage_over_the_network_feeds_as_fast_as_the_slower_of_both(read, network, bound):
    override = {"system.remote_storage.read": f"{read} MB/s", "system.node_network": network}
    given = {"bytes_per_sample": "110 kB", "place": "nvmeof"}
    result = run(RESNET, workload__input=given, hardware__override=override)
    assert result.bound == bound
    assert sure(result.elasticity)[bound] == pytest.approx(-1.0, abs=0.01)
    reached = shipped_links().network("infiniband").point_efficiency if bound == "inter_node_link" else None
    rate = read * 1e6 if reached is None else 1e9 / 8.0 * reached
    assert result.step_time == pytest.approx(2048 * 110e3 / rate, rel=1e-3)


def test_storage_over_the_network_has_to_be_stated():
    with pytest.raises(SpecError, match="reaches no storage over its network"):
        run(RESNET, workload__input={"bytes_per_sample": "110 kB", "place": "nvmeof"})


def test_the_link_to_the_host_binds():
    result = fed(decoded_bytes="50 MB")
    assert result.bound == "host_link"
    assert result.elasticity["host_link"] == pytest.approx(-1.0, abs=0.01)


def test_tensor_ranks_share_samples():
    """Two ranks of one replica read the same samples: half as many a node."""
    gpt = {
        "model": "gpt2-124m",
        "workload": {"micro_batch_size": 4, "sequence_length": 512, "engine": "megatron-core", "global_batch_size": 32},
        "hardware": {"gpu": "a100-sxm4-80gb", "gpus": 8, "override": {"system.storage.read": "1 MB/s"}},
    }
    each = {"bytes_per_sample": "1 MB"}
    split = run(gpt, parallel__tensor=2, workload__input=each)
    alone = run(gpt, workload__input=each)
    assert split.step_time == pytest.approx(alone.step_time, rel=1e-3) == pytest.approx(32.0, rel=1e-3)
