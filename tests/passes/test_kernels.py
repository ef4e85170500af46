"""Passes that turn the ops of a layer into the kernels that an engine launches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from roofsim.analyze.ops import op_rows
from roofsim.graph.base import Kind
from roofsim.graph.component import Purpose
from roofsim.graph.ops import Cast, Elementwise, Fused, Matmul, Normalization, Reduction, View
from roofsim.graph.tensor import DTYPES, Role
from roofsim.graph.text import listing
from roofsim.graph.unroll import unroll
from roofsim.lower.dispatch import lower
from roofsim.lower.of_scenario import call_of
from roofsim.lower.shares import Shares
from roofsim.passes.kernels.cache_writes import MergeCacheWrites
from roofsim.passes.kernels.conversions import ShareConversions
from roofsim.passes.kernels.extra_kernels import AddExtraKernels
from roofsim.passes.kernels.gated_activations import GateActivations
from roofsim.passes.kernels.narrow_results import NarrowResults
from roofsim.passes.kernels.packed_weights import ExpandWeights
from roofsim.passes.kernels.packings import PackHeads
from roofsim.passes.kernels.plain_kernels import SplitPlainKernels
from roofsim.passes.kernels.projections import MergeProjections
from roofsim.passes.kernels.residual_norms import AddBeforeNorms
from roofsim.passes.kernels.routers import FuseRouters
from roofsim.passes.kernels.separate_experts import SeparateExperts
from roofsim.passes.kernels.token_order import OrderTokens
from roofsim.passes.manager import run_passes
from roofsim.passes.precision import AssignPrecision
from roofsim.passes.ranks.stage import TakeStage
from roofsim.spec.engine.matmul import FewRows, WeightOnly
from roofsim.spec.precision.formats import weight_format
from tests.scenarios import FAMILIES, TINY, TINY_EXPERTS, TINY_LLAMA, evaluated, graph_of, resolved

MERGE = MergeProjections(into=frozenset({Purpose.QUERY_KEY_VALUE, Purpose.QUERY_KEY_VALUE_DOWN, Purpose.GATE_UP}))
TYPES = AssignPrecision(compute=DTYPES["bf16"], parameters=DTYPES["bf16"])
NARROW = AssignPrecision(
    compute=DTYPES["bf16"], parameters=DTYPES["bf16"], math=DTYPES["fp8"], operands=DTYPES["fp8"],
    weights=weight_format("fp8"),
)  # fmt: skip
INT8 = AssignPrecision(
    compute=DTYPES["fp16"], parameters=DTYPES["fp16"], math=DTYPES["int8"], operands=DTYPES["int8"],
    weights=weight_format("int8"),
)  # fmt: skip
PACKED = AssignPrecision(compute=DTYPES["fp16"], parameters=DTYPES["fp16"], weights=weight_format("int4"))
#: AutoAWQ's kernels, and such as have others for few rows.
SPLIT = WeightOnly(parts=8.0, tile_rows=16, expansion_slots=10.0)
FEW = WeightOnly(kernels=2.0, parts=8.0, tile_rows=128, few_rows=FewRows(rows=8, tile_rows=1))

#: Pass -> the model and phase on which it shows, and the passes before it.
CASES: dict[str, Any] = {
    "merge_projections": (MERGE, TINY_LLAMA, "prefill", []),
    "gate_activations": (GateActivations(), TINY_LLAMA, "prefill", [MERGE]),
    "share_conversions": (ShareConversions(), TINY_LLAMA, "prefill", [NARROW]),
    "fuse_routers": (FuseRouters(), TINY_EXPERTS, "prefill", [TYPES]),
    "order_tokens": (OrderTokens(rows="gathered", number=3.0), TINY_EXPERTS, "prefill", [NARROW]),
    "order_tokens_copied": (OrderTokens(rows="copied", number=4.0), TINY_EXPERTS, "prefill", [NARROW]),
    "merge_cache_writes": (MergeCacheWrites(number=1.0), TINY_LLAMA, "decode", [TYPES]),
    "merge_cache_writes_into_attention": (MergeCacheWrites(number=0.0), TINY_LLAMA, "decode", [TYPES]),
    "add_before_norms": (AddBeforeNorms(), TINY_LLAMA, "prefill", [TYPES]),
    "plain_kernels": (
        SplitPlainKernels(biases=True, masks=True, reductions=True), TINY | {"dropout": 0.0}, "unfused", [TYPES],
    ),
    "packed_weights": (ExpandWeights(kernels=SPLIT), TINY_LLAMA, "prefill", [PACKED]),
    "packed_weights_written_out": (ExpandWeights(kernels=SPLIT, written_from=64), TINY_EXPERTS, "prefill", [PACKED]),
    "narrow_results": (NarrowResults(written="narrow", launches=2.0), TINY, "prefill", [INT8, AddBeforeNorms()]),
    "narrow_results_int32": (NarrowResults(written="int32"), TINY, "prefill", [INT8, AddBeforeNorms()]),
    "pack_heads": (PackHeads(), TINY, "prefill", [TYPES]),
    "separate_experts": (SeparateExperts(), TINY_EXPERTS, "prefill", [TYPES]),
    "extra_kernels": (AddExtraKernels(number=2.0), TINY, "prefill", [TYPES]),
}  # fmt: skip
SIZES: dict[str, dict[str, Any]] = {
    "unfused": {"phase": "prefill", "batch_size": 2, "prompt_length": 32, "attention": "unfused"},
    "prefill": {"phase": "prefill", "batch_size": 2, "prompt_length": 32},
    "decode": {"phase": "decode", "batch_size": 2, "context_length": 32},
}


def lowered(model, phase, engine="vllm", **more):
    choices = resolved(model, engine=engine, **SIZES[phase], **more)
    return lower(choices.model, call_of(choices, SIZES[phase]["phase"], 33.0 if phase == "decode" else 0.0))


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
    choices = resolved(model, phase="forward", engine="huggingface", precision="bf16")
    graph = lower(choices.model, call_of(choices, "forward"))
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
    choices = resolved(TINY_LLAMA, engine="vllm", **SIZES["prefill"])
    call = replace(call_of(choices, "prefill"), shares=Shares(tensor=4.0))
    graph = lower(choices.model, call)
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
    choices = resolved("t5-base", phase="forward", engine="huggingface")
    graph = run_passes(lower(choices.model, call_of(choices, "forward")), [MERGE])
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


# -- what the graph says is what is launched ------------------------------------------------------------------------

ENGINES = ["vllm", "sglang", "tensorrt-llm", "lmdeploy", "mlc-llm", "llama.cpp", "fastertransformer", "huggingface"]
SERVED = {"llama": TINY_LLAMA, "gpt": TINY, "experts": TINY_EXPERTS}
#: Engines with the formats that each has; cards with and without matrix units for them write weights out or do not.
FORMATS = [
    *((engine, "fp16", "a100") for engine in ENGINES),
    *((engine, "fp8", "h100") for engine in ("vllm", "sglang", "tensorrt-llm", "mlc-llm", "fastertransformer", "huggingface")),
    *((engine, "int8", "a100") for engine in ("vllm", "tensorrt-llm", "huggingface", "fastertransformer", "llama.cpp")),
    *((engine, "int4", "a100") for engine in (*ENGINES[:6], "huggingface", "tinychat", "exllamav2", "exllama-v1", "autoawq")),
    ("fastertransformer+int8-v1", "int8", "a100"), ("autoawq+gemv", "int4", "a100"), ("llama.cpp", "int4", "v100"),
    ("huggingface", "nf4", "a100"),
]  # fmt: skip


def launches_of(graph):
    """Return the launches that the ops of a graph state."""
    return float(graph.total(lambda op: 0.0 if op.kind in (Kind.COLLECTIVE, Kind.HOST_TRANSFER) else op.kernels()))


def assert_launched_as_stated(evaluation):
    (priced,) = evaluation.priced
    assert launches_of(priced.graph) == pytest.approx(float(priced.kernels()), rel=1e-12)
    rows = op_rows(evaluation)
    assert sum(row["launches"] or 0.0 for row in rows) == pytest.approx(float(priced.kernels()), rel=1e-12)
    for cost in priced.per_op():
        outside = cost.op.kind in (Kind.VIEW, Kind.COLLECTIVE, Kind.HOST_TRANSFER)
        assert (cost.launches > 0.0) is not outside, cost.op.name


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("model", SERVED)
@pytest.mark.parametrize(("engine", "precision", "gpu"), FORMATS)
def test_ops_launch_what_is_priced(engine, precision, gpu, model, phase):
    evaluation = evaluated(SERVED[model], engine=engine, precision=precision, hardware_gpu=gpu, **SIZES[phase])
    assert_launched_as_stated(evaluation)


TRAINED = [
    *({"engine": engine} for engine in (
        "megatron-core", "megatron-lm", "pytorch-fsdp", "torchtitan", "deepspeed", "huggingface", "pytorch-compile",
    )),
    *({"optimizer": optimizer} for optimizer in ("adamw-fused", "adamw-loop", "lamb", "adam8bit", "sgd", "lion", "muon")),
    {"engine": "huggingface", "adapter": "qlora"},
    {"engine": "megatron-core", "precision": "fp8", "hardware_gpu": "h100", "recompute": "full"},
]  # fmt: skip


@pytest.mark.parametrize("workload", TRAINED, ids=lambda workload: "-".join(workload.values()))
def test_training_launches_what_is_priced(workload):
    sizes = {"sequence_length": 32, "micro_batch_size": 2}
    assert_launched_as_stated(evaluated(TINY_EXPERTS, **sizes, **workload))


@pytest.mark.parametrize("family", ["encoder-decoder", "vit", "resnet", "convnext", "unet", "mamba", "dlrm", "dit"])
def test_families_launch_what_is_priced(family):
    entry = FAMILIES[family]
    assert_launched_as_stated(evaluated(entry["model"], micro_batch_size=2, **entry["workload"]))


@pytest.mark.parametrize("engine", ENGINES)
def test_what_an_engine_runs_lists_no_projection_apart_that_it_merges(engine):
    evaluation = evaluated(TINY_LLAMA, engine=engine, precision="fp16", **SIZES["prefill"])
    purposes = [op.purpose for op in evaluation.program.stages[0].graph if isinstance(op, Matmul)]
    groups = evaluation.resolved.engine.fusion.groups
    assert purposes.count(Purpose.QUERY_KEY_VALUE) == ("qkv" in groups)
    assert (Purpose.KEY in purposes) is ("qkv" not in groups)
    assert purposes.count(Purpose.GATE_UP) == ("gate_up" in groups)
    assert (Purpose.UP in purposes) is ("gate_up" not in groups)


@pytest.mark.parametrize("pipeline", [1, 2])
def test_sums_are_those_of_the_layers(pipeline):
    """Each layer adds twice, wherever the norm is that makes the sum; flops of graphs with and without the pass agree."""
    graph = lowered(TINY_LLAMA, "prefill")
    if pipeline > 1:
        graph = run_passes(graph, [TakeStage(counts=(2.0,), first=True, last=False, ranks=2.0)])
    before, after = (run_passes(graph, [TYPES, *more]) for more in ([], [AddBeforeNorms()]))
    assert after.total(lambda op: op.flops()) == pytest.approx(before.total(lambda op: op.flops()), rel=1e-12)
    apart = [op for op in after if isinstance(op, Elementwise) and op.function == "add"]
    assert len(apart) == (pipeline > 1)  # what is sent to the next stage is summed before
    adds = after.total(lambda op: op.adds if isinstance(op, Normalization) else 0.0)
    assert adds + len(apart) == 2.0 * sum(block.repeat for block in after.blocks)


def test_a_merged_graph_unrolls():
    passes: list[Any] = [MERGE, TYPES, AddBeforeNorms()]
    graph = run_passes(lowered(TINY_LLAMA, "prefill"), passes)
    assert unroll(graph).verify().total(lambda op: op.kernels()) == graph.total(lambda op: op.kernels())


def test_gathered_rows_are_converted_once_a_token():
    copied, gathered = (
        run_passes(lowered(TINY_EXPERTS, "prefill"), [NARROW, OrderTokens(rows=rows, number=4.0)])
        for rows in ("copied", "gathered")
    )

    tokens, hidden = 64.0, 64.0
    narrow = [op.outputs[0].numel for op in gathered if isinstance(op, Cast) and op.outputs[0].dtype is DTYPES["fp8"]]
    assert tokens * hidden in narrow
    assert 2.0 * tokens * hidden not in narrow
    (copy,) = (op for op in copied if isinstance(op, Fused) and op.pattern == "copy_rows")
    assert copy.outputs[0].dtype is DTYPES["fp8"]
    assert copy.bytes_written() == 2 * 64 * 64


@pytest.mark.parametrize("ranks", [1.0, 4.0])
def test_gathered_rows_take_room_only_where_ranks_send_them(ranks):
    scenario = resolved(TINY_EXPERTS, engine="vllm", **SIZES["prefill"])
    call = replace(call_of(scenario, "prefill"), shares=Shares(expert=ranks))
    graph = run_passes(lower(scenario.model, call), [TYPES, OrderTokens(rows="gathered")])
    shown = [op for op in graph if isinstance(op, View) and op.function == "gather"]
    (sent,) = {any(reader.kind is Kind.COLLECTIVE for reader in graph.readers[op.outputs[0]]) for op in shown}
    assert sent is (ranks > 1.0)
    for op in shown:
        rows, tokens = op.outputs[0], op.inputs[0]
        assert rows.bytes == rows.numel * 2.0 == 2.0 * tokens.bytes
        assert (rows.root is tokens.root) is not sent


# -- packed weights and 8-bit results ---------------------------------------------------------------------------------


def expanded(rows, kernels=FEW, written_from=None, model=TINY_LLAMA):
    """Return the graph of a decode step of so many sequences with the kernels of its packed weights."""
    choices = resolved(model, engine="huggingface", precision="fp16", phase="decode", batch_size=2, context_length=32)
    call = replace(call_of(choices, "decode", 33.0), batch=rows)
    expand = ExpandWeights(kernels=kernels, written_from=written_from)
    return run_passes(lower(choices.model, call), [PACKED, expand])


@pytest.mark.parametrize("model", [TINY_LLAMA, TINY_EXPERTS], ids=["dense", "experts"])
@pytest.mark.parametrize("amount", ["flops", "kernels", "bytes_read", "bytes_written"])
def test_ways_of_arrays_are_those_of_their_elements(model, amount):
    batches = np.array([4.0, 16.0, 80.0, 2048.0])
    together = expanded(batches, written_from=64, model=model).total(lambda op: getattr(op, amount)())
    apart = [expanded(batch, written_from=64, model=model).total(lambda op: getattr(op, amount)()) for batch in batches]
    np.testing.assert_allclose(together, apart, rtol=1e-12)


def test_a_kernel_for_each_number_of_rows():
    few, many, written = (expanded(rows, written_from=64) for rows in (8.0, 9.0, 64.0))
    kinds = [{type(op) for op in graph if op.within(Purpose.DOWN)} for graph in (few, many, written)]
    assert kinds == [{Matmul}, {Matmul, Reduction}, {Matmul, Cast}]
    (product,) = matmuls(few, Purpose.DOWN)
    assert (product.expansion.tile_rows, product.parts, product.kernels()) == (1.0, 1.0, 2.0)
    (product,) = matmuls(many, Purpose.DOWN)
    assert (product.expansion.tile_rows, product.parts) == (128.0, 8.0)
    (product,) = matmuls(written, Purpose.DOWN)
    assert product.expansion is None
    assert product.inputs[1].dtype is DTYPES["fp16"]
    assert product.inputs[1].owner.role is Role.PARAMETER


def test_experts_are_written_out_in_the_room_of_one():
    graph = expanded(2048.0, written_from=64, model=TINY_EXPERTS)
    (cast,) = (op for op in graph if isinstance(op, Cast) and op.within(Purpose.EXPERTS) and op.purpose is Purpose.DOWN)
    (written,) = cast.outputs
    assert cast.bytes_written() == written.bytes == 8 * 64 * 160 * 2.0
    assert written.root.bytes == 64 * 160 * 2.0


@pytest.mark.parametrize("written", ["narrow", "int32"])
def test_no_conversion_is_left_between_8_bit_products(written):
    graph = run_passes(lowered(TINY, "prefill"), [INT8, AddBeforeNorms(), NarrowResults(written=written)])
    layers = [op for op in graph if op.block is not None]
    assert not [op for op in layers if isinstance(op, Cast) and graph.producer.get(op.inputs[0]) in layers]
    (up,) = matmuls(graph, Purpose.UP)
    assert up.outputs[0].dtype is DTYPES["int32" if written == "int32" else "int8"]
    (down,) = matmuls(graph, Purpose.DOWN)
    assert down.inputs[0].dtype is DTYPES["int8"]
    streams = {entering.dtype.itemsize for block in graph.blocks for entering, _ in block.carries}
    assert streams == ({4.0, 2.0} if written == "int32" else {1.0})
