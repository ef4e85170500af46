"""BERT and its kin against the oracle tables and against transformers.

encoder_reference.csv was written by benchmarks/library/count_encoders.py.
"""

import csv
from pathlib import Path
from typing import Any

import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.graph.base import Phase
from roofsim.graph.ops import Elementwise, Embedding, Gather, Matmul
from roofsim.lower.shares import Shares
from roofsim.memory.profile import profile
from roofsim.spec.model.encoders import EncoderModel
from tests.lower.transformer_checks import (
    check_arrays,
    check_oracle_bytes,
    check_oracle_flops,
    check_oracle_memory,
    check_reference,
    references,
    run,
)
from tests.lower.vision_checks import catalog_model, heavy_flops, parameters

ORACLES = ("bert_base", "bert_large")
SMALL: dict[str, Any] = {
    "num_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "vocab_size": 100,
    "dropout": 0.1,
}
#: Rows of the file that other tests read.
IMAGES = ("convnextv2-tiny",)
DISENTANGLED: dict[str, Any] = {"disentangled_buckets": 8, "position_embedding": "none", "token_types": 0}
HEADS = {
    "bert-base/span": {"head": "span"},
    "bert-base/classification": {"head": "classification"},
    "bert-base/pretraining": {"pooler": True},
}


@pytest.mark.parametrize("name", ORACLES)
def test_flops_equal_the_oracle(name):
    check_oracle_flops(name)


@pytest.mark.parametrize("name", ORACLES)
def test_memory_equals_the_oracle(name):
    check_oracle_memory(name)


def test_bytes_equal_the_oracle():
    check_oracle_bytes("bert_large")


@pytest.mark.parametrize("row", references("roberta-base", "roberta-large", "distilbert-base"))
def test_kin_equal_the_library(row):
    model = catalog_model(row["model"])
    graph = check_reference(model, row)
    assert parameters(graph) == model.published_parameters == float(row["parameters"])


@pytest.mark.parametrize("row", references(*HEADS))
def test_heads_equal_the_library(row):
    graph = check_reference(catalog_model("bert-base").model_copy(update=HEADS[row["model"]]), row)
    assert parameters(graph) == float(row["parameters"])


def _rows():
    with Path(__file__).with_name("encoder_reference.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [pytest.param(row, id=row["model"]) for row in rows if row["model"] not in IMAGES]


@pytest.mark.parametrize("row", _rows())
def test_biased_scores_equal_the_library_to_the_byte(row):
    model = catalog_model(row["model"])
    for attention in ("sdpa", "flash", "fused_softmax"):
        graph = run(model, batch=float(row["batch"]), size=float(row["length"]), attention=attention)
        assert parameters(graph) == float(row["parameters"])
        assert heavy_flops(graph, Phase.FORWARD) == float(row["forward_flops"])
        assert profile(graph).saved_activations == float(row["saved"])


def test_one_bias_is_added_in_every_layer_and_trained():
    graph = run(EncoderModel(**SMALL, relative_buckets=8), batch=3.0, size=32.0)
    added = [op for op in graph if isinstance(op, Elementwise) and op.name.endswith("attention.add")]
    (written,) = [op for op in graph if op.name == "expand"]
    assert [(op.inputs[1], op.repeats, op.outputs[0].base) for op in added] == [
        (written.outputs[0], 2.0, added[0].inputs[0])
    ]
    tables = [op for op in graph if isinstance(op, Embedding) and op.phase is Phase.BACKWARD]
    assert (8.0, 4.0) in {op.outputs[0].shape for op in tables}


def test_content_and_positions_share_their_projections():
    graph = run(EncoderModel(**SMALL, **DISENTANGLED), batch=3.0, size=32.0)
    matmuls = [op for op in graph if isinstance(op, Matmul) and op.phase is Phase.FORWARD]
    shared = {op.inputs[1] for op in matmuls if op.name.endswith(("query.matmul", "key.matmul"))}
    placed = [op for op in matmuls if "position_" in op.name]
    assert {op.inputs[1] for op in placed} == shared
    assert [op.m for op in placed] == [16.0, 16.0]
    picked = [op for op in graph if op.name.endswith(".pick")]
    assert [(op.inputs[0].shape, op.outputs[0].shape) for op in picked] == [
        ((3.0, 4.0, 32.0, 16.0), (3.0, 4.0, 32.0, 32.0))
    ] * 2


def test_disentangled_attention_is_split_over_tensor_ranks_and_no_context_group():
    model = EncoderModel(**{**SMALL, **DISENTANGLED, "tie_embeddings": False})
    whole, half = (run(model, phase="forward", size=32.0, shares=Shares(tensor=ranks)) for ranks in (1.0, 2.0))
    attention = [
        {op.name: op.flops() for op in graph if "self_attention" in op.name and isinstance(op, Matmul)}
        for graph in (whole, half)
    ]
    assert attention[0] == {name: 2.0 * flops for name, flops in attention[1].items()}
    with pytest.raises(SpecError, match="disentangled attention is not built for a context group"):
        roofsim.run("deberta-v3-base", gpu="a100", gpus=2, context=2)


def test_no_fused_kernel_is_handed_a_bias():
    for name in ("mpnet-base", "deberta-v3-base"):
        assert roofsim.resolve(name, gpu="l4").engine.attention.implementation == "unfused"
    with pytest.raises(SpecError, match=r"attention flash adds nothing to the scores.*or write unfused"):
        roofsim.resolve("mpnet-base", gpu="l4", attention="flash")


def test_the_head_runs_on_masked_positions_only():
    model = EncoderModel(**SMALL, predictions_per_sequence=5)
    graph = run(model, batch=3.0, size=32.0)
    logits = next(op for op in graph if op.name == "head.logits.matmul")
    assert isinstance(logits, Matmul)
    assert logits.m == 15.0
    gathered = [op for op in graph if isinstance(op, Gather) and op.name == "head.masked"]
    assert [op.outputs[0].shape for op in gathered] == [(15.0, 64.0)]
    assert any(isinstance(op, Gather) and op.function == "scatter" for op in graph if op.phase is Phase.BACKWARD)


def test_norms_first_moves_the_last_norm_behind_the_layers():
    after, before = (run(EncoderModel(**SMALL, normalization_first=first), size=32.0) for first in (False, True))
    assert parameters(after) == parameters(before)
    assert heavy_flops(after, Phase.FORWARD) == heavy_flops(before, Phase.FORWARD)
    assert {op.name for op in after if op.name.startswith(("embedding.norm", "final_norm"))} >= {"embedding.norm.norm"}
    assert {op.name for op in before if op.name.startswith(("embedding.norm", "final_norm"))} >= {"final_norm.norm"}


@pytest.mark.parametrize(
    "fields",
    [
        {"position_embedding": "rotary", "gated_mlp": True, "normalization": "rmsnorm"},
        {"position_embedding": "none", "fused_query_key_value": True, "token_types": 0},
        {"num_key_value_heads": 2, "tie_embeddings": False, "head": "span"},
        {"relative_buckets": 8, "position_offset": 2},
        DISENTANGLED,
    ],
)
@pytest.mark.parametrize("attention", ["flash", "sdpa", "unfused", "fused_softmax"])
def test_variants_build_and_differentiate(fields, attention):
    run(EncoderModel(**SMALL, **fields), batch=2.0, size=32.0, attention=attention, precision="amp")


def test_arrays_give_what_their_elements_give():
    check_arrays(catalog_model("bert-base"), (128.0, 384.0))
    check_arrays(EncoderModel(**SMALL, head="classification", position_offset=2), (16.0, 48.0), attention="unfused")
    check_arrays(EncoderModel(**SMALL, relative_buckets=8), (16.0, 48.0))
    check_arrays(EncoderModel(**SMALL, **DISENTANGLED), (16.0, 48.0))


def test_no_head_runs_forward_but_has_no_loss():
    model = EncoderModel(**SMALL, head="none")
    assert {op.phase for op in run(model, phase="forward", size=32.0)} == {Phase.FORWARD}
    with pytest.raises(SpecError, match="without a head has no loss"):
        run(model, size=32.0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"position_embedding": "alibi"}, "learned, rotary or none, not alibi"),
        ({"head": "span", "pooler": True}, "no use with head: span"),
        ({"disentangled_buckets": 8}, "goes with position_embedding: none"),
        ({**DISENTANGLED, "relative_buckets": 8}, "goes with no relative_buckets"),
        ({**DISENTANGLED, "biases": False}, "goes with biases on them"),
        ({"head": "span", "predictions_per_sequence": 3}, "for head: masked_lm, not span"),
    ],
)
def test_contradictions_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        EncoderModel(**SMALL, **fields)
