"""Build layers over the nodes of graphs as PyTorch Geometric's message passing runs them: gathered per edge, then scattered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.ops import Gather
from roofsim.graph.tensor import INT64, Tensor
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


def per_edge(layers: Layers, x: Tensor, nodes: Tensor, leaf: str) -> Tensor:
    """Collect a row of ``[nodes, ...]`` for each edge."""
    out = layers.b.tensor(leaf, nodes.numel, *x.shape[1:], dtype=x.dtype)
    layers.b.emit(Gather, leaf, inputs=(x, nodes), outputs=(out,), rows=nodes.numel)
    return out


def per_node(layers: Layers, x: Tensor, edges: Edges, nodes: Real, function: str) -> Tensor:
    """Sum the rows ``[edges, ...]`` of the edges that go to each node (or average them, or take the largest)."""
    out = layers.b.tensor("aggregated", nodes, *x.shape[1:], dtype=x.dtype)
    layers.b.emit(Gather, "scatter", inputs=(x, edges.target), outputs=(out,), function="index_add", rows=edges.count)
    return layers.pointwise("div_scalar", out) if function == "mean" else out


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
