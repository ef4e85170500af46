"""Laws of experts on many ranks: work is conserved, the busiest rank sets time and memory, groups send what they hold."""

from __future__ import annotations

import pytest

from roofsim.analyze.ledger import memory_of
from roofsim.analyze.work import flops_of, parameters_of
from roofsim.api import resolve
from roofsim.errors import SpecError
from roofsim.graph.ops import Collective, GroupedMatmul
from tests.properties.swept import compare
from tests.scenarios import TINY_EXPERTS, spread

MODEL = TINY_EXPERTS | {
    "num_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "expert_intermediate_size": 96,
}
SIZES = {"sequence_length": 64, "global_batch_size": 8, "micro_batch_size": 1, "precision": "bf16"}
#: Rows that a rank routes in one layer (tokens x 2 experts each), and their bytes (64 wide, bf16).
ROWS, BYTES = 64 * 2, 64 * 2 * 64 * 2


def run(layout, engine="megatron-core", **facts):
    return spread(MODEL, layout, engine=engine, engine_facts=facts, **SIZES)


def products(evaluation):
    (stage,) = evaluation.program.stages
    return [op for op in stage.graph if isinstance(op, GroupedMatmul)]


def messages(evaluation, group, phase="forward"):
    (stage,) = evaluation.program.stages
    ops = [op for op in stage.graph if isinstance(op, Collective) and op.group_of == group and op.phase == phase]
    return [(op.function, op.message()) for op in ops]


@pytest.mark.parametrize(
    "layout",
    [
        {"expert": 4, "data": 8},
        {"expert": 4, "expert_tensor": 2, "data": 8},
        {"expert": 2, "expert_tensor": 4, "tensor": 4, "sequence": True, "data": 2},
        {"expert": 8, "expert_tensor": 1, "tensor": 2, "sequence": True, "data": 4},
        {"expert_tensor": 1, "tensor": 4, "sequence": True, "data": 2},
        {"expert_tensor": 2, "data": 8},
        {"expert": 4, "data": 8, "expert_imbalance": 1.7},
        {"expert": 4, "data": 8, "expert_capacity": 1.25},
        {"expert": 4, "data": 8, "expert_tensor": 2, "sharding": "full"},
        {"expert": 4, "data": 8, "expert_tensor": 2, "sharding": "optimizer"},
    ],
    ids=str,
)
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_flops_and_parameters_are_those_of_one_device(layout, recompute):
    alone = spread(MODEL, {}, recompute=recompute, engine="megatron-core", **SIZES)
    together = spread(MODEL, layout, recompute=recompute, engine="megatron-core", **SIZES)
    for flops, expected in zip(flops_of(together), flops_of(alone), strict=True):
        assert flops == pytest.approx(expected, rel=1e-12)
    assert parameters_of(together) == pytest.approx(parameters_of(alone))
    memory = memory_of(together)
    assert sum(memory.components.values()) == pytest.approx(memory.device_total, rel=1e-12)


def test_experts_of_all_ranks_are_all_experts():
    """Parameters of a rank's experts times the ranks that hold another part of them."""
    whole = sum(op.inputs[1].numel for op in products(run({})) if op.phase == "forward")
    for expert, width in ((1, 4), (2, 2), (4, 1), (8, 1), (4, 2)):
        evaluation = run({"expert": expert, "expert_tensor": width, "data": 8})
        own = sum(op.inputs[1].numel for op in products(evaluation) if op.phase == "forward")
        assert own * expert * width == pytest.approx(whole)


def test_what_groups_of_experts_send():
    evaluation = run({"expert": 4, "expert_tensor": 2, "data": 8})
    assert messages(evaluation, "expert") == [("all_to_all", BYTES)] * 2
    assert messages(evaluation, "expert_tensor") == [("all_gather", 2 * BYTES), ("reduce_scatter", 2 * BYTES)]
    backward = messages(evaluation, "expert_tensor", "backward")
    assert sorted(backward) == [("all_gather", 2 * BYTES), ("reduce_scatter", 2 * BYTES)]


def test_the_busiest_rank_sets_time_memory_and_messages():
    layout = {"expert": 4, "data": 8}
    even, busy = run(layout), run(layout | {"expert_imbalance": 2.0})
    assert [op.rows for op in products(busy)] == [2.0 * op.rows for op in products(even)]
    assert products(busy)[0].executed_flops() == 2.0 * products(even)[0].executed_flops()
    assert messages(busy, "expert") == [("all_to_all", 2.0 * BYTES)] * 2
    assert messages(busy, "expert", "backward") == [("all_to_all", 2.0 * BYTES)] * 2
    assert busy.step.step > even.step.step
    assert memory_of(busy).saved_activations > memory_of(even).saved_activations
    assert flops_of(busy) == pytest.approx(flops_of(even))


@pytest.mark.parametrize(
    ("keys", "facts", "load"),
    [
        ({"expert_capacity": 1.25}, {}, 1.0),
        ({"expert_capacity": 1.25, "expert_imbalance": 2.0}, {}, 1.25),
        ({"expert_capacity": 4.0, "expert_imbalance": 2.0}, {}, 2.0),
        ({"expert_capacity": 1.25}, {"expert_capacity_rows": "padded"}, 1.25),
        ({"expert_capacity": 4.0, "expert_imbalance": 2.0}, {"expert_capacity_rows": "padded"}, 4.0),
        ({"expert_capacity": 0.5}, {}, 0.5),
    ],
)
def test_a_capacity_limits_or_pads_rows(keys, facts, load):
    evaluation = run({"expert": 4, "data": 8} | keys, **facts)
    assert {op.rows for op in products(evaluation)} == {ROWS * load}


def test_arrays_are_their_elements():
    layout = {"data": 8, "expert": 4, "expert_tensor": 2, "expert_imbalance": 1.5}
    scenario = {"model": MODEL, "workload": {"global_batch_size": 96, "sequence_length": 64}, "parallel": layout}
    compare(resolve(scenario), {"workload.micro_batch_size": [1, 2, 3], "gpu.memory.bandwidth": [1e12, 3e12]})


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"expert_imbalance": 1.5, "data": 8}, "expert_imbalance 1.5 without expert"),
        ({"expert_imbalance": 0.5, "expert": 4, "data": 8}, "at least 1; got 0.5"),
        ({"expert": 4, "expert_tensor": 5, "data": 8}, "expert_tensor 5 does not divide expert_intermediate_size 96"),
        ({"expert": 4, "expert_tensor": 4, "data": 8}, "expert 4 x expert_tensor 4 does not divide"),
        ({"expert_tensor": 1, "tensor": 4}, "need sequence: true"),
        ({"expert_capacity": 0.0, "expert": 4, "data": 8}, "more than 0; got 0.0"),
    ],
)
def test_refusals(layout, message):
    with pytest.raises(SpecError, match=message):
        resolve({"model": MODEL, "workload": SIZES, "parallel": layout})


def test_a_model_without_experts_is_told_so():
    dense = {"family": "decoder", "num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 128}
    for keys in ({"expert_tensor": 2}, {"expert_capacity": 1.0}, {"expert": 2, "data": 2}):
        with pytest.raises(SpecError, match="has no experts"):
            resolve({"model": dense, "parallel": keys})
