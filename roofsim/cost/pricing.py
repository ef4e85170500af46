"""Price every op of a graph, many kernels in one expression, and sum the seconds by phase and by what takes them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from roofsim.cost.kernels.sustained import Sustained, sustained
from roofsim.cost.priced_kernels import PricedKernels, Remembered
from roofsim.cost.scales import Scales
from roofsim.cost.stacks import sums
from roofsim.cost.sums import PARTS, Sums, add, held_of, hold, numbers_of
from roofsim.graph.alike import alike_of
from roofsim.graph.base import HEAVY_KINDS
from roofsim.numeric import divide, is_scalar
from roofsim.records import dataclass, field, fields, replace
from roofsim.spec.constants.physics import Physics, shipped_physics

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from roofsim.cost.kernels.roofline import KernelCost
    from roofsim.cost.kernels.work import KernelWork, Pricing
    from roofsim.graph.base import AbstractOp, Phase
    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Array, Real


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
    `overhead` are the seconds, counted as launches, in which the device waits between two passes;
    `serial` those in which the host works behind a pass and issues nothing.
    """

    device: dict[str, dict[str, Real]]
    host: dict[str, Real]
    power: dict[str, Real]
    sustained: dict[str, Sustained] = field(default_factory=dict)
    attention: dict[str, Real] = field(default_factory=dict)
    overhead: Real = 0.0
    serial: Real = 0.0
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

    def mapped(self, change: Callable[[Real], Real]) -> PassCost:
        """Return the cost with each of its numbers changed, such as to their mean over contexts."""
        device = {phase: {part: change(value) for part, value in parts.items()} for phase, parts in self.device.items()}
        host, power, attention = (
            {phase: change(value) for phase, value in part.items()} for part in (self.host, self.power, self.attention)
        )
        apart = {
            phase: Sustained(**{each.name: change(getattr(one, each.name)) for each in fields(Sustained)})
            for phase, one in self.sustained.items()
        }
        return replace(self, device=device, host=host, power=power, sustained=apart, attention=attention)

    def sustained_in(self, phase: str) -> Sustained:
        """Return what long products of a phase are held to."""
        return self.sustained.get(phase, Sustained())


class PricedGraph:
    """The kernels of a graph on a device. Pricing again with other `Scales` costs a few array expressions.

    `together` prices its kernels with those of other graphs, of which it is the one whose ops begin at `first`. Totals are those
    of the ops whose numbers are in `only`; None: of all.
    """

    def __init__(
        self,
        graph: OpGraph,
        context: Pricing,
        together: PricedKernels | None = None,
        first: int = 0,
        only: Container[int] | None = None,
    ) -> None:
        self.graph, self.first, self.only = graph, first, only
        self.context = context
        self.together = PricedKernels([graph], context) if together is None else together
        last = first + len(graph.ops)
        self._own = [place for place, (index, _) in enumerate(self.together.works) if first <= index < last]
        self.works = [(self.together.works[place][0] - first, self.together.works[place][1]) for place in self._own]
        self.counts, self.kinds = self.together.counts[first:last], self.together.kinds[first:last]
        self._made = Remembered(self.together.small)

    @cached_property
    def heavy(self) -> list[tuple[int, AbstractOp]]:
        """The ops that carry the FLOPs of a model, with their numbers."""
        return [(index, op) for index, op in enumerate(self.graph.ops) if op.group in HEAVY_KINDS]

    @cached_property
    def _phases(self) -> list[Phase]:
        """The phases in which its kernels run."""
        return list(dict.fromkeys(self.graph.ops[index].phase for index, _ in self.works))

    @cached_property
    def _times(self) -> list[Array]:
        """How often the kernels of each stack run: those of other graphs never."""
        counts = {
            place: self.counts[index]
            for place, (index, _) in zip(self._own, self.works, strict=True)
            if self.only is None or index in self.only
        }
        return [stack.times(counts) for stack in self.together.stacks]

    # -- per op -------------------------------------------------------------------------------------------------

    def per_op(self) -> list[OpCost]:
        """Return the cost of one launch of every op, in program order."""
        return self._made.once("ops", self._costs_of_ops)

    def _costs_of_ops(self) -> list[OpCost]:
        kernels: dict[int, list[int]] = {}
        for at, (index, _) in enumerate(self.works):
            kernels.setdefault(index, []).append(at)
        priced, costs, alike = self._priced_alone(), [], {}
        for index, op in enumerate(self.graph.ops):
            own = kernels.get(index, [])
            # The kernels of ops that are alike are the very same; what they take has the axes of how often they run.
            plain = type(self.counts[index]) is float
            key = tuple([id(self.works[at][1]) for at in own]) if plain else (-1, index)
            if key not in alike:
                alike[key] = _merged(op, [self.works[at][1] for at in own], [priced(at) for at in own])
            costs.append(replace(alike[key], op=op))
        return costs

    def _priced_alone(self) -> Callable[[int], tuple[KernelCost, Real, Real]]:
        """Return what says of a kernel, by its place in `works`, its price, what its power adds to it, and what it draws beside."""
        watts, windows, corner = self.together.watts(Scales()), self.together.window_of_each(), self.together.corner
        prices = self.prices()

        def priced(at: int) -> tuple[KernelCost, Real, Real]:
            cost, work, place = prices[at], self.works[at][1], self._own[at]
            if watts is None:
                return cost, 0.0, 0.0
            drawn = work.energy / watts
            if place not in windows:
                return cost, 0.0, drawn
            own = sustained(cost.time, work.heat / watts, drawn, windows[place], corner)
            return cost, own.held - own.alone, drawn - own.power

        return priced

    def prices(self) -> list[KernelCost]:
        """Return the price of every kernel, as `works` has them."""
        prices = self.together.prices()
        return [prices[place] for place in self._own]

    def seconds_by_class(self) -> dict[str, Real]:
        """Return the device seconds of one pass by class of kernel, launch floors apart."""
        by_class: dict[str, Real] = {}
        for (index, work), cost in zip(self.works, self.prices(), strict=True):
            seconds = (cost.compute + cost.memory_bandwidth) * self.counts[index]
            by_class[work.bandwidth_key] = by_class.get(work.bandwidth_key, 0.0) + seconds
        return by_class

    def amounts(self, name: str) -> list[Real]:
        """Return an amount of work of every op, such as its ``flops``: worked out once for all ops of a kind."""
        known: list[Real] = self.graph.kept.get(name) or _amounts_of_ops(self.graph, name)
        return known

    def left(self) -> dict[int, Real]:
        """Return which share of the FLOPs of an op with matrix arithmetic its kernels run, by its number, where that is not all."""
        return self._made.once("left", self._left_of_ops)

    def _left_of_ops(self) -> dict[int, Real]:
        sums: dict[int, tuple[Real, Real]] = {}
        heavy = {index for index, _ in self.heavy}
        for index, work in self.works:
            if index in heavy:
                whole, done = sums.get(index, (0.0, 0.0))
                sums[index] = whole + work.flops, done + work.flops / work.spared
        return {
            index: divide(done, whole)
            for index, (whole, done) in sums.items()
            if not is_scalar(done, whole) or done != whole
        }

    def kernels(self) -> Real:
        """Return the launches of one pass."""
        total: Real = 0.0
        for index, work in self.works:
            total = total + work.launches * self.counts[index]
        return total

    # -- totals -------------------------------------------------------------------------------------------------

    def of_ops(self, only: Container[int]) -> PricedGraph:
        """Return it with the totals of some ops, by their numbers."""
        return PricedGraph(self.graph, self.context, self.together, self.first, only)

    def totals(self, scales: Scales | None = None) -> PassCost:
        """Return the seconds of one pass by phase; arrays in `scales` give one pass for each of their elements."""
        return _totals([self], Scales() if scales is None else scales)[0]

    def sums(self) -> dict[Phase, Sums]:
        """Return a sum, of nothing yet, for each of its phases."""
        return {phase: Sums() for phase in self._phases}

    def often(self, place: int, room: tuple[int, ...]) -> Array:
        """Return how often the kernels of a stack run, with room for axes of scales behind the first."""
        times = self._times[place]
        return times.reshape(len(times), *room, *times.shape[1:])


def totals_of(graphs: Sequence[PricedGraph], scales: Sequence[Scales]) -> list[PassCost]:
    """Return `PricedGraph.totals` of graphs, each on its scales; those that were priced together have the same."""
    together: dict[PricedKernels, list[int]] = {}
    for place, graph in enumerate(graphs):
        together.setdefault(graph.together, []).append(place)
    totals: dict[int, PassCost] = {}
    for places in together.values():
        totals |= zip(places, _totals([graphs[place] for place in places], scales[places[0]]), strict=True)
    return [totals[place] for place in range(len(graphs))]


def _totals(graphs: Sequence[PricedGraph], scales: Scales) -> list[PassCost]:
    """Return the totals of graphs that were priced together: every kernel is priced once."""
    kernels, costs = graphs[0].together, [graph.sums() for graph in graphs]
    watts, rank = kernels.watts(scales), scales.rank
    for place, (stack, shares) in enumerate(zip(kernels.stacks, kernels.windows, strict=True)):
        room = (1,) * max(rank - len(stack.shape), 0)
        often = [graph.often(place, room) for graph in graphs]
        for part, work, cost in kernels.priced(stack, scales):
            starts, kinds = stack.runs(part)
            numbers = numbers_of(work, cost, watts)
            for times, by_phase in zip(often, costs, strict=True):
                add(by_phase, kinds, {name: sums(value, times[part], starts) for name, value in numbers.items()})
            apart = min(stack.apart - part.start, len(often[0][part]))
            if watts is None or shares is None or apart <= 0:
                continue
            share = shares[part].reshape(len(shares[part]), *room, *stack.shape)
            if not scales.is_one:
                share = kernels.held_share(work, cost, scales)
            own, begin = held_of(work, cost, watts, share, apart, kernels.corner), [at for at in starts if at < apart]
            for times, by_phase in zip(often, costs, strict=True):
                rows = times[part][:apart]
                hold(by_phase, kinds, {name: sums(value, rows, begin) for name, value in own.items()})
    of_points, device = kernels.of_points and rank == 0, kernels.context.device
    return [
        _pass_cost(
            {phase: one.settled(of_points=of_points) for phase, one in by_phase.items()},
            {phase: device.host_time(phase) for phase in by_phase},
            scales.host_issue_rate,
            device.constants.physics,
        )
        for by_phase in costs
    ]


def _amounts_of_ops(graph: OpGraph, name: str) -> list[Real]:
    """Return an amount of work of every op; numbers are kept with the graph, which other cards price too."""
    first, kinds = alike_of([graph])
    of_kind = [getattr(op, name)() for op in first]
    amounts = [of_kind[kind] for kind in kinds]
    if all(type(amount) is float for amount in of_kind):
        graph.kept[name] = amounts
    return amounts


def priced_together(graphs: Sequence[OpGraph], context: Pricing) -> list[PricedGraph]:
    """Return graphs that run in the same way on one device: their kernels are priced in one go, equal ones once."""
    kernels, first, priced = PricedKernels(graphs, context), 0, []
    for graph in graphs:
        priced.append(PricedGraph(graph, context, kernels, first))
        first += len(graph.ops)
    return priced


def _pass_cost(sums: dict[Phase, Sums], issue: dict[Phase, Real], rate: Real, physics: Physics) -> PassCost:
    """Return sums by phase as a cost; `issue` are the seconds per launch of a host at a `rate` of 1."""
    return PassCost(
        device={str(phase): {part: of_phase.parts[part] for part in PARTS} for phase, of_phase in sums.items()},
        host={str(phase): _host_time(of_phase.parts, issue[phase], rate) for phase, of_phase in sums.items()},
        power={str(phase): of_phase.parts["power"] for phase, of_phase in sums.items()},
        sustained={str(phase): of_phase.apart for phase, of_phase in sums.items() if of_phase.apart is not None},
        attention={str(phase): of_phase.parts["attention"] for phase, of_phase in sums.items()},
        physics=physics,
    )


def _host_time(parts: dict[str, Any], issue: Real, rate: Real) -> Real:
    """Return the host's seconds for kernels."""
    seconds: Real = (parts["launches"] * issue + parts["host"]) / rate
    return seconds


def _merged(op: AbstractOp, works: list[KernelWork], prices: list[tuple[KernelCost, Real, Real]]) -> OpCost:
    """Add up the kernels of one op, what power adds to each included; what bounds the first bounds the op."""
    sums: dict[str, Real] = dict.fromkeys(("time", "held", "drawn", "launches", *PARTS), 0.0)
    for work, (cost, held, drawn) in zip(works, prices, strict=True):
        for name, amount in (("time", cost.time), ("held", held), ("drawn", drawn), ("launches", work.launches)):
            sums[name] = sums[name] + amount
        for part in PARTS:
            sums[part] = sums[part] + getattr(cost, part)
    return OpCost(op=op, bound=prices[0][0].bound if prices else 0.0, **sums)
