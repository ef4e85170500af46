"""Decoders: the catalog's parameter counts, and cut-down models against the code of the transformers library.

decoder_reference.csv was counted on the models of transformers 5.23.0, cut to `layers` layers (`dense_layers` of them
without experts), run by PyTorch 2.13 in bf16 over fake CUDA tensors: shapes, types and storages, no values. FLOPs are
those of matmuls, grouped matmuls and attention kernels, causal attention in full. `saved` are the distinct storages
that autograd keeps, parameters, buffers and inputs apart; the peak counts live storages in blocks of 512 bytes.
hub_reference.csv was written by benchmarks/library/count_decoders.py.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

import roofsim
from roofsim.graph.base import HEAVY_KINDS, Phase
from roofsim.graph.ops import Attention, Elementwise, Matmul
from roofsim.graph.tensor import BF16, BOOL, FP32, Role
from roofsim.importers.huggingface import from_config
from roofsim.lower.call import Call
from roofsim.lower.dispatch import lower
from roofsim.lower.flavour import Flavour
from roofsim.memory.profile import profile
from roofsim.passes.autograd import Autograd
from roofsim.passes.precision import AssignPrecision
from roofsim.passes.recompute import Recompute
from roofsim.spec import catalog
from roofsim.spec.model.transformer import DecoderModel
from roofsim.spec.reading.source import from_mapping
from roofsim.spec.reading.validate import validate

NAMES = [name for name, path in catalog.names("model").items() if path.parent.name == "decoder"]
LIBRARY = {"rms_norm": "chain", "gelu_new": "chain", "rotary": "chain", "cross_entropy": "upcast"}
SMALL: dict[str, Any] = {
    "num_layers": 4,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "vocab_size": 96,
    "max_sequence_length": 64,
}
LLAMA: dict[str, Any] = {
    "gated_mlp": True,
    "normalization": "rmsnorm",
    "position_embedding": "rotary",
    "tie_embeddings": False,
}
LATENT = {
    **SMALL,
    **LLAMA,
    "attention": "mla",
    "kv_lora_rank": 32,
    "qk_nope_head_size": 16,
    "qk_rope_head_size": 8,
    "value_head_size": 12,
}


def load(name):
    """Return a model of the catalog."""
    return validate(DecoderModel, catalog.load("model", name))


def parameters(graph):
    """Return the number of parameters that a graph reads."""
    return sum(tensor.numel * copies for tensor, copies in graph.parameters().items())


def heavy(graph, phase=Phase.FORWARD):
    """Return the FLOPs of matmuls and attention in a phase."""
    return graph.grouped(lambda op: (op.phase, op.group in HEAVY_KINDS), lambda op: op.flops())[phase, True]


def step(model, batch=2.0, length=32.0, *, precision="bf16", silu_backward="decomposed", **flavour):
    """Return a training step, typed and with its backward pass, in the library's flavour unless told otherwise."""
    compute, stored = (FP32 if precision == "fp32" else BF16), (BF16 if precision == "bf16" else FP32)
    chosen = Flavour.of(**{"attention": "sdpa", **LIBRARY, **flavour})
    amp = precision == "amp"
    call = Call(batch=batch, length=length, compute=compute, autocast=amp, flavour=chosen)
    typed = AssignPrecision(compute=compute, parameters=stored, autocast=amp)(lower(model, call)).verify()
    return Autograd(silu_backward=silu_backward)(typed).verify()


def infer(model, phase, batch=2.0, length=32.0, context=0.0, **flavour):
    """Return a typed pass without gradients."""
    call = Call(
        phase=phase, batch=batch, length=length, context_length=context, flavour=Flavour.of(training=False, **flavour)
    )
    return AssignPrecision(compute=BF16, parameters=BF16)(lower(model, call)).verify()


def _rows(name):
    with Path(__file__).with_name(name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _references():
    return [pytest.param(row, id=f"{row['model']}-{row['attention']}") for row in _rows("decoder_reference.csv")]


@pytest.mark.parametrize("name", NAMES)
def test_parameters_equal_the_published_ones(name):
    model = load(name)
    assert parameters(infer(model, "forward", 1.0, 64.0)) == model.published_parameters


@pytest.mark.parametrize("row", _references())
def test_cut_models_equal_the_library(row):
    cut = {"num_layers": int(row["layers"]), "num_dense_layers": int(row["dense_layers"])}
    model = load(row["model"]).model_copy(update=cut)
    graph = step(model, float(row["batch"]), float(row["length"]), attention=row["attention"])
    assert parameters(graph) == float(row["parameters"])
    assert heavy(graph) == float(row["forward_flops"])
    assert heavy(graph, Phase.BACKWARD) == float(row["backward_flops"])
    memory = profile(graph)
    # Gemma 3 has rotary tables of their own for windowed layers, which is the largest difference.
    assert memory.saved_activations == pytest.approx(float(row["saved"]), rel=3e-4)
    assert memory.phase_peaks["forward"] == pytest.approx(float(row["forward_peak"]), rel=3e-4)
    kernels = graph.grouped(lambda op: op.phase, lambda op: op.kernels())[Phase.BACKWARD]
    spread = {"bloom-7b1": 0.4, "gpt-oss-20b": 0.1}.get(row["model"], 0.09)
    assert kernels == pytest.approx(float(row["backward_kernels"]), rel=spread)


ATTENTION = {"sdpa": "sdpa", "eager": "unfused"}
#: Bytes of each index by which Falcon's code takes keys or values, which autograd keeps; no size of the model.
INDEX_BYTES = 8.0
WRITTEN_OUT = ("command-r", "falcon-", "redpajama", "pythia")


def _hub(*prefixes):
    """Return the rows of models whose names begin so; all, if nothing is stated."""
    rows = [row for row in _rows("hub_reference.csv") if row["model"].startswith(prefixes or "")]
    return [pytest.param(row, id=f"{row['model']}-{row['attention']}") for row in rows]


def _changed(row):
    """Return the model that a published configuration describes with other values of some keys."""
    files = (Path(__file__).parents[1] / "importers" / name for name in ("published.json", "published_hub.json"))
    entries = (entry for file in files for entry in json.loads(file.read_text(encoding="utf-8")))
    config = next(entry["config"] for entry in entries if entry["name"] == row["model"])
    return validate(DecoderModel, from_mapping(from_config(config | json.loads(row["changes"]), "config.json")))


@pytest.mark.parametrize("row", _hub())
def test_models_of_hubs_equal_the_library(row):
    cut = {"num_layers": int(row["layers"]), "num_dense_layers": int(row["dense_layers"])}
    model = (_changed(row) if row["changes"] else load(row["model"])).model_copy(update=cut)
    graph = step(model, float(row["batch"]), float(row["length"]), attention=ATTENTION[row["attention"]])
    assert parameters(graph) == float(row["parameters"])
    assert not row["forward_flops"] or heavy(graph) == float(row["forward_flops"])
    # As above: rotary tables of their own for windowed layers, and indices of experts.
    assert profile(graph).saved_activations == pytest.approx(float(row["saved"]), rel=6e-4)


@pytest.mark.parametrize("row", _hub(*WRITTEN_OUT))
def test_norms_and_parts_that_a_library_writes_out_are_kept_to_the_byte(row):
    model = load(row["model"]).model_copy(update={"num_layers": int(row["layers"])})
    graph = step(model, float(row["batch"]), float(row["length"]), attention=ATTENTION[row["attention"]])
    indices = 0.0 if model.key_value_parts == "views" else 2.0 * float(row["layers"]) * INDEX_BYTES
    assert profile(graph).saved_activations == float(row["saved"]) - indices


VARIANTS: dict[str, Any] = {
    "gpt": SMALL | {"dropout": 0.1},
    "grouped": SMALL | LLAMA | {"num_key_value_heads": 2, "query_key_value_bias": True},
    "parallel": SMALL
    | {"parallel_block": True, "shared_norm": True, "position_embedding": "rotary", "rotary_fraction": 0.5},
    "alibi": SMALL | {"position_embedding": "alibi", "embedding_normalization": True, "biases": False},
    "windows": SMALL | LLAMA | {"sliding_window": 16, "full_attention_every": 2, "attention_sinks": True},
    "capped": SMALL | LLAMA | {"post_norms": True, "attention_soft_cap": True, "logit_soft_cap": True},
    "latent": LATENT | {"q_lora_rank": 24, "rotary_form": "slices"},
    "complex": LATENT | {"rotary_form": "complex"},
    "chosen tokens": LATENT | {"q_lora_rank": 24, "index_heads": 2, "index_head_size": 16, "index_tokens": 16},
    "late norms": SMALL | {"normalization_first": False, "embedding_size": 32, "position_offset": 2},
    "experts": SMALL | LLAMA | {"num_experts": 8, "num_shared_experts": 1, "num_dense_layers": 1},
}


@pytest.mark.parametrize("attention", ["sdpa", "flash", "unfused", "fused_softmax"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_arrays_equal_their_elements(variant, attention):
    model = DecoderModel(**VARIANTS[variant])
    batches, lengths = np.array([[1.0], [3.0]]), np.array([[32.0, 48.0]])
    swept = step(model, batches, lengths, attention=attention)
    memory = profile(swept)
    for i, batch in enumerate((1.0, 3.0)):
        for j, length in enumerate((32.0, 48.0)):
            graph = step(model, batch, length, attention=attention)
            assert parameters(swept) == parameters(graph)
            for amount in (lambda op: op.flops(), lambda op: op.bytes_read(), lambda op: op.bytes_written()):
                whole = np.broadcast_to(swept.total(amount), (2, 2))[i, j]
                assert whole == pytest.approx(graph.total(amount), rel=1e-12)
            alone = profile(graph)
            assert np.asarray(memory.saved_activations)[i, j] == pytest.approx(alone.saved_activations, rel=1e-12)
            assert np.asarray(memory.peak)[i, j] == pytest.approx(alone.peak, rel=1e-12)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "amp"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_trains_and_recomputes(variant, precision):
    model = DecoderModel(**VARIANTS[variant])
    graph = step(model, precision=precision)
    again = Recompute()(graph).verify()
    assert profile(again).saved_activations < profile(graph).saved_activations
    # What chooses tokens is not trained.
    chooses = sum(op.flops() * op.repeats for op in graph if op.group in HEAVY_KINDS and ".indexer." in op.name)
    assert heavy(graph, Phase.BACKWARD) >= 2.0 * (heavy(graph) - chooses) - 1e-6


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_infers(variant):
    model = DecoderModel(**VARIANTS[variant])
    for rotary in ("fused", "chain"):
        forward, prefill = infer(model, "forward", rotary=rotary), infer(model, "prefill", rotary=rotary)
        decode = infer(model, "decode", context=33.0, rotary=rotary)
        assert parameters(forward) == parameters(prefill) == parameters(decode)
        assert heavy(decode) < heavy(prefill) <= heavy(forward)
        assert profile(forward).components["key_value_cache"] == 0.0


def test_the_cache_holds_keys_and_values_of_the_context():
    model = load("llama3-8b")
    decode = profile(infer(model, "decode", 3.0, 1.0, 1000.0))
    assert decode.components["key_value_cache"] == 3.0 * 2.0 * 32.0 * 8.0 * 128.0 * 1000.0 * 2.0


def test_windowed_layers_cache_no_more_than_their_window():
    model = load("gpt-oss-20b")
    decode = profile(infer(model, "decode", 1.0, 1.0, 1000.0))
    assert decode.components["key_value_cache"] == 12.0 * (1000.0 + 128.0) * 2.0 * 8.0 * 64.0 * 2.0
    short = profile(infer(model, "decode", 1.0, 1.0, 100.0))
    assert short.components["key_value_cache"] == pytest.approx(24.0 * 100.0 * 2.0 * 8.0 * 64.0 * 2.0)


def test_latent_attention_caches_one_vector_per_token():
    model = load("deepseek-v3")
    for rotary in ("fused", "chain"):
        decode = profile(infer(model, "decode", 2.0, 1.0, 4096.0, rotary=rotary))
        assert decode.components["key_value_cache"] == 61.0 * 2.0 * 4096.0 * (512.0 + 64.0) * 2.0


def test_serving_engines_decode_on_compressed_vectors():
    model = load("deepseek-v3")
    graph = infer(model, "decode", 1.0, 1.0, 4096.0)
    attention = next(op for op in graph if isinstance(op, Attention))
    assert attention.kv_heads == 1.0
    assert attention.head_size == 576.0
    assert attention.value_head_size == 512.0
    expanded = infer(model, "decode", 1.0, 1.0, 4096.0, rotary="chain")
    assert heavy(graph) < heavy(expanded) / 8.0


def test_a_window_changes_the_kernel_only_when_the_sequence_reaches_it():
    model = DecoderModel(**SMALL, **LLAMA, sliding_window=48)
    inside = [op for op in step(model, length=32.0) if isinstance(op, Attention)]
    beyond = [op for op in step(model, length=48.0) if isinstance(op, Attention)]
    assert {op.kernel for op in inside} == {"flash"}
    assert {op.kernel for op in beyond} == {"efficient"}
    masks = {
        tensor.dtype for op in step(model, length=64.0) for tensor in op.outputs if tensor.name.endswith("mask.mask")
    }
    assert masks == {BOOL}


def test_flash_attention_needs_no_mask():
    graph = step(DecoderModel(**SMALL, position_embedding="alibi"), attention="flash")
    assert not [op for op in graph if isinstance(op, Elementwise) and op.function == "mask"]
    sinks = step(DecoderModel(**SMALL, **LLAMA, attention_sinks=True), attention="flash")
    attention = next(op for op in sinks if isinstance(op, Attention))
    assert attention.inputs[3].role is Role.PARAMETER


def test_tied_embeddings_are_one_parameter():
    tied, apart = (parameters(infer(DecoderModel(**SMALL, tie_embeddings=tie), "forward")) for tie in (True, False))
    assert apart - tied == 96.0 * 64.0


def test_prefill_reads_the_head_for_the_last_token_only():
    logits = [op for op in infer(load("gpt"), "prefill", 4.0, 128.0) if op.name == "head.logits.matmul"]
    assert isinstance(logits[0], Matmul)
    assert logits[0].m == 4.0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_attention_heads": 5}, "give head_size, or 4 heads"),
        ({"num_key_value_heads": 3}, "nearest that divides is 2"),
        ({"num_experts": 4, "experts_per_token": 6}, "experts_per_token 6 exceeds num_experts 4"),
        ({"num_experts": 9, "router_groups": 2}, "num_experts 9 is not a multiple of router_groups 2"),
        ({"num_experts": 8, "router_groups": 2, "router_groups_per_token": 3}, "exceeds router_groups 2"),
        ({"num_dense_layers": 9}, "num_dense_layers 9 exceeds num_layers 4"),
        ({"attention": "mla"}, "attention: mla needs kv_lora_rank"),
    ],
)
def test_impossible_shapes_are_refused(fields, message):
    with pytest.raises(ValidationError, match=message):
        DecoderModel(**{**SMALL, **fields})


def _decode(context, **more):
    model = {"family": "decoder", **LATENT, "max_sequence_length": 8192, "q_lora_rank": 24, **more}
    workload = {"phase": "decode", "engine": "vllm", "context_length": context, "batch_size": 4, "precision": "bf16"}
    rows = roofsim.ops({"model": model, "workload": workload, "hardware": {"gpu": "h100"}}).to_rows()
    attention = [row for row in rows if row["class"] == "attention"]
    return {
        kind: sum(row["flops"] for row in attention if (".indexer." in row["name"]) is kind) for kind in (True, False)
    }


def test_attention_to_chosen_tokens_stops_growing_and_its_index_does_not():
    """DeepSeek-V3.2: past `index_tokens` only the scores of the choice grow with the context, heads x size a token."""
    chosen = {"index_heads": 2, "index_head_size": 16, "index_tokens": 512}
    short, long = _decode(2000, **chosen), _decode(6000, **chosen)
    assert short[False] == long[False] > 0.0
    layers, queries = LATENT["num_layers"], 4
    assert long[True] - short[True] == 2 * layers * queries * 4000 * 2 * 16


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"index_heads": 2}, "go together"),
        ({"index_heads": 2, "index_head_size": 16, "index_tokens": 8}, "q_lora_rank"),
        ({"index_heads": 2, "index_head_size": 4, "index_tokens": 8, "q_lora_rank": 24}, "rotated"),
    ],
)
def test_an_index_that_cannot_be_is_refused(fields, what):
    with pytest.raises(ValidationError, match=what):
        DecoderModel(**{**LATENT, **fields})
