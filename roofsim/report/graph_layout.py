"""Place the nodes of a diagram: in rows, each reading from rows above it, and in columns where there are many rows.

Edges over several rows bend around the nodes between (Sugiyama, Tagawa and Toda 1981): each row that an edge passes has a
joint of it, joints and nodes of a row are ordered by the mean of their neighbours, and drawn as straight as that allows.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Final

from roofsim.graph.diagram import generations
from roofsim.records import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roofsim.graph.diagram import Diagram

#: Rows of a column, about, and how many more or fewer it may have to end where few edges go on.
ROWS, LEEWAY = 34, 8
#: Room that a node and a joint of an edge take in a row, in widths of a node; between columns.
NODE, JOINT, GAP = 1.08, 0.12, 0.35
SWEEPS: Final = 120
#: Nodes and joints that all sweeps together look at, about: large pictures get fewer sweeps.
LOOKS: Final = 60_000
#: How much an edge wants to be upright, and one between two that have no other neighbour on that side (as Gansner et al. 1993
#: do with the inner parts of long edges).
LOOSE, UPRIGHT = 1.0, 10.0
#: Phases that stand apart, whatever they read: what is run again with the backward pass that needs it, the update below it.
TOGETHER: Final = (("forward",), ("backward", "recompute", "optimizer"))
LAST: Final = "optimizer"
#: A node, or a joint of an edge in a row.
Item = str | tuple[str, str, int]


@dataclass(frozen=True)
class Drawing:
    """Where everything is: x in widths of a node, y in rows, downwards.

    Attributes
    ----------
    nodes
        Middle of each node.
    edges
        Points along each edge, from the middle of its first node to that of its last.
    hidden
        Edges that are not drawn: what one phase saves for a later one.
    """

    nodes: dict[str, tuple[float, float]]
    edges: dict[tuple[str, str], list[tuple[float, float]]]
    hidden: int
    width: float
    height: float


def layout_of(diagram: Diagram) -> Drawing:
    """Place the nodes of a diagram and its edges."""
    nodes: dict[str, tuple[float, float]] = {}
    edges: dict[tuple[str, str], list[tuple[float, float]]] = {}
    left, height = 0.0, 0
    kept: list[tuple[str, str]] = []
    for phases in TOGETHER:
        part = diagram.subgraph([node for node in diagram if diagram.nodes[node]["phase"] in phases])
        ranks = _ranks(part)
        starts = _columns(part, ranks)
        kept += part.edges
        for first, end in pairwise(starts):
            own = {node: rank - first for node, rank in ranks.items() if first <= rank < end}
            placed = _DrawnColumn(own, [(a, b) for a, b in part.edges if a in own and b in own])
            width = placed.place(left)
            nodes |= {item: at for item, at in placed.points.items() if isinstance(item, str)}
            edges |= placed.edges()
            left, height = left + width + GAP, max(height, end - first)
    edges |= {(a, b): [nodes[a], nodes[b]] for a, b in kept if (a, b) not in edges}
    return Drawing(nodes, edges, diagram.number_of_edges() - len(kept), left - GAP, float(height))


def _ranks(diagram: Diagram) -> dict[str, int]:
    """Return the row of each node.

    What reads nothing stands just above its first reader; updates and what is tied to nothing stand below all else.
    """
    rows = list(generations(diagram, diagram))
    ranks = {node: rank for rank, row in enumerate(rows) for node in row}
    for node in reversed(list(ranks)):
        readers = list(diagram.successors(node))
        if readers and not diagram.in_degree(node):
            ranks[node] = min(ranks[reader] for reader in readers) - 1
    late = [node for node in ranks if diagram.nodes[node]["phase"] == LAST or not diagram.degree(node)]
    last = max((rank for node, rank in ranks.items() if node not in late), default=-1)
    return ranks | {node: last + 1 + ranks[node] for node in late}


def _columns(diagram: Diagram, ranks: dict[str, int]) -> list[int]:
    """Return the first row of each column, and one more than the last row; columns end between blocks, or where few edges go on."""
    count = max(ranks.values(), default=-1) + 1
    extents: dict[str, list[int]] = defaultdict(list)
    for node, has in diagram.nodes(data=True):
        if has["block"]:
            extents[has["block"]].append(ranks[node])
    columns = ceil(count / (ROWS + LEEWAY / 2.0))
    starts = [0]
    for column in range(1, columns):
        wanted = round(starts[-1] + (count - starts[-1]) / (columns - column + 1))
        near = range(max(wanted - LEEWAY, starts[-1] + 1), min(wanted + LEEWAY, count - 1))
        cut = {row: sum(ranks[a] < row <= ranks[b] for a, b in diagram.edges) for row in near}
        split = {row: sum(min(rows) < row <= max(rows) for rows in extents.values()) for row in near}
        starts.append(min(near, key=lambda row: (split[row], cut[row], abs(row - wanted)), default=wanted))
    return [*starts, count] if count else []


@dataclass
class _DrawnColumn:
    """The rows of one column: nodes, and joints of edges that pass."""

    ranks: dict[str, int]
    among: list[tuple[str, str]]
    rows: dict[int, list[Item]] = field(default_factory=lambda: defaultdict(list))
    above: dict[Item, list[Item]] = field(default_factory=lambda: defaultdict(list))
    below: dict[Item, list[Item]] = field(default_factory=lambda: defaultdict(list))
    points: dict[Item, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node, rank in self.ranks.items():
            self.rows[rank].append(node)
        for edge in self.among:
            chain = self._chain(edge)
            for joint in chain[1:-1]:
                assert not isinstance(joint, str)
                self.rows[joint[2]].append(joint)
            for upper, lower in pairwise(chain):
                self.below[upper].append(lower)
                self.above[lower].append(upper)

    def _chain(self, edge: tuple[str, str]) -> list[Item]:
        start, end = edge
        passed = range(self.ranks[start] + 1, self.ranks[end])
        return [start, *((start, end, rank) for rank in passed), end]

    def place(self, left: float) -> float:
        """Give everything its point, from `left` on; returns the width."""
        order = sorted(self.rows)
        at = {item: float(place) for rank in order for place, item in enumerate(self.rows[rank])}
        sweeps = min(SWEEPS, max(LOOKS // len(at), 8))
        for sweep in range(sweeps):
            down = sweep % 2 == 0
            for rank in order if down else reversed(order):
                near = self.above if down else self.below
                wish = {item: _mean((at[one] for one in near[item]), at[item]) for item in self.rows[rank]}
                self.rows[rank].sort(key=wish.__getitem__)
                at |= {item: float(place) for place, item in enumerate(self.rows[rank])}
        for sweep in range(sweeps):
            for rank in order if sweep % 2 == 0 else reversed(order):
                row = self.rows[rank]
                at |= dict(zip(row, _spread([self._wish(item, at) for item in row], row), strict=True))
        low = min(at[item] - _room(item) / 2.0 for item in at)
        high = max(at[item] + _room(item) / 2.0 for item in at)
        for rank in order:
            self.points |= {item: (at[item] - low + left, float(rank)) for item in self.rows[rank]}
        return high - low

    def _wish(self, item: Item, at: dict[Item, float]) -> tuple[float, float]:
        """Return where an item wants to be, and how much: below and above its neighbours."""
        near = [*self.above[item], *self.below[item]]
        weights = [self._upright(other, item) for other in self.above[item]]
        weights += [self._upright(item, other) for other in self.below[item]]
        total = sum(weights)
        return (
            (sum(w * at[other] for w, other in zip(weights, near, strict=True)) / total, total)
            if near
            else (at[item], 1.0)
        )

    def _upright(self, upper: Item, lower: Item) -> float:
        return UPRIGHT if len(self.below[upper]) == len(self.above[lower]) == 1 else LOOSE

    def edges(self) -> dict[tuple[str, str], list[tuple[float, float]]]:
        """Return the points along each edge."""
        return {edge: [self.points[item] for item in self._chain(edge)] for edge in self.among}


def _is_joint(item: Item) -> bool:
    return not isinstance(item, str)


def _room(item: Item) -> float:
    return JOINT if _is_joint(item) else NODE


def _mean(values: Iterable[float], otherwise: float) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else otherwise


def _spread(wishes: list[tuple[float, float]], row: list[Item]) -> list[float]:
    """Return places near the (place, weight) that items of a row wish, in their order, that leave each its room.

    Isotonic regression by pooling neighbours (Barlow et al. 1972).
    """
    offsets = [0.0]
    for first, second in pairwise(row):
        offsets.append(offsets[-1] + (_room(first) + _room(second)) / 2.0)
    pools: list[tuple[float, float, int]] = []
    for (wish, weight), offset in zip(wishes, offsets, strict=True):
        value, heavy, size = wish - offset, weight, 1
        while pools and pools[-1][0] > value:
            other, load, count = pools.pop()
            value, heavy, size = (value * heavy + other * load) / (heavy + load), heavy + load, size + count
        pools.append((value, heavy, size))
    pooled = [value for value, _, size in pools for _ in range(size)]
    return [value + offset for value, offset in zip(pooled, offsets, strict=True)]
