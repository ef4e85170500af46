"""Hold the partitioner of compiled steps to what it must leave alone, and its cut to networkx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofsim
from roofsim.graph.base import HEAVY_KINDS, Phase
from roofsim.graph.cut import FlowNetwork
from roofsim.graph.ops import Dropout, Fused, Matmul, Normalization, Pool, Softmax
from roofsim.graph.tensor import BF16, FP8, FP32, INT8
from roofsim.lower.call import Call
from roofsim.lower.dispatch import lower
from roofsim.lower.flavour import Flavour
from roofsim.memory.profile import profile
from roofsim.passes.autograd import Autograd
from roofsim.passes.fusion import FusePointwise
from roofsim.passes.manager import run_passes
from roofsim.passes.partition import Partition
from roofsim.passes.precision import AssignPrecision
from roofsim.passes.recompute import Recompute
from roofsim_evidence.exactness.oracle import model
from tests.surely import sure

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph

LANGUAGE = ("gpt2_124m", "bert_base", "llama_1b", "mixtral_tiny")
VISION = ("resnet50", "vit_b16", "swin_tiny")


def typed(name, *, amp=True, attention="sdpa"):
    flavour = Flavour.of(attention=attention, rms_norm="chain", gelu_new="chain", rotary="chain")
    length: dict[str, Any] = {"length": 256.0} if name in LANGUAGE else {"length": 224.0}
    call = Call(batch=2.0, compute=BF16, autocast=amp, flavour=flavour, **length)
    stored = FP32 if amp else BF16
    return AssignPrecision(compute=BF16, parameters=stored, autocast=amp)(lower(model(name), call))


def added(eager: OpGraph, cut: OpGraph) -> list[AbstractOp]:
    """Return what the backward pass computes again."""
    names = {op.name for op in eager}
    return [op for op in cut if op.name not in names]


def heavy_flops(graph: OpGraph) -> float:
    return float(graph.total(lambda op: op.flops() if op.group in HEAVY_KINDS else 0.0))


@pytest.mark.parametrize("amp", [True, False], ids=["amp", "bf16"])
@pytest.mark.parametrize("name", [*LANGUAGE, *VISION])
def test_less_is_kept_and_nothing_heavy_runs_twice(name, amp):
    eager = Autograd()(typed(name, amp=amp))
    cut = Partition()(eager).verify()
    assert heavy_flops(cut) == heavy_flops(eager)
    before, after = profile(eager), profile(cut)
    # A loss of few classes keeps its logits' largest and sum beside them.
    assert after.saved_activations <= before.saved_activations * 1.001
    assert {op.phase for op in added(eager, cut)} == {Phase.BACKWARD}
    assert {sure(op.origin).phase for op in added(eager, cut)} == {Phase.FORWARD}
    assert all(op.group not in HEAVY_KINDS for op in added(eager, cut))
    gradients = [sum(t.numel * op.count for op in g for t in op.outputs if t.role == "gradient") for g in (eager, cut)]
    assert gradients[0] == gradients[1]


@pytest.mark.parametrize("name", [*LANGUAGE, *VISION])
def test_what_is_computed_again_needs_no_memory_of_its_own(name):
    """Merged with its readers, it never reaches memory: the peak is below that of a step that keeps everything."""
    eager = Autograd()(typed(name))
    all_kept, cut = FusePointwise()(eager), run_passes(eager, [Partition(), FusePointwise()])
    assert profile(cut).peak <= profile(all_kept).peak
    moved = [float(g.total(lambda op: op.bytes_read() + op.bytes_written())) for g in (all_kept, cut)]
    assert moved[1] <= moved[0] * 1.001
    again = {op.name for op in added(eager, Partition()(eager)) if op.kind not in ("gather", "view")}
    merged = {part.name for op in cut if isinstance(op, Fused) for part in op.parts}
    assert len(again - merged) <= 0.1 * len(again)


def test_random_masks_and_statistics_are_kept():
    eager = Autograd()(typed("bert_base", attention="unfused"))
    cut = Partition()(eager)
    made = {tensor: op for op in cut if op.phase is Phase.FORWARD for tensor in op.outputs}
    read = {tensor for op in cut if op.phase is not Phase.FORWARD for tensor in op.inputs}
    for op in cut:
        if op.phase is Phase.FORWARD and isinstance(op, Dropout):
            assert op.outputs[1] in read
        if op.phase is Phase.FORWARD and isinstance(op, Normalization):
            assert read.issuperset(op.outputs[1:])
    assert not any(isinstance(op, Dropout | Normalization | Softmax) for op in added(eager, cut))
    assert any(
        isinstance(made[tensor], Softmax) and len(made[tensor].outputs) == 3 for tensor in read if tensor in made
    )


def test_pooled_windows_keep_one_byte_per_element():
    cut = Partition()(Autograd()(typed("resnet50")))
    pools = [op for op in cut if isinstance(op, Pool) and op.function == "max"]
    assert [len(op.inputs) for op in pools if op.backward] == [2]
    assert [op.outputs[1].dtype for op in pools if not op.backward] == [INT8]


def test_checkpointed_layers_keep_what_their_checkpoint_says():
    checkpointed = Recompute()(Autograd()(typed("llama_1b", amp=False)))
    cut = Partition()(checkpointed)
    inside = [[op.name for op in g if op.block is not None] for g in (checkpointed, cut)]
    assert inside[0] == inside[1]
    assert profile(cut).saved_activations < profile(checkpointed).saved_activations  # the loss, behind the layers


def test_operands_in_fp8_are_kept_in_fp8():
    """Where eager code converts a kept wide operand again, one conversion serves both passes; weights are converted twice."""
    flavour = Flavour.of(rms_norm="fused", rotary="fused")
    graph = lower(model("llama_1b"), Call(batch=1.0, compute=BF16, flavour=flavour, length=256.0))
    graph = AssignPrecision(compute=BF16, parameters=BF16, math=FP8, operands=FP8)(graph)
    eager = Autograd(casts_again=True)(graph)
    cut = Partition()(eager)
    made = {tensor: op for op in cut for tensor in op.outputs}
    products = [op for op in cut if isinstance(op, Matmul) and op.phase is Phase.BACKWARD and op.math is FP8]
    kept = [t for op in products for t in op.inputs if t.dtype.narrow and made[t].phase is Phase.FORWARD]
    assert len(kept) == len([op for op in products if any(t.role == "gradient" for t in op.outputs)]) > 0
    again = [made[t] for op in products for t in op.inputs if t.dtype.narrow and made[t].phase is Phase.BACKWARD]
    assert any(op.inputs[0].role == "parameter" for op in again)
    assert profile(cut).saved_activations < 0.8 * profile(eager).saved_activations


def test_layers_alone():
    eager = Autograd()(typed("llama_1b", amp=False))
    cut = Partition(only_layers=True)(eager)
    outside = [[op for op in g if op.block is None] for g in (eager, cut)]
    assert outside[0] == outside[1]
    assert (
        profile(Partition()(eager)).saved_activations
        < profile(cut).saved_activations
        < profile(eager).saved_activations
    )


def test_an_engine_says_whether_it_cuts():
    scenario: dict[str, Any] = {
        "model": "gpt2-124m",
        "hardware": {"gpu": "a100"},
        "workload": {"micro_batch_size": 8, "precision": "bf16-amp", "engine": "pytorch-compile"},
    }
    kept = {}
    for how in ("autograd", "min_cut"):
        changed = {**scenario, "workload": {**scenario["workload"], "engine_facts": {"backward_reads": how}}}
        kept[how] = roofsim.run(changed).to_dict()
    assert kept["min_cut"] == roofsim.run(scenario).to_dict() | {"scenario": kept["min_cut"]["scenario"]}
    assert kept["min_cut"]["memory"]["saved_activations"] < 0.6 * kept["autograd"]["memory"]["saved_activations"]
    assert kept["min_cut"]["memory"]["peak"] < 0.7 * kept["autograd"]["memory"]["peak"]
    assert kept["min_cut"]["step_time"] < kept["autograd"]["step_time"]


@pytest.mark.parametrize("attention", ["flash", "unfused"])
def test_attention_that_is_computed_again_leaves_the_rest_to_the_cut(attention):
    workload = {"precision": "bf16", "engine": "pytorch-compile", "attention": attention}
    saved = {}
    for policy in ("none", "selective", "full"):
        scenario: dict[str, Any] = {
            "model": "llama3-8b",
            "hardware": {"gpu": "h100"},
            "workload": {**workload, "recompute": policy},
        }
        saved[policy] = roofsim.run(scenario).to_dict()["memory"]["saved_activations"]
    assert saved["full"] < 0.2 * saved["selective"]
    assert saved["selective"] <= saved["none"]


def test_points_of_a_sweep_are_cut_one_by_one():
    """Whether unfused scores are cheaper than what they are made of depends on the length: each row is its own run."""
    workload = {"precision": "bf16-amp", "engine": "pytorch-compile", "attention": "unfused"}
    scenario: dict[str, Any] = {"model": "gpt2-124m", "hardware": {"gpu": "a100"}, "workload": workload}
    axes = {"workload.micro_batch_size": [1, 8], "workload.sequence_length": [16, 64, 1024]}
    for row in roofsim.sweep(scenario, axes).to_rows():
        own = {key.removeprefix("workload."): row[key] for key in axes}
        one = roofsim.run({**scenario, "workload": {**workload, **own}})
        assert row["step_time"] == pytest.approx(one.step_time, rel=1e-9)
        assert row["memory.peak"] == pytest.approx(one.to_dict()["memory"]["peak"], rel=1e-9)


EDGES = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(1, 9)), min_size=1, max_size=25)


@given(edges=EDGES)
def test_the_cut_is_a_minimum_one(edges):
    network = FlowNetwork(8)
    graph: Any = nx.DiGraph()
    graph.add_nodes_from(range(8))
    for tail, head, capacity in edges:
        if tail != head:
            network.connect(tail, head, float(capacity))
            before = graph.get_edge_data(tail, head, {"capacity": 0})["capacity"]
            graph.add_edge(tail, head, capacity=before + capacity)
    behind = network.behind_the_cut(0, 7)
    assert behind[7]
    assert not behind[0]
    size = sum(c["capacity"] for tail, head, c in graph.edges(data=True) if not behind[tail] and behind[head])
    assert size == nx.minimum_cut_value(graph, 0, 7)
