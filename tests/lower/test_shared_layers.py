"""Layers that share their weights, with low-rank products of their own: Zamba2 over phases, engines, formats and ranks."""

from __future__ import annotations

import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.graph.base import Kind, Phase
from roofsim.spec.model.registry import family_schema
from roofsim.spec.reading.source import from_mapping
from roofsim.spec.reading.validate import validate
from tests.lower.transformer_checks import run
from tests.lower.vision_checks import catalog_model, parameters

WIDTH, RANK = 256, 16


def layered(attention=None, mlp=None, times=2):
    """Return a small model whose layers of attention share their weights."""
    attention = {"num_attention_heads": 8, "head_size": 64, "output_size": WIDTH, **(attention or {})}
    mlp = {"intermediate_size": 512, "gated_mlp": True, "fused_gate_up": True, **(mlp or {})}
    block = {"weights": "block", "layers": ["rms_norm", {"attention": attention}, "rms_norm", {"mlp": mlp}]}
    told = {"aside": [{"concat": "embedded"}, block], "as": "told"}
    layer = {"repeat": 1, "layers": [told, {"residual": [{"add": "told"}, "rms_norm", {"mlp": 512}]}]}
    ends = [{"embedding": {"entries": 1000, "width": WIDTH}, "as": "embedded"}], ["rms_norm", {"logits": 1000}]
    return {"family": "layers", "name": "shared", "layers": [*ends[0], *[layer] * times, *ends[1]]}


def built(**fields):
    return validate(family_schema("layers"), from_mapping(layered(**fields)))


def held(**fields):
    return parameters(run(built(**fields), phase="forward", size=64.0))


def test_weights_are_shared_but_for_the_adapters():
    own = 256 + 2 * 256 * 512  # a norm and the layer behind
    assert held(times=4) - held(times=2) == 2 * own
    adapted = {"attention": {"adapter_rank": RANK}, "mlp": {"adapter_rank": RANK}}
    # Queries, keys and values of twice the width, gate and up of the width.
    adapters = 3 * RANK * (512 + 512) + RANK * (256 + 1024)
    for times in (1, 2, 4):
        assert held(times=times, **adapted) - held(times=times) == times * adapters


def test_gradients_of_shared_weights_are_added_up():
    graph = run(built(times=3), size=64.0)
    flops = {
        phase: sum(op.flops() * op.count for op in graph if op.group is Kind.MATMUL and op.phase is phase)
        for phase in Phase
    }
    assert flops[Phase.BACKWARD] == 2.0 * flops[Phase.FORWARD]
    kept = roofsim.run(layered(times=3), gpu="h100", sequence_length=64).memory.components
    one = roofsim.run(layered(times=1), gpu="h100", sequence_length=64).memory.components
    assert kept["parameters"] - one["parameters"] == 2 * (held(times=3) - held(times=1))


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "huggingface"])
def test_engines_that_merge_projections_merge_shared_ones_once(engine):
    result = roofsim.run("zamba2-7b", gpu="h200", engine=engine, phase="decode", context_length=1024)
    assert result.parameters["total"] == 7356749648
    assert result.memory.components["parameters"] == pytest.approx(2 * 7356749648, rel=1e-3)


def test_formats_store_shared_weights_narrowly_and_once():
    case = {"gpu": "h200", "engine": "vllm", "phase": "decode", "context_length": 1024}
    wide, narrow = (
        roofsim.run("zamba2-7b", precision=precision, **case).memory.components["parameters"]
        for precision in ("bf16", "fp8")
    )
    # The table of tokens, which is the head's too, norms and convolutions stay as they are.
    assert narrow == pytest.approx(wide / 2 + 32000 * 3584, rel=2e-3)


def test_each_layer_of_attention_has_a_cache_of_its_own():
    def cache(context):
        components = roofsim.run("zamba2-7b", gpu="h200", phase="decode", context_length=context).memory.components
        return components["key_value_cache"]

    assert cache(2048) - cache(1024) == 1024 * 13 * 2 * 32 * 224 * 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"attention": {"head_size": None}}, "output_size: it needs head_size"),
        ({"attention": {"fused_query_key_value": True, "adapter_rank": 8}}, "adapters are of queries, keys and values"),
        ({"mlp": {"fused_gate_up": False, "adapter_rank": 8}}, "an adapter needs gated_mlp and fused_gate_up"),
        ({"mlp": {"adapter_rank": 0}}, "adapter_rank"),
    ],
)  # fmt: skip
def test_refusals(fields, message):
    with pytest.raises(SpecError, match=message):
        roofsim.run(layered(**fields), gpu="h100", sequence_length=64)


@pytest.mark.parametrize(
    ("name", "why"), [("zamba2-7b", "block1, whose weights"), ("qwen-image", "which repeats hand")]
)
def test_pipelines_are_refused_where_repeats_have_more_in_common_than_tokens(name, why):
    with pytest.raises(SpecError, match=why):
        roofsim.run(name, gpu="h200", gpus=2, pipeline=2)


def test_ranks_split_shared_heads():
    whole, split = (catalog_model("zamba2-1.2b"), roofsim.run("zamba2-1.2b", gpu="h100", gpus=2, tensor=2))
    assert split.parameters["total"] == whole.published_parameters
