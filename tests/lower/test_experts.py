"""Mixtures of experts: work, routers, shared experts, and how few experts few tokens touch."""

from __future__ import annotations

from typing import Any

import pytest

from roofsim.graph.base import Phase
from roofsim.graph.ops import Copy, Gather, GroupedMatmul, Softmax, Sort
from roofsim.graph.tensor import BF16, FP32
from roofsim.memory.profile import profile
from roofsim.spec.model.transformer import DecoderModel
from tests.lower.test_decoder import LLAMA, SMALL, heavy, infer, load, parameters, step

SPARSE: dict[str, Any] = {**SMALL, **LLAMA, "num_experts": 8, "experts_per_token": 2, "expert_intermediate_size": 32}


def experts(graph):
    """Return the grouped matmuls of the forward pass."""
    return [op for op in graph if isinstance(op, GroupedMatmul) and op.phase is Phase.FORWARD]


def outputs(graph, leaf):
    """Return the first outputs of the forward ops whose names end so."""
    return [op.outputs[0] for op in graph if op.phase is Phase.FORWARD and op.name.endswith(leaf)]


def test_each_token_is_multiplied_by_its_own_experts_only():
    graph = step(DecoderModel(**SPARSE), 2.0, 32.0)
    tokens, taken, hidden, width = 64.0, 2.0, 64.0, 32.0
    assert sum(op.flops() for op in experts(graph)) == tokens * taken * 2.0 * hidden * width * 3.0


def test_active_parameters_of_the_published_models():
    # Parameters that one token multiplies with, embeddings included: what the model cards call active.
    for name, active in (
        ("mixtral-8x7b", 12879925248.0),
        ("deepseek-v3", 37552282624.0),
        ("deepseek-v2-lite", 2661150208.0),
    ):
        model = load(name)
        graph = infer(model, "forward", 1.0, 16.0)
        idle = 1.0 - float(model.experts_per_token) / float(model.num_experts)
        unused = sum(op.inputs[1].numel * op.count * idle for op in experts(graph))
        assert parameters(graph) - unused == pytest.approx(active, rel=1e-12)


def test_few_tokens_touch_few_experts():
    model = load("deepseek-v3")
    one, many = (experts(infer(model, "decode", batch, 1.0, 64.0))[0] for batch in (1.0, 4096.0))
    assert one.experts_touched() == pytest.approx(8.0, rel=0.02)
    assert many.experts_touched() == pytest.approx(256.0, rel=1e-6)
    assert one.bytes_read() < many.bytes_read() / 20.0


def test_dense_layers_come_first():
    graph = infer(DecoderModel(**SPARSE, num_dense_layers=1), "forward")
    assert [(block.name, block.repeat) for block in graph.blocks] == [("dense_layers", 1.0), ("layers", 3.0)]


@pytest.mark.parametrize(
    ("fields", "dtype"),
    [
        ({}, FP32),
        ({"router_weights_in_fp32": False}, BF16),
        ({"router_scores": "sigmoid"}, FP32),
        ({"router_scores": "softmax_of_top", "router_bias": True}, BF16),
        ({"router_in_fp32": True, "router_normalized": False, "router_scaled": True}, FP32),
    ],
)
def test_the_weighted_rows_take_the_type_of_the_weights(fields, dtype):
    graph = step(DecoderModel(**SPARSE, **fields))
    (weighted,) = outputs(graph, "combine.mul")
    assert weighted.dtype is dtype
    assert outputs(graph, "experts.down.matmul")[0].dtype is BF16
    assert {op.count for op in experts(graph)} == {4.0}


def test_groups_are_chosen_before_experts_and_leave_nothing_behind():
    grouped: dict[str, Any] = {
        "router_scores": "sigmoid",
        "router_correction_bias": True,
        "router_groups": 4,
        "router_groups_per_token": 2,
    }
    model = DecoderModel(**SPARSE, **grouped)
    graph = step(model)
    sorts = [op for op in graph if isinstance(op, Sort) and op.function == "topk"]
    assert [op.name.rsplit(".", 1)[1] for op in sorts] == ["best_two", "groups", "choice"]
    assert [op.outputs[0].shape[-1] for op in sorts] == [2.0, 2.0, 2.0]
    # Weights are gathered from the scores; the choice itself gets no gradient.
    assert [op for op in graph if isinstance(op, Gather) and op.name.endswith("router.chosen")]
    undone = {op.origin.name for op in graph if op.phase is Phase.BACKWARD and op.origin is not None}
    assert not [name for name in undone if name.endswith(("groups", "choice", "where"))]
    plain = step(DecoderModel(**SPARSE, router_scores="sigmoid"))
    tokens, layers = 64.0, 4.0
    # One more reciprocal sum and the chosen scores; the masks die with the router.
    assert profile(graph).saved_activations - profile(plain).saved_activations <= tokens * layers * 32.0


def test_shared_experts_are_one_wide_layer():
    plain = parameters(infer(DecoderModel(**SPARSE), "forward"))
    shared = DecoderModel(**SPARSE, num_shared_experts=2)
    gated = DecoderModel(**SPARSE, num_shared_experts=1, shared_expert_intermediate_size=64, shared_expert_gate=True)
    assert parameters(infer(shared, "forward")) - plain == 4.0 * 3.0 * 64.0 * 64.0
    assert parameters(infer(gated, "forward")) - plain == 4.0 * (3.0 * 64.0 * 64.0 + 64.0)


def test_biases_are_picked_per_row():
    graph = step(DecoderModel(**SPARSE, expert_bias=True, router_bias=True, gate="clamped"))
    picked = [op for op in graph if isinstance(op, Gather) and op.name.endswith(".bias")]
    assert [op.outputs[0].shape for op in picked] == [(128.0, 64.0), (128.0, 64.0)]
    assert heavy(graph, Phase.BACKWARD) > 2.0 * heavy(graph)


MIXED = {**SPARSE, "router_scores": "sparse_mixer", "router_normalized": False, "expert_input_jitter": "twice"}


def test_sparse_mixer_takes_one_expert_a_round_and_no_kernel_chooses_at_once():
    graph = infer(DecoderModel(**MIXED), "forward")
    mixer = [op for op in graph if ".sparse_mixer." in op.name]
    assert sum(isinstance(op, Softmax) for op in mixer) == 2
    assert not any(isinstance(op, Sort) and op.function == "topk" for op in graph)
    assert [op.outputs[0].shape for op in mixer if isinstance(op, Copy)] == [(64.0, 2.0)] * 2
    assert not outputs(graph, "experts.noise"), "noise is of training alone"
    with pytest.raises(ValueError, match="takes 2 experts_per_token, not 4"):
        DecoderModel(**{**MIXED, "experts_per_token": 4})


def test_sparse_mixer_estimates_the_gradient_of_its_scores():
    graph = step(DecoderModel(**MIXED))
    mixer = [op for op in graph if ".sparse_mixer." in op.name and op.phase is Phase.BACKWARD]
    assert not any("softmax" in op.name for op in mixer), "nothing flows back through the softmax"
    assert sum(isinstance(op, Gather) for op in mixer) == 2
    noises = [op for op in graph if op.phase is Phase.FORWARD and op.name.startswith("layers.experts.noise")]
    assert [op.outputs[0].shape for op in noises] == [(64.0, 64.0)] * 2
    kept = (
        profile(graph).saved_activations
        - profile(step(DecoderModel(**{**MIXED, "expert_input_jitter": "none"}))).saved_activations
    )
    assert kept == 4.0 * 2.0 * 64.0 * 64.0 * 2.0


def test_scores_keep_the_compute_type_where_the_model_says_so():
    for wide, dtype in ((True, FP32), (False, BF16)):
        graph = step(DecoderModel(**SPARSE, router_scores_in_fp32=wide, router_weights_in_fp32=False))
        assert outputs(graph, "router.softmax")[0].dtype is dtype


@pytest.mark.parametrize("fused", [True, False])
def test_clipped_projections_keep_what_they_bound(fused):
    fields = {**SMALL, **LLAMA, "num_key_value_heads": 2, "fused_query_key_value": fused}
    clipped, plain = (step(DecoderModel(**fields, clipped_query_key_value=clips)) for clips in (True, False))
    kept = profile(clipped).saved_activations - profile(plain).saved_activations
    assert kept == 4.0 * 64.0 * (64.0 + 32.0 + 32.0) * 2.0
