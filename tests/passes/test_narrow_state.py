"""Parameters, attention and activation inputs in fp8 during training: bytes by hand, what runs, what is refused."""

from __future__ import annotations

import pytest

from roofsim.api import resolve, run
from roofsim.errors import SpecError
from roofsim.evaluate import evaluate
from roofsim.graph.base import Phase
from roofsim.graph.ops import Attention, Cast, Collective, Matmul
from roofsim.graph.tensor import Role
from roofsim.memory.profile import profile
from roofsim.program import build
from tests.scenarios import TINY_LLAMA, resolved, spread
from tests.surely import sure

#: Where precisions are stated role by role, and the loss is the library's own.
BARE = "megatron-core+bare"
#: Widths of TINY_LLAMA: hidden, feed-forward, keys (and values), vocabulary; its layers.
H, F, KV, VOCAB, LAYERS = 64, 160, 32, 128, 4
TOKENS = 64
LINEAR = H * (H + 2 * KV) + H * H + 3 * H * F
REST = 2 * VOCAB * H + (2 * LAYERS + 1) * H
NARROW = {"compute": "fp8", "parameters": "fp8"}
#: A frozen model with adapters of rank 8 beside attention, without dropout.
LORA = {"rank": 8, "targets": "attention", "dropout": 0.0}


def graph_of(precision, **workload):
    sizes = {"sequence_length": 32, "micro_batch_size": 2, "engine": BARE, "precision": precision}
    return build(resolved(TINY_LLAMA, hardware_gpu="h100", **(sizes | workload))).stages[0].graph


def bytes_of(graph, role):
    return sum(t.bytes * n for t, n in graph.parameters().items() if t.role is role)


def saved(graph):
    """Bytes per token and layer that backward keeps, without what stands outside of layers."""
    alone = profile(graph, granule=1.0).saved_activations
    return alone / TOKENS / LAYERS


def test_parameters_in_fp8_have_no_copy_in_16_bits():
    graph = graph_of(NARROW)
    assert bytes_of(graph, Role.PARAMETER) == LAYERS * LINEAR + 2 * REST
    weights = {t for t in graph.parameters() if t.dtype.name == "fp8"}
    assert not [op for op in graph if isinstance(op, Cast) and weights.intersection(op.inputs)]
    # master copy and two moments in fp32, as beside wide parameters
    states = {t for op in graph for t in op.inputs if t.role in (Role.OPTIMIZER_STATE, Role.MASTER_PARAMETER)}
    assert sum(t.bytes for t in states) == 12 * (LAYERS * LINEAR + REST)


@pytest.mark.parametrize("micro_batches", [1, 8])
def test_wide_weights_are_quantised_once_a_step(micro_batches):
    """Transformer Engine keeps what the first micro batch quantised; others convert weights in each of them."""
    counts = {}
    for engine in (BARE, "torchtitan"):
        graph = graph_of("fp8", engine=engine, global_batch_size=2 * micro_batches)
        casts = [op for op in graph if isinstance(op, Cast) and op.outputs[0].dtype.narrow]
        weights = [op for op in casts if op.inputs[0].role is Role.PARAMETER and op.phase is Phase.FORWARD]
        assert {op.count for op in casts if op.inputs[0].role is not Role.PARAMETER} == {LAYERS}
        counts[engine] = {op.count for op in weights}
    assert counts == {BARE: {LAYERS / micro_batches}, "torchtitan": {LAYERS}}


@pytest.mark.parametrize("sharding", ["optimizer", {"optimizer": 4}])
def test_updated_parameters_are_gathered_in_fp8(sharding):
    """Megatron's fp8-param-gather: a byte of each weight of a linear layer, two of the rest."""
    sent = {}
    for name, precision in (("wide", "fp8"), ("narrow", NARROW)):
        evaluation = spread(
            TINY_LLAMA, {"data": 8, "sharding": sharding}, gpu="h100", precision=precision, engine=BARE,
            global_batch_size=8, sequence_length=32,
        )  # fmt: skip
        gathers = [op for op in evaluation.program.stages[0].graph if isinstance(op, Collective)]
        sent[name] = sum(op.message() for op in gathers if op.phase is Phase.OPTIMIZER)
    assert sent == {"wide": 2 * (LAYERS * LINEAR + REST), "narrow": LAYERS * LINEAR + 2 * REST}


def test_a_frozen_base_in_fp8_keeps_neither_inputs_nor_copies():
    """Of a token and layer: two norms' inputs, what attention and its adapters read, and the gate's input."""
    graph = graph_of(NARROW, adapter=LORA)
    adapters = LAYERS * 8 * ((H + H + 2 * KV) + (H + H))
    assert bytes_of(graph, Role.PARAMETER) == LAYERS * LINEAR + 2 * REST + 2 * adapters
    norms, inputs = (
        2 * 2 * H + 2 * 4,
        2 * H + 2 * (8 + 8),
    )  # inputs and fp32 scales; the first adapter's input, both ranks
    attention = 2 * (H + 2 * KV) + 2 * (H + KV) + 2 * H + 4 * 4  # the merged projection, rotated, results, fp32 sums
    per_layer = norms + inputs + attention + 2 * 2 * F
    loss = (
        4 * VOCAB + 8 + 8 + 2 * H + 4 + 2 * 2 * H / 2
    )  # fp32 logits, targets and ids, the last norm, tables of angles
    assert saved(graph) == pytest.approx(per_layer + loss / LAYERS, rel=0.02)
    base = [op for op in graph if isinstance(op, Matmul) and "lora" not in op.name and op.phase is Phase.BACKWARD]
    assert {op.name.rpartition(".")[2] for op in base if op.block is not None} == {"data_gradient"}


def test_attention_in_fp8_keeps_a_byte_of_queries_keys_values_and_results():
    wide, narrow = (graph_of({"compute": "fp8"} | more) for more in ({}, {"attention": "fp8"}))
    # in 16 bits the merged projection and the rotated heads are kept; the result is kept in fp8 for its own layer either way
    assert saved(wide) - saved(narrow) == 2 * (H + 2 * KV) + 2 * (H + KV) + 2 * H - (H + 2 * KV) - H
    (forward,) = {sure(op.math).name for op in narrow if isinstance(op, Attention) and not op.backward}
    (backward,) = {sure(op.math).name for op in narrow if isinstance(op, Attention) and op.backward}
    assert (forward, backward) == ("fp8", "fp8")
    gradient = next(op for op in narrow if isinstance(op, Attention) and op.backward)
    assert {t.dtype.name for t in gradient.inputs[:5]} == {"fp8"}
    assert {t.dtype.name for t in gradient.outputs} == {"bf16"}


@pytest.mark.parametrize("exchange", ["p2p", "all_gather", "a2a", "a2a+p2p"])
def test_attention_in_fp8_takes_any_context_exchange(exchange):
    heads = {"context_heads": 2} if exchange == "a2a+p2p" else {}
    evaluation = spread(
        TINY_LLAMA, {"context": 4 if heads else 2, "context_communication": exchange} | heads, gpu="h100",
        engine="megatron-core", precision=NARROW | {"attention": "fp8"}, sequence_length=64,
    )  # fmt: skip
    graph = evaluation.program.stages[0].graph
    assert {sure(op.math).name for op in graph if isinstance(op, Attention)} == {"fp8"}


def test_long_attention_is_faster_in_fp8_by_less_than_its_products():
    """Scores take as long: FlashAttention-3 reaches 1.6 times its 16-bit rate (arXiv 2407.08608, figures 5 and 7)."""
    request = {"model": "llama2-7b", "hardware": {"gpu": "h100"}}
    sizes = {"phase": "train", "sequence_length": 32768, "engine": "megatron-core", "optimizer": "none"}
    wide, narrow = (
        run(request | {"workload": sizes | {"precision": {"compute": "fp8"} | more}}).work["forward"]["attention"]
        for more in ({}, {"attention": "fp8"})
    )
    assert 0.55 < narrow["time"] / wide["time"] < 0.75
    assert narrow["flops"] == wide["flops"]


def test_the_input_of_a_gated_activation_may_be_kept_in_fp8():
    wide, narrow = (graph_of(NARROW, engine_facts={"activation_input_type": kept}) for kept in ("compute", "fp8"))
    assert saved(wide) - saved(narrow) == 2 * F
    casts = [op for op in narrow if isinstance(op, Cast) and op.name.rpartition(".")[2] in ("store0", "restore")]
    assert [(op.phase, op.outputs[0].bytes) for op in casts] == [
        (Phase.FORWARD, 2 * F * TOKENS),
        (Phase.BACKWARD, 4 * F * TOKENS),
    ]


def test_gradients_are_reduced_in_the_type_that_is_stated_for_them():
    """Megatron's buckets are its main gradients: whoever keeps these in bf16 sends as much."""
    sent = {}
    for kept in ("fp32", "bf16"):
        evaluation = spread(
            TINY_LLAMA, {"data": 8}, precision={"compute": "bf16", "gradients": kept}, engine="megatron-core",
            global_batch_size=8, sequence_length=32,
        )  # fmt: skip
        sums = [op for op in evaluation.program.stages[0].graph if isinstance(op, Collective)]
        sent[kept] = sum(op.message() * op.count for op in sums)
    assert sent == {"fp32": 4 * (LAYERS * LINEAR + REST), "bf16": 2 * (LAYERS * LINEAR + REST)}


@pytest.mark.parametrize(
    ("precision", "workload", "gpu", "message"),
    [
        ({"compute": "bf16", "parameters": "fp8"}, {}, "h100", "parameters 'fp8' are read by narrow products alone"),
        ({"compute": "fp8", "parameters": "int4"}, {}, "h100", "which training cannot update"),
        ({"compute": "bf16", "attention": "fp8"}, {}, "a100", "has no peak for fp8 arithmetic"),
        ({"compute": "bf16", "attention": "fp8"}, {"phase": "decode"}, "h100", "attention 'fp8' is priced in training"),
        ({"compute": "fp8", "attention": "fp8"}, {"attention": "unfused"}, "h100", "attention in fp8 is a fused kernel's"),
    ],
)  # fmt: skip
def test_what_nobody_runs_is_refused(precision, workload, gpu, message):
    with pytest.raises(SpecError, match=message):
        evaluate(resolve({
            "model": TINY_LLAMA, "hardware": {"gpu": gpu},
            "workload": {"engine": "megatron-core", "precision": precision} | workload,
        }))  # fmt: skip


def test_a_result_repeats_its_words():
    request = {
        "model": TINY_LLAMA, "hardware": {"gpu": "h100"},
        "workload": {
            "engine": "megatron-core", "precision": NARROW | {"attention": "fp8"},
            "engine_facts": {"activation_input_type": "fp8"}, "adapter": LORA,
        },
    }  # fmt: skip
    first = run(request)
    again = run(first.to_dict()["scenario"])
    assert again.step_time == pytest.approx(first.step_time, rel=1e-12)
    assert again.memory.device_total == pytest.approx(first.memory.device_total, rel=1e-12)
