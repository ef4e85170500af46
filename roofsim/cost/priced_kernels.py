"""Price kernels that run on one device, many in one expression, and remember what they take on the card as it is."""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from roofsim.cost.columns import is_of_points, rows_of
from roofsim.cost.kernels.models.streaming import unit_reach
from roofsim.cost.kernels.ops import kernels_of_all
from roofsim.cost.kernels.roofline import KernelCost, price
from roofsim.cost.kernels.sustained import window
from roofsim.cost.scales import Scales
from roofsim.cost.stacks import NUMBERS_OF, KernelStack, stacks_of
from roofsim.graph.alike import alike_of
from roofsim.graph.base import Kind
from roofsim.graph.ops import Fused
from roofsim.numeric import is_scalar, minimum, where
from roofsim.traced.points import as_array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from roofsim.cost.kernels.work import KernelWork, Pricing
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Array, Real

T = TypeVar("T")

#: Numbers, kernels times points, of which all that was worked out is remembered; what is larger is made anew.
_MOST_REMEMBERED: Final = 2**19


class Remembered:
    """What was made of the card as it is, by name; nothing where it would fill memory."""

    def __init__(self, small: bool) -> None:
        self.small = small
        self._made: dict[str, Any] = {}

    def once(self, name: str, make: Callable[[], T]) -> T:
        """Return what was made under a name, or make it."""
        if not self.small:
            return make()
        if name not in self._made:
            self._made[name] = make()
        made: T = self._made[name]
        return made


class PricedKernels:
    """The kernels of some ops on a device: those of one graph, or of several that run in the same way.

    Attributes
    ----------
    works
        Every kernel with the number of its op.
    kinds
        Of each op the number of its kind: ops of a kind do the same work.
    counts
        How often each op runs.
    stacks
        The kernels with a leading axis, equal ones once.
    windows
        Of each stack the share of each product that the power controller does not average with its neighbours; None without.
    """

    def __init__(self, graphs: Sequence[OpGraph], context: Pricing) -> None:
        self.context = context
        ops = [op for graph in graphs for op in graph.ops]
        first, self.kinds = alike_of(graphs)
        self.works = _as_measured(kernels_of_all(ops, context, (first, self.kinds)), ops, context)
        idle = context.mechanisms.idle
        self.counts = [0.0 if idle is not None and idle(op) else op.count for op in ops]
        device = context.device
        around = (device.bandwidth, 1.0 if device.power is None else device.power, device.architecture.kernel_floor)
        works = [work for _, work in self.works]
        kinds = [(ops[index].phase, _attends(ops[index])) for index, _ in self.works]
        card = (
            *device.__dict__.values(),
            *device.tensor.values(),
            *device.vector.values(),
            *device.host.__dict__.values(),
        )
        self.of_points = is_of_points(chain(around, self.counts, card, *map(NUMBERS_OF, works)))
        self.stacks = stacks_of(works, [self.counts[index] for index, _ in self.works], kinds, around)
        self.small = sum(len(stack.places) * math.prod(stack.shape) for stack in self.stacks) <= _MOST_REMEMBERED
        self.corner = context.device.constants.physics["power_corner"]
        self._made = Remembered(self.small)
        holds = self._holds_products()
        self.windows = [self._window(stack) if holds and stack.apart else None for stack in self.stacks]

    def _holds_products(self) -> bool:
        """Tell whether long products are held to the card's power on their own: not where nobody measured steps of such."""
        device = self.context.device
        return device.power is not None and device.architecture.product_energy is not None

    def _window(self, stack: KernelStack) -> Array:
        """Return the share of each product that the power controller does not average with its neighbours; 0 of other kernels."""
        shares = [self.held_share(work, cost) for _, work, cost in self.priced(stack, Scales())]
        return np.concatenate([np.broadcast_to(share, (len(share), *stack.shape)) for share in shares])

    def held_share(self, work: KernelWork, cost: KernelCost, scales: Scales | None = None) -> Array:
        """Return the share of each kernel that the power controller does not average with its neighbours, at its price."""
        mean, alone = self.context.device.power_window, self.context.mechanisms.sustained
        own: Real = mean if scales is None else mean / scales.launch_rate
        share: Array = np.where(work.apart & alone, window(cost.time, own), 0.0)
        return share

    def prices(self) -> list[KernelCost]:
        """Return the price of every kernel, as `works` has them."""
        return self._made.once("prices", self._prices_of_kernels)

    def _prices_of_kernels(self) -> list[KernelCost]:
        names = ("time", "compute", "memory_bandwidth", "launch", "bound")
        prices: dict[int, KernelCost] = {}
        for stack in self.stacks:
            for part, _, cost in self.priced(stack, Scales()):
                size = len(stack.places[part])
                columns = [rows_of(getattr(cost, name), size, stack.shape, of_points=self.of_points) for name in names]
                prices |= stack.spread([KernelCost(*values) for values in zip(*columns, strict=True)], part.start)
        return [prices[place] for place in range(len(self.works))]

    def window_of_each(self) -> dict[int, Real]:
        """Return the share of kernels that the power controller does not average with their neighbours, where it does not."""
        return self._made.once("windows", self._windows_of_kernels)

    def _windows_of_kernels(self) -> dict[int, Real]:
        windows: dict[int, Real] = {}
        for stack, shares in zip(self.stacks, self.windows, strict=True):
            if shares is not None:
                windows |= stack.spread(rows_of(shares, len(shares), stack.shape, of_points=self.of_points))
        return windows

    def priced(self, stack: KernelStack, scales: Scales) -> Iterator[tuple[slice, KernelWork, KernelCost]]:
        """Yield the kernels of a stack with their prices, a few at a time; those of the card as it is are worked out once."""
        slices = ((part, work, self.price_of(work, scales)) for part, work in stack.slices(scales.rank, scales.size))
        yield from self._made.once(f"stack {stack.places[0][0]}", lambda: list(slices)) if scales.is_one else slices

    def price_of(self, work: KernelWork, scales: Scales) -> KernelCost:
        """Return what kernels take on scaled hardware."""
        device = self.context.device
        units, memory = scales.unit_rate, scales.memory_bandwidth
        own = np.where(work.on_tensor, scales.tensor_flops, scales.vector_flops)
        left = 1.0 - work.by_units - work.by_vectors - work.by_memory
        compute_scale = 1.0 / (
            left / own + work.by_units / units + work.by_vectors / scales.vector_flops + work.by_memory / memory
        )
        # What waits for latency keeps its rate, and asks the units for no more loads, when the memory is faster.
        rate = 1.0 / ((1.0 - work.flat) / memory + work.flat / scales.latency)
        reached = unit_reach(work.load * rate / units)
        given = as_array(device.bandwidth) * work.bandwidth_share * rate * reached
        allowed = work.limit * units
        floor = as_array(device.architecture.kernel_floor)
        return price(
            work.flops,
            work.flop_peak * work.compute_share * compute_scale,
            work.traffic,
            minimum(given, allowed),
            (work.launches * floor + work.floor) / scales.launch_rate,
            np.where(as_array(work.norm) > 0.0, work.norm, device.constants.norm),  # type: ignore[arg-type]
            where(given > allowed, 1.0, 1.0 - reached * reached),
        )

    def watts(self, scales: Scales) -> Any:
        """Return the card's power limit; None where nobody states it."""
        power = self.context.device.power
        if power is None or is_scalar(power, scales.power):
            return None if power is None else power * scales.power
        return as_array(power) * scales.power


def _as_measured(
    works: list[tuple[int, KernelWork]], ops: Sequence[AbstractOp], context: Pricing
) -> list[tuple[int, KernelWork]]:
    """Let kernels of classes that were measured on this very card take what they took."""
    measured = context.device.deviation.kernels
    if not measured:
        return works
    slower: dict[tuple[int, str], KernelWork] = {}
    for index, work in works:
        name = str(ops[index].group)
        if name in measured and (id(work), name) not in slower:
            slower[id(work), name] = work.slower(measured[name].factor)
    return [(index, slower.get((id(work), str(ops[index].group)), work)) for index, work in works]


def _attends(op: AbstractOp) -> bool:
    """Tell whether an op is a fused attention kernel, or the operator around one."""
    return op.kind is Kind.ATTENTION or (isinstance(op, Fused) and op.heavy is not None)
