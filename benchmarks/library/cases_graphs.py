"""Networks over the nodes of a graph, by PyTorch Geometric's message passing: rows gathered per edge, then summed per node.

Weights of edges (a GCN's normalised adjacency, edges from each node to itself among them) come with the graph, as they do where a
layer caches them. A batch of graphs is one graph of all their nodes.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import torch
from counting import Case, Samples, classes, entering
from torch.nn import functional


class _Network(torch.nn.Module):
    """Layers that pass messages, with what a network has between them."""

    def __init__(self, layers: list[Any], activation: Any, dropout: float, *, norms: bool, first: bool) -> None:
        super().__init__()
        self.layers, self.activation, self.dropout, self.first = torch.nn.ModuleList(layers), activation, dropout, first
        widths = [layer.out_channels for layer in layers[:-1]] if norms else []
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm1d(width) for width in widths)

    def forward(self, x: torch.Tensor, *edges: torch.Tensor) -> torch.Tensor:
        if self.first:
            x = functional.dropout(x, self.dropout, self.training)
        for place, layer in enumerate(self.layers):
            x = layer(x, *edges)
            if place == len(self.layers) - 1:
                return x
            x = self.norms[place](x) if len(self.norms) else x
            x = functional.dropout(self.activation(x), self.dropout, self.training)
        return x


def _gcn(widths: tuple[int, ...], *, norms: bool = False, first: bool = False) -> Any:
    from torch_geometric.nn import GCNConv

    layers = [GCNConv(*pair, normalize=False) for pair in pairwise(widths)]
    return _Network(layers, functional.relu, 0.5, norms=norms, first=first)


def _graphsage(widths: tuple[int, ...], *, norms: bool = False) -> Any:
    from torch_geometric.nn import SAGEConv

    layers = [SAGEConv(*pair) for pair in pairwise(widths)]
    return _Network(layers, functional.relu, 0.5, norms=norms, first=False)


def _gat() -> Any:
    from torch_geometric.nn import GATConv

    layers = [GATConv(1433, 8, 8, add_self_loops=False), GATConv(64, 7, 1, concat=False, add_self_loops=False)]
    return _Network(layers, functional.elu, 0.6, norms=False, first=True)


def _call(nodes: int, edges: int, width: int, model: Any, *, weighted: bool = False) -> Any:
    nodes, edges = nodes * Samples.count, edges * Samples.count
    given = [entering(torch.zeros(nodes, width, dtype=torch.bfloat16))]
    given.append(entering(torch.zeros(2, edges, dtype=torch.int64)))
    if weighted:
        given.append(entering(torch.zeros(edges, dtype=torch.bfloat16)))
    return model(*given)


#: Nodes and edges of 1,024 nodes of ogbn-products with 15, 10 and 5 neighbours a hop, and of 2,048, as roofsim expects them.
DRAWN = {1: (757543, 905323), 2: (1251794, 1750663)}


def _sampled_call(model: Any) -> Any:
    """Run over all that a batch brings in; the loss is that of its own nodes, which come first (PyG's ogbn_products_sage.py)."""
    nodes, edges = DRAWN[Samples.count]
    given = entering(torch.zeros(nodes, 100, dtype=torch.bfloat16))
    return model(given, entering(torch.zeros(2, edges, dtype=torch.int64)))[: 1024 * Samples.count]


ARXIV, PRODUCTS = (128, 256, 256, 40), (100, 256, 256, 47)
CASES: dict[str, Case] = {
    "gcn-cora": (
        "torch_geometric", "", partial(_gcn, (1433, 16, 7), first=True), partial(_call, 2708, 13264, 1433, weighted=True),
    ),
    "gcn-ogbn-arxiv": (
        "torch_geometric", "", partial(_gcn, ARXIV, norms=True), partial(_call, 169343, 2484941, 128, weighted=True),
    ),
    "gcn-ogbn-products": (
        "torch_geometric", "", partial(_gcn, PRODUCTS), partial(_call, 2449029, 126167309, 100, weighted=True),
    ),
    "graphsage-ogbn-arxiv": (
        "torch_geometric", "", partial(_graphsage, ARXIV, norms=True), partial(_call, 169343, 2315598, 128),
    ),
    "graphsage-ogbn-products": ("torch_geometric", "", partial(_graphsage, PRODUCTS), _sampled_call),
    "gat-cora": ("torch_geometric", "", _gat, partial(_call, 2708, 13264, 1433)),
}  # fmt: skip
LOSSES = dict.fromkeys(CASES, classes)
