"""Price collectives: all-reduce, all-gather, reduce-scatter, all-to-all, broadcast and point to point over a fabric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.errors import NoDataError, did_you_mean
from roofsim.numeric import Real, ceil, divide, maximum, minimum, real, where
from roofsim.units import parse

if TYPE_CHECKING:
    from roofsim.spec.hardware import Gpu, System

#: What can be priced.
KINDS: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv")
#: Share of a link's datasheet bandwidth that large transfers reach.
INTRA_EFFICIENCY: Final = 0.78
INTER_EFFICIENCY: Final = 0.8
HOST_EFFICIENCY: Final = 0.8
LAUNCH: Final = parse("6 us", "s")
INTRA_STEP: Final = parse("1.5 us", "s")
INTER_STEP: Final = parse("5 us", "s")


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """The links of a cluster of equal nodes: what pricing a collective needs. Every field may be an array.

    Attributes
    ----------
    gpus_per_node
        GPUs of a node.
    intra_bandwidth
        Bytes per second and GPU, each way, that a ring inside the node reaches.
    inter_bandwidth
        Bytes per second, each way, that all NICs of a node reach together.
    launch
        Seconds that any collective takes.
    intra_step, inter_step
        Seconds per step of an algorithm inside a node and between nodes.
    host_bandwidth, host_latency
        Bytes per second of a GPU's link to its host, one direction, and seconds per transfer.
    """

    gpus_per_node: Real
    intra_bandwidth: Real
    inter_bandwidth: Real
    launch: Real
    intra_step: Real
    inter_step: Real
    host_bandwidth: Real
    host_latency: Real


@dataclass(frozen=True, kw_only=True)
class CollectiveTime:
    """Seconds of a collective and what bounds it: the three parts sum to the seconds."""

    seconds: Real
    intra_node: Real
    inter_node: Real
    latency: Real


def fabric_of(system: System, gpu: Gpu, architecture_name: str) -> Fabric:
    """Gather the numbers of a system's links; a bandwidth that nobody states is 0."""
    del architecture_name
    host = system.host_link or gpu.host_link
    link = system.link or gpu.link
    host_rate = None if host is None else host.bandwidth
    intra = link.bandwidth if link is not None and link.bandwidth is not None else host_rate
    intra = 0.0 if intra is None else intra
    network = system.node_network if system.node_network is not None else 0.0
    return Fabric(
        gpus_per_node=real(system.gpus_per_node),
        intra_bandwidth=real(intra) * INTRA_EFFICIENCY,
        inter_bandwidth=real(network) * INTER_EFFICIENCY,
        launch=LAUNCH,
        intra_step=INTRA_STEP,
        inter_step=INTER_STEP,
        host_bandwidth=real(host_rate if host_rate is not None else intra) * HOST_EFFICIENCY,
        host_latency=LAUNCH,
    )


def collective_time(
    kind: str,
    message: Real,
    ranks: Real,
    stride: Real,
    fabric: Fabric,
    *,
    intra_scale: Real = 1.0,
    inter_scale: Real = 1.0,
) -> CollectiveTime:
    """Return the time of one collective that all groups of its kind run at once.

    Parameters
    ----------
    kind
        One of `KINDS`.
    message
        Bytes of the full tensor: the gathered result, the scattered input, what one rank holds (all-to-all), what is
        sent.
    ranks
        Members of the group. One rank takes no time.
    stride
        Distance between neighbouring members in global rank order. Groups of a node share its NICs.
    intra_scale, inter_scale
        Factors on the bandwidths inside and between nodes.

    Raises
    ------
    NoDataError
        For an unknown kind.
    """
    if kind not in KINDS:
        raise NoDataError(f"unknown collective {kind!r}{did_you_mean(kind, KINDS)}; known: {', '.join(KINDS)}")
    members = minimum(ranks, maximum(fabric.gpus_per_node / stride, 1.0))
    nodes = ceil(ranks / members)
    share = fabric.inter_bandwidth * minimum(members / fabric.gpus_per_node, 1.0)
    several = where(ranks > 1.0, 1.0, 0.0)
    crossing = several * where(nodes > 1.0, 1.0, 0.0)
    within = several * where(members > 1.0, 1.0, 0.0)
    _refuse_missing(crossing, share, "the nodes' network (system.node_network)")
    _refuse_missing(within, fabric.intra_bandwidth, "the links between a node's GPUs (system.link.bandwidth)")
    intra_bytes, inter_bytes = _traffic(kind, message, ranks, members, nodes)
    intra: Real = divide(within * intra_bytes, fabric.intra_bandwidth * intra_scale)
    inter = divide(crossing * inter_bytes, share * inter_scale)
    # The chunks of a message flow through both kinds of links at once: the slower one is seen.
    bound: Real = maximum(intra, inter)
    inside = where(intra >= inter, bound, 0.0 * bound)
    steps = 2.0 if kind == "all_reduce" else 1.0
    latency = several * fabric.launch + steps * (
        within * _depth(kind, members) * fabric.intra_step + crossing * _depth(kind, nodes) * fabric.inter_step
    )
    latency = latency + 0.0 * bound
    return CollectiveTime(seconds=bound + latency, intra_node=inside, inter_node=bound - inside, latency=latency)


def _refuse_missing(used: Real, bandwidth: Real, name: str) -> None:
    """Refuse to price traffic over links whose bandwidth nobody stated."""
    if np.any((np.asarray(used) > 0.0) & (np.asarray(bandwidth) <= 0.0)):
        raise NoDataError(f"no bandwidth is known of {name}: state it")


def _depth(kind: str, ranks: Real) -> Real:
    return 0.0 * ranks + 1.0 if kind == "send_recv" else ranks - 1.0


def _traffic(kind: str, message: Real, ranks: Real, members: Real, nodes: Real) -> tuple[Real, Real]:
    """Return the bytes over a GPU's own links, and over the NICs that a group has in each node."""
    if kind in ("send_recv", "broadcast"):
        return message + 0.0 * ranks, message + 0.0 * ranks
    ring = message * (ranks - 1.0) / ranks
    if kind == "all_reduce":
        return 2.0 * ring, 2.0 * message * (nodes - 1.0) / nodes
    if kind == "all_to_all":
        return message * (members - 1.0) / ranks, members * message * (ranks - members) / ranks
    return ring, message * (nodes - 1.0) / nodes


def host_transfer_time(size: Real, fabric: Fabric) -> Real:
    """Return the time to move bytes between a GPU and its host, one direction."""
    moving = where(size > 0.0, 1.0, 0.0)
    _refuse_missing(moving, fabric.host_bandwidth, "the link to the host (system.host_link.bandwidth)")
    seconds: Real = moving * fabric.host_latency + divide(size, fabric.host_bandwidth)
    return seconds
