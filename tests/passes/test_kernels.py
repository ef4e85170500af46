"""Passes that turn the ops of a layer into the kernels that an engine launches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roofsim.graph.component import Purpose
from roofsim.graph.ops import Elementwise, Matmul, View
from roofsim.graph.tensor import DTYPES
from roofsim.graph.text import listing
from roofsim.lower.dispatch import lower
from roofsim.lower.of_scenario import call_of
from roofsim.lower.shares import Shares
from roofsim.passes.kernels.gated_activations import GateActivations
from roofsim.passes.kernels.projections import MergeProjections
from roofsim.passes.manager import run_passes
from roofsim.passes.precision import AssignPrecision
from roofsim.spec.precision.formats import weight_format
from tests.scenarios import TINY_EXPERTS, TINY_LLAMA, graph_of, resolved

MERGE = MergeProjections(into=frozenset({Purpose.QUERY_KEY_VALUE, Purpose.QUERY_KEY_VALUE_DOWN, Purpose.GATE_UP}))
TYPES = AssignPrecision(compute=DTYPES["bf16"], parameters=DTYPES["bf16"])

#: Pass -> the model and phase on which it shows, and the passes before it.
CASES = {
    "merge_projections": (MERGE, TINY_LLAMA, "prefill", []),
    "gate_activations": (GateActivations(), TINY_LLAMA, "prefill", [MERGE]),
}
SIZES = {
    "prefill": {"phase": "prefill", "batch_size": 2, "prompt_length": 32},
    "decode": {"phase": "decode", "batch_size": 2, "context_length": 32},
}


def lowered(model, phase, engine="vllm", **more):
    found = resolved(model, engine=engine, **SIZES[phase], **more)
    return lower(found.model, call_of(found, phase, 33.0 if phase == "decode" else 0.0))


def of_layers(graph):
    """Return the listing of what repeats: the rest is the same before and after."""
    head, *lines = listing(graph).splitlines()
    return "\n".join([head, *(line for line in lines if "layers." in line)]) + "\n"


@pytest.mark.parametrize("name", CASES)
def test_listing_before_and_after(name, golden):
    transform, model, phase, before = CASES[name]
    first = run_passes(lowered(model, phase), before)
    after = run_passes(first, [transform])
    golden(f"pass_{name}.txt", f"before {name}\n{of_layers(first)}\nafter {name}\n{of_layers(after)}")


@pytest.mark.parametrize("name", CASES)
def test_a_second_time_changes_nothing(name):
    transform, model, phase, before = CASES[name]
    once = run_passes(lowered(model, phase), [*before, transform])
    assert listing(run_passes(once, [transform])) == listing(once)


def matmuls(graph, purpose):
    return [op for op in graph if isinstance(op, Matmul) and op.purpose is purpose]


@pytest.mark.parametrize(
    "model", ["llama3-8b", "deepseek-v2-lite", "deepseek-v3", "falcon-7b", "bert-base", "whisper-small"]
)
def test_merging_changes_no_parameters_and_no_flops(model):
    found = resolved(model, phase="forward", engine="huggingface", precision="bf16")
    graph = lower(found.model, call_of(found, "forward"))
    after = run_passes(graph, [MERGE])
    for amount in (lambda op: op.flops(), lambda op: op.model_flops()):
        assert after.total(amount) == pytest.approx(graph.total(amount), rel=1e-12)
    sizes = [sum(tensor.numel * copies for tensor, copies in one.parameters().items()) for one in (graph, after)]
    assert sizes[0] == sizes[1]


def test_merged_results_are_views_of_one_buffer():
    graph = run_passes(lowered(TINY_LLAMA, "prefill"), [MERGE])
    (product,) = matmuls(graph, Purpose.QUERY_KEY_VALUE)
    (split,) = graph.readers[product.outputs[0]]
    assert isinstance(split, View)
    assert [tensor.base for tensor in split.outputs] == [product.outputs[0]] * 3
    assert [part for part, _ in product.merges] == [Purpose.QUERY, Purpose.KEY, Purpose.VALUE]


def test_shared_heads_count_once_in_the_work_of_the_model():
    """Two of the four ranks hold the same key-value head: each multiplies with it, the model does so once."""
    found = resolved(TINY_LLAMA, engine="vllm", **SIZES["prefill"])
    call = replace(call_of(found, "prefill"), shares=Shares(tensor=4.0))
    graph = lower(found.model, call)
    after = run_passes(graph, [MERGE])
    (product,) = matmuls(after, Purpose.QUERY_KEY_VALUE)
    assert product.repeated == 48.0 / 32.0
    assert after.total(lambda op: op.model_flops()) == pytest.approx(graph.total(lambda op: op.model_flops()))


def test_weights_that_a_format_stores_differently_stay_apart():
    """q4_k_m gives values more bits than queries and keys, and gate and up the same."""
    graph = lowered(TINY_LLAMA, "prefill")
    own = MergeProjections(into=MERGE.into, weights=weight_format("q4_k_m"))
    after = run_passes(graph, [own])
    assert matmuls(after, Purpose.VALUE)
    assert [len(op.merges) for op in matmuls(after, Purpose.QUERY_KEY_VALUE)] == [2]
    assert [len(op.merges) for op in matmuls(after, Purpose.GATE_UP)] == [2]


def test_projections_of_different_inputs_stay_apart():
    """A decoder's queries look at other tokens than the encoder's keys and values, which are one matrix."""
    found = resolved("t5-base", phase="forward", engine="huggingface")
    graph = run_passes(lower(found.model, call_of(found, "forward")), [MERGE])
    crossed = [op for op in graph if isinstance(op, Matmul) and op.within(Purpose.CROSS_ATTENTION) and op.merges]
    assert {tuple(part for part, _ in op.merges) for op in crossed} == {(Purpose.KEY, Purpose.VALUE)}


def test_a_gate_of_two_tensors_reads_both():
    graph = run_passes(lowered(TINY_LLAMA, "prefill"), [GateActivations()])
    (gated,) = (op for op in graph if isinstance(op, Elementwise) and op.function == "gated")
    assert len(gated.inputs) == 2
    assert not [op for op in graph if isinstance(op, Elementwise) and op.function == "silu"]


@pytest.mark.parametrize("facts", [["gated_activation"], ["gate_up", "gated_activation"], ["qkv", "gate_up"]])
def test_training_differentiates_what_was_merged(facts):
    graph = graph_of(TINY_EXPERTS, engine="megatron-core", sequence_length=32, engine_facts={"fusion": facts})
    names = {op.name for op in graph}
    assert ("qkv" in facts) is any("query_key_value.matmul.weight_gradient" in name for name in names)
    trained = [tensor for tensor in graph.parameters() if tensor.requires_grad]
    assert len(trained) == len(set(trained)) > 0
