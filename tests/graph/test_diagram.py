"""The graph that a user gets: plain attributes that networkx's writers take, amounts of the table of ops, honest edges."""

from __future__ import annotations

import io
import json
import math
import re
from typing import Any

import networkx as nx
import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.graph.base import Kind
from roofsim.graph.diagram import part_of, rows_of
from roofsim.graph.formats import FILLS, TEXTS, fill_of, node_link
from tests.scenarios import FAMILIES, TINY, TINY_EXPERTS, TINY_LLAMA

SMALL: dict[str, Any] = {"gpu": "a100", "sequence_length": 64, "micro_batch_size": 1}
NODE = {
    "name": str, "class": str, "function": str, "phase": str, "component": str, "stage": str, "block": str, "repeat": float,
    "order": int, "output": str, "launches": float, "flops": float, "executed_flops": float, "bytes_read": float,
    "bytes_written": float, "time": float, "share": float, "bound": str, "beside": float,
}  # fmt: skip
EDGE = {"tensor": str, "dtype": str, "shape": str, "bytes": float}
SCENARIOS = [
    *({"model": given["model"], "workload": {"phase": "train", "micro_batch_size": 2, **given["workload"]}}
      for given in FAMILIES.values()),
    {"model": "llama3-8b", "workload": {"phase": "generate", "engine": "vllm", "batch_size": 2, "prompt_length": 64,
                                        "output_length": 4}, "hardware": {"gpu": "h100"}},
    {"model": "mixtral-8x7b", "workload": {"phase": "train", "engine": "megatron-core", "recompute": "selective",
                                           "micro_batch_size": 1, "global_batch_size": 16, "sequence_length": 64},
     "parallel": {"tensor": 2, "pipeline": 2, "sequence": True}, "hardware": {"gpu": "h100", "gpus": 8}},
    {"model": "gpt2-124m", "workload": {"phase": "train", "sequence_length": 64, "engine": "deepspeed"},
     "parallel": {"sharding": "full", "offload": {"optimizer_state": "host"}}, "hardware": {"gpu": "h100", "gpus": 8}},
    {"model": "stable-diffusion-1.5-pipeline", "workload": {"phase": "forward", "batch_size": 1}},
]  # fmt: skip


@pytest.fixture(scope="module", params=SCENARIOS, ids=lambda one: one["model"])
def both(request):
    """Return the graph and the table of ops of a scenario."""
    return roofsim.graph(request.param), roofsim.ops(request.param, sort="program")


def test_attributes_are_plain_and_the_same_everywhere(both):
    diagram, _ = both
    assert isinstance(diagram, nx.DiGraph)
    assert nx.is_directed_acyclic_graph(diagram)
    for kinds, things in (
        (NODE, diagram.nodes(data=True)),
        (EDGE, [(edge, has) for *edge, has in diagram.edges(data=True)]),
    ):
        for thing, has in things:
            assert {key: type(value) for key, value in has.items()} == kinds, thing
            assert all(math.isfinite(value) for value in has.values() if isinstance(value, float)), thing
    assert {type(value) for value in diagram.graph.values()} == {str, float}


def test_amounts_are_those_of_the_table(both):
    diagram, table = both
    rows = [row for row in table.rows if row["kind"] == "op"]
    for key in ("launches", "flops", "executed_flops", "bytes_read", "bytes_written", "time", "share"):
        assert sum(has[key] for _, has in diagram.nodes(data=True)) == pytest.approx(sum(row[key] for row in rows)), key
    assert {has["name"] for _, has in diagram.nodes(data=True)} == {row["name"] for row in rows}


@pytest.mark.parametrize(
    ("suffix", "read"), [(".graphml", nx.read_graphml), (".gexf", nx.read_gexf), (".json", None)]
)  # fmt: skip
def test_writers_keep_everything(both, suffix, read):
    diagram, _ = both
    text = TEXTS[suffix](diagram)
    again = nx.node_link_graph(json.loads(text), edges="edges") if read is None else read(io.BytesIO(text.encode()))
    assert set(again.edges) == set(diagram.edges)
    for node, has in diagram.nodes(data=True):
        assert {key: again.nodes[node][key] for key in NODE} == has


#: A line of DOT: an attribute of the graph, a default, a box, its end, a node, an edge.
TEXT = r'"(?:[^"\\]|\\.)*"'
ATTRIBUTES = rf"(?: \[(?:\w+=(?:\w+|{TEXT}) ?)+\])"
DOT = re.compile(
    rf"digraph {{|\s*\w+=(?:\w+|{TEXT})|\s*subgraph \w+ {{|\s*}}|\s*(?:node|{TEXT})(?: -> {TEXT})?{ATTRIBUTES}"
)


def test_dot_has_a_line_for_each_node_and_edge(both):
    diagram, _ = both
    lines = TEXTS[".dot"](diagram).splitlines()
    assert [line for line in lines if not DOT.fullmatch(line)] == []
    assert sum(" -> " in line and "[tooltip=" in line for line in lines) == diagram.number_of_edges()
    assert sum("fillcolor=" in line for line in lines) == len(diagram)
    assert sum(line.strip().startswith("subgraph") for line in lines) + 1 == sum(line.strip() == "}" for line in lines)


def test_names_that_are_no_text_harm_no_format():
    model = {**TINY, "name": 'x"\\\x1b[2J\n]]>&<\u202e'}
    diagram = roofsim.graph(model, **SMALL)
    assert nx.read_graphml(io.BytesIO(TEXTS[".graphml"](diagram).encode())).number_of_nodes() == len(diagram)
    assert nx.read_gexf(io.BytesIO(TEXTS[".gexf"](diagram).encode())).number_of_nodes() == len(diagram)
    assert [line for line in TEXTS[".dot"](diagram).splitlines() if not DOT.fullmatch(line)] == []
    assert "\x1b" not in TEXTS[".dot"](diagram) + TEXTS[".graphml"](diagram) + TEXTS[".json"](diagram)


@pytest.mark.parametrize("model", [TINY, TINY_LLAMA, TINY_EXPERTS])
def test_edges_are_what_is_read_through_views(model):
    evaluation = roofsim.evaluate(roofsim.resolve(model, **SMALL))
    graph = evaluation.program.stages[0].graph
    diagram = roofsim.graph(model, **SMALL)
    whole = graph.digraph
    for op in graph:
        if op.kind is Kind.VIEW:
            assert op.name not in diagram
            continue
        assert op.name in diagram
        for source in diagram.predecessors(op.name):
            # There is a way along which only views stand between.
            maker = next(one for one in graph if one.name == source)
            between = whole.subgraph([maker, op, *(one for one in graph if one.kind is Kind.VIEW)])
            assert nx.has_path(between, maker, op)
        for tensor in op.inputs:
            producer = graph.producer.get(tensor)
            if producer is not None and producer.kind is not Kind.VIEW:
                assert tensor.name in diagram.edges[producer.name, op.name]["tensor"].split(", ")


@pytest.mark.parametrize("model", [TINY, TINY_EXPERTS])
def test_written_out_it_has_every_layer_and_the_same_amounts(model):
    once, all_of_it = roofsim.graph(model, **SMALL), roofsim.graph(model, unrolled=True, **SMALL)
    assert len(all_of_it) == sum(has["repeat"] for _, has in once.nodes(data=True))
    assert nx.is_directed_acyclic_graph(all_of_it)
    for key in ("time", "share", "launches", "flops", "bytes_read"):
        sums = [sum(has[key] for _, has in one.nodes(data=True)) for one in (once, all_of_it)]
        assert sums[1] == pytest.approx(sums[0]), key
    layers = {has["iteration"] for _, has in all_of_it.nodes(data=True) if has["block"] == "layers"}
    assert layers == set(range(int(max(has["repeat"] for _, has in once.nodes(data=True) if has["block"] == "layers"))))


def test_parts_of_a_graph():
    whole = roofsim.graph(TINY, **SMALL)
    backward, layer = roofsim.graph(TINY, only="backward", **SMALL), roofsim.graph(TINY, block="layers", **SMALL)
    assert {has["phase"] for _, has in backward.nodes(data=True)} == {"backward"}
    assert {has["phase"] for _, has in layer.nodes(data=True)} == {"forward", "backward"}
    assert {has["repeat"] for _, has in layer.nodes(data=True)} == {4.0}
    assert set(layer.edges) == {(a, b) for a, b in whole.edges if a in layer and b in layer}
    assert part_of(whole) is whole


def test_stages_have_nodes_of_their_own():
    serving: dict[str, Any] = {
        "gpu": "h100",
        "engine": "vllm",
        "phase": "generate",
        "prompt_length": 16,
        "output_length": 4,
    }
    whole = roofsim.graph(TINY, **serving)
    assert {has["stage"] for _, has in whole.nodes(data=True)} == {"prefill", "decode"}
    decode = roofsim.graph(TINY, stage="decode", **serving)
    assert set(decode) == {node for node, has in whole.nodes(data=True) if has["stage"] == "decode"}
    pipeline: dict[str, Any] = {"gpu": "h100", "gpus": 4, "pipeline": 4, "global_batch_size": 8, "sequence_length": 64}
    last = roofsim.graph(TINY, stage="stage 3", **pipeline)
    assert {has["stage"] for _, has in last.nodes(data=True)} == {"stage 3"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"block": "layer"}, "no block 'layer'; there is layers"),
        ({"only": "backwards"}, "Did you mean 'backward'?"),
        ({"only": "recompute"}, "there is forward, backward and optimizer"),
        ({"stage": "decode"}, "no stage 'decode'; there is step"),
    ],
)
def test_what_is_not_there_is_named(given, words):
    with pytest.raises(SpecError, match=re.escape(words)):
        roofsim.graph(TINY, **given, **SMALL)


def test_a_block_that_is_not_there_is_named_beside_those_that_are():
    with pytest.raises(SpecError, match="no block 'layers'; there is bottom, tables and top"):
        roofsim.graph("dlrm", block="layers")


def test_too_many_layers_are_not_written_out():
    with pytest.raises(SpecError, match="Leave out --unrolled"):
        roofsim.graph({**TINY, "num_layers": 20_000}, unrolled=True, **SMALL)


def test_every_node_has_a_colour_and_says_what_it_reads():
    diagram = roofsim.graph(TINY_LLAMA, gpu="h100", gpus=2, tensor=2, sequence_length=64)
    assert {fill_of(has) for _, has in diagram.nodes(data=True)} <= set(FILLS)
    messages = [has for _, has in diagram.nodes(data=True) if has["class"] == "collective" and has["bytes_written"]]
    assert messages
    assert all(has["beside"] > 0.0 and fill_of(has) == "communication" for has in messages)
    rows = rows_of(diagram)
    assert [row["name"] for row in rows] == [has["name"] for _, has in diagram.nodes(data=True)]
    assert rows[-2]["reads"]
    assert node_link(diagram)["schema"] == "roofsim/graph/1"
