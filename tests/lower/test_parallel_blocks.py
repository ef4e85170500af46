"""Blocks whose attention and MLP read the same input: what tensor ranks send, which arithmetic stays."""

from __future__ import annotations

import pytest

from roofsim.graph.base import Phase
from roofsim.graph.ops import Collective
from roofsim.memory.profile import profile
from tests.scenarios import TINY, TINY_EXPERTS, spread

#: GPT-NeoX (two norms) and GPT-J (one for both).
BLOCKS = {
    "two norms": TINY | {"parallel_block": True},
    "one norm": TINY | {"parallel_block": True, "shared_norm": True},
}
LAYERS, TOKENS, H = 4, 64, 64


def graph_of(model, **layout):
    facts = layout.pop("engine_facts", {})
    evaluation = spread(
        model,
        {"tensor": 2} | layout,
        engine="megatron-core",
        precision="bf16",
        sequence_length=TOKENS,
        engine_facts=facts,
    )
    return evaluation.program.stages[0].graph


def sent(graph, function, phase):
    """How many messages of a layer's activations a phase sends; the embedding's and the head's stand outside of layers."""
    whole = 2 * TOKENS * H
    return sum(
        op.count
        for op in graph
        if isinstance(op, Collective) and (op.function, op.phase) == (function, phase) and op.block is not None
        and op.message() == whole
    )  # fmt: skip


@pytest.mark.parametrize("name", BLOCKS)
def test_both_parts_are_added_before_one_all_reduce(name):
    """EleutherAI/gpt-neox, megatron/model/transformer.py: gpt_j_residual reduces the sum of attention and MLP once."""
    graph = graph_of(BLOCKS[name])
    assert sent(graph, "all_reduce", Phase.FORWARD) == LAYERS
    # each of the two column-parallel layers reduces the gradient of its own input
    assert sent(graph, "all_reduce", Phase.BACKWARD) == 2 * LAYERS


def test_with_sequence_parallelism_one_scatter_takes_its_place():
    graph = graph_of(BLOCKS["two norms"], sequence=True)
    assert sent(graph, "reduce_scatter", Phase.FORWARD) == LAYERS
    assert sent(graph, "all_gather", Phase.FORWARD) == 2 * LAYERS
    assert sent(graph, "reduce_scatter", Phase.BACKWARD) == 2 * LAYERS


def test_engines_whose_layers_reduce_by_themselves_send_two():
    apart = graph_of(BLOCKS["two norms"], engine_facts={"parallel_blocks": "two_sums"})
    assert sent(apart, "all_reduce", Phase.FORWARD) == 2 * LAYERS
    assert sent(graph_of(TINY), "all_reduce", Phase.FORWARD) == 2 * LAYERS


def test_arithmetic_and_memory_stay():
    """In bytes and FLOPs the two differ by messages alone."""
    together, apart = (
        graph_of(BLOCKS["two norms"], engine_facts={"parallel_blocks": sums}) for sums in ("one_sum", "two_sums")
    )
    flops = [graph.total(lambda op: op.flops()) for graph in (together, apart)]
    assert flops[0] == flops[1]
    assert profile(together, granule=1.0).saved_activations == profile(apart, granule=1.0).saved_activations


def test_one_device_has_nothing_to_add_up():
    one, two = (
        graph_of(BLOCKS["one norm"], tensor=1, engine_facts={"parallel_blocks": sums})
        for sums in ("one_sum", "two_sums")
    )
    assert [op.name for op in one] == [op.name for op in two]


def test_experts_add_up_their_own_rows():
    model = TINY_EXPERTS | {"parallel_block": True, "num_dense_layers": 0, "num_shared_experts": 0}
    graph = graph_of(model, sequence=True, expert=2)
    assert sent(graph, "reduce_scatter", Phase.FORWARD) >= LAYERS
