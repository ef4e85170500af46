"""Gather the links of a cluster of equal nodes, and what collective libraries achieve over them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.cost.links.congestion import crowding
from roofsim.errors import GraphError, NoDataError
from roofsim.graph.topology import NodeShape, Topology, build
from roofsim.numeric import Real, maximum, minimum, real
from roofsim.records import dataclass, replace
from roofsim.spec.constants import link_kinds
from roofsim.spec.constants.links import shipped_links
from roofsim.spec.constants.physics import shipped_physics

if TYPE_CHECKING:
    from roofsim.spec.constants.links import (
        CustomConstants,
        LinkConstants,
        Links,
        NetworkConstants,
        SharedConstants,
        SwitchConstants,
    )
    from roofsim.spec.constants.physics import Physics
    from roofsim.spec.hardware.schema import Gpu, System

#: Numbers of GPUs for which the rings of a large node are found; between them they are interpolated.
PROBED = (2, 3, 4, 5, 6, 7, 8, 16, 32, 64)


#: How far GPUs reach one another over PCIe, from nowhere on.
_FARTHER: Final = ("none", "switch", "socket", "node")

#: Seconds of a startup that is left out, where a duration must be positive.
_NOTHING: Final = 1e-12


@dataclass(frozen=True, kw_only=True)
class Tier:
    """How groups up to a size communicate inside a node.

    Attributes
    ----------
    ranks
        Largest group that communicates so.
    name
        Kind of the links that bound it.
    bandwidth
        Datasheet bandwidth of these links, per GPU and each way.
    sizes, shares
        Group sizes, and the share of `bandwidth` that rings of so many GPUs find in the graph of the node.
    efficiency
        Share of that which large messages reach.
    step
        Seconds of a step.
    behind
        GPUs behind one PCIe switch, whose link to the host this traffic passes; 1: it passes none that is shared.
    staged
        Whether it goes through host memory, in and out again.
    switch, custom
        Constants of reduction in switches and of engines' own kernels by engine, where there are such.
    """

    ranks: Real
    name: str
    bandwidth: Real
    sizes: tuple[float, ...]
    shares: tuple[float, ...]
    efficiency: Real
    step: Real
    constants: LinkConstants
    behind: Real = 1.0
    staged: bool = False
    switch: SwitchConstants | None = None
    custom: dict[str, CustomConstants] | None = None

    def ring(self, members: Real) -> Real:
        """Return the bandwidth that rings of so many GPUs reach, per GPU and each way."""
        bandwidth: Real = self.bandwidth * real(np.interp(members, self.sizes, self.shares)) * self.efficiency
        return bandwidth

    def sharing(self, members: Real, stride: Real, *, to_all: bool) -> Real:
        """Return how much longer traffic takes for passing links that PCIe switches share; 1: none is narrower than a GPU's.

        A ring passes such a link once each way, beside those of the other groups with members behind the switch. In an all-to-all
        each GPU sends what goes to members elsewhere through it, and staged traffic of each GPU passes it whole.
        """
        if self.staged:
            return self.behind
        if not to_all:
            return minimum(maximum(stride, 1.0), self.behind)
        beyond = maximum(members - maximum(self.behind / stride, 1.0), 0.0) / maximum(members - 1.0, 1.0)
        return maximum(self.behind * beyond, 1.0)


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """The links of a cluster of equal nodes: what pricing a collective needs. Numbers may be arrays.

    Attributes
    ----------
    gpus_per_node
        GPUs of a node.
    tiers
        How groups communicate inside a node, by size.
    network_bandwidth, nics
        Datasheet bytes per second of all NICs of a node, each way (0: none stated), and their number.
    network
        What the network achieves.
    host_bandwidth, host_latency
        Bytes per second that copies between a GPU and its host reach, one direction (0: unknown), and their seconds.
    node_overlap
        Exponent of the soft maximum of transfer inside nodes and between them.
    """

    gpus_per_node: Real
    tiers: tuple[Tier, ...]
    network_bandwidth: Real
    nics: Real
    network: NetworkConstants
    shared: SharedConstants
    host_bandwidth: Real
    host_latency: Real
    node_overlap: float
    shares_nics: bool = True
    """Whether groups of a node share its NICs; always, but in an ablation."""
    hashes_flows: bool = True
    """Whether flows crowd on some links of networks that hash them; always, but in an ablation."""

    def crowding(self, nodes: Real, members: Real) -> Real:
        """Return how much longer traffic between nodes, with so many members on each, takes for flows that meet on a link."""
        beside = minimum(maximum(members * self.nics / self.gpus_per_node, 1.0), self.nics)
        return crowding(nodes * beside, self.network.flows if self.hashes_flows else None)

    def at_datasheet_rates(self) -> Fabric:
        """Return links that reach their datasheet at once: rings without steps, handshakes, startups or copies."""
        waits: dict[str, float] = dict.fromkeys(("launch", "step", "exchange_step"), _NOTHING)
        waits |= dict.fromkeys(("handshake", "handshake_step", "fill", "fill_step", "exchange_handshake"), 0.0)
        tiers = tuple(
            replace(tier, efficiency=1.0, step=_NOTHING, constants=tier.constants.model_copy(update=waits), switch=None)
            for tier in self.tiers
        )
        network = {
            "efficiency": 1.0,
            "step": _NOTHING,
            "fill": 0.0,
            "point": 0.0,
            "point_efficiency": 1.0,
            "flows": None,
        }
        shared = {"own_copy": {}, "exchange_efficiency": 1.0}
        return replace(
            self,
            tiers=tiers,
            network=self.network.model_copy(update=network),
            shared=self.shared.model_copy(update=shared),
        )


def fabric_of(
    system: System, gpu: Gpu, architecture_name: str, links: Links | None = None, *, physics: Physics | None = None
) -> Fabric:
    """Gather the numbers of a system's links; a bandwidth that nobody states is 0.

    Parameters
    ----------
    architecture_name
        Unused so far: constants belong to kinds of links.
    links
        Constants; None: those of the catalog.
    physics
        Constants that belong to no kind of links; None: those of the catalog.

    Raises
    ------
    NoDataError
        When the numbers of the system do not fit its topology.
    """
    del architecture_name
    constants = links or shipped_links()
    host = _host_bandwidth(system, gpu)
    return Fabric(
        gpus_per_node=real(system.gpus_per_node),
        tiers=_tiers(system, gpu, constants),
        network_bandwidth=real(system.node_network or 0.0),
        nics=real(max(system.nics_per_node or 1, 1)),
        network=constants.network(system.network),
        shared=constants.shared,
        host_bandwidth=real(host) * constants.host.efficiency,
        host_latency=constants.host.latency,
        node_overlap=(shipped_physics() if physics is None else physics)["node_overlap"],
    )


def shape_of(system: System, gpu: Gpu | None = None) -> NodeShape:
    """Return what the graph of a node is built of."""
    link = system.link or (None if gpu is None else gpu.link)
    return NodeShape(
        kind=system.topology,
        gpus=system.gpus_per_node,
        link=0.0 if link is None else link.bandwidth or 0.0,
        links=0 if link is None else link.count or 0,
        host=_host_bandwidth(system, gpu),
        nics=system.nics_per_node or 0,
        network=system.node_network or 0.0,
        sockets=system.sockets or (1 if system.gpus_per_node <= 4 else 2),
        dies=system.dies,
        bridged=system.bridged or 0,
        behind=min(system.gpus_per_host_link, system.gpus_per_node),
    )


def _host_bandwidth(system: System, gpu: Gpu | None) -> float:
    """Return the bandwidth between a GPU and its host: the slower of what the two state."""
    stated = [system.host_link, None if gpu is None else gpu.host_link]
    rates = [link.bandwidth for link in stated if link is not None and link.bandwidth is not None]
    return min(rates, default=0.0)


def _tiers(system: System, gpu: Gpu, constants: Links) -> tuple[Tier, ...]:
    """Split the group sizes of a node by how their traffic flows."""
    shape = shape_of(system, gpu)
    if shape.gpus == 1 or (shape.link == 0.0 and shape.host == 0.0):
        return ()
    try:
        paths = _paths(shape)
    except GraphError as error:
        raise NoDataError(f"system {system.name}: {error}") from None
    tiers = []
    for path in dict.fromkeys(path for _, path, _ in paths):
        rows = [(size, rate) for size, own_path, rate in paths if own_path == path]
        tiers.append(_tier(system, gpu, shape, path, rows, constants))
    tiers[-1] = replace(tiers[-1], ranks=real(shape.gpus))
    return tuple(_measured(tier, system) for tier in tiers)


@cache
def _paths(shape: NodeShape) -> tuple[tuple[int, str, float], ...]:
    """Return for group sizes what their traffic takes (links, switch, socket or sockets) and the bandwidth of their rings."""
    topology = build(shape)
    sizes = sorted({size for size in (*PROBED, shape.behind) if 1 < size <= shape.gpus} | {shape.gpus})
    return tuple((size, _path(topology, size), topology.ring_bandwidth(size)) for size in sizes)


def _path(topology: Topology, size: int) -> str:
    """Return what the traffic of the first GPUs of a node takes."""
    if topology.linked(size):
        return "links"
    return "switch" if topology.same_switch(size) else "socket" if topology.same_socket(size) else "sockets"


def _tier(
    system: System, gpu: Gpu, shape: NodeShape, path: str, rows: list[tuple[int, float]], constants: Links
) -> Tier:
    """Return one tier: over the GPUs' own links, or over PCIe, possibly staged through the host."""
    link = system.link or gpu.link
    host = system.host_link or gpu.host_link
    name = link.name if path == "links" and link is not None else "pcie" if host is None else host.name
    kind, shared = link_kinds.shipped().kind(name), constants.shared
    measured = constants.link(name)
    staged = path != "links" and _staged(system, path)
    factor = shared.staged if staged else shared.sockets if path == "sockets" else 1.0
    bandwidth = shape.link if path == "links" else shape.host or shape.link
    # Engines' own kernels read the memory of all peers at once: over switches, or where a link leads to each of them.
    reads_peers = path == "links" and (kind.reads_peers or system.topology == "xgmi-mesh")
    reduces = path == "links" and system.topology == "nvswitch" and kind.reduces_in_switch
    return Tier(
        ranks=real(max(size for size, _ in rows)),
        name=name,
        bandwidth=real(bandwidth),
        sizes=tuple(float(size) for size, _ in rows),
        shares=tuple(rate / bandwidth for _, rate in rows),
        efficiency=measured.efficiency * factor,
        step=(system.link_latency or measured.step) * (shared.staging if staged else 1.0),
        constants=measured,
        behind=real(1 if path == "links" or (path == "switch" and not staged) else shape.behind),
        staged=staged,
        switch=constants.switch(name) if reduces else None,
        custom=constants.own_kernels(name) if reads_peers else None,
    )


def _staged(system: System, path: str) -> bool:
    """Tell whether PCIe traffic goes through host memory: no peer access at all, or none between sockets."""
    reach = "none" if system.topology == "pcie-no-peer" else system.peer
    return _FARTHER.index(reach) < _FARTHER.index({"sockets": "node"}.get(path, path))


def _measured(tier: Tier, system: System) -> Tier:
    """Put measured ring bandwidths in the place of the graph's, from the smallest group on that was measured."""
    stated = sorted((float(size), rate) for size, rate in system.bus_bandwidth.items())
    if not stated:
        return tier
    sizes, rates = zip(*stated, strict=True)
    reached = float(np.max(tier.bandwidth * tier.efficiency))
    shares = tuple(
        share if size < sizes[0] else float(np.interp(size, sizes, rates)) / reached
        for size, share in zip(tier.sizes, tier.shares, strict=True)
    )
    return replace(tier, shares=shares)
