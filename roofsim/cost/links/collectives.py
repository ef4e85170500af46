"""Price collectives: all-reduce, all-gather, reduce-scatter, all-to-all, broadcast and point to point over a fabric.

A ring takes ``launch + max(latency, transfer)``, the maximum being soft, because steps hide behind one another:

- latency: a time per step, and a handshake per step that the low-latency protocol saves on short messages (LL);
- transfer: bytes over the bandwidth, and the startup of the widest pipeline, or what a narrower one (LL128) loses,
  whichever is less; parts inside the nodes and between them flow at the same time.

Trees across nodes, reduction in the switches and engines' own kernels are alternatives; the fastest runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.cost.links.fabric import Fabric, Tier, fabric_of
from roofsim.errors import NoDataError, did_you_mean
from roofsim.numeric import Real, ceil, divide, floor, maximum, minimum, real, smooth_shares, soft_minimum, where
from roofsim.points import anywhere
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roofsim.spec.constants.links import CustomConstants, SwitchConstants

__all__ = ["KINDS", "CollectiveTime", "Fabric", "collective_time", "fabric_of", "host_transfer_time"]

#: What can be priced.
KINDS: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv")
#: How often a message runs round a ring.
ROUNDS: Final = {"all_reduce": 2.0}


@dataclass(frozen=True, kw_only=True)
class CollectiveTime:
    """Seconds of a collective, and what bounds it: the three parts sum to the seconds.

    Attributes
    ----------
    intra_node, inter_node
        Transfer inside a node and between nodes, as far as it is not hidden by the other.
    latency
        Launch, steps and handshakes.
    """

    seconds: Real
    intra_node: Real
    inter_node: Real
    latency: Real


@dataclass(frozen=True, kw_only=True)
class Together:
    """Rows of an all-to-all that cross between nodes as one: those of a token, whose experts lie on several ranks.

    Attributes
    ----------
    rows
        Rows of a token, sent to so many experts.
    groups, chosen
        Equal groups of experts, in the order of the ranks, and those that hold all experts of a token.
    """

    rows: Real
    groups: Real = 1.0
    chosen: Real = 1.0

    def apart(self, nodes: Real) -> Real:
        """Return the share of crossings that is left, experts being even: nodes that a token's experts lie on, by its rows.

        >>> round(Together(rows=8.0).apart(2.0), 3), Together(rows=1.0).apart(4.0)
        (0.249, 1.0)
        >>> round(Together(rows=8.0, groups=8.0, chosen=4.0).apart(8.0) * 8.0, 2)
        3.6
        """
        within = minimum(nodes, maximum(nodes * self.chosen / self.groups, self.chosen))
        share: Real = within * (1.0 - (1.0 - 1.0 / within) ** self.rows) / self.rows
        return share


@dataclass(frozen=True, kw_only=True)
class _Task:
    """One collective with its placement: ranks of a group, members on a node, `stride` apart, nodes; ``crossing`` is 0 or 1."""

    kind: str
    message: Real
    ranks: Real
    members: Real
    stride: Real
    nodes: Real
    crossing: Real
    within: Real
    intra_scale: Real
    latency_scale: Real
    network: Real
    in_switch: bool
    apart: Real = 1.0
    gathered: Real = 1.0

    @property
    def span(self) -> Real:
        """GPUs of a node from the first member to the last."""
        return (self.members - 1.0) * self.stride + 1.0


def collective_time(
    kind: str,
    message: Real,
    ranks: Real,
    stride: Real,
    fabric: Fabric,
    *,
    intra_scale: Real = 1.0,
    inter_scale: Real = 1.0,
    latency_scale: Real = 1.0,
    groups: Real | None = None,
    custom: str | None = None,
    in_switch: bool = True,
    together: Together | None = None,
) -> CollectiveTime:
    """Return the time of one collective.

    Parameters
    ----------
    kind
        One of `KINDS`.
    message
        Bytes of the full tensor: the gathered result, the scattered input, what one rank holds (all-to-all), what is
        sent. No bytes take no time.
    ranks
        Members of the group. One rank takes no time.
    stride
        Distance between neighbouring members in global rank order.
    intra_scale, inter_scale, latency_scale
        Factors on the bandwidths inside and between nodes, and on the rate of launches, steps, handshakes and startups.
    groups
        Groups of a node that communicate at once and share its NICs; None: as many as fill the node.
    custom
        Engine that brings its own kernels for short all-reduces inside a node (a name of hardware/engines; of engines
        that nobody measured, and for ``any``, the mean of those measured); None: the collective library only.
    in_switch
        Whether switches that can may reduce the data; they do not add 8-bit types.
    together
        Of an all-to-all: which of its rows cross to a node as one; None: each crosses by itself.

    Raises
    ------
    NoDataError
        For an unknown kind, or traffic over links whose bandwidth nobody stated.
    """
    if kind not in KINDS:
        raise NoDataError(
            f"unknown collective {kind!r}; known: {', '.join(KINDS)}. {did_you_mean(kind, KINDS)}".strip()
        )
    members = minimum(ranks, maximum(floor(fabric.gpus_per_node / stride), 1.0))
    nodes = ceil(ranks / members)
    used = where(ranks > 1.0, 1.0, 0.0) * where(message > 0.0, 1.0, 0.0)
    crossing: Real = where(nodes > 1.0, 1.0, 0.0) * used
    within: Real = where(members > 1.0, 1.0, 0.0) * used
    if kind == "send_recv":
        within = within * (1.0 - crossing)
    network = _nic_share(fabric, members, groups) * inter_scale
    _refuse_missing(crossing, network, ("the network between nodes", "system.node_network='400 Gbit/s'"))
    _refuse_missing(
        within, 1.0 * bool(fabric.tiers), ("the links between a node's GPUs", "system.link.bandwidth='300 GB/s'")
    )
    task = _Task(
        kind=kind,
        message=message,
        ranks=maximum(ranks, 2.0),
        members=members,
        stride=stride,
        nodes=nodes,
        crossing=crossing,
        within=within,
        intra_scale=intra_scale,
        latency_scale=latency_scale,
        network=network,
        in_switch=in_switch,
        apart=1.0 if together is None else together.apart(nodes),
        gathered=1.0 if together is None else where(together.rows > 1.0, maximum(ranks / members, 1.0), 1.0),
    )
    fastest = _cheapest(task, fabric, custom=custom)
    return CollectiveTime(
        seconds=fastest.seconds * used,
        intra_node=fastest.intra_node * used,
        inter_node=fastest.inter_node * used,
        latency=fastest.latency * used,
    )


def host_transfer_time(size: Real, fabric: Fabric) -> Real:
    """Return the time to copy bytes between a GPU and pinned memory of its host, one direction."""
    moving = where(size > 0.0, 1.0, 0.0)
    _refuse_missing(moving, fabric.host_bandwidth, ("the link to the host", "system.host_link.bandwidth='32 GB/s'"))
    seconds: Real = moving * fabric.host_latency + divide(size, fabric.host_bandwidth)
    return seconds


def _refuse_missing(used: Real, bandwidth: Real, name: tuple[str, str]) -> None:
    """Refuse to price traffic over links whose bandwidth nobody stated."""
    if anywhere((used > 0.0) & (bandwidth <= 0.0)):
        raise NoDataError(
            f"no bandwidth is known for {name[0]}. State it, for example --set hardware.override.{name[1]}, "
            "or name a --system that has it (`roofsim list systems`)"
        )


def _nic_share(fabric: Fabric, members: Real, groups: Real | None) -> Real:
    """Return the network bandwidth of a group's members on one node: the NICs beside them, shared among groups."""
    if not fabric.shares_nics:
        return fabric.network_bandwidth
    together = maximum(fabric.gpus_per_node / members, 1.0) if groups is None else groups
    beside = minimum(maximum(members * fabric.nics / fabric.gpus_per_node, 1.0), fabric.nics)
    share: Real = fabric.network_bandwidth / fabric.nics * minimum(beside, fabric.nics / together)
    return share


def _cheapest(task: _Task, fabric: Fabric, *, custom: str | None) -> CollectiveTime:
    """Return the fastest algorithm's time, over the tier that the members of a node communicate through."""
    fastest: CollectiveTime | None = None
    for tier in reversed(fabric.tiers or (None,)):
        best = _ring(task, fabric, tier)
        for allowed, other in _alternatives(task, fabric, tier, custom=custom):
            best = _chosen(allowed * where(other.seconds < best.seconds, 1.0, 0.0) > 0.0, other, best)
        fastest = best if fastest is None or tier is None else _chosen(task.span <= tier.ranks, best, fastest)
    assert fastest is not None
    return fastest


def _chosen(condition: Any, a: CollectiveTime, b: CollectiveTime) -> CollectiveTime:
    return CollectiveTime(
        seconds=where(condition, a.seconds, b.seconds),
        intra_node=where(condition, a.intra_node, b.intra_node),
        inter_node=where(condition, a.inter_node, b.inter_node),
        latency=where(condition, a.latency, b.latency),
    )


def _alternatives(
    task: _Task, fabric: Fabric, tier: Tier | None, *, custom: str | None
) -> Iterator[tuple[Real, CollectiveTime]]:
    """Yield other algorithms of an all-reduce, each with 1 where it can run and 0 elsewhere."""
    if task.kind != "all_reduce":
        return
    yield task.crossing, _tree(task, fabric, tier)
    if tier is None:
        return
    alone = task.within * (1.0 - task.crossing)
    if tier.switch is not None and task.in_switch:
        yield alone * where(task.members > 2.0, 1.0, 0.0), _in_switch(task, tier, tier.switch)
    if tier.custom is not None and custom is not None:
        kernels = tier.custom.get(custom, tier.custom["any"])
        allowed = alone * where(task.message <= kernels.limit, 1.0, 0.0)
        for shots in (1, 2):
            yield allowed, _own_kernel(task, tier, kernels, shots)


def _ring(task: _Task, fabric: Fabric, tier: Tier | None) -> CollectiveTime:
    """Price a ring over all ranks; a broadcast and point to point are chains, all-to-all reaches all peers at once."""
    rounds = ROUNDS.get(task.kind, 1.0)
    if task.kind == "all_to_all":
        return _exchange(task, fabric, tier)
    chain = task.kind in ("broadcast", "send_recv")
    hops: Real = 1.0 if task.kind == "send_recv" else rounds * (task.ranks - 1.0)
    size = task.message if chain else rounds * task.message * (task.ranks - 1.0) / task.ranks
    crossings = task.crossing * where(hops > 1.0, hops * task.nodes / task.ranks, 1.0)
    steps = task.within * (hops - crossings)
    own = size * (1.0 + fabric.shared.own_copy.get(task.kind, 0.0) / (task.ranks - 1.0))
    filled = 0.0 if task.kind == "send_recv" else 1.0
    latency, inside = _inside(task, tier, own, size, steps, filled)
    point = task.kind == "send_recv"
    latency = latency + crossings * (fabric.network.step + (fabric.network.point if point else 0.0))
    outside = _outside(task, fabric, size, fabric.network.point_efficiency if point else 1.0)
    return _over(task, fabric, tier, latency, inside, outside)


def _tree(task: _Task, fabric: Fabric, tier: Tier | None) -> CollectiveTime:
    """Price a double binary tree over nodes, with a chain inside each or the switches' reduction (NCCL 2.4, 2.18)."""
    members = maximum(task.members, 1.0)
    size = 2.0 * task.message * (members - 1.0) / members
    latency, inside = _inside(task, tier, size, size, task.within * 2.0 * (members - 1.0), 1.0)
    if tier is not None and tier.switch is not None and task.in_switch:
        inside = minimum(
            inside, task.within * _switch_transfer(task, tier, tier.switch) + tier.switch.launch / task.latency_scale
        )
    latency = latency + task.crossing * 2.0 * real(np.log2(maximum(task.nodes, 1.0))) * fabric.network.step
    outside = _outside(task, fabric, 2.0 * task.message * (task.nodes - 1.0) / task.nodes, fabric.shared.tree)
    return _over(task, fabric, tier, latency, inside, outside)


def _exchange(task: _Task, fabric: Fabric, tier: Tier | None) -> CollectiveTime:
    """Price all-to-all: every rank sends a part to every other, those of its node and those of others.

    Rows that cross together are spread on arrival, so that all rows pass the links inside the node.
    """
    near = task.message * (task.members - 1.0) / task.ranks * task.gathered
    far = task.members * task.message * (task.ranks - task.members) / task.ranks * task.apart
    latency, inside = 0.0 * near, 0.0 * near
    if tier is not None:
        kind = tier.constants
        peers = task.within * real(np.sqrt(maximum(task.members - 1.0, 0.0)))
        own = near * (1.0 + fabric.shared.own_copy.get(task.kind, 0.0) / maximum(task.members - 1.0, 1.0))
        slowed = own / fabric.shared.exchange_efficiency
        step = kind.exchange_step * tier.step / kind.step
        latency = peers * step + soft_minimum(task.within * kind.exchange_handshake, near / kind.exchange_small, 2.0)
        inside = _transfer(task, tier, slowed, near, peers)
    network = fabric.network
    far_step = real(np.sqrt(maximum(task.nodes - 1.0, 0.0))) * network.step + network.point
    outside = _outside(task, fabric, far, network.point_efficiency)
    return _over(task, fabric, tier, latency + task.crossing * far_step, inside, outside)


def _in_switch(task: _Task, tier: Tier, switch: SwitchConstants) -> CollectiveTime:
    """Price reduction inside the switches: every GPU sends its data once, and the sum of the part that it owns once."""
    transfer = _switch_transfer(task, tier, switch)
    launch, latency = tier.constants.launch / task.latency_scale, switch.launch / task.latency_scale
    return _time(launch, latency + 0.0 * transfer, transfer, 0.0 * transfer, 1.0)


def _switch_transfer(task: _Task, tier: Tier, switch: SwitchConstants) -> Real:
    """Return the time of a message that a GPU sends to the switches once, and of the n-th part that it owns."""
    size = task.message * (1.0 + 1.0 / task.members)
    seconds: Real = size / (tier.bandwidth * switch.efficiency * task.intra_scale)
    return seconds


def _own_kernel(task: _Task, tier: Tier, custom: CustomConstants, shots: int) -> CollectiveTime:
    """Price an engine's own all-reduce: each GPU reads all of its peers' data (1), or reduces a part and gathers (2)."""
    others = maximum(task.members - 1.0, 0.0)
    launch, share = (
        (custom.launch_one, custom.efficiency_one) if shots == 1 else (custom.launch_two, custom.efficiency_two)
    )
    size = task.message * others if shots == 1 else 2.0 * task.message * others / task.members
    linked = tier.ring(task.members) / tier.efficiency
    transfer: Real = divide(size, linked * share * task.intra_scale)
    steps = custom.step * others / task.latency_scale
    return _time(launch / task.latency_scale, steps + 0.0 * transfer, transfer, 0.0 * transfer, 1.0)


def _launch(fabric: Fabric, tier: Tier | None) -> Real:
    """Return the seconds that any collective takes; of nodes with one GPU those of the slowest link known."""
    return fabric.shared.launch if tier is None else tier.constants.launch


def _inside(task: _Task, tier: Tier | None, own: Real, size: Real, steps: Real, filled: float) -> tuple[Real, Real]:
    """Return latency and transfer inside the nodes; `own` counts the copy of a rank's own part, `size` does not."""
    if tier is None:
        return 0.0 * size, 0.0 * size
    near = task.within * size
    handshake = task.within * tier.constants.handshake + steps * tier.constants.handshake_step
    latency = steps * tier.step + soft_minimum(handshake, near / tier.constants.small, 2.0)
    return latency, _transfer(task, tier, task.within * own, filled * near, steps)


def _transfer(task: _Task, tier: Tier, own: Real, size: Real, steps: Real) -> Real:
    """Return the time over the links inside a node, with the startup of the pipeline or what a narrow one loses."""
    shared = tier.sharing(task.members, task.stride, to_all=task.kind == "all_to_all")
    wide = divide(own * shared, tier.ring(task.members))
    startup = tier.constants.fill + tier.constants.fill_step * steps
    seconds: Real = (
        wide / task.intra_scale + soft_minimum(startup, size / tier.constants.ramp, 1.0) / task.latency_scale
    )
    return seconds


def _outside(task: _Task, fabric: Fabric, size: Real, share: float) -> Real:
    """Return the time over the NICs that a group has on a node; `share` is the bandwidth against a ring's."""
    size = task.crossing * size / share * fabric.crowding(task.nodes, task.members)
    wide = divide(size, task.network * fabric.network.efficiency)
    return wide + soft_minimum(
        fabric.network.fill / task.latency_scale + 0.0 * size, divide(size, task.network * fabric.network.ramp), 1.0
    )


def _over(task: _Task, fabric: Fabric, tier: Tier | None, latency: Real, inside: Real, outside: Real) -> CollectiveTime:
    """Put the parts of an algorithm over the links of a cluster together."""
    launch, latency = _launch(fabric, tier) / task.latency_scale, latency / task.latency_scale
    return _time(launch, latency, inside, outside, fabric.shared.corner, fabric.node_overlap)


def _time(
    launch: Real, latency: Real, inside: Real, outside: Real, corner: float, overlap: float = 1.0
) -> CollectiveTime:
    """Put the parts of an algorithm together: a launch, then latency and transfer at the same time.

    `corner` and `overlap` are the exponents of the soft maximum of both, and of transfers inside nodes and between them.
    """
    wire, near = smooth_shares(inside, outside, overlap)
    body, waiting = smooth_shares(latency, wire, corner)
    moved = (1.0 - waiting) * body
    return CollectiveTime(
        seconds=launch + body,
        intra_node=moved * near,
        inter_node=moved * (1.0 - near),
        latency=launch + waiting * body,
    )
