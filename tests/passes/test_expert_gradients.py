"""Gradients of experts travel among the ranks that hold the same experts, whatever type their weights are multiplied in."""

from __future__ import annotations

import pytest

from roofsim.api import resolve
from roofsim.evaluate import evaluate
from roofsim.graph.ops import Collective

LAYOUTS = [("megatron-core", {"expert": 4}), ("deepspeed", {"expert": 4, "sharding": "gradients"}),
           ("torchtitan", {"expert": 4, "sharding": "full"})]  # fmt: skip


def reductions(engine, parallel, precision):
    workload = {
        "phase": "train",
        "micro_batch_size": 1,
        "global_batch_size": 16,
        "sequence_length": 256,
        "engine": engine,
    }
    scenario = {"model": "mixtral-8x7b", "workload": {**workload, "precision": precision}, "parallel": parallel,
                "hardware": {"gpu": "h100", "gpus": 16}}  # fmt: skip
    (stage,) = evaluate(resolve(scenario)).program.stages
    collectives = [op for op in stage.graph if isinstance(op, Collective) and op.group_of == "data"]
    return sorted(
        (op.function, op.ranks, op.of_experts, len(op.inputs)) for op in collectives if op.function != "all_gather"
    )


@pytest.mark.parametrize(("engine", "parallel"), LAYOUTS)
@pytest.mark.parametrize("precision", ["fp8", "bf16-amp"])
def test_experts_are_reduced_among_their_own_ranks_in_every_precision(engine, parallel, precision):
    collectives = reductions(engine, parallel, precision)
    assert collectives == reductions(engine, parallel, "bf16")
    assert {ranks for _, ranks, experts, _ in collectives if experts} == {4.0}
    assert {ranks for _, ranks, experts, _ in collectives if not experts} == {16.0}
