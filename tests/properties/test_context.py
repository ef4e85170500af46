"""Laws of context parallelism: in each form work is conserved, ranks send what the form says, and memory adds up."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofsim.analyze.ledger import memory_of
from roofsim.analyze.work import flops_of, parameters_of
from roofsim.api import resolve
from roofsim.errors import SpecError
from roofsim.graph.ops import Attention, Collective
from tests.properties.swept import compare
from tests.scenarios import TINY_LLAMA, spread

MODEL = TINY_LLAMA | {"num_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8, "head_size": 16}
ENCODER = {"family": "encoder", "num_layers": 2, "hidden_size": 64, "num_attention_heads": 8, "vocab_size": 128}
FORMS = ("p2p", "all_gather", "gathered_ring", "a2a", "a2a+p2p")
SIZES = {"sequence_length": 64, "global_batch_size": 4, "micro_batch_size": 1, "precision": "bf16"}
#: Bytes of keys, of values and of queries of the whole sequence in one layer: tokens x heads x size x 2 bytes.
WHOLE = 64 * 8 * 16 * 2


def run(form, context=4, model=MODEL, engine="megatron-core", tensor=1, **workload):
    layout = {"context": context, "context_communication": form, "tensor": tensor}
    if form == "a2a+p2p":
        layout["context_heads"] = 2
    return spread(model, layout, engine=engine, **(SIZES | workload))


def sent(evaluation, phase):
    """Bytes and messages of a context rank in one layer and phase, by function."""
    (stage,) = evaluation.program.stages
    amounts: dict[str, Any] = {}
    for op in stage.graph:
        if isinstance(op, Collective) and op.group_of in ("context", "context_ring") and op.phase == phase:
            amounts[op.function] = amounts.get(op.function, 0.0) + op.message() * op.steps
    return amounts


@settings(max_examples=25)
@given(
    st.sampled_from(FORMS), st.sampled_from([2, 4]), st.sampled_from([1, 2]), st.sampled_from(["none", "selective", "full"]),
    st.sampled_from(["megatron-core", "torchtitan", "pytorch-eager"]), st.booleans(),
)  # fmt: skip
def test_flops_and_parameters_are_those_of_one_device(form, context, tensor, recompute, engine, shared):
    model = MODEL | {"num_key_value_heads": 4} if shared and context * tensor <= 4 else MODEL
    alone = spread(model, {}, engine=engine, recompute=recompute, **SIZES)
    together = run(form, context, engine=engine, tensor=tensor, recompute=recompute, model=model)
    for flops, expected in zip(flops_of(together), flops_of(alone), strict=True):
        assert flops == pytest.approx(expected, rel=1e-12)
    assert parameters_of(together) == pytest.approx(parameters_of(alone))
    memory = memory_of(together)
    assert sum(memory.components.values()) == pytest.approx(memory.device_total, rel=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_encoders_see_everything_on_every_rank(form):
    alone = spread(ENCODER, {}, engine="megatron-core", **SIZES)
    together = run(form, model=ENCODER)
    assert flops_of(together) == pytest.approx(flops_of(alone), rel=1e-12)


@pytest.mark.parametrize(
    ("form", "engine", "forward", "backward"),
    [
        # c - 1 blocks of keys and values; backward these again, and once round the gradients of both.
        ("p2p", "megatron-core", {"ring": 2 * WHOLE / 4 * 3}, {"ring": 2 * WHOLE / 4 * (3 + 4)}),
        # What a gather makes, what a reduce-scatter takes.
        ("all_gather", "megatron-core", {"all_gather": 2 * WHOLE}, {"all_gather": 2 * WHOLE, "reduce_scatter": 2 * WHOLE}),
        # Gradients travel in fp32.
        ("gathered_ring", "torchtitan", {"all_gather": 2 * WHOLE}, {"all_gather": 2 * WHOLE, "ring": 4 * WHOLE}),
        # A rank's part of queries, keys, values and result.
        ("a2a", "megatron-core", {"all_to_all": WHOLE}, {"all_to_all": WHOLE}),
        # The same, then a ring of two blocks, each of half the tokens and half the heads.
        (
            "a2a+p2p", "megatron-core", {"all_to_all": WHOLE, "ring": 2 * WHOLE / 4},
            {"all_to_all": WHOLE, "ring": 2 * WHOLE / 4 * (1 + 2)},
        ),
    ],
)  # fmt: skip
def test_bytes_that_a_rank_sends(form, engine, forward, backward):
    evaluation = run(form, engine=engine)
    assert sent(evaluation, "forward") == pytest.approx(forward)
    assert sent(evaluation, "backward") == pytest.approx(backward)


def test_recomputation_sends_the_blocks_again():
    evaluation = run("p2p", recompute="full")
    assert sent(evaluation, "recompute") == pytest.approx({"ring": 2 * WHOLE / 4 * 3})
    assert sent(evaluation, "backward") == sent(run("p2p"), "backward")


def test_shared_heads_travel_as_they_are_or_written_out():
    """PyTorch's models repeat keys and values before attention, so that all heads travel."""
    model = MODEL | {"num_key_value_heads": 2}
    narrow, wide = (run("gathered_ring", engine=engine, model=model) for engine in ("megatron-core", "torchtitan"))
    assert sent(wide, "forward")["all_gather"] == 4.0 * sent(narrow, "forward")["all_gather"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("engine", ["megatron-core", "torchtitan"])
def test_kernels_execute_half_of_a_causal_matrix(form, engine):
    """Between all ranks, whichever way heads are shared and keys travel."""
    model = MODEL | {"num_key_value_heads": 4}
    (stage,) = run(form, model=model, engine=engine).program.stages
    for op in stage.graph:
        if isinstance(op, Attention):
            assert op.executed_flops() / op.flops() == pytest.approx(0.5 + 0.5 / 64)


def test_gradients_travel_and_are_made_in_the_shape_of_one_block():
    (stage,) = run("p2p").program.stages
    kernel = next(op for op in stage.graph if isinstance(op, Attention) and op.backward)
    assert [tensor.numel for tensor in kernel.outputs] == [WHOLE / 2 / 4] * 3
    assert kernel.merged_bytes() > 0


@pytest.mark.parametrize("context", [2, 4])
def test_the_last_rank_sees_most_without_balance(context):
    even = run("p2p", context)
    uneven = run("p2p", context, engine_facts={"context_balance": "none"})
    executed = []
    for evaluation in (even, uneven):
        (stage,) = evaluation.program.stages
        executed.append(next(op for op in stage.graph if isinstance(op, Attention)).executed_flops())
    # Of s rows the last s/c see s - s/2c on average (and themselves), all rows s/2.
    assert executed[1] / executed[0] == pytest.approx(2.0 - 1.0 / context, rel=0.02)
    assert uneven.step.step > even.step.step
    assert flops_of(uneven) == pytest.approx(flops_of(even))


def long_step(form, **facts):
    layout = {"context": 8, "context_communication": form, "data": 1}
    return spread(
        "llama3-8b", layout, sequence_length=131072, global_batch_size=1, precision="bf16", engine="megatron-core",
        gpu="h100", engine_facts=facts,
    )  # fmt: skip


def test_a_ring_hides_behind_attention_what_a_gather_shows():
    shown = {form: long_step(form).step.breakdown["exposed_communication"] for form in ("p2p", "all_gather")}
    assert shown["p2p"] < shown["all_gather"]
    works = [long_step(form) for form in ("p2p", "all_gather")]
    # The ring pays with merging and more launches.
    assert works[0].step.breakdown["memory_bandwidth"] > works[1].step.breakdown["memory_bandwidth"]
    assert long_step("p2p", context_merge="fp32").step.step > works[0].step.step


@pytest.mark.parametrize("form", FORMS)
def test_arrays_are_their_elements(form):
    layout = {"context": 4, "context_communication": form, "data": 2}
    scenario = {
        "model": MODEL,
        "workload": {"sequence_length": 64, "global_batch_size": 24, "precision": "bf16", "engine": "megatron-core"},
        "parallel": layout,
        "hardware": {"gpu": "h100"},
    }
    swept = {
        "workload.micro_batch_size": [1, 2, 3],
        "workload.sequence_length": [64, 128],
        "gpu.memory.bandwidth": [1e12, 3e12],
    }
    compare(resolve(scenario), swept)


@pytest.mark.parametrize(
    ("parallel", "workload", "model", "message"),
    [
        ({"context": 16, "context_communication": "a2a"}, {}, {}, "a2a divides 8 attention heads"),
        (
            {"context": 4, "context_communication": "a2a"},
            {},
            {"num_key_value_heads": 2},
            "a2a divides 2 key-value heads",
        ),
        ({"context": 4, "context_communication": "p2p"}, {"attention": "unfused"}, {}, "Use all_gather or a2a"),
        ({"context": 4, "context_communication": "p2p"}, {}, {"sliding_window": 16}, "windowed layers"),
        ({"context": 4, "context_communication": "ring"}, {}, {}, "p2p"),
        ({"context": 4}, {"sequence_length": 60}, {}, "fall into 8 pieces"),
        (
            {"context": 4, "context_communication": "a2a+p2p", "context_heads": 3},
            {},
            {},
            "context_heads 3 does not divide",
        ),
        ({"context": 4, "context_heads": 2}, {}, {}, "context_heads beside context_communication p2p"),
    ],
)
def test_refusals(parallel, workload, model, message):
    request = {"model": MODEL | model, "workload": {"engine": "megatron-core"} | SIZES | workload, "parallel": parallel}
    with pytest.raises(SpecError, match=message):
        resolve(request)


def test_unfused_attention_gathers_and_says_so():
    resolved = resolve(
        {"model": MODEL, "workload": SIZES | {"engine": "megatron-lm"}, "parallel": {"context": 4, "data": 1}}
    )
    assert resolved.parallel.context_communication == "all_gather"
    assert any("all_gather instead of the engine's ring" in note for note in resolved.assumed)
