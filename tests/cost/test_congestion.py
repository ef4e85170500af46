"""Flows that are hashed over links: some links carry more than others, and a ring waits for the fullest."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from roofsim.analyze.intervals import interval, interval_parts
from roofsim.api import resolve
from roofsim.cost.links.collectives import collective_time, fabric_of
from roofsim.cost.links.congestion import crowding
from roofsim.evaluate import evaluate
from roofsim.numeric import largest_of
from roofsim.records import replace
from roofsim.spec import catalog
from roofsim.spec.constants.links import shipped_links
from roofsim.spec.hardware.schema import Gpu, System
from roofsim.spec.mechanisms import Mechanisms
from roofsim.spec.reading.validate import validate
from tests.surely import sure


def seconds(network, nodes):
    system = validate(System, catalog.load("system", "dgx-h100")).model_copy(update={"network": network})
    gpu = validate(Gpu, catalog.load("gpu", "h100-sxm5-80gb"))
    fabric = fabric_of(system, gpu, "hopper")
    return float(collective_time("all_gather", 64e9, 8.0 * nodes, 1.0, fabric).seconds)


def test_the_fullest_of_many_links_is_as_drawing_them_says():
    """Flows that each choose one of as many links as make `flows` on average."""
    drawn = np.random.default_rng(1)
    for links, flows in ((16, 64), (256, 64), (256, 289)):
        loads = drawn.multinomial(links * flows, [1.0 / links] * links, size=400).max(axis=1) / flows
        assert crowding(float(links), float(flows)) == pytest.approx(loads.mean(), rel=0.05)


def test_crowding_grows_with_nodes_where_flows_are_hashed():
    infiniband, roce = (
        [seconds(name, nodes) for nodes in (2.0, 16.0, 128.0, 1024.0)] for name in ("infiniband", "roce")
    )
    ratios = [slow / fast for slow, fast in zip(roce, infiniband, strict=True)]
    assert all(b > 1.005 * a for a, b in pairwise(ratios))
    flows = shipped_links().network("roce").flows
    # Links inside nodes are beside it.
    assert 1.015 < ratios[2] / ratios[1] <= crowding(1024.0, flows) / crowding(128.0, flows)


def test_queue_pairs_gain_at_most_what_was_measured():
    """RDMA over Ethernet for Distributed Training at Meta Scale: up to 40 % on an all-reduce; 16 pairs, 128 links assumed."""
    roce = shipped_links().network("roce")
    assert crowding(128.0, roce.flows_least) / crowding(128.0, roce.flows) == pytest.approx(1.4, abs=0.02)
    assert sure(roce.flows) / sure(roce.flows_least) == pytest.approx(16.0, rel=0.02)


def step(network, **mechanisms):
    request = {
        "model": "llama3-8b",
        "workload": {"engine": "torchtitan", "sequence_length": 2048, "micro_batch_size": 1},
        "parallel": {"sharding": "full"},
        "hardware": {
            "gpu": "h100",
            "gpus": 128,
            "override": {"system.network": network, "system.node_network": "400 Gbit/s"},
        },
    }
    return evaluate(replace(resolve(request), mechanisms=Mechanisms(**mechanisms)))


def test_intervals_reach_as_far_as_clusters_differ():
    hashed, spread = step("roce"), step("infiniband")
    assert set(interval_parts(hashed)) - set(interval_parts(spread)) == {"unknown_flows"}
    shorter, longer = interval_parts(hashed)["unknown_flows"]
    assert 0.0 < shorter < longer
    low, high = interval(hashed)
    assert low < hashed.step.step < high
    alone = step("roce", hashed_flows=False)
    assert hashed.step.step * np.exp(-shorter) <= alone.step.step * 1.05 < hashed.step.step


def test_one_link_is_no_crowd():
    assert crowding(1.0, 18.0) == 1.0 == crowding(1e6, None)
    assert largest_of(1.0) == 0.0
