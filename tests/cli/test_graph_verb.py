"""The graph verb: listings, files by their ending, pictures, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
from itertools import combinations
from typing import Any
from xml.etree import ElementTree as ET

import networkx as nx
import pytest

import roofsim
from roofsim.report.graph_layout import NODE, layout_of
from tests.scenarios import FAMILIES, TINY_LLAMA

SCENARIO = ("gpt2-124m", "--gpu", "a100", "--sequence-length", 64)


def test_without_a_file_it_lists_what_runs(cli):
    out = cli("graph", *SCENARIO)
    assert "layers.mlp.up.matmul" in out
    assert "--top 54 shows all" in out
    assert "operations" in out
    assert out.index("embedding.lookup") < out.index("layers.mlp.up.matmul")
    assert "optimizer" in cli("graph", *SCENARIO, "--only", "optimizer")


def test_rows_and_documents(cli):
    rows = list(csv.DictReader(io.StringIO(cli("graph", *SCENARIO, "--csv"))))
    document = json.loads(cli("graph", *SCENARIO, "--json"))
    assert document["schema"] == "roofsim/graph/1"
    assert [node["id"] for node in document["nodes"]] == [row["name"] for row in rows]
    graph = nx.node_link_graph(document, edges="edges")
    assert graph.edges["layers.mlp.up.matmul", "layers.mlp.gelu"]["dtype"]
    assert len(cli("graph", *SCENARIO, "--csv", "--top", 3).splitlines()) == 4


@pytest.mark.parametrize("suffix", [".graphml", ".gexf", ".dot", ".json", ".svg", ".png", ".pdf", ".SVG"])
def test_the_ending_of_a_file_says_what_it_is(cli, tmp_path, suffix):
    path = tmp_path / f"graph{suffix}"
    said = cli("graph", *SCENARIO, "--block", "layers", "--only", "forward", "--output", path)
    assert "12 operations" in said
    data = path.read_bytes()
    start = {".graphml": b"<graphml", ".gexf": b"<gexf", ".dot": b"digraph {", ".json": b"{", ".svg": b"<?xml",
             ".png": b"\x89PNG", ".pdf": b"%PDF"}[suffix.lower()]  # fmt: skip
    assert data.lstrip().startswith((start, b"<?xml")) if suffix in (".graphml", ".gexf") else data.startswith(start)
    assert list(tmp_path.iterdir()) == [path]


def test_a_picture_shows_every_op(cli, tmp_path):
    path = tmp_path / "layer.svg"
    cli("graph", *SCENARIO, "--only", "forward", "--output", path)
    ET.parse(path)
    nodes = roofsim.graph("gpt2-124m", gpu="a100", sequence_length=64, only="forward")
    assert path.read_text().count("bound by") >= 2
    assert len(nodes) > 15


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--output", "graph.xml"),
            "expected a file ending in .graphml or .gexf or .dot or .json or .svg or .png or .pdf",
        ),
        (("--output", "nowhere/graph.dot"), "no such folder nowhere"),
        (("--output", "graph.dot", "--json"), "leave one out"),
        (("--block", "layer"), "there is layers"),
        (("--only", "backwards"), "Did you mean 'backward'?"),
        (("--stage", "last"), "no stage 'last'"),
        (
            ("--unrolled", "--output", "graph.png", "--set", "model=gpt2-1558m"),
            "a picture shows at most 500 operations",
        ),
    ],
)
def test_what_it_refuses(cli, words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert said in " ".join(cli("graph", *SCENARIO, *words, code=2).split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("phase", ["train", "forward"])
def test_boxes_of_a_picture_stand_apart_and_edges_go_down(family, phase):
    given = FAMILIES[family]
    workload = {"phase": phase, "micro_batch_size": 1, **given["workload"]}
    diagram = roofsim.graph({"model": given["model"], "workload": workload, "hardware": {"gpu": "a100"}})
    layout = layout_of(diagram)
    assert set(layout.nodes) == set(diagram)
    assert len(layout.edges) + layout.hidden == diagram.number_of_edges()
    rows: dict[Any, Any] = {}
    for node, (x, y) in layout.nodes.items():
        rows.setdefault(y, []).append((x, node))
        assert 0.0 <= x <= layout.width
        assert 0.0 <= y < layout.height
    for row in rows.values():
        assert all(abs(a - b) >= NODE - 1e-6 for (a, _), (b, _) in combinations(row, 2))
    for points in layout.edges.values():
        if len(points) > 2:
            assert [y for _, y in points] == sorted(y for _, y in points)


def test_layouts_are_the_same_twice():
    diagrams = [roofsim.graph(TINY_LLAMA, gpu="a100", sequence_length=64) for _ in range(2)]
    first, second = map(layout_of, diagrams)
    assert first == second
