"""Graphs of nodes: every system of the catalog builds and verifies; rings find what the links allow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import networkx as nx
import pytest

from roofsim.cost.links.fabric import shape_of
from roofsim.errors import GraphError
from roofsim.graph.topology import NodeShape, Topology, build
from roofsim.spec import catalog
from roofsim.spec.hardware.schema import Gpu, System
from roofsim.spec.reading.validate import validate
from roofsim.units import parse

GB = parse("1 GB/s", "B/s")


def shape(system):
    node = validate(System, catalog.load("system", system))
    gpu = None if node.gpu is None else validate(Gpu, catalog.load("gpu", node.gpu))
    return shape_of(node, gpu)


@pytest.mark.parametrize("system", catalog.names("system"))
def test_every_system_builds_and_counts(system):
    node = shape(system)
    counts = build(node).counts()
    assert counts["gpu"] == node.gpus
    assert counts["nic"] == (max(node.nics, 1) if node.network else 0)
    assert counts["switch"] == (node.kind == "nvswitch")
    assert counts["host"] == (node.sockets if node.host else 1)


@pytest.mark.parametrize(
    ("system", "ranks", "rate"),
    [
        ("dgx-1v", 2, 25.0),  # GPU 0 and 1: one NVLink 2 of 25 GB/s
        ("dgx-1v", 4, 100.0),  # a quad: four of six links
        ("dgx-1v", 8, 150.0),
        ("dgx-1p", 8, 80.0),
        ("dgx-2", 16, 150.0),
        ("dgx-h100", 3, 450.0),
        ("hgx-h800-8", 8, 200.0),
        ("gb200-nvl72", 72, 900.0),
        ("hgx-a100-4", 2, 100.0),  # four of twelve links
        ("hgx-a100-4", 4, 300.0),
        ("platform-8x-mi300x", 2, 64.0),
        ("platform-8x-mi300x", 8, 448.0),
        ("platform-4x-mi250", 2, 200.0),  # the sister die
        ("platform-4x-mi250", 8, 300.0),  # six links leave a package
        ("azure-nc96ads-a100-v4", 2, 300.0),
        ("azure-nc96ads-a100-v4", 4, 31.5),  # PCIe between the bridges
        ("server-8x-l40s", 8, 31.5),
        ("workstation-2x-rtx4090", 2, 15.75),
    ],
)
def test_rings_find_what_the_links_allow(system, ranks, rate):
    assert build(shape(system)).ring_bandwidth(ranks) == pytest.approx(rate * GB)


@pytest.mark.parametrize("system", catalog.names("system"))
def test_rings_are_the_smallest_cuts_that_networkx_finds(system):
    node = build(shape(system))
    graph: Any = nx.Graph()
    for one, neighbours in node.neighbours.items():
        graph.add_weighted_edges_from([(one, other, size) for other, size in neighbours.items()], weight="capacity")
    gpus = [("gpu", rank) for rank in range(node.shape.gpus)]
    assert nx.is_connected(graph)
    links = graph.subgraph([vertex for vertex in graph if vertex[0] in ("gpu", "switch")])
    for ranks in {2, 3, len(gpus)} & set(range(2, len(gpus) + 1)):
        first = links.subgraph([vertex for vertex in links if vertex[0] != "gpu" or vertex[1] < ranks])
        assert node.linked(ranks) == nx.is_connected(first)
        if node.linked(ranks):
            cuts = [nx.minimum_cut_value(first, gpus[0], other) for other in gpus[1:ranks]]
            assert node.ring_bandwidth(ranks) == pytest.approx(min(cuts), rel=1e-12)


def test_bridges_join_pairs_only():
    node = build(shape("workstation-4x-rtx3090"))
    assert [node.linked(ranks) for ranks in (2, 3, 4)] == [True, False, False]
    assert node.same_socket(4)
    assert not build(shape("server-8x-l40s")).same_socket(5)


NODE = NodeShape(
    kind="nvswitch", gpus=8, link=450 * GB, links=18, host=63 * GB, nics=8, network=400 * GB, sockets=2
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "torus"}, "nobody described"),
        ({"kind": "hybrid-cube-mesh", "gpus": 6}, "joins 8 GPUs"),
        ({"link": 0.0}, "without bandwidth"),
        ({"kind": "bridge-pairs", "gpus": 3}, "join pairs"),
    ],
)
def test_what_does_not_fit_is_refused(change, words):
    with pytest.raises(GraphError, match=words):
        build(replace(NODE, **change))


def test_verify_notices_changed_links():
    node = build(NODE)
    thinner = node.neighbours | {("gpu", 3): node.neighbours["gpu", 3] | {("switch", 0): GB}}
    with pytest.raises(GraphError, match="GPU 3"):
        Topology(node.shape, thinner).verify()
