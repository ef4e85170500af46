"""Price every op of a graph: op by op on arrays, or all at once where sizes are plain numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roofsim.cost.device import reach
from roofsim.cost.kernels.ops import kernels_of_all
from roofsim.cost.kernels.roofline import Price, price
from roofsim.cost.kernels.sustained import Sustained, sustained, window
from roofsim.cost.kernels.work import KernelWork, Pricing
from roofsim.graph.base import Kind, Phase
from roofsim.numeric import Real, is_scalar, minimum, where
from roofsim.records import dataclass, field, fields, replace

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph


@dataclass(frozen=True, kw_only=True)
class Scales:
    """Factors on the rates of the hardware: 1 is the card as it is. Floats or arrays."""

    tensor_flops: Real = 1.0
    vector_flops: Real = 1.0
    memory_bandwidth: Real = 1.0
    launch_rate: Real = 1.0
    host_issue_rate: Real = 1.0
    power: Real = 1.0
    intra_node_link: Real = 1.0
    inter_node_link: Real = 1.0
    host_link: Real = 1.0
    host_memory: Real = 1.0
    host_compute: Real = 1.0
    storage: Real = 1.0

    @classmethod
    def resources(cls) -> tuple[str, ...]:
        """Return the names of the time-like resources."""
        return tuple(field.name for field in fields(cls))


@dataclass(frozen=True, kw_only=True)
class OpCost:
    """Seconds of one launch of an op at full clock, split by what takes them, and what the card's power makes of them.

    Attributes
    ----------
    held
        What the power of a long product adds to it on its own.
    drawn
        Seconds in which the card may draw the rest of its energy: that part is averaged over the step.
    """

    op: AbstractOp
    time: Real
    compute: Real
    memory_bandwidth: Real
    launch: Real
    bound: Any
    held: Real = 0.0
    drawn: Real = 0.0

    def lasting(self, stretch: Real) -> Real:
        """Return the seconds of one launch in a step that takes so many more for each second of drawing power."""
        return self.time + self.held + self.drawn * stretch


@dataclass(frozen=True, kw_only=True)
class PassCost:
    """Seconds of one pass over a graph by phase, split by what takes them, the host's time to issue it, and its energy.

    `device[phase]` maps compute, memory_bandwidth, launch to seconds; `host[phase]` to seconds of issue; `power[phase]`
    to the seconds in which the card may draw the phase's energy (none where its power is unknown), `sustained[phase]` to
    what long products are held to by their own power; `attention[phase]` to the device seconds of attention kernels.
    `overhead` are the seconds, counted as launches, in which the device waits between two passes.
    """

    device: dict[str, dict[str, Real]]
    host: dict[str, Real]
    power: dict[str, Real]
    sustained: dict[str, Sustained] = field(default_factory=dict)
    attention: dict[str, Real] = field(default_factory=dict)
    overhead: Real = 0.0

    def device_time(self, phase: str) -> Real:
        """Return the device seconds of a phase."""
        parts = self.device.get(phase)
        if parts is None:
            return 0.0
        apart = self.sustained_in(phase)
        return parts["compute"] + parts["memory_bandwidth"] + parts["launch"] + apart.held - apart.alone

    def lasting(self, stretch: Real) -> Real:
        """Return the seconds of all kernels at the clock that power allows, as `OpCost.lasting`, and of the overhead."""
        total: Real = 0.0
        for phase in self.device:
            drawn = self.power[phase] - self.sustained_in(phase).power
            total = total + self.device_time(phase) + drawn * stretch
        return total

    def sustained_in(self, phase: str) -> Sustained:
        """Return what long products of a phase are held to."""
        return self.sustained.get(phase, Sustained())


PARTS = ("compute", "memory_bandwidth", "launch")


class PricedGraph:
    """The kernels of a graph on a device. Pricing again with other `Scales` costs one array expression."""

    def __init__(self, graph: OpGraph, context: Pricing) -> None:
        self.graph = graph
        self.context = context
        self.works = kernels_of_all(graph.ops, context)
        self.counts = [op.count for op in graph.ops]
        scalar = is_scalar(context.device.bandwidth, *self.counts) and all(_scalar(work) for _, work in self.works)
        self._stack = _stack([work for _, work in self.works]) if scalar and self.works else None
        self.windows = self._windows()

    def _windows(self) -> list[Real] | None:
        """Return the share of each product that the power controller does not average with its neighbours.

        None where nobody measured steps of long products.
        """
        device = self.context.device
        if device.power is None or device.architecture.product_energy is None:
            return None
        prices, mean = self._prices(Scales()), device.architecture.power_window
        return [
            window(cost.time, mean) if work.apart else 0.0 for (_, work), cost in zip(self.works, prices, strict=True)
        ]

    # -- per op -------------------------------------------------------------------------------------------------

    def per_op(self) -> list[OpCost]:
        """Return the cost of one launch of every op, in program order."""
        found: dict[int, list[tuple[Price, Real, Real]]] = {}
        watts = self._watts(Scales())
        for place, ((index, work), cost) in enumerate(zip(self.works, self._prices(Scales()), strict=True)):
            held: Real = 0.0
            drawn: Real = 0.0 if watts is None else work.energy / watts
            if watts is not None and self.windows is not None:
                own = sustained(cost.time, work.heat / watts, drawn, self.windows[place])
                held, drawn = own.held - own.alone, drawn - own.power
            found.setdefault(index, []).append((cost, held, drawn))
        return [_merged(op, found.get(index, [])) for index, op in enumerate(self.graph.ops)]

    def _prices(self, scales: Scales) -> list[Price]:
        if self._stack is None:
            return [self._price(work, scales) for _, work in self.works]
        stacked = self._price(self._stack, scales)
        rows = np.broadcast_arrays(
            stacked.time, stacked.compute, stacked.memory_bandwidth, stacked.launch, stacked.bound
        )
        columns = [row.tolist() for row in rows]
        return [Price(*values) for values in zip(*columns, strict=True)]

    def _price(self, work: KernelWork, scales: Scales) -> Price:
        device = self.context.device
        compute_scale = _choose(work.on_tensor, scales.tensor_flops, scales.vector_flops)
        reached = reach(work.load * scales.memory_bandwidth / scales.vector_flops)
        given = device.bandwidth * work.bandwidth_share * scales.memory_bandwidth * reached
        allowed = work.limit * scales.vector_flops
        return price(
            work.flops,
            work.flop_peak * work.compute_share * compute_scale,
            work.traffic,
            minimum(given, allowed),
            (work.launches * device.architecture.kernel_floor + work.floor) / scales.launch_rate,
            _norm(work.norm, device.constants.norm),
            where(given > allowed, 1.0, 1.0 - reached * reached),
        )

    def seconds_by_class(self) -> dict[str, Real]:
        """Return the device seconds of one pass by class of kernel, launch floors apart."""
        found: dict[str, Real] = {}
        for (index, work), cost in zip(self.works, self._prices(Scales()), strict=True):
            seconds = (cost.compute + cost.memory_bandwidth) * self.counts[index]
            found[work.bandwidth_key] = found.get(work.bandwidth_key, 0.0) + seconds
        return found

    def kernels(self) -> Real:
        """Return the launches of one pass."""
        total: Real = 0.0
        for index, work in self.works:
            total = total + work.launches * self.counts[index]
        return total

    # -- totals -------------------------------------------------------------------------------------------------

    def totals(self, scales: Scales | None = None) -> PassCost:
        """Return the seconds of one pass by phase; `scales` may hold arrays of shape (n, 1): one pricing for each."""
        scales = Scales() if scales is None else scales
        if self._stack is not None:
            return self._stacked_totals(scales)
        device: dict[str, dict[str, Real]] = {}
        host: dict[str, Real] = {}
        power: dict[str, Real] = {}
        apart: dict[str, Sustained] = {}
        attention: dict[str, Real] = {}
        watts = self._watts(scales)
        for place, ((index, work), cost) in enumerate(zip(self.works, self._prices(scales), strict=True)):
            op, count = self.graph.ops[index], self.counts[index]
            phase = str(op.phase)
            parts = device.setdefault(phase, dict.fromkeys(PARTS, 0.0))
            for part in PARTS:
                parts[part] = parts[part] + getattr(cost, part) * count
            if op.kind is Kind.ATTENTION:
                attention[phase] = attention.get(phase, 0.0) + cost.time * count
            host[phase] = (
                host.get(phase, 0.0)
                + work.launches * count * self.context.device.host_time(op.phase) / scales.host_issue_rate
            )
            power[phase] = power.get(phase, 0.0) + (0.0 if watts is None else work.energy * count / watts)
            if watts is not None and self.windows is not None:
                own = sustained(cost.time, work.heat / watts, work.energy / watts, self.windows[place])
                apart[phase] = apart.get(phase, Sustained()).plus(own, count)
        return PassCost(device=device, host=host, power=power, sustained=apart, attention=attention)

    def _watts(self, scales: Scales) -> Real | None:
        return None if self.context.device.power is None else self.context.device.power * scales.power

    def _stacked_totals(self, scales: Scales) -> PassCost:
        assert self._stack is not None
        cost = self._price(self._stack, scales)
        counts = np.array([self.counts[index] for index, _ in self.works])
        phases = np.array([list(Phase).index(self.graph.ops[index].phase) for index, _ in self.works])
        launches = np.asarray(self._stack.launches) * counts
        watts = self._watts(scales)
        joules = np.asarray(self._stack.energy) * counts
        device, host, power = {}, {}, {}
        apart: dict[str, Sustained] = {}
        attends = np.array([self.graph.ops[index].kind is Kind.ATTENTION for index, _ in self.works])
        attention: dict[str, Real] = {}
        own = None
        if watts is not None and self.windows is not None:
            heat, energy = np.asarray(self._stack.heat) / watts, np.asarray(self._stack.energy) / watts
            own = Sustained().plus(sustained(cost.time, heat, energy, np.array(self.windows)), counts)
        for number, phase in enumerate(Phase):
            chosen = phases == number
            if chosen.any():
                device[str(phase)] = {part: _sum(getattr(cost, part) * counts, chosen) for part in PARTS}
                host[str(phase)] = _sum(
                    launches * self.context.device.host_time(phase) / scales.host_issue_rate, chosen
                )
                if attends.any():
                    attention[str(phase)] = _sum(cost.time * counts, chosen & attends)
                power[str(phase)] = 0.0 if watts is None else _sum(joules / watts, chosen)
                if own is not None:
                    apart[str(phase)] = Sustained(
                        alone=_sum(own.alone, chosen), held=_sum(own.held, chosen), drawn=_sum(own.drawn, chosen),
                        power=_sum(own.power, chosen),
                    )  # fmt: skip
        return PassCost(device=device, host=host, power=power, sustained=apart, attention=attention)


def _sum(values: Any, chosen: Any) -> Real:
    """Sum the chosen ops; the op axis is the last, others are kept."""
    total = np.asarray(values)[..., chosen].sum(axis=-1)
    return float(total) if total.ndim == 0 else total


def _norm(own: Any, usual: float) -> Any:
    """Return the exponent of a kernel's corner, or of many in an array."""
    if isinstance(own, float):
        return own or usual
    return np.where(own > 0.0, own, usual) if own.any() else usual


def _choose(on_tensor: Any, tensor: Real, vector: Real) -> Real:
    if isinstance(on_tensor, bool):
        return tensor if on_tensor else vector
    chosen: Real = np.where(on_tensor, tensor, vector)
    return chosen


def _scalar(work: KernelWork) -> bool:
    return is_scalar(
        work.flops, work.flop_peak, work.compute_share, work.traffic, work.launches, work.bandwidth_share, work.floor
    )


def _stack(works: list[KernelWork]) -> KernelWork:
    """Put the fields of many kernels into arrays, one element a kernel."""
    columns: dict[str, Any] = {
        field.name: np.array([getattr(work, field.name) for work in works])
        for field in fields(KernelWork)
        if not field.name.endswith(("_key", "_keys")) and field.name != "product"
    }
    return replace(works[0], **columns)


def _merged(op: AbstractOp, prices: list[tuple[Price, Real, Real]]) -> OpCost:
    """Add up the kernels of one op, what power adds to each included; what bounds the longest bounds the op."""
    sums: dict[str, Real] = dict.fromkeys(("time", "held", "drawn", *PARTS), 0.0)
    for cost, held, drawn in prices:
        for name, seconds in (("time", cost.time), ("held", held), ("drawn", drawn)):
            sums[name] = sums[name] + seconds
        for part in PARTS:
            sums[part] = sums[part] + getattr(cost, part)
    bound = prices[0][0].bound if prices else 0.0
    return OpCost(op=op, bound=bound, **sums)
