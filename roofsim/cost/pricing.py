"""Price every op of a graph, many kernels in one expression, and sum the seconds by phase and by what takes them."""

from __future__ import annotations

import math
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from roofsim.cost.device import reach
from roofsim.cost.kernels.ops import kernels_of_all
from roofsim.cost.kernels.roofline import KernelCost, price
from roofsim.cost.kernels.sustained import Sustained, sustained, window
from roofsim.cost.stacks import MOST_ELEMENTS, NUMBERS_OF, KernelStack, is_of_points, rows_of, settled, stacks_of, sums
from roofsim.graph.base import Kind
from roofsim.graph.ops import Fused
from roofsim.numeric import Real, is_scalar, minimum, where
from roofsim.records import dataclass, field, fields, replace
from roofsim.spec.constants.physics import Physics, shipped_physics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from roofsim.cost.kernels.work import KernelWork, Pricing
    from roofsim.graph.base import AbstractOp, Phase
    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Array

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Scales:
    """Factors on the rates of the hardware: 1 is the card as it is.

    Floats, or arrays whose own axes stand in front of those of the points that they scale: (n,) for one configuration, (n, 1) or
    (n, points) for several.
    """

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

    @property
    def is_one(self) -> bool:
        """Whether it is the card as it is."""
        return all(type(value) is float and value == 1.0 for value in self.__dict__.values())

    @property
    def rank(self) -> int:
        """Number of axes."""
        return max(np.ndim(getattr(self, name)) for name in self.resources())

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(np.broadcast_shapes(*(np.shape(getattr(self, name)) for name in self.resources()))))

    def with_context_axis(self) -> Scales:
        """Return the same factors for numbers with one more axis behind their own, that of contexts."""
        factors = {name: getattr(self, name) for name in self.resources()}
        return replace(self, **{name: one[..., np.newaxis] for name, one in factors.items() if not is_scalar(one)})


@dataclass(frozen=True, kw_only=True)
class OpCost:
    """Seconds of one launch of an op at full clock, split by what takes them, and what the card's power makes of them.

    Attributes
    ----------
    held
        What the power of a long product adds to it on its own.
    drawn
        Seconds in which the card may draw the rest of its energy: that part is averaged over the step.
    launches
        Kernels that it launches each time.
    """

    op: AbstractOp
    time: Real
    compute: Real
    memory_bandwidth: Real
    launch: Real
    bound: Any
    held: Real = 0.0
    drawn: Real = 0.0
    launches: Real = 0.0

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
    physics: Physics = field(default_factory=shipped_physics)

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
    """The kernels of a graph on a device. Pricing again with other `Scales` costs a few array expressions."""

    def __init__(self, graph: OpGraph, context: Pricing) -> None:
        self.graph = graph
        self.context = context
        self.works = kernels_of_all(graph.ops, context)
        idle = context.mechanisms.idle
        self.counts = [0.0 if idle is not None and idle(op) else op.count for op in graph.ops]
        device = context.device
        around = (device.bandwidth, 1.0 if device.power is None else device.power, device.architecture.kernel_floor)
        works, ops = [work for _, work in self.works], graph.ops
        kinds = [(ops[index].phase, _attends(ops[index])) for index, _ in self.works]
        card = (*device.__dict__.values(), *device.tensor.values(), *device.vector.values())
        self._of_points = is_of_points(chain(around, self.counts, card, *map(NUMBERS_OF, works)))
        self._stacks = stacks_of(works, [self.counts[index] for index, _ in self.works], kinds, around)
        self._small = sum(len(stack.places) * math.prod(stack.shape) for stack in self._stacks) <= MOST_ELEMENTS
        self._made: dict[str, Any] = {}
        self._corner = context.device.constants.physics["power_corner"]
        holds = self._holds_products()
        self._windows = [self._window(stack) if holds and stack.apart else None for stack in self._stacks]

    def _holds_products(self) -> bool:
        """Tell whether long products are held to the card's power on their own: not where nobody measured steps of such."""
        device = self.context.device
        return device.power is not None and device.architecture.product_energy is not None

    def _window(self, stack: KernelStack) -> Array:
        """Return the share of each product that the power controller does not average with its neighbours; 0 of other kernels."""
        mean, alone = self.context.device.architecture.power_window, self.context.mechanisms.sustained
        shares = [
            np.where(work.apart & alone, window(cost.time, mean), 0.0)
            for _, work, cost in self._priced(stack, Scales())
        ]
        return np.concatenate([np.broadcast_to(share, (len(share), *stack.shape)) for share in shares])

    @cached_property
    def _times(self) -> list[Array]:
        """How often the kernels of each stack run."""
        counts = [self.counts[index] for index, _ in self.works]
        return [stack.times(counts) for stack in self._stacks]

    # -- per op -------------------------------------------------------------------------------------------------

    def per_op(self) -> list[OpCost]:
        """Return the cost of one launch of every op, in program order."""
        return self._once("ops", self._costs_of_ops)

    def _costs_of_ops(self) -> list[OpCost]:
        prices: dict[int, list[tuple[KernelCost, Real, Real]]] = {}
        watts, windows = self._watts(Scales()), self._window_of_each()
        for place, ((index, work), cost) in enumerate(zip(self.works, self.prices(), strict=True)):
            held: Real = 0.0
            drawn: Real = 0.0 if watts is None else work.energy / watts
            if watts is not None and place in windows:
                own = sustained(cost.time, work.heat / watts, drawn, windows[place], self._corner)
                held, drawn = own.held - own.alone, drawn - own.power
            prices.setdefault(index, []).append((cost, held, drawn))
        launches: dict[int, Real] = {}
        for index, work in self.works:
            launches[index] = launches.get(index, 0.0) + work.launches
        return [_merged(op, launches.get(index, 0.0), prices.get(index, [])) for index, op in enumerate(self.graph.ops)]

    def prices(self) -> list[KernelCost]:
        """Return the price of every kernel, as `works` has them."""
        return self._once("prices", self._prices_of_kernels)

    def _prices_of_kernels(self) -> list[KernelCost]:
        names = ("time", "compute", "memory_bandwidth", "launch", "bound")
        prices: dict[int, KernelCost] = {}
        for stack in self._stacks:
            for part, _, cost in self._priced(stack, Scales()):
                size = len(stack.places[part])
                columns = [rows_of(getattr(cost, name), size, stack.shape, of_points=self._of_points) for name in names]
                prices |= stack.spread([KernelCost(*values) for values in zip(*columns, strict=True)], part.start)
        return [prices[place] for place in range(len(self.works))]

    def _window_of_each(self) -> dict[int, Real]:
        """Return the share of kernels that the power controller does not average with their neighbours, where it does not."""
        windows: dict[int, Real] = {}
        for stack, shares in zip(self._stacks, self._windows, strict=True):
            if shares is not None:
                windows |= stack.spread(rows_of(shares, len(shares), stack.shape, of_points=self._of_points))
        return windows

    def _priced(self, stack: KernelStack, scales: Scales) -> Iterator[tuple[slice, KernelWork, KernelCost]]:
        """Yield the kernels of a stack with their prices, a few at a time; those of the card as it is are worked out once."""
        slices = ((part, work, self._price(work, scales)) for part, work in stack.slices(scales.rank, scales.size))
        yield from self._once(f"stack {stack.places[0][0]}", lambda: list(slices)) if scales.is_one else slices

    def _once(self, name: str, make: Callable[[], T]) -> T:
        """Return what was made of the card as it is, or make it; what is large is made anew, so that memory stays bounded."""
        if not self._small:
            return make()
        if name not in self._made:
            self._made[name] = make()
        made: T = self._made[name]
        return made

    def _price(self, work: KernelWork, scales: Scales) -> KernelCost:
        device = self.context.device
        compute_scale = np.where(work.on_tensor, scales.tensor_flops, scales.vector_flops)
        reached = reach(work.load * scales.memory_bandwidth / scales.vector_flops)
        given = np.asarray(device.bandwidth) * work.bandwidth_share * scales.memory_bandwidth * reached
        allowed = work.limit * scales.vector_flops
        floor = np.asarray(device.architecture.kernel_floor)
        return price(
            work.flops,
            work.flop_peak * work.compute_share * compute_scale,
            work.traffic,
            minimum(given, allowed),
            (work.launches * floor + work.floor) / scales.launch_rate,
            np.where(np.asarray(work.norm) > 0.0, work.norm, device.constants.norm),  # type: ignore[arg-type]
            where(given > allowed, 1.0, 1.0 - reached * reached),
        )

    def seconds_by_class(self) -> dict[str, Real]:
        """Return the device seconds of one pass by class of kernel, launch floors apart."""
        by_class: dict[str, Real] = {}
        for (index, work), cost in zip(self.works, self.prices(), strict=True):
            seconds = (cost.compute + cost.memory_bandwidth) * self.counts[index]
            by_class[work.bandwidth_key] = by_class.get(work.bandwidth_key, 0.0) + seconds
        return by_class

    def kernels(self) -> Real:
        """Return the launches of one pass."""
        total: Real = 0.0
        for index, work in self.works:
            total = total + work.launches * self.counts[index]
        return total

    # -- totals -------------------------------------------------------------------------------------------------

    def totals(self, scales: Scales | None = None) -> PassCost:
        """Return the seconds of one pass by phase; arrays in `scales` give one pass for each of their elements."""
        scales = Scales() if scales is None else scales
        by_phase: dict[Phase, _Sums] = {}
        watts, rank = self._watts(scales), scales.rank
        for stack, times, shares in zip(self._stacks, self._times, self._windows, strict=True):
            room = (1,) * max(rank - len(stack.shape), 0)
            often = times.reshape(len(times), *room, *times.shape[1:])
            for part, work, cost in self._priced(stack, scales):
                starts, kinds = stack.runs(part)
                for phase, _ in kinds:
                    by_phase.setdefault(phase, _Sums())
                _add(by_phase, kinds, _columns(work, cost, often[part], watts, starts))
                apart = min(stack.apart - part.start, len(often[part]))
                if watts is not None and shares is not None and apart > 0:
                    share = shares[part].reshape(len(shares[part]), *room, *stack.shape)
                    begin = [start for start in starts if start < apart]
                    _hold(
                        by_phase, kinds, _held(work, cost.time, often[part], watts, share, apart, begin, self._corner)
                    )
        of_points = self._of_points and rank == 0
        return _pass_cost(
            {phase: sums.settled(of_points=of_points) for phase, sums in by_phase.items()},
            {phase: self.context.device.host_time(phase) / scales.host_issue_rate for phase in by_phase},
            self.context.device.constants.physics,
        )

    def _watts(self, scales: Scales) -> Any:
        power = self.context.device.power
        return None if power is None else np.asarray(power) * scales.power


def _columns(work: KernelWork, cost: KernelCost, times: Array, watts: Any, starts: list[int]) -> dict[str, Any]:
    """Return the sums of runs of kernels, each kernel so many times: (runs, ...)."""
    columns = {name: sums(getattr(cost, name), times, starts) for name in PARTS}
    columns["launches"] = sums(work.launches, times, starts)
    columns["attention"] = sums(cost.time, times, starts)
    if watts is not None:
        columns["power"] = sums(work.energy / watts, times, starts)
    return columns


def _held(
    work: KernelWork, time: Any, times: Array, watts: Any, share: Array, apart: int, starts: list[int], corner: float
) -> dict[str, Any]:
    """Return what long products are held to by their own power, summed over runs of the first `apart` kernels."""
    rows = slice(0, apart)
    own = sustained(time[rows], work.heat[rows] / watts, work.energy[rows] / watts, share[rows], corner)  # type: ignore[index]
    return {one.name: sums(getattr(own, one.name), times[rows], starts) for one in fields(Sustained)}


def _add(by_phase: dict[Phase, _Sums], kinds: list[tuple[Phase, bool]], columns: dict[str, Any]) -> None:
    for place, (phase, attends) in enumerate(kinds):
        parts = by_phase[phase].parts
        for name, values in columns.items():
            if attends or name != "attention":
                parts[name] = parts[name] + values[place]


def _hold(by_phase: dict[Phase, _Sums], kinds: list[tuple[Phase, bool]], columns: dict[str, Any]) -> None:
    for place in range(len(columns["held"])):
        own = by_phase[kinds[place][0]]
        more = Sustained(**{name: values[place] for name, values in columns.items()})
        own.apart = more if own.apart is None else own.apart.plus(more)


@dataclass(kw_only=True)
class _Sums:
    """Sums over the kernels of a phase."""

    parts: dict[str, Any] = field(
        default_factory=lambda: dict.fromkeys((*PARTS, "launches", "power", "attention"), 0.0)
    )
    apart: Sustained | None = None

    def settled(self, *, of_points: bool) -> _Sums:
        """Return the sums as floats, or arrays of the kind of their parts."""
        parts = {name: settled(value, of_points=of_points) for name, value in self.parts.items()}
        if self.apart is None:
            return _Sums(parts=parts)
        kept = {one.name: settled(getattr(self.apart, one.name), of_points=of_points) for one in fields(Sustained)}
        return _Sums(parts=parts, apart=Sustained(**kept))


def _pass_cost(sums: dict[Phase, _Sums], issue: dict[Phase, Real], physics: Physics) -> PassCost:
    """Return sums by phase as a cost; `issue` are the host's seconds per launch."""
    return PassCost(
        device={str(phase): {part: of_phase.parts[part] for part in PARTS} for phase, of_phase in sums.items()},
        host={str(phase): of_phase.parts["launches"] * issue[phase] for phase, of_phase in sums.items()},
        power={str(phase): of_phase.parts["power"] for phase, of_phase in sums.items()},
        sustained={str(phase): of_phase.apart for phase, of_phase in sums.items() if of_phase.apart is not None},
        attention={str(phase): of_phase.parts["attention"] for phase, of_phase in sums.items()},
        physics=physics,
    )


def _attends(op: AbstractOp) -> bool:
    """Tell whether an op is a fused attention kernel, or the operator around one."""
    return op.kind is Kind.ATTENTION or (isinstance(op, Fused) and op.heavy is not None)


def _merged(op: AbstractOp, launches: Real, prices: list[tuple[KernelCost, Real, Real]]) -> OpCost:
    """Add up the kernels of one op, what power adds to each included; what bounds the longest bounds the op."""
    sums: dict[str, Real] = dict.fromkeys(("time", "held", "drawn", *PARTS), 0.0)
    for cost, held, drawn in prices:
        for name, seconds in (("time", cost.time), ("held", held), ("drawn", drawn)):
            sums[name] = sums[name] + seconds
        for part in PARTS:
            sums[part] = sums[part] + getattr(cost, part)
    bound = prices[0][0].bound if prices else 0.0
    return OpCost(op=op, bound=bound, launches=launches, **sums)
