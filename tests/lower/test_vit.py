"""Vision transformers against the oracle tables (transformers) and against timm."""

from typing import Any

import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.graph.base import Phase
from roofsim.graph.ops import Attention
from roofsim.spec.model.vision_transformer import VitModel
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

ORACLES = ("vit_b16", "vit_l16")
SIZES = ("tiny", "small", "base", "large")
TIMM = (
    *(f"vit-{size}-patch16-224" for size in SIZES),
    "vit-base-patch16-384",
    "vit-huge-patch14-224",
    "vit-giant-patch14-dinov2",
    "beit-base-patch16-224",
)
SMALL: dict[str, Any] = {
    "num_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}


@pytest.mark.parametrize("name", ORACLES)
def test_flops_equal_the_oracle(name):
    check_oracle_flops(name, loss="upcast")


@pytest.mark.parametrize("name", ORACLES)
def test_memory_equals_the_oracle(name):
    check_oracle_memory(name, loss="upcast")


def test_bytes_equal_the_oracle():
    check_oracle_bytes("vit_l16", loss="upcast")


@pytest.mark.parametrize("row", references(*TIMM))
def test_figures_equal_timm(row):
    model = catalog_model(row["model"])
    graph = check_reference(model, row)
    if float(row["size"]) == model.image_size:
        assert parameters(graph) == model.published_parameters == float(row["parameters"])


def test_the_relative_bias_takes_the_memory_efficient_kernel():
    graph = run(catalog_model("beit-base-patch16-224"), size=224.0)
    attention = next(op for op in graph if isinstance(op, Attention) and op.phase is Phase.FORWARD)
    assert attention.kernel == "efficient"
    bias = attention.inputs[3]
    assert bias.shape == (1.0, 12.0, 197.0, 197.0)
    assert bias.root.shape == (12.0, 197.0, 200.0)


@pytest.mark.parametrize(
    "fields",
    [
        {"class_token": False, "pooling": "mean", "position_embedding": "none"},
        {"fused_query_key_value": True, "query_key_value_bias": False, "dropout": 0.1, "stochastic_depth": 0.1},
        {"key_bias": False, "layer_scale": True, "position_embedding": "relative"},
    ],
)
@pytest.mark.parametrize("attention", ["flash", "sdpa", "unfused", "fused_softmax"])
def test_variants_build_and_differentiate(fields, attention):
    graph = run(VitModel(**SMALL, **fields), batch=2.0, attention=attention, precision="amp")
    assert heavy_flops(graph, Phase.BACKWARD) > heavy_flops(graph, Phase.FORWARD)


def test_arrays_give_what_their_elements_give():
    check_arrays(catalog_model("vit-b16"), (224.0, 384.0))
    check_arrays(catalog_model("beit-base-patch16-224"), (224.0, 384.0))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"image_size": 30}, "image_size 30 is not a multiple of patch_size 8; take 24 or 32"),
        ({"num_attention_heads": 5}, "hidden_size 64 is not a multiple of num_attention_heads 5"),
        ({"class_token": False}, "pooling: token needs class_token: true"),
        ({"class_token": False, "pooling": "mean", "position_embedding": "relative"}, "BEiT"),
        ({"query_key_value_bias": False, "key_bias": True}, "needs query_key_value_bias: true"),
    ],
)
def test_contradictions_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        VitModel(**SMALL | fields)


def test_torchvision_takes_queries_keys_and_values_out_of_a_copy():
    """torch.nn.MultiheadAttention: the same parameters and products, and copies of the stack that timm does not make."""
    split, copied = (
        roofsim.run("vit-b16", gpu="h100", model__fused_query_key_value=True, model__query_key_value_stack=stack)
        for stack in ("split", "copied")
    )
    assert copied.parameters == split.parameters
    assert copied.model_flops == split.model_flops
    assert copied.step_time > 1.05 * split.step_time
    with pytest.raises(SpecError, match="of one projection"):
        roofsim.run("vit-b16", gpu="h100", model__query_key_value_stack="copied")
