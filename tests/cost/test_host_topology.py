"""Collectives over PCIe: which GPUs share switches, sockets and the links between them."""

from __future__ import annotations

import pytest

from roofsim.cost.links.collectives import KINDS, collective_time, fabric_of
from roofsim.cost.links.fabric import shape_of
from roofsim.graph.topology import build
from roofsim.spec import catalog
from roofsim.spec.constants.links import shipped_links
from roofsim.spec.hardware.schema import Gpu, System
from roofsim.spec.reading.validate import validate

#: Bytes beside which startups do not count.
LARGE = 4e9
A100 = validate(Gpu, catalog.load("gpu", "a100-pcie-80gb"))


def node(name="server-8x-pcie4", **changes):
    return validate(System, catalog.load("system", name)).model_copy(update=changes)


def seconds(system, kind="all_reduce", ranks=8.0, stride=1.0):
    return float(collective_time(kind, LARGE, ranks, stride, fabric_of(system, A100, "ampere-ga100")).seconds)


def test_one_ring_passes_the_links_of_switches_once():
    """A ring over all GPUs enters and leaves each switch once: one such link is as wide as a GPU's."""
    assert seconds(node(gpus_per_host_link=4)) == pytest.approx(seconds(node()), rel=1e-9)


def test_a_group_behind_one_switch_does_not_pass_the_processor():
    """Behind one switch, GPUs of a host without peer access between root ports are not staged; beyond it they are."""
    reach = node(gpus_per_host_link=4, peer="switch")
    assert seconds(reach, ranks=4.0) == pytest.approx(seconds(node(), ranks=4.0), rel=1e-9)
    staged = shipped_links().shared.staged
    assert seconds(reach) > 0.95 / staged * seconds(node())
    alone = node(peer="switch")
    assert seconds(alone, ranks=2.0) == pytest.approx(seconds(node(peer="none"), ranks=2.0), rel=1e-9)


def test_groups_across_switches_share_their_links():
    """Four pairs, each with one GPU behind each switch: four rings over one link."""
    pairs = {"ranks": 2.0, "stride": 4.0}
    shared, own = (seconds(node(gpus_per_host_link=behind), **pairs) for behind in (4, 1))
    assert shared == pytest.approx(4.0 * own, rel=0.02)
    halves = {"ranks": 4.0, "stride": 2.0}
    shared, own = (seconds(node(gpus_per_host_link=behind), **halves) for behind in (4, 1))
    assert shared == pytest.approx(2.0 * own, rel=0.02)


def test_all_to_all_crowds_the_links_of_switches():
    """Of what a GPU sends to seven others, four sevenths leave the switch, beside those of three more."""
    shared, own = (seconds(node(gpus_per_host_link=behind), "all_to_all") for behind in (4, 1))
    assert shared == pytest.approx(4.0 * 4.0 / 7.0 * own, rel=0.03)


def test_staged_traffic_of_all_gpus_passes_the_link_of_their_switch():
    shared, own = (seconds(node(topology="pcie-no-peer", gpus_per_host_link=behind)) for behind in (4, 1))
    assert shared == pytest.approx(4.0 * own, rel=0.02)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("topology", ["pcie", "pcie-no-peer"])
def test_a_wider_switch_is_never_faster_than_links_of_their_own(kind, topology):
    for ranks, stride in ((2.0, 1.0), (2.0, 4.0), (4.0, 2.0), (8.0, 1.0)):
        times = [seconds(node(topology=topology, gpus_per_host_link=one), kind, ranks, stride) for one in (1, 2, 4)]
        assert all(one >= times[0] * (1.0 - 1e-9) for one in times)


def test_a_pair_is_as_far_apart_as_its_members():
    """Neighbours share a socket, or a bridge; members of a group with gaps do not."""
    host = node(sockets=2)
    near, far = seconds(host, ranks=2.0), seconds(host, ranks=2.0, stride=4.0)
    assert far == pytest.approx(near / shipped_links().shared.sockets, rel=0.02)
    bridged = node("azure-nc96ads-a100-v4")
    assert seconds(bridged, ranks=2.0, stride=2.0) > 5.0 * seconds(bridged, ranks=2.0)


def test_all_behind_one_switch_cross_no_sockets():
    assert seconds(node(gpus_per_host_link=8)) == pytest.approx(seconds(node(sockets=1)), rel=1e-9)
    staged, own = (seconds(node(topology="pcie-no-peer", gpus_per_host_link=behind, sockets=1)) for behind in (8, 1))
    assert staged == pytest.approx(8.0 * own, rel=0.02)


def test_switches_stand_in_the_graph():
    topology = build(shape_of(node(gpus_per_host_link=4), A100))
    assert sum(vertex[0] == "pcie" for vertex in topology.neighbours) == 2
    assert ("pcie", 1) in topology.neighbours["gpu", 5]
    assert ("host", 1) in topology.neighbours["pcie", 1]
