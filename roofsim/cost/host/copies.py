"""Price what passes between a GPU and its host, and what the host computes: seconds of link, host memory and storage."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.cost.kernels.random_access import row_traffic
from roofsim.errors import NoDataError
from roofsim.graph.base import Phase
from roofsim.graph.ops import HostCompute, HostTransfer, HostUpdate
from roofsim.numeric import any_above, divide, is_scalar, maximum, minimum, real, round_up, where
from roofsim.records import dataclass, field, replace
from roofsim.spec.constants.links import shipped_links
from roofsim.spec.constants.physics import Physics, shipped_physics
from roofsim.spec.scenario.offload import TIERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.cost.scales import Scales
    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Real
    from roofsim.spec.hardware.schema import Gpu, System

RESOURCES: Final = ("host_link", "host_memory", "storage")
CXL: Final = "cxl"


@dataclass(frozen=True, kw_only=True)
class Flow:
    """Seconds that each resource of the host is busy."""

    host_link: Real = 0.0
    host_memory: Real = 0.0
    storage: Real = 0.0

    @property
    def pace(self) -> Real:
        """Seconds of all at once: of the slowest."""
        return maximum(maximum(self.host_link, self.host_memory), self.storage)

    def plus(self, other: Flow, times: Real = 1.0) -> Flow:
        """Return the sum."""
        return Flow(
            host_link=self.host_link + other.host_link * times,
            host_memory=self.host_memory + other.host_memory * times,
            storage=self.storage + other.storage * times,
        )

    def mapped(self, change: Callable[[Real], Real]) -> Flow:
        """Return a flow whose seconds are changed."""
        return Flow(**{name: change(getattr(self, name)) for name in RESOURCES})

    def lasting(self, seconds: Real) -> Flow:
        """Return so many seconds of the resource that sets the pace."""
        pace = self.pace
        link = where(self.host_link >= pace, 1.0, 0.0)
        memory = where(self.host_memory >= pace, 1.0, 0.0) * (1.0 - link)
        return Flow(
            host_link=seconds * link, host_memory=seconds * memory, storage=seconds * (1.0 - link) * (1.0 - memory)
        )


@dataclass(frozen=True, kw_only=True)
class StorePath:
    """What one GPU has of a storage while all GPUs of a job use it. Bytes per second; 0: nobody states it.

    Attributes
    ----------
    read, write
        Of the storage itself.
    network
        Of the network to it, each way; infinite where it is in the node.
    latency
        Seconds of the first page of a copy.
    direct
        Whether copies pass without a stay in host memory (GPUDirect Storage).
    """

    read: Real
    write: Real
    network: Real = math.inf
    latency: Real = 0.0
    direct: bool = False

    def rate(self, *, to_host: bool) -> Real:
        """Return the bytes per second of one direction."""
        return self.write if to_host else self.read


@dataclass(frozen=True, kw_only=True)
class HostPath:
    """What one GPU has of its host while all GPUs of a job use it. Bytes per second; 0: nobody states it.

    Attributes
    ----------
    link, link_back, latency
        From the host, to it, and the seconds of a copy beside its bytes.
    memory, cxl
        Bandwidth of host memory and of memory behind CXL, reads and writes together; `cxl_latency` is that of a load.
    stores
        Place -> storage.
    turns
        GPUs that use the host one after the other, where it computes for them: the stages of a pipeline.
    physics
        What copies and updates reach of the memory's bandwidth, and the page of storage.
    """

    link: Real
    link_back: Real
    latency: Real
    memory: Real
    cxl: Real = 0.0
    cxl_latency: Real = 0.0
    stores: dict[str, StorePath] = field(default_factory=dict)
    turns: Real = 1.0
    physics: Physics = field(default_factory=shipped_physics)

    def scaled(self, scales: Scales) -> HostPath:
        """Return the path on scaled hardware."""
        stores = {
            place: replace(
                store,
                read=store.read * scales.storage,
                write=store.write * scales.storage,
                network=store.network * scales.inter_node_link,
                latency=store.latency / scales.latency,
            )
            for place, store in self.stores.items()
        }
        return replace(
            self,
            link=self.link * scales.host_link,
            link_back=self.link_back * scales.host_link,
            latency=self.latency / scales.latency,
            memory=self.memory * scales.host_memory,
            cxl=self.cxl * scales.host_memory,
            cxl_latency=self.cxl_latency / scales.latency,
            stores=stores,
        )

    def legs(self, place: str, *, to_host: bool) -> dict[str, Real]:
        """Return the bytes per second that a large copy gets of each link on its way, by name; unstated ones are left out.

        Copies to and from storage stay in host memory on the way, which takes them twice, but for those that storage and GPU
        exchange directly. Memory behind CXL is read by the GPU's copy engine through the processor, past its DRAM.
        """
        reached, store = self.physics["host_copy_efficiency"], self.stores.get(place)
        rates: dict[str, Real] = {"host_link": self.link_back if to_host else self.link}
        if place == CXL:
            rates["cxl"] = self.cxl * reached
        elif store is None:
            rates["host_memory"] = self.memory * reached
        else:
            if not store.direct:
                rates["host_memory"] = self.memory * reached / 2.0
            rates |= {"storage_network": store.network, "storage": store.rate(to_host=to_host)}
        return {name: rate for name, rate in rates.items() if not _unknown(rate) and not _endless(rate)}

    def transfer(self, op: HostTransfer) -> Flow:
        """Return the seconds of one copy."""
        size, to_host, store = op.message(), op.direction == "to_host", self.stores.get(op.place)
        some = where(size > 0.0, 1.0, 0.0)
        if op.rows is not None:
            size = op.rows * row_traffic(divide(size, op.rows), self.physics["memory_sector"])
        if store is not None:
            size = round_up(size, self.physics["storage_page"])
        rates = self.legs(op.place, to_host=to_host)
        _refuse_unknown(op, rates, size)
        times = {name: divide(size, rate) for name, rate in rates.items()}
        none = 0.0 * size
        flow = Flow(
            host_link=times["host_link"] + self.latency * some,
            host_memory=times.get("host_memory", none),
            storage=maximum(times.get("storage", none), times.get("storage_network", none)),
        )
        if op.place == CXL:
            return replace(flow, host_memory=times["cxl"] + self.cxl_latency * some)
        return flow if store is None else replace(flow, storage=flow.storage + store.latency * some)

    def update(self, op: HostUpdate) -> Flow:
        """Return the seconds of arithmetic on the host: it waits for its memory, of state behind CXL for that as well."""
        reached = self.physics["host_update_efficiency"]
        near = op.read + op.written - op.distant
        memory = _over(near, self.memory * reached, "system.host.memory_bandwidth")
        if any_above(op.distant, 0.0):
            memory = maximum(memory, _over(op.distant, self.cxl * reached, "system.cxl.bandwidth"))
        store = self.stores.get(op.place)
        if store is None:
            return Flow(host_memory=memory, storage=0.0 * memory)
        storage = _over(op.fetched, store.read, "system.storage.read") + _over(
            op.stored, store.write, "system.storage.write"
        )
        return Flow(host_memory=memory, storage=maximum(storage, divide(op.fetched + op.stored, store.network)))

    def compute(self, op: HostCompute) -> Flow:
        """Return the seconds of layers that the host computes: few rows wait for its memory."""
        reached = self.physics["host_experts_efficiency" if op.of_experts else "host_copy_efficiency"]
        rate = self.memory * self.turns * reached
        return Flow(host_memory=_over(op.read, rate, "system.host.memory_bandwidth"))

    def of(self, op: HostTransfer | HostUpdate | HostCompute) -> Flow:
        """Return the seconds of whatever takes the host."""
        if isinstance(op, HostTransfer):
            return self.transfer(op)
        return self.update(op) if isinstance(op, HostUpdate) else self.compute(op)


#: By phase, and what happens: ``to_host``, ``from_host``, ``work``, ``compute`` (the device waits for it), or ``last`` (to the
#: host, in the last micro batch only).
Flows = dict[tuple[str, str], Flow]


def host_path(system: System, gpu: Gpu, gpus: Real, stages: Real = 1.0, physics: Physics | None = None) -> HostPath:
    """Gather what a GPU has of its host in a job of so many GPUs, which fill one node after the other."""
    constants, physics = shipped_links().host, shipped_physics() if physics is None else physics
    beside = minimum(gpus, real(system.gpus_per_node))
    ends = [link for link in (system.host_link, gpu.host_link) if link is not None and link.bandwidth is not None]
    rates = [real(link.bandwidth) for link in ends if link.bandwidth is not None]
    slower = minimum(rates[0], rates[-1]) if rates else 0.0
    share = slower / minimum(beside, real(system.gpus_per_host_link))
    slowest = min(range(len(ends)), key=lambda end: float(np.max(rates[end])), default=None)
    arriving, leaving = constants.reached(None if slowest is None else ends[slowest].name)
    cxl = system.cxl
    return HostPath(
        link=share * arriving,
        link_back=share * leaving,
        latency=constants.latency,
        memory=real(system.host.memory_bandwidth or 0.0) / beside,
        cxl=0.0 if cxl is None else real(cxl.bandwidth) / beside,
        cxl_latency=physics["cxl_latency"] if cxl is None or cxl.latency is None else real(cxl.latency),
        stores=_stores(system, beside, physics),
        turns=minimum(stages, beside),
        physics=physics,
    )


def _stores(system: System, beside: Real, physics: Physics) -> dict[str, StorePath]:
    """Return what a GPU has of the storage of its node, and of that over the node's network, by place."""
    stores = {}
    for place, store in (("nvme", system.storage), ("nvmeof", system.remote_storage)):
        if store is None:
            continue
        remote = TIERS[place].remote
        latency = physics["storage_latency"] if store.latency is None else real(store.latency)
        network: Real = math.inf
        if remote and system.node_network is not None:
            constants = shipped_links().network(system.network)
            network = real(system.node_network) * constants.point_efficiency / beside
        stores[place] = StorePath(
            read=real(store.read or 0.0) / beside,
            write=real(store.write or 0.0) / beside,
            network=network,
            latency=latency + (physics["storage_fabric_latency"] if remote and store.latency is None else 0.0),
            direct=store.direct,
        )
    return stores


def host_flows(graph: OpGraph, path: HostPath) -> Flows:
    """Return the seconds of one pass over a graph; those of the last micro batch as if each were the last."""
    flows: Flows = {}
    for op in graph:
        if isinstance(op, HostTransfer):
            kind = "last" if op.last else op.direction
        elif isinstance(op, HostUpdate):
            kind = "work"
        elif isinstance(op, HostCompute):
            kind = "compute"
        else:
            continue
        flow = path.of(op)
        phase = str(Phase.BACKWARD if op.phase is Phase.RECOMPUTE else op.phase)
        times = op.repeats if kind == "last" else op.count
        flows[phase, kind] = flows.get((phase, kind), Flow()).plus(flow, times)
    return flows


def uses_host(graph: OpGraph) -> bool:
    """Tell whether a graph copies anything to or from its host."""
    return any(isinstance(op, HostCompute | HostTransfer | HostUpdate) for op in graph)


def _unknown(rate: Real) -> bool:
    return not any_above(rate, 0.0)


def _endless(rate: Real) -> bool:
    return is_scalar(rate) and rate == math.inf


def _refuse_unknown(op: HostTransfer, rates: dict[str, Real], size: Real) -> None:
    """Refuse a copy over a link whose bandwidth nobody states; host memory is not asked of those that only pass through it."""
    needed = {"host_link": "host_link.bandwidth"}
    if op.place == CXL:
        needed["cxl"] = "cxl.bandwidth"
    elif TIERS[op.place].storage:
        read, written = TIERS[op.place].rates
        needed["storage"] = written if op.direction == "to_host" else read
    missing = [key for name, key in needed.items() if name not in rates]
    if missing and any_above(size, 0.0):
        raise NoDataError(f"no bandwidth is known for system.{missing[0]}: state it")


def _over(size: Real, rate: Real, key: str) -> Real:
    if any_above(size, 0.0) and _unknown(rate):
        raise NoDataError(f"no bandwidth is known for {key}: state it")
    return divide(size, rate)
