"""Batch norms over the data-parallel group: what travels, what is kept, what it takes."""

from __future__ import annotations

import pytest

from roofsim.analyze.ledger import memory_of
from roofsim.analyze.work import flops_of, parameters_of
from roofsim.api import resolve
from roofsim.graph.ops import Collective, Normalization
from tests.properties.swept import compare
from tests.scenarios import spread

SIZES = {"micro_batch_size": 64, "global_batch_size": 512, "precision": "fp16-amp"}
#: Channels of ResNet-50's 53 batch norms.
CHANNELS = 26560


def run(data=8, model="resnet50", **facts):
    sizes = SIZES | {"global_batch_size": 64 * data}
    return spread(model, {"data": data}, engine_facts={"sync_batch_norm": True} | facts, gpu="v100", **sizes)


def ops(evaluation, op_class):
    (stage,) = evaluation.program.stages
    return [op for op in stage.graph if isinstance(op, op_class)]


def statistics(evaluation):
    return [op for op in ops(evaluation, Collective) if op.group_of == "statistics"]


def test_what_travels():
    sent = statistics(run())
    forward = [op for op in sent if op.phase == "forward"]
    backward = [op for op in sent if op.phase == "backward"]
    assert sum(op.count for op in forward) == sum(op.count for op in backward) == 53
    assert {op.function for op in forward} == {"all_gather"}
    assert {op.function for op in backward} == {"all_reduce"}
    # Mean, deviation and a count of each rank; two sums.
    assert sum(op.message() * op.count for op in forward) == 8 * 4 * (2 * CHANNELS + 53)
    assert sum(op.message() * op.count for op in backward) == 4 * 2 * CHANNELS


@pytest.mark.parametrize("precision", ["fp32", "fp16-amp", "fp16"])
def test_work_and_kept_bytes_are_those_of_own_statistics(precision):
    own, all_ = (
        spread(
            "resnet50",
            {"data": 8},
            gpu="v100",
            engine_facts={"sync_batch_norm": on},
            **SIZES | {"precision": precision},
        )
        for on in (False, True)
    )
    assert flops_of(all_) == pytest.approx(flops_of(own))
    assert parameters_of(all_) == parameters_of(own)
    gathered = sum(op.outputs[0].bytes * op.count for op in ops(all_, Normalization) if op.method == "batch_statistics")
    assert memory_of(all_).saved_activations == pytest.approx(memory_of(own).saved_activations, abs=2 * 8 * gathered)
    memory = memory_of(all_)
    assert sum(memory.components.values()) == pytest.approx(memory.device_total, rel=1e-12)


def test_they_cost_latency():
    own, all_ = run(sync_batch_norm=False), run()
    shown = [evaluation.step.breakdown["exposed_communication"] for evaluation in (own, all_)]
    assert shown[1] - shown[0] > 106 * 5e-6
    assert all_.step.step > own.step.step
    assert run(data=64).step.step > all_.step.step  # between nodes it takes longer


def test_one_rank_and_models_without_batch_norms_know_nothing_of_it():
    assert not statistics(run(data=1))
    assert not statistics(run(model="vit-b16"))


def test_arrays_are_their_elements():
    scenario = {
        "model": "resnet50",
        "workload": {"precision": "fp16-amp", "global_batch_size": 32, "engine_facts": {"sync_batch_norm": True}},
        "parallel": {"data": 4},
    }
    compare(resolve(scenario), {"workload.micro_batch_size": [1, 3], "gpu.memory.bandwidth": [1e12, 3e12]})
