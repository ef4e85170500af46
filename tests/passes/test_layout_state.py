"""What a layout leaves on one rank: parameters, gradients, optimizer state, saved activations, in published closed forms."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from roofsim.api import answer, resolve
from roofsim.evaluate import evaluate
from roofsim.graph.ops import Collective
from roofsim.graph.tensor import Role
from roofsim.memory.profile import profile
from tests.scenarios import TINY, TINY_EXPERTS, TINY_LLAMA, spread

#: No buffers and nothing shared: every byte is a parameter's, a gradient's or the optimizer's.
PLAIN = TINY | {"num_layers": 8, "num_attention_heads": 8, "tie_embeddings": False}
LLAMA = TINY_LLAMA | {"num_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 8}


def state(evaluation):
    """Bytes of parameters, gradients and optimizer state of each kind of stage, when all gradients are there."""
    stages = []
    for stage in evaluation.program.stages:
        live = profile(stage.graph, granule=1.0).phase_live["optimizer"]
        stages.append({name: live[name] for name in ("parameters", "gradients", "optimizer_state")})
    return stages


def parameters(evaluation):
    """The parameters of one rank of each kind of stage, by name, with how many such stages there are."""
    return [
        (
            {t.name: t.numel * n for t, n in stage.graph.parameters().items() if t.role is Role.PARAMETER},
            stage.positions,
        )
        for stage in evaluation.program.stages
    ]


# -- ZeRO ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [2, 4, 8, 64])
@pytest.mark.parametrize(
    ("level", "whole", "shared"), [("none", 16, 0), ("optimizer", 4, 12), ("gradients", 2, 14), ("full", 0, 16)]
)
def test_bytes_of_sharded_state(ranks, level, whole, shared):
    """Mixed-precision Adam takes 2 + 2 + 12 bytes a parameter, of which ZeRO shares out K, 2 + K, all (arXiv 1910.02054, 3)."""
    evaluation = spread(
        PLAIN, {"data": ranks, "sharding": level}, precision="fp16", engine="deepspeed", global_batch_size=ranks
    )
    (parts,) = state(evaluation)
    count = sum(sum(names.values()) for names, _ in parameters(spread(PLAIN, {}, precision="fp16")))
    assert sum(parts.values()) == pytest.approx(count * (whole + shared / ranks), rel=1e-9)


@pytest.mark.parametrize(("expert", "ranks"), [(1, {8.0}), (4, {8.0, 2.0}), (8, {8.0})])
def test_updated_experts_are_gathered_from_the_ranks_that_hold_the_same(expert, ranks):
    """Megatron's distributed optimizer has a data-parallel group for experts of its own; a single holder needs no gather."""
    evaluation = spread(TINY_EXPERTS, {"data": 8, "expert": expert, "sharding": "optimizer"}, global_batch_size=8)
    graph = evaluation.program.stages[0].graph
    gathers = [op for op in graph if isinstance(op, Collective) and op.name.startswith("gather.updated")]
    held = graph.parameters()
    experts = sum(t.bytes * n for t, n in held.items() if ".experts." in t.name and len(t.shape) == 3)
    whole = sum(t.bytes * n for t, n in held.items() if t.role is Role.PARAMETER)
    assert {op.ranks for op in gathers} == ranks
    assert [op.ranks for op in gathers if op.of_experts] == [rank for rank in ranks if rank == 8.0 / expert != 8.0]
    assert sum(op.message() for op in gathers) == pytest.approx(whole - (experts if expert == 8 else 0.0))


@pytest.mark.parametrize(("expert", "holders"), [(1, 8.0), (4, 2.0), (8, 1.0)])
def test_fully_sharded_experts_are_shared_by_the_ranks_that_hold_them(expert, holders):
    """Gathers and reductions of experts alike; where one rank holds them, nothing is reduced and shards are whole."""
    evaluation = spread(TINY_EXPERTS, {"data": 8, "expert": expert, "sharding": "full"}, global_batch_size=8)
    graph = evaluation.program.stages[0].graph
    reduced = {op.ranks for op in graph if isinstance(op, Collective) and op.of_experts and "reduce" in op.name}
    assert reduced == ({holders} if holders > 1.0 else set())
    (alone,) = state(spread(TINY_EXPERTS, {}, global_batch_size=1))
    (parts,) = state(evaluation)
    # Whatever the layout, all ranks together hold every parameter once, and some tables each.
    assert parts["parameters"] * 8 == pytest.approx(alone["parameters"], rel=1e-3)
    assert parts["gradients"] * 8 == pytest.approx(alone["gradients"], rel=1e-3)


def test_hybrid_shards_of_experts_that_are_not_dealt_out_are_those_of_all_else():
    evaluation = spread(TINY_EXPERTS, {"data": 8, "sharding": {"full": 4}}, global_batch_size=8)
    graph = evaluation.program.stages[0].graph
    ranks = {(op.group_of, op.ranks) for op in graph if isinstance(op, Collective)}
    assert ranks == {("data", 4.0), ("replica", 2.0)}
    dense = {op.of_experts for op in graph if isinstance(op, Collective) and op.group_of == "replica"}
    assert dense == {True, False}


def collectives(layout, **workload):
    evaluation = spread(PLAIN, layout, precision="bf16", engine="megatron-core", global_batch_size=16, **workload)
    return evaluation, [op for op in evaluation.program.stages[0].graph if isinstance(op, Collective)]


@pytest.mark.parametrize("group", [2, 4, 8])
def test_optimizer_state_in_groups_is_reduced_inside_and_summed_across(group):
    """Megatron's num-distributed-optimizer-instances: a reduce-scatter, an all-reduce of the part, a gather inside groups."""
    evaluation, ops = collectives({"data": 16, "sharding": {"optimizer": group}})
    count = sum(sum(names.values()) for names, _ in parameters(evaluation))
    (held,) = state(evaluation)
    assert held["optimizer_state"] == pytest.approx(12 * count / group, rel=1e-9)
    assert held["gradients"] == pytest.approx(4 * count, rel=1e-9)
    sent: dict[Any, Any] = {}
    for op in ops:
        key = (op.function, op.group_of, op.ranks)
        sent[key] = sent.get(key, 0.0) + op.message() * op.count
    assert sent == {
        ("reduce_scatter", "data", group): pytest.approx(4 * count),
        ("all_reduce", "replica", 16 / group): pytest.approx(4 * count / group),
        ("all_gather", "data", group): pytest.approx(2 * count),
    }


def test_optimizer_state_in_one_group_is_that_of_all_ranks():
    (whole, plain), (grouped, ops) = (
        collectives({"data": 16, "sharding": s}) for s in ("optimizer", {"optimizer": 16})
    )
    assert [(op.function, op.group_of, op.message()) for op in ops] == [
        (op.function, op.group_of, op.message()) for op in plain
    ]
    assert answer(grouped).step_time == pytest.approx(answer(whole).step_time, rel=1e-12)


def test_groups_within_a_node_spare_the_network():
    """What leaves a node falls to an eighth, and no ring grows with the ranks of the run: 0.4 s of BERT over 3,472 ranks."""
    steps = {}
    for sharding in ("none", "optimizer", {"optimizer": 8}):
        request = {"precision": "bf16", "engine": "megatron-core", "sequence_length": 512, "micro_batch_size": 2}
        evaluation = spread("bert-large", {"data": 3472, "sharding": sharding}, gpu="h100", optimizer="lamb", **request)
        steps[str(sharding)] = evaluation.step
    whole, groups, ring = steps["none"], steps["{'optimizer': 8}"], steps["optimizer"]
    assert groups.breakdown["optimizer"] < 0.2 * whole.breakdown["optimizer"]
    # One all-reduce overlaps its two levels; a group scatters, then reduces across nodes, and gathers after the update. That
    # takes what the update saves, and no more.
    assert groups.breakdown["exposed_communication"] > whole.breakdown["exposed_communication"]
    assert groups.step <= 1.01 * whole.step
    assert groups.step < 0.75 * ring.step


@settings(max_examples=20)
@given(
    st.fixed_dictionaries(
        {
            "data": st.sampled_from([1, 2, 4]),
            "tensor": st.sampled_from([1, 2, 4]),
            "pipeline": st.sampled_from([1, 2, 4]),
            "sequence": st.booleans(),
            "sharding": st.sampled_from(["none", "optimizer", "gradients", "full"]),
        }
    ),
    st.sampled_from(["data", "tensor", "pipeline"]),
    st.sampled_from(["megatron-core", "deepspeed", "torchtitan", "megatron-lm"]),
)
def test_more_ranks_of_any_kind_never_hold_more(layout, grown, engine):
    request = {"precision": "bf16", "engine": engine, "global_batch_size": 16, "sequence_length": 64}
    before, after = (state(spread(LLAMA, one, **request)) for one in (layout, layout | {grown: 2 * layout[grown]}))
    for name in before[0]:
        assert max(stage[name] for stage in after) <= max(stage[name] for stage in before) * (1 + 1e-9), name


@pytest.mark.parametrize("engine", ["megatron-core", "deepspeed", "torchtitan", "megatron-lm"])
@pytest.mark.parametrize("layout", [{"data": 2}, {"data": 4, "tensor": 2}, {"data": 2, "pipeline": 2}], ids=str)
def test_each_level_of_sharding_takes_less(engine, layout):
    """Of all together: with full sharding the master copy is the shard, so it counts as a parameter."""
    request = {"precision": "bf16", "engine": engine, "global_batch_size": 16, "sequence_length": 64}
    levels = ("none", "optimizer", "gradients", "full")
    totals = [
        max(sum(stage.values()) for stage in state(spread(LLAMA, layout | {"sharding": level}, **request)))
        for level in levels
    ]
    if engine == "torchtitan" and "pipeline" in layout:
        # FSDP2 keeps whole parameters and gradients between the micro batches of a pipeline.
        assert totals[-1] == totals[1]
        totals.pop()
    assert totals == sorted(totals, reverse=True)
    assert len(set(totals)) == len(totals)


# -- parameters ---------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 3, 4, 8]), st.booleans(), st.sampled_from([PLAIN, LLAMA]))
def test_parameters_of_all_ranks_are_those_of_the_model(tensor, pipeline, sequence, model):
    """Tensor ranks share out matrices and hold norms, positions and the biases behind a sum each for themselves."""
    evaluation = spread(
        model, {"tensor": tensor, "pipeline": pipeline, "sequence": sequence}, global_batch_size=8, sequence_length=64
    )
    ((whole, _),) = parameters(spread(model, {}, sequence_length=64))
    held: dict[str, float] = {}
    for names, positions in parameters(evaluation):
        for name, amount in names.items():
            held[name] = held.get(name, 0.0) + amount * positions
    assert set(held) == set(whole)
    replicated = ("norm.weight", "norm.bias", "position.weight", "positions.weight", "output.bias", "down.bias")
    for name, amount in whole.items():
        if name.endswith(replicated) and not name.endswith("up.bias"):
            assert held[name] == pytest.approx(amount), name
        else:
            assert held[name] * tensor == pytest.approx(amount), name


# -- saved activations --------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(
    st.sampled_from([1, 2, 4, 8]), st.booleans(), st.sampled_from([64, 128, 512]), st.sampled_from([8, 16, 64]),
    st.integers(1, 4),
)  # fmt: skip
def test_megatron_saves_what_its_paper_says(tensor, sequence, length, width, batch):
    """``s b h (34 + 5 a s / h)`` a layer, and 16 bytes a token of the norms' statistics (arXiv 2205.05198, equations 1, 2, 4)."""
    heads, hidden = 8, 8 * width
    model = PLAIN | {"hidden_size": hidden, "max_sequence_length": length, "dropout": 0.1}
    request = {"precision": "fp16", "engine": "megatron-lm", "sequence_length": length, "micro_batch_size": batch}
    layout = {"tensor": tensor, "sequence": sequence and tensor > 1}
    saved = [
        spread(model | {"num_layers": layers}, layout, **request).profiles[0].saved_activations for layers in (2, 3)
    ]
    scores = 5 * heads * length
    if layout["sequence"]:
        expected = (34 * hidden + scores + 16) / tensor
    else:
        expected = 10 * hidden + 24 * hidden / tensor + scores / tensor + 16
    assert saved[1] - saved[0] == length * batch * expected


@settings(max_examples=25)
@given(
    st.integers(2, 6), st.sampled_from(["selective", "full"]), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2]),
    st.booleans(), st.sampled_from(["megatron-core", "deepspeed", "torchtitan"]),
)  # fmt: skip
def test_recomputation_never_saves_more(layers, policy, tensor, pipeline, sequence, engine):
    assume(layers >= 2 * pipeline)
    layout = {"tensor": tensor, "pipeline": pipeline, "sequence": sequence}
    request = {"precision": "bf16", "engine": engine, "sequence_length": 64, "global_batch_size": 4}
    plain, again = (
        spread(LLAMA | {"num_layers": layers}, layout, recompute=recompute, **request) for recompute in ("none", policy)
    )
    for before, after in zip(plain.profiles, again.profiles, strict=True):
        assert after.saved_activations <= before.saved_activations


@pytest.mark.parametrize("sharding", ["gradients", "full"])
def test_a_matrix_used_three_times_is_reduced_once(sharding):
    """T5 reads one matrix in the encoder, the decoder and the head; its gradient is the sum of three."""
    request = {"model": "t5-base", "parallel": {"data": 4, "sharding": sharding}, "workload": {"global_batch_size": 8}}
    graph = evaluate(resolve(request)).program.stages[0].graph
    reduced = [t.name for op in graph if op.name.startswith("data.reduce") for t in op.inputs]
    assert reduced.count("embedding.weight.grad") == 1


@pytest.mark.parametrize("sharding", ["optimizer", "gradients", "full", {"full": 2}])
@pytest.mark.parametrize("engine", ["pytorch-eager", "megatron-lm", "megatron-core", "torchtitan"])
def test_gradients_are_sharded_without_an_update(sharding, engine):
    request = {"engine": engine, "optimizer": "none", "sequence_length": 64, "global_batch_size": 8}
    evaluation = spread(LLAMA, {"data": 4, "sharding": sharding}, **request)
    assert any(op.name.startswith("data.reduce") for op in evaluation.program.stages[0].graph)
    assert float(evaluation.step.breakdown["optimizer"]) == 0.0
