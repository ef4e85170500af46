"""Price what passes between a GPU and its host, and what the host computes: seconds of link, host memory and storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.errors import NoDataError
from roofsim.graph.base import Phase
from roofsim.graph.ops import HostCompute, HostTransfer, HostUpdate
from roofsim.numeric import any_above, divide, maximum, minimum, real, where
from roofsim.records import dataclass, field, replace
from roofsim.spec.constants.links import shipped_links
from roofsim.spec.constants.physics import Physics, shipped_physics

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.cost.scales import Scales
    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Real
    from roofsim.spec.hardware.schema import Gpu, System

RESOURCES: Final = ("host_link", "host_memory", "storage")


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
class HostPath:
    """What one GPU has of its host while all GPUs of a job use it. Bytes per second; 0: nobody states it.

    Attributes
    ----------
    link, latency
        To the host or back, one direction, and the seconds of a copy beside its bytes.
    memory
        Bandwidth of host memory, reads and writes together.
    read, write
        From and to storage.
    turns
        GPUs that use the host one after the other, where it computes for them: the stages of a pipeline.
    physics
        What copies and updates reach of the memory's bandwidth.
    """

    link: Real
    latency: Real
    memory: Real
    read: Real
    write: Real
    turns: Real = 1.0
    physics: Physics = field(default_factory=shipped_physics)

    def scaled(self, scales: Scales) -> HostPath:
        """Return the path on scaled hardware."""
        link, memory, storage = (getattr(scales, name) for name in RESOURCES)
        return replace(
            self,
            link=self.link * link,
            latency=self.latency / link,
            memory=self.memory * memory,
            read=self.read * storage,
            write=self.write * storage,
        )

    def transfer(self, op: HostTransfer) -> Flow:
        """Return the seconds of one copy; to and from storage it passes through host memory twice."""
        size, to_host = op.message(), op.direction == "to_host"
        on_disk = op.place == "nvme"
        passes = 2.0 if on_disk else 1.0
        rate, reached = self.write if to_host else self.read, self.physics["host_copy_efficiency"]
        return Flow(
            host_link=_over(size, self.link, "system.host_link.bandwidth") + self.latency * where(size > 0.0, 1.0, 0.0),
            host_memory=0.0 * size if _unknown(self.memory) else passes * size / (self.memory * reached),
            storage=_over(size, rate, f"system.storage.{'write' if to_host else 'read'}") if on_disk else 0.0 * size,
        )

    def update(self, op: HostUpdate) -> Flow:
        """Return the seconds of arithmetic on the host: it waits for its memory."""
        memory = _over(
            op.read + op.written, self.memory * self.physics["host_update_efficiency"], "system.host.memory_bandwidth"
        )
        storage = _over(op.fetched, self.read, "system.storage.read") + _over(
            op.stored, self.write, "system.storage.write"
        )
        return Flow(host_memory=memory, storage=storage)

    def compute(self, op: HostCompute) -> Flow:
        """Return the seconds of layers that the host computes: few rows wait for its memory."""
        rate = self.memory * self.turns * self.physics["host_copy_efficiency"]
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
    constants = shipped_links().host
    beside = minimum(gpus, real(system.gpus_per_node))
    stated = [link.bandwidth for link in (system.host_link, gpu.host_link) if link is not None]
    rates = [real(rate) for rate in stated if rate is not None]
    slower = minimum(rates[0], rates[-1]) if rates else 0.0
    return HostPath(
        link=slower * constants.efficiency / minimum(beside, real(system.gpus_per_host_link)),
        latency=constants.latency,
        memory=real(system.host.memory_bandwidth or 0.0) / beside,
        read=real(system.storage.read or 0.0) / beside,
        write=real(system.storage.write or 0.0) / beside,
        turns=minimum(stages, beside),
        physics=shipped_physics() if physics is None else physics,
    )


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


def _over(size: Real, rate: Real, key: str) -> Real:
    if any_above(size, 0.0) and _unknown(rate):
        raise NoDataError(f"no bandwidth is known for {key}: state it")
    return divide(size, rate)
