"""Build layers over the nodes of graphs as PyTorch Geometric's message passing runs them: gathered per edge, then scattered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.ops import Elementwise, Gather, HostTransfer
from roofsim.graph.tensor import INT64, Tensor
from roofsim.numeric import minimum
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.lower.blocks.layers import Layers
    from roofsim.numeric import Real


@dataclass(frozen=True)
class Edges:
    """The edges of the graphs of a batch: the nodes from which and to which they go, ``[edges]`` each."""

    source: Tensor
    target: Tensor

    @classmethod
    def of(cls, layers: Layers, count: Real) -> Edges:
        """Return the edges as tensors of the batch."""
        return cls(*(layers.b.input(leaf, count, dtype=INT64) for leaf in ("edge_source", "edge_target")))

    @property
    def count(self) -> Real:
        """Edges of all graphs together."""
        return self.source.numel


def sampled(seeds: Real, fanouts: tuple[Real, ...], nodes: Real, edges: Real) -> tuple[Real, Real]:
    """Return the distinct nodes and the edges of a batch of seeds with their sampled neighbours, on average.

    Every hop draws neighbours of the nodes that the one before reached first, all nodes being as likely: of T nodes, of which n are
    known, m draws reach (T - n) (1 - (1 - 1/T)^m) new ones. No more are drawn than a node has.
    """
    known = frontier = minimum(seeds, nodes)
    total: Real = 0.0
    for fanout in fanouts:
        drawn = frontier * minimum(fanout, edges / nodes)
        frontier = (nodes - known) * (1.0 - (1.0 - 1.0 / nodes) ** drawn)
        known, total = known + frontier, total + drawn
    return known, total


def rows_of_nodes(layers: Layers, wanted: Real, nodes: Real, width: Real, place: str) -> Tensor:
    """Return the features ``[wanted, width]`` of sampled nodes, read row by row where those of all nodes lie."""
    b = layers.b
    out = b.tensor("node_features", wanted, width)
    if place == "device":
        indices = b.input("node_ids", wanted, dtype=INT64)
        table = b.buffer("features", nodes, width)
        b.emit(Gather, "fetch", inputs=(table, indices), outputs=(out,), rows=wanted)
    else:
        b.emit(
            HostTransfer,
            "fetch",
            inputs=(),
            outputs=(out,),
            direction="from_host",
            place=place,
            rows=wanted,
        )
    return out


def per_edge(layers: Layers, x: Tensor, nodes: Tensor, leaf: str) -> Tensor:
    """Collect a row of ``[nodes, ...]`` for each edge."""
    out = layers.b.tensor(leaf, nodes.numel, *x.shape[1:], dtype=x.dtype)
    layers.b.emit(Gather, leaf, inputs=(x, nodes), outputs=(out,), rows=nodes.numel)
    return out


def per_node(layers: Layers, x: Tensor, edges: Edges, nodes: Real, function: str) -> Tensor:
    """Sum the rows ``[edges, ...]`` of the edges that go to each node (or average them, or take the largest)."""
    out = _scattered(layers, x, edges, nodes, "aggregated")
    if function != "mean":
        return out
    ones = layers.b.tensor("ones", edges.count, dtype=x.dtype)
    layers.b.emit(Elementwise, "ones", inputs=(), outputs=(ones,), holds=(x,), function="fill")
    # How many rows each node got, and one where it got none.
    counts = layers.pointwise("clamp", _scattered(layers, ones, edges, nodes, "counts"))
    return layers.pointwise("div", out, layers.view(counts, "reshape", nodes, *(1.0 for _ in x.shape[1:])))


def _scattered(layers: Layers, x: Tensor, edges: Edges, nodes: Real, leaf: str) -> Tensor:
    out = layers.b.tensor(leaf, nodes, *x.shape[1:], dtype=x.dtype)
    layers.b.emit(Gather, "scatter", inputs=(x, edges.target), outputs=(out,), function="index_add", rows=edges.count)
    return out


def aggregate(layers: Layers, edges: Edges, x: Tensor, function: str, *, weighted: bool) -> Tensor:
    """Return for each node ``[nodes, width]`` what its neighbours hold, brought together."""
    rows = per_edge(layers, x, edges.source, "neighbours")
    if weighted:
        rows = layers.mul(rows, layers.b.input("edge_weights", edges.count, 1.0))
    return per_node(layers, rows, edges, x.shape[0], function)


def graph_attention(
    layers: Layers, edges: Edges, x: Tensor, heads: Real, size: Real, *, concat: bool, bias: bool
) -> Tensor:
    """Return ``[nodes, heads x size]`` (or the heads' mean): neighbours weighted by a softmax of scores per edge and head."""
    b, nodes = layers.b, x.shape[0]
    projected = layers.linear(x, heads * size, "projection")
    by_head = layers.view(projected, "reshape", nodes, heads, size)
    scores = []
    for leaf in ("source", "target"):
        with b.scope(leaf):
            weight = b.parameter("weight", 1.0, heads, size)
            scores.append(layers.reduce(layers.mul(by_head, weight), (nodes, heads)))
    first = per_edge(layers, scores[0], edges.source, "source_scores")
    second = per_edge(layers, scores[1], edges.target, "target_scores")
    each = layers.pointwise("leaky_relu", layers.add(first, second))
    # A softmax over the edges of each node, kernel by kernel (torch_geometric.utils.softmax).
    raised = layers.pointwise("exp", each)
    total = per_node(layers, raised, edges, nodes, "sum")
    shares = layers.pointwise("div", raised, per_edge(layers, total, edges.target, "totals"))
    rows = per_edge(layers, by_head, edges.source, "neighbours")
    weighted = layers.mul(rows, layers.view(shares, "reshape", edges.count, heads, 1.0))
    out = per_node(layers, weighted, edges, nodes, "sum")
    flat = layers.view(out, "reshape", nodes, heads * size) if concat else layers.reduce(out, (nodes, size), "mean")
    return layers.add(flat, b.parameter("bias", flat.shape[-1])) if bias else flat
