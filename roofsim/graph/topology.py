"""Build the graph of a node: GPUs, switches, hosts and NICs, with the bandwidth of the links between them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from roofsim.errors import GraphError
from roofsim.graph.cut import FlowNetwork
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Vertex = tuple[str, int]
Edge = tuple[Vertex, Vertex, float]
#: Vertex -> its neighbours, with the bandwidth of the links to them, one way of each of both ways.
Neighbours = dict[Vertex, dict[Vertex, float]]

#: NVLinks between the GPUs of a DGX-1V (nvidia-smi topo -m; arXiv 1903.04611, figure 1): two quads, six links a GPU.
CUBE_MESH_6: Final = {
    (0, 1): 1, (0, 2): 1, (0, 3): 2, (1, 2): 2, (1, 3): 1, (2, 3): 2,
    (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2,
    (0, 4): 2, (1, 5): 2, (2, 6): 1, (3, 7): 1,
}  # fmt: skip
#: The same of a DGX-1P with four links a GPU: every pair of a quad, and one partner in the other.
CUBE_MESH_4: Final = dict.fromkeys(CUBE_MESH_6, 1)
#: Links between the dies of four MI250 packages: four inside a package, one or two outside (AMD CDNA 2 white paper).
DIE_MESH: Final = {
    (0, 1): 4, (2, 3): 4, (4, 5): 4, (6, 7): 4,
    (0, 6): 2, (1, 3): 2, (2, 4): 2, (5, 7): 2, (0, 2): 1, (1, 5): 1, (3, 7): 1, (4, 6): 1,
}  # fmt: skip
#: Kinds of nodes whose GPUs have no links of their own.
HOST_ONLY: Final = ("single", "pcie", "pcie-no-peer")
#: How far a stated bandwidth may be from the sum of its links.
ROUNDING: Final = 1e-6


@dataclass(frozen=True, kw_only=True)
class NodeShape:
    """What a node is built of; bandwidths in bytes per second, each way.

    Attributes
    ----------
    kind
        How the GPUs are joined: ``nvswitch``, ``hybrid-cube-mesh``, ``all-to-all``, ``xgmi-mesh``, ``roce-all-to-all``,
        ``bridge-pairs``, ``pcie``, ``pcie-no-peer`` or ``single``.
    link
        All links of one GPU together; 0: none.
    links
        Their number.
    host
        Link of one GPU to its host; 0: unknown.
    network
        All NICs together; 0: none.
    bridged
        GPUs of a group that links of their own join, where not all of the node are; 0: all are.
    behind
        GPUs behind one PCIe switch, which share a link to their host; 1: each has its own.
    """

    kind: str
    gpus: int
    link: float
    links: int
    host: float
    nics: int
    network: float
    sockets: int
    dies: int = 1
    bridged: int = 0
    behind: int = 1


@dataclass(frozen=True)
class Topology:
    """The graph of a node.

    Attributes
    ----------
    neighbours
        Of every vertex, with bandwidths in bytes per second, one way of each of both ways.
    """

    shape: NodeShape
    neighbours: Neighbours

    @cached_property
    def _joined(self) -> Neighbours:
        """GPUs and what their own links join, without hosts and NICs."""
        return _part(self.neighbours, [vertex for vertex in self.neighbours if vertex[0] in ("gpu", "switch")])

    def linked(self, ranks: int) -> bool:
        """Tell whether the first GPUs reach one another over their own links, without the host."""
        first = _among(self._joined, ranks)
        return len(first) > 0 and _is_whole(first)

    def same_switch(self, ranks: int) -> bool:
        """Tell whether the first GPUs hang on one PCIe switch."""
        return self.shape.behind > 1 and ranks <= self.shape.behind

    def same_socket(self, ranks: int) -> bool:
        """Tell whether the first GPUs hang on one processor."""
        return ranks <= -(-self.shape.gpus // self.shape.sockets)

    def ring_bandwidth(self, ranks: int) -> float:
        """Return the bandwidth, per GPU and each way, of rings through the first GPUs of the node.

        Every ring crosses every cut between GPUs, so that the smallest cut bounds all rings together; in the regular
        meshes that are built, rings over edge-disjoint cycles reach it (arXiv 1903.04611, section 2). GPUs that reach
        one another through the host only form one ring, which each passes with its host link.
        """
        if not self.linked(ranks):
            return float(min(self.neighbours[one][other] for one, other in self._host_edges(ranks)))
        first = _among(self._joined, ranks)
        if any(vertex[0] == "switch" for vertex in first):
            return float(min(min(links.values()) for links in first.values()))
        return float(min(_cut(first, ("gpu", 0), ("gpu", rank)) for rank in range(1, ranks)))

    def _host_edges(self, ranks: int) -> Iterator[tuple[Vertex, Vertex]]:
        for rank in range(ranks):
            port = _port(self.shape, rank)
            yield ("gpu", rank), port
            if port[0] == "pcie" and not self.same_switch(ranks):
                yield port, ("host", _socket(self.shape, rank))

    def verify(self) -> None:
        """Check the graph against what was stated.

        Raises
        ------
        GraphError
            When GPUs cannot reach one another, or links do not sum to what the node states.
        """
        shape = self.shape
        if not _is_whole(self.neighbours):
            raise GraphError(f"{shape.kind} of {shape.gpus} GPUs is in pieces")
        if any(bandwidth <= 0.0 for links in self.neighbours.values() for bandwidth in links.values()):
            raise GraphError(f"{shape.kind} of {shape.gpus} GPUs has a link without bandwidth")
        if shape.kind not in HOST_ONLY:
            for rank in range(shape.gpus):
                _expect(f"links of GPU {rank}", sum(self._joined["gpu", rank].values()), shape.link)
        _expect("NICs", sum(self.neighbours.get(("network", 0), {}).values()), shape.network)

    def counts(self) -> dict[str, int]:
        """Return how many GPUs, switches, hosts and NICs there are."""
        kinds = [vertex[0] for vertex in self.neighbours]
        return {kind: kinds.count(kind) for kind in ("gpu", "switch", "host", "nic")}


def build(shape: NodeShape) -> Topology:
    """Build the graph of a node and check it.

    Raises
    ------
    GraphError
        For a kind of node that nobody described, or one that does not fit its numbers.
    """
    neighbours: Neighbours = {("gpu", rank): {} for rank in range(shape.gpus)}
    for one, other, bandwidth in (*_gpu_edges(shape), *_host_edges(shape), *_network_edges(shape)):
        neighbours.setdefault(one, {})[other] = bandwidth
        neighbours.setdefault(other, {})[one] = bandwidth
    topology = Topology(shape, neighbours)
    topology.verify()
    return topology


def _gpu_edges(shape: NodeShape) -> list[Edge]:
    """Return the links between GPUs, or from GPUs to switches."""
    if shape.kind in HOST_ONLY:
        return []
    if shape.kind == "nvswitch":
        return [(("gpu", rank), ("switch", 0), shape.link) for rank in range(shape.gpus)]
    counts = _pairs(shape)
    total = sum(count for pair, count in counts.items() if 0 in pair)
    return [(("gpu", a), ("gpu", b), shape.link * count / total) for (a, b), count in counts.items()]


def _pairs(shape: NodeShape) -> dict[tuple[int, int], int]:
    """Return the number of links between each two GPUs that have any."""
    everyone = range(shape.gpus)
    if shape.kind == "bridge-pairs":
        if shape.gpus % 2:
            raise GraphError(f"bridges join pairs of GPUs; got {shape.gpus}")
        return {(rank, rank + 1): 1 for rank in everyone[::2]}
    if shape.kind == "hybrid-cube-mesh":
        table = CUBE_MESH_4 if shape.links == 4 else CUBE_MESH_6
    elif shape.dies > 1:
        table = DIE_MESH
    elif shape.kind in ("all-to-all", "xgmi-mesh", "roce-all-to-all"):
        group = shape.bridged or shape.gpus
        if shape.gpus % group:
            raise GraphError(f"bridges join groups of {group} GPUs; got {shape.gpus}")
        return {(a, b): 1 for a in everyone for b in everyone[a + 1 :] if a // group == b // group}
    else:
        raise GraphError(f"nobody described how the GPUs of a node of kind {shape.kind} are joined")
    if shape.gpus != 8:
        raise GraphError(f"{shape.kind} joins 8 GPUs; got {shape.gpus}")
    return table


def _socket(shape: NodeShape, rank: int) -> int:
    return rank // -(-shape.gpus // shape.sockets)


def _port(shape: NodeShape, rank: int) -> Vertex:
    """Return what a GPU's host link leads to: a processor, or a PCIe switch."""
    return ("host", _socket(shape, rank)) if shape.behind == 1 else ("pcie", rank // shape.behind)


def _host_edges(shape: NodeShape) -> list[Edge]:
    """Return the links of GPUs to their host processors or PCIe switches, of these, and between processors (wide enough)."""
    if shape.host == 0.0:
        return [(("gpu", rank), ("host", 0), shape.link or 1.0) for rank in range(shape.gpus)]
    edges: list[Edge] = [(("gpu", rank), _port(shape, rank), shape.host) for rank in range(shape.gpus)]
    if shape.behind > 1:
        firsts = range(0, shape.gpus, shape.behind)
        edges += [(_port(shape, rank), ("host", _socket(shape, rank)), shape.host) for rank in firsts]
    used = _socket(shape, shape.gpus - 1) + 1
    return [*edges, *((("host", 0), ("host", other), shape.host * shape.gpus) for other in range(1, used))]


def _network_edges(shape: NodeShape) -> list[Edge]:
    """Return the NICs, spread over the hosts, and their links to the network."""
    count = max(shape.nics, 1) if shape.network > 0.0 else 0
    each = shape.network / max(count, 1)
    used = _socket(shape, shape.gpus - 1) + 1 if shape.host > 0.0 else 1
    edges: list[Edge] = []
    for nic in range(count):
        edges += [(("nic", nic), ("host", nic * used // count), each), (("nic", nic), ("network", 0), each)]
    return edges


def _part(neighbours: Neighbours, vertices: Iterable[Vertex]) -> Neighbours:
    kept = dict.fromkeys(vertices)
    return {one: {other: size for other, size in neighbours[one].items() if other in kept} for one in kept}


def _among(neighbours: Neighbours, ranks: int) -> Neighbours:
    return _part(neighbours, [vertex for vertex in neighbours if vertex[0] != "gpu" or vertex[1] < ranks])


def _is_whole(neighbours: Neighbours) -> bool:
    """Tell whether all vertices reach one another."""
    waiting = [next(iter(neighbours))]
    seen = set(waiting)
    while waiting:
        more = neighbours[waiting.pop()].keys() - seen
        seen |= more
        waiting += more
    return len(seen) == len(neighbours)


def _cut(neighbours: Neighbours, source: Vertex, sink: Vertex) -> float:
    """Return the bandwidth of the smallest cut between two vertices."""
    number = {vertex: index for index, vertex in enumerate(neighbours)}
    network = FlowNetwork(len(number))
    for one, links in neighbours.items():
        for other, bandwidth in links.items():
            network.connect(number[one], number[other], bandwidth)
    behind = network.behind_the_cut(number[source], number[sink])
    return sum(
        bandwidth
        for one, links in neighbours.items()
        for other, bandwidth in links.items()
        if not behind[number[one]] and behind[number[other]]
    )


def _expect(what: str, total: float, stated: float) -> None:
    if abs(total - stated) > ROUNDING * max(stated, 1.0):
        raise GraphError(f"{what} sum to {total:g} B/s; the node states {stated:g} B/s")
