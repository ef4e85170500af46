"""Alternating updates, keys and values that layers share, and gates cut off: Gemma 3n's parts in lists of layers."""

from __future__ import annotations

import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.graph.base import Kind, Phase
from roofsim.graph.ops import Matmul
from roofsim.spec.model.layers.model import LayersModel
from tests.lower.transformer_checks import run
from tests.lower.vision_checks import catalog_model, parameters

WIDTH, STREAMS, TOKENS, HEADS, SHARED, SIZE = 64, 4, 32.0, 4, 2, 16


def model(*layers):
    """Return a small decoder of these layers."""
    first = {"embedding": {"entries": 100, "width": WIDTH}}
    return {"family": "layers", "name": "net", "layers": [first, *layers, {"logits": {"entries": 100, "tied": True}}]}


def attention(**fields):
    return {"attention": {"num_attention_heads": HEADS, "num_key_value_heads": SHARED, "head_size": SIZE, **fields}}


def altup(streams=STREAMS):
    return (
        {"predict_streams": streams, "as": "predicted"},
        {"slice": {"width": WIDTH}},
        {"mlp": 128, "as": "activated"},
        {
            "from": "predicted",
            "correct_streams": {"streams": streams, "activated": "activated", "active_as": "own"},
            "as": "streams",
        },
        {"from": "own", "linear": {"width": WIDTH, "bias": False}, "as": "more"},
        {"from": "streams", "add_to_streams": "more"},
    )


def lowered(*layers, **call):
    return run(LayersModel(**model(*layers)), **{"size": TOKENS, **call})


def products(graph, phase=Phase.FORWARD):
    return sum(op.flops() * op.repeats for op in graph if op.group is Kind.MATMUL and op.phase is phase)


@pytest.mark.parametrize("streams", [2, 4])
def test_streams_have_the_parameters_and_products_of_their_layers(streams):
    graph = lowered({"open_streams": streams}, *altup(streams), {"close_streams": streams}, phase="forward")
    ends = 2 * (streams - 1) * WIDTH**2
    router = WIDTH + WIDTH * streams
    own = router + streams**3 + streams**2 + WIDTH
    assert parameters(graph) == 100 * WIDTH + ends + own + 2 * WIDTH * 128 + WIDTH**2
    # The router's weights run twice; the products of streams are a matrix of each token.
    run_by_each = ends + 2 * WIDTH * streams + streams**3 + streams**2 + 2 * WIDTH * 128 + WIDTH**2 + 100 * WIDTH
    assert products(graph) == 2 * TOKENS * (run_by_each + WIDTH * streams**2)


def test_layers_that_repeat_have_a_router_each():
    once, twice = (
        parameters(lowered({"open_streams": 4}, {"repeat": times, "layers": list(altup())}, {"close_streams": 4}))
        for times in (1, 2)
    )
    inside = lowered(
        {"open_streams": 4},
        {"repeat": 3, "layers": [{"repeat": 2, "layers": list(altup())}, {"repeat": 1, "layers": list(altup())}]},
        {"close_streams": 4},
    )
    layer = twice - once
    assert parameters(inside) == once + 8 * layer


def test_a_correction_without_a_prediction_has_a_router_of_its_own():
    alone = (
        {"slice": {"width": WIDTH}, "as": "active"},
        {"mlp": 128, "as": "activated"},
        {"from": "opened", "correct_streams": {"streams": 4, "activated": "activated"}},
    )
    graph = lowered({"open_streams": 4, "as": "opened"}, *alone, {"close_streams": 4}, phase="forward")
    assert parameters(graph) == 100 * WIDTH + 6 * WIDTH**2 + 2 * WIDTH * 128 + WIDTH + 4 * WIDTH + 16


def test_backward_has_twice_the_products():
    graph = lowered({"open_streams": 4}, *altup(), {"close_streams": 4}, batch=2.0)
    assert products(graph, Phase.BACKWARD) == 2 * products(graph) > 0


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (({"open_streams": 1},), "expected a number from 2"),
        (({"predict_streams": 3},), "the width of the streams 64 is not a multiple of 3"),
        (
            ({"open_streams": 4, "as": "all"}, {"correct_streams": {"streams": 4, "activated": "all"}}),
            "cannot correct streams of width 64 by tokens [batch, length, width] of width 256",
        ),
        (
            ({"linear": 48, "as": "narrow"}, {"linear": 64}, {"add_to_streams": "narrow"}),
            "the width of the streams 64 is not a multiple of 48",
        ),
        (({"rms_norm": {"parts": 3}},), "the width 64 is not a multiple of 3"),
        ((attention(key_values="full"),), "no earlier step of this list keeps its result as 'full.keys'"),
        (
            (attention(key_values_as="full"), attention(key_values="full", num_key_value_heads=4)),
            "cannot read tokens [batch, length, width] of width 32 as keys of tokens [batch, length, width] of width 64",
        ),
        (
            (attention(key_values_as="full"), attention(key_values="full", fused_query_key_value=True)),
            "a layer that reads the keys and values of another has no fused_query_key_value",
        ),
    ],
)
def test_what_does_not_fit_is_refused(layers, message):
    with pytest.raises(SpecError) as caught:
        roofsim.run({"model": model(*layers), "hardware": {"gpu": "h100"}})
    assert message in str(caught.value)
    assert len(caught.value.problems) == 1


# -- keys and values that layers share ------------------------------------------------------------------------------


def test_a_layer_that_reads_the_keys_of_another_has_neither_projections_nor_cache():
    first, second = attention(key_values_as="full"), attention(key_values="full")
    apart, shared = ((attention(), attention()), (first, {"repeat": 3, "layers": [second]}))
    per_layer, both = WIDTH * SHARED * SIZE, 2 * WIDTH * HEADS * SIZE
    assert parameters(lowered(*apart)) == 100 * WIDTH + 2 * (2 * per_layer + both)
    assert parameters(lowered(*shared)) == 100 * WIDTH + 2 * per_layer + 4 * both
    decodes = {"phase": "decode", "batch": 2.0, "size": 1.0, "context_length": 100.0}

    def caches(graph):
        read = {tensor for op in graph for tensor in op.inputs if tensor.base is None}
        return sum(tensor.bytes for tensor in read if tensor.role == "key_value_cache")

    assert caches(lowered(*apart, **decodes)) == 2 * 2 * 2 * 100 * SHARED * SIZE * 2
    assert caches(lowered(*shared, **decodes)) == 2 * 2 * 100 * SHARED * SIZE * 2


def test_shared_keys_and_values_get_the_gradients_of_all_that_read_them():
    second = {"repeat": 3, "layers": [attention(key_values="full")]}
    graph = lowered(attention(key_values_as="full"), second)
    keys = next(op for op in graph if op.name.endswith("key.matmul"))
    backward = [op for op in graph if op.phase is Phase.BACKWARD and isinstance(op, Matmul)]
    assert any(keys.inputs[1] in op.inputs for op in backward)
    assert products(graph, Phase.BACKWARD) == 2 * products(graph)


# -- gates cut off, and the whole model -----------------------------------------------------------------------------


def test_a_cutoff_adds_no_parameters_and_keeps_what_it_leaves_of_the_gates():
    plain, cut = (
        lowered({"mlp": {"intermediate_size": 128, "gated_mlp": True, "gate": gate}}) for gate in ("plain", "cutoff")
    )
    assert parameters(plain) == parameters(cut)
    assert products(plain) == products(cut)
    assert {op.function for op in cut if op.kind is Kind.REDUCTION and "mlp" in op.name} >= {"mean", "variance"}


@pytest.mark.parametrize("name", ["gemma-3n-e2b", "gemma-3n-e4b"])
def test_caches_are_those_of_twenty_layers(name):
    """Sixteen look back 512 tokens, four see everything; the last ten or fifteen layers read theirs."""

    def held(context):
        graph = run(catalog_model(name), phase="decode", batch=1.0, context_length=float(context), size=1.0)
        read = {tensor: op.repeats for op in graph for tensor in op.inputs if tensor.base is None}
        return sum(tensor.bytes * times for tensor, times in read.items() if tensor.role == "key_value_cache")

    token = 2 * 2 * 256 * 2
    assert held(3000) == (16 * 512 + 4 * 3000) * token
