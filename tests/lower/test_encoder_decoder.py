"""T5 and Whisper against the oracle tables and against transformers."""

from typing import Any

import pytest

from roofsim.graph.base import Phase
from roofsim.graph.ops import Attention, CacheAppend
from roofsim.graph.tensor import Role
from roofsim.spec.model.encoders import EncoderDecoderModel
from tests.lower.transformer_checks import (
    check_arrays,
    check_oracle_flops,
    check_oracle_memory,
    check_reference,
    references,
    run,
)
from tests.lower.vision_checks import catalog_model, heavy_flops, parameters

ORACLES = ("whisper_small", "whisper_large_v2")
SMALL: dict[str, Any] = {"num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100}
GATED = {"gated_mlp": True, "activation": "gelu_new", "intermediate_size": 2048, "scaled_output": False}


@pytest.mark.parametrize("name", ORACLES)
def test_flops_equal_the_oracle(name):
    check_oracle_flops(name, target=True)


@pytest.mark.parametrize("name", ORACLES)
def test_memory_equals_the_oracle(name):
    check_oracle_memory(name, target=True)


@pytest.mark.parametrize("row", references("t5-base", "t5-large"))
def test_t5_equals_the_library(row):
    # The library shifts the labels in five kernels, of which one is counted.
    model = catalog_model(row["model"])
    graph = check_reference(model, row, kernels=0.02)
    assert parameters(graph) == model.published_parameters == float(row["parameters"])


@pytest.mark.parametrize("row", references("t5-base/gated"))
def test_a_gated_t5_equals_the_library(row):
    model = catalog_model("t5-base").model_copy(update=GATED)
    assert parameters(check_reference(model, row, kernels=0.02)) == float(row["parameters"])


@pytest.mark.parametrize("row", references("whisper-small"))
def test_whisper_equals_the_library(row):
    # Its sdpa row was trained with a cache in use, which copies keys and values once more.
    check_reference(catalog_model("whisper-small"), row, kernels=False)


#: FlopCounterMode over transformers 5.23.0, batch 4, bf16, no gradients, a cache that is concatenated to: a prompt of
#: one token over 128 tokens (T5) or 1,500 audio positions (Whisper), then one token at a context of 48 or 101.
GENERATION = [
    ("t5-base", 128.0, 48.0, 104893661184, 1016070144),
    ("whisper-small", None, 101.0, 1547851241472, 1347459072),
]


@pytest.mark.parametrize(("name", "size", "context", "prefill", "decode"), GENERATION)
def test_generation_equals_the_library(name, size, context, prefill, decode):
    model = catalog_model(name)
    common = {"batch": 4.0, "size": size, "cache": "concatenated"}
    first = run(model, phase="prefill", target_length=1.0, **common)
    step = run(model, phase="decode", context_length=context, **common)
    assert heavy_flops(first, Phase.FORWARD) == prefill
    assert heavy_flops(step, Phase.FORWARD) == decode


@pytest.mark.parametrize("name", ["t5-base", "whisper-small"])
def test_decoding_keeps_all_weights_and_both_caches(name):
    model = catalog_model(name)
    graph = run(model, phase="decode", batch=2.0, size=64.0, context_length=33.0)
    assert parameters(graph) == model.published_parameters
    assert not [op for op in graph if op.name.startswith("encoder") and op.kernels()]
    caches = [(tensor, op) for tensor, op in graph.sources.items() if tensor.role is Role.KEY_VALUE_CACHE]
    assert sorted(tensor.shape[1] for tensor, _ in caches) == [33.0, 33.0, 64.0, 64.0]
    assert all(op.count == model.num_layers for _, op in caches)


def test_prefill_fills_self_and_cross_caches_of_the_decoder_only():
    graph = run(catalog_model("t5-base"), phase="prefill", batch=2.0, size=64.0, target_length=8.0)
    appended = [op for op in graph if isinstance(op, CacheAppend)]
    assert [op.inputs[1].name.rsplit(".", 1)[1] for op in appended] == [
        "key_cache", "value_cache", "cross_key_cache", "cross_value_cache",
    ]  # fmt: skip
    assert [op.inputs[0].shape[1] for op in appended] == [8.0, 8.0, 64.0, 64.0]
    logits = next(op for op in graph if op.name == "head.logits.matmul")
    assert logits.m == 2.0


def test_the_relative_bias_takes_the_memory_efficient_kernel():
    graph = run(catalog_model("t5-base"), batch=2.0, size=64.0, target_length=16.0)
    kernels = {op.kernel for op in graph if isinstance(op, Attention)}
    assert kernels == {"efficient"}
    tables = [t for t in graph.parameters() if t.name.endswith("relative_bias.weight")]
    assert [(t.shape, graph.parameters()[t]) for t in tables] == [((32.0, 12.0), 1.0)] * 2


@pytest.mark.parametrize(
    "fields", [{}, {"position_embedding": "relative", "num_decoder_layers": 3}, {"frontend": "audio"}]
)
@pytest.mark.parametrize("attention", ["flash", "sdpa", "unfused", "fused_softmax"])
def test_every_phase_builds(fields, attention):
    model = EncoderDecoderModel(**SMALL, **fields, max_sequence_length=64, max_target_length=32)
    for phase in ("train", "forward", "prefill", "decode"):
        graph = run(model, phase=phase, batch=2.0, context_length=9.0, attention=attention, precision="amp")
        assert heavy_flops(graph, Phase.FORWARD) > 0.0


def test_arrays_give_what_their_elements_give():
    # Lengths of 60 and 100 tokens need padded rows of the bias, 64 does not.
    t5 = catalog_model("t5-base")
    check_arrays(t5, (60.0, 64.0, 100.0), target_length=32.0, peaks=False)
    check_arrays(t5, (32.0, 64.0), key="target_length", size=128.0)
    check_arrays(catalog_model("whisper-small"), (32.0, 448.0), key="target_length")
    check_arrays(t5, (16.0, 48.0), key="context_length", size=64.0, phase="decode")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"position_embedding": "rotary"}, "learned, relative or none, not rotary"),
        ({"position_embedding": "none", "frontend": "audio"}, "frontend: audio goes with"),
    ],
)
def test_contradictions_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        EncoderDecoderModel(**SMALL, **fields)
