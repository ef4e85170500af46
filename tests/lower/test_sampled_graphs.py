"""Mini-batches of a graph with sampled neighbours: how many nodes and edges, and the rows that they bring in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import roofsim
from roofsim.api import resolve
from roofsim.errors import SpecError
from roofsim.evaluate import evaluate, host_path_of
from roofsim.graph.ops import Gather, HostTransfer
from roofsim.graph.tensor import INT8
from roofsim.lower.blocks.graph_nodes import sampled
from roofsim.records import replace

#: Twenty thousand nodes with thirty neighbours each, and rows of 100 fp32 numbers.
GRAPH: dict[str, Any] = {
    "family": "layers",
    "inputs": "nodes",
    "in_features": 100,
    "num_nodes": 20_000,
    "num_edges": 600_000,
    "layers": [{"aggregate": {"function": "mean"}}, {"linear": 64}, "relu", {"classifier": 8}],
}


def drawn(fanouts: tuple[int, ...], seeds: int, nodes: int) -> tuple[int, int]:
    """Draw neighbours of all nodes alike, hop by hop, as PyTorch Geometric's loader does: each new node once."""
    rng = np.random.default_rng(1)
    known = np.zeros(nodes, dtype=bool)
    frontier = rng.choice(nodes, size=seeds, replace=False)
    known[frontier] = True
    edges = 0
    for fanout in fanouts:
        reached = np.unique(rng.integers(0, nodes, size=len(frontier) * fanout))
        edges += len(frontier) * fanout
        frontier = reached[~known[reached]]
        known[reached] = True
    return int(known.sum()), edges


@pytest.mark.parametrize("fanouts", [(15, 10, 5), (25, 10), (5,)])
@pytest.mark.parametrize("seeds", [32, 1024])
def test_nodes_and_edges_are_those_of_a_draw(fanouts: tuple[int, ...], seeds: int) -> None:
    nodes, edges = sampled(float(seeds), tuple(map(float, fanouts)), 20_000.0, 600_000.0)
    assert (nodes, edges) == pytest.approx(drawn(fanouts, seeds, 20_000), rel=0.02)


def test_no_more_than_there_are() -> None:
    assert sampled(10.0, (100.0,), 1000.0, 5000.0)[1] == 50.0  # five neighbours each, whatever is asked for
    nodes, _ = sampled(5000.0, (10.0, 10.0), 1000.0, 50_000.0)
    assert nodes == pytest.approx(1000.0)


def ops(features: str, **more: Any) -> list[Any]:
    sampling = {"fanouts": [10, 5], "features": features}
    workload = {"micro_batch_size": 64, "precision": "fp32"}
    (graph,) = evaluate(
        resolve({"model": GRAPH | {"sampling": sampling} | more, "workload": workload}, gpu="a100")
    ).priced
    return list(graph.graph.ops)


def test_rows_come_from_the_device_or_over_the_link() -> None:
    nodes, edges = sampled(64.0, (10.0, 5.0), 20_000.0, 600_000.0)
    fetch = next(op for op in ops("device") if isinstance(op, Gather))
    assert fetch.inputs[0].shape == (20_000.0, 100.0)
    assert fetch.outputs[0].shape == (nodes, 100.0)
    assert fetch.rows == nodes
    (copy,) = [op for op in ops("host") if isinstance(op, HostTransfer)]
    assert copy.message() == pytest.approx(nodes * 400.0)
    assert {op.rows for op in ops("host") if isinstance(op, Gather)} == {edges}


def test_rows_over_the_link_take_whole_sectors() -> None:
    """Rows of 353 fp32 numbers came out of pinned memory at 25.6 GB/s on an A100 (dmlc/dgl pull 6635), of 353 bytes at 21.3."""
    model = GRAPH | {"in_features": 353, "sampling": {"fanouts": [10], "features": "host"}}
    workload = {"micro_batch_size": 8192, "precision": "fp32"}
    evaluation = evaluate(resolve({"model": model, "workload": workload}, gpu="a100"))
    (copy,) = [op for graph in evaluation.priced for op in graph.graph.ops if isinstance(op, HostTransfer)]
    seconds = host_path_of(evaluation.resolved).transfer(copy).host_link
    assert float(copy.message() / seconds) == pytest.approx(25.6e9, rel=0.05)
    bytes_ = replace(copy, outputs=(replace(copy.outputs[0], dtype=INT8),))
    path = replace(host_path_of(evaluation.resolved), latency=0.0)
    assert float(bytes_.message() / path.transfer(bytes_).host_link) == pytest.approx(21.3e9, rel=0.2)


def test_batches_are_counted_in_seeds() -> None:
    scenario = {"model": GRAPH | {"sampling": {"fanouts": [10, 5]}}, "workload": {"micro_batch_size": 64}}
    result = roofsim.run(scenario, gpu="a100")
    assert result.to_dict()["throughput"]["samples_per_second"] == pytest.approx(64 / result.step_time)
    table = roofsim.sweep(scenario | {"hardware": {"gpu": "a100"}}, {"workload.micro_batch_size": [64, 512]})
    for row in table.to_rows():
        own = roofsim.run(scenario, gpu="a100", micro_batch_size=row["workload.micro_batch_size"])
        assert row["step_time"] == pytest.approx(own.step_time, rel=1e-9)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sampling": {"fanouts": []}}, "fanouts"),
        ({"sampling": {"fanouts": [0]}}, "greater than 0|more than 0|above 0|at least"),
        ({"sampling": {"fanouts": [5], "features": "disk"}}, "'device', 'host'"),
        (
            {"inputs": "features", "sampling": {"fanouts": [5]}, "layers": [{"classifier": 2}]},
            "draws neighbours of nodes",
        ),
    ],
)
def test_refusals(change: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        resolve({"model": GRAPH | change})


def test_a_batch_is_no_larger_than_the_graph() -> None:
    with pytest.raises(SpecError, match="more nodes than the graph, which has 20,000"):
        roofsim.run({"model": GRAPH | {"sampling": {"fanouts": [5]}}}, gpu="a100", micro_batch_size=20_001)
    assert (
        roofsim.run({"model": GRAPH | {"sampling": {"fanouts": [5]}}}, gpu="a100", micro_batch_size=20_000).step_time
        > 0
    )
