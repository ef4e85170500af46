"""RWKV-5, 6 and 7: products of chunks, one step of a token, values of the first layer, and what lists of layers may say of them."""

from __future__ import annotations

import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.graph.base import Kind, Phase
from tests.lower.transformer_checks import run
from tests.lower.vision_checks import catalog_model

TOKENS, CHUNK, HEAD = 512.0, 64.0, 64.0


def layered(*mixes, width=256):
    """Return a model with one layer for each mix."""
    layers = [{"residual": ["layer_norm", {"rwkv_time_mix": mix}]} for mix in mixes]
    ends = [{"embedding": {"entries": 1000, "width": width}}], ["layer_norm", {"logits": 1000}]
    return {"family": "layers", "name": "mixes", "layers": [*ends[0], *layers, *ends[1]]}


@pytest.mark.parametrize(
    ("name", "products"),
    [
        # Scores and what they take are CHUNK wide, the state's update and its answer HEAD wide (arXiv 2404.05892, appendix).
        ("rwkv-5-world-0.4b", 2 * CHUNK + 2 * HEAD),
        ("rwkv-6-world-1.6b", 2 * CHUNK + 2 * HEAD),
        # Four kinds of scores, the inverse, four that take, the direction; two updates, two answers.
        ("rwkv-7-world-0.4b", 4 * CHUNK + CHUNK * CHUNK / HEAD + 5 * CHUNK + 4 * HEAD),
    ],
)
def test_products_of_chunks(name, products):
    model = catalog_model(name)
    traits = model.traits()
    graph = run(model, phase="forward", size=TOKENS)
    flops = sum(op.flops() * op.count for op in graph if op.group is Kind.ATTENTION)
    assert flops == 2.0 * TOKENS * traits.hidden_size * products * depth(name)


def depth(name):
    return {"rwkv-5-world-0.4b": 24, "rwkv-6-world-1.6b": 24, "rwkv-7-world-0.4b": 24}[name]


@pytest.mark.parametrize("name", ["rwkv-5-world-0.4b", "rwkv-6-world-1.6b", "rwkv-7-world-0.4b"])
def test_a_step_takes_as_long_at_any_context(name):
    short, long = (
        roofsim.run(name, gpu="a100", phase="decode", batch_size=8, context_length=tokens).step_time
        for tokens in (64, 65536)
    )
    assert short == long > 0.0


def test_backward_has_twice_the_products():
    graph = run(catalog_model("rwkv-7-world-0.1b"), size=TOKENS)
    flops = {
        phase: sum(op.flops() * op.count for op in graph if op.group is Kind.MATMUL and op.phase is phase)
        for phase in Phase
    }
    assert flops[Phase.BACKWARD] == 2.0 * flops[Phase.FORWARD] > 0.0


@pytest.mark.parametrize(
    ("mixes", "message"),
    [
        ([{"version": 5, "mix_rank": 32}], "version 5 has no mix_rank"),
        ([{"version": 7, "values": "first"}], "no earlier step of this list keeps its result as 'first'"),
        ([{"version": 5, "head_size": 60}], "width 256 is not a multiple of 60"),
        ([{"version": 8}], "version"),
    ],
)
def test_refusals(mixes, message):
    with pytest.raises(SpecError, match=message):
        roofsim.run(layered(*mixes), gpu="h100", sequence_length=128)


def test_values_of_the_first_layer_reach_later_ones():
    mixed = roofsim.run(
        layered({"version": 7, "values_as": "first"}, {"version": 7, "values": "first"}),
        gpu="h100",
        sequence_length=128,
    )
    apart = roofsim.run(layered({"version": 7}, {"version": 7}), gpu="h100", sequence_length=128)
    assert mixed.parameters["total"] - apart.parameters["total"] == 2 * 256 * 32 + 256
