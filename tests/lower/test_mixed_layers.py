"""Fields of layers that few models have: keys that are values, values of another size, routers that read something else."""

from __future__ import annotations

import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.graph.component import Purpose
from roofsim.graph.ops import Attention, CacheAppend
from roofsim.spec.model.registry import family_schema
from roofsim.spec.reading.source import from_mapping
from roofsim.spec.reading.validate import validate
from tests.lower.transformer_checks import run
from tests.lower.vision_checks import parameters

HEADS = {"num_attention_heads": 8, "num_key_value_heads": 2, "head_size": 64}
EXPERTS = {"num_experts": 8, "experts_per_token": 2, "expert_intermediate_size": 64}


def layered(*steps):
    """Return a small model with one residual of these layers."""
    ends = [{"embedding": {"entries": 1000, "width": 256}, "as": "embedded"}], ["rms_norm", {"logits": 1000}]
    return {
        "family": "layers",
        "name": "mixed",
        "layers": [*ends[0], {"residual": ["rms_norm", *steps]}, *ends[1]],
    }


def built(*steps):
    return validate(family_schema("layers"), from_mapping(layered(*steps)))


def held(*steps):
    return parameters(run(built(*steps), phase="forward", size=64.0))


def test_keys_that_are_values_have_one_projection_and_two_caches():
    apart, both = ({"attention": HEADS}, {"attention": {**HEADS, "values_as_keys": True}})
    assert held(apart) - held(both) == 256 * 2 * 64
    decode = [run(built(step), phase="decode", context_length=100.0, size=1.0) for step in (apart, both)]
    caches = [[op for op in graph if isinstance(op, CacheAppend)] for graph in decode]
    assert len(caches[0]) == len(caches[1]) == 2


def test_values_of_another_size_narrow_what_attention_projects_back():
    wide, narrow = ({"attention": HEADS}, {"attention": {**HEADS, "value_head_size": 32, "value_scale": True}})
    assert held(wide) - held(narrow) == 256 * 2 * 32 + 8 * 32 * 256
    (op,) = [op for op in run(built(narrow), phase="forward", size=64.0) if isinstance(op, Attention)]
    assert (op.head_size, op.value_head_size, op.kernel) == (64.0, 32.0, "efficient")


@pytest.mark.parametrize(("size", "kernel"), [(256, "flash"), (512, "efficient")])
def test_pytorch_s_flash_kernel_takes_heads_up_to_256(size, kernel):
    """aten/native/transformers/cuda/sdp_utils.cpp, check_head_dim_size_flash."""
    graph = run(built({"attention": {**HEADS, "head_size": size}}), phase="forward", size=64.0)
    assert [op.kernel for op in graph if isinstance(op, Attention)] == [kernel]


def test_a_router_reads_what_it_is_told_and_weighs_experts_by_a_learned_factor():
    routed = {"aside": [{"rms_norm": {"affine": False}}, {"affine": {"shift": False}}], "as": "routed"}
    own, told = (
        [{"experts": EXPERTS}],
        [routed, {"experts": EXPERTS | {"router_reads": "routed", "expert_scale": True}}],
    )
    assert held(*told) - held(*own) == 256 + 8
    graph = run(built(*told), phase="forward", size=64.0)
    (logits,) = [op for op in graph if op.purpose is Purpose.LOGITS and op.within(Purpose.ROUTER)]
    (rows,) = [op for op in graph if op.purpose is Purpose.ROWS]
    assert logits.inputs[0].root is not rows.inputs[0].root


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([{"attention": {**HEADS, "values_as_keys": True, "value_head_size": 32}}], "values of another size"),
        ([{"attention": {**HEADS, "values_as_keys": True, "fused_query_key_value": True}}], "keys that are values too"),
        ([{"attention": {**HEADS, "value_head_size": 32, "key_values_as": "mine"}}], "no other layer reads"),
        ([{"experts": EXPERTS | {"router_reads": "nothing"}}], "no earlier step of this list keeps its result as 'nothing'"),
        ([{"aside": [{"linear": 64}], "as": "thin"}, {"experts": EXPERTS | {"router_reads": "thin"}}], "cannot route tokens"),
    ],
)  # fmt: skip
def test_refusals(steps, message):
    with pytest.raises(SpecError, match=message):
        roofsim.run(layered(*steps), gpu="h100", sequence_length=64)
