"""Say what limits a step, what would limit it next, and how far away that is: all by pricing the step again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.analyze.sensitivity import RATES, both_sides, central, elasticities, priced_at
from roofsim.cost.pricing import Scales
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.analyze.sensitivity import Priced, Reprice
    from roofsim.numeric import Array, Real
    from roofsim.schedule.step import StepTime

#: The waits of ranks for one another: no rate shortens them alone, fewer stages or more micro batches do.
BUBBLE: Final = "bubble"

#: Which hardware rates a bound stands for.
RATES_OF: Final[dict[str, tuple[str, ...]]] = {
    "compute": ("tensor_flops", "vector_flops"),
    "memory_bandwidth": ("memory_bandwidth",),
    "launch": ("launch_rate", "host_issue_rate"),
    "power": ("power",),
    "intra_node_link": ("intra_node_link",),
    "inter_node_link": ("inter_node_link",),
    "host_link": ("host_link",),
    "host_memory": ("host_memory",),
    "host_compute": ("host_compute",),
    "storage": ("storage",),
    BUBBLE: (),
}

#: Factors on what binds at which the runner-up's turn is looked for, from the second on and most of them close to 1; what
#: leads at the last, which stands for "without limit", leads for good. The first helps to interpolate.
_FACTORS: Final = np.array(
    [0.96, 1.0, 1.04, 1.09, 1.15, 1.25, 1.4, 1.6, 1.85, 2.2, 2.7, 3.4, 4.2, 5.2, 6.5, 8.5, 15.0, 40.0, 200.0, 10_000.0, 1_000_000.0]
)  # fmt: skip
#: Step of the difference quotients along the way, in the logarithm of a rate.
_STEP: Final = 1e-6
#: Width of a bracket, in the logarithm of the factor, that is narrow enough; and points that cut a wider one.
_NARROW: Final = 2e-4
_CUTS: Final = 5
#: Disagreement of two interpolations, in the logarithm of the factor, up to which they are believed.
_AGREE: Final = 2e-3


@dataclass(frozen=True)
class Bottleneck:
    """What binds a step.

    Attributes
    ----------
    bound
        The resource with the largest leverage: 1 % more of it shortens the step most.
    runner_up
        The first to take its place as there is more of `bound`.
    headroom
        The factor on the rates of `bound` (of a bubble: by which it shrinks) at which that happens; None: at no factor.
    elasticity
        d ln(step time) / d ln(rate) by name of the rate.
    """

    bound: str
    runner_up: str
    headroom: float | None
    elasticity: dict[str, float]


def leverage(elasticity: dict[str, float], step: StepTime) -> dict[str, float]:
    """Return what 1 % more of each resource takes off a step, in per cent, the largest first.

    It is the sum of the elasticities of a resource's rates, and of the bubble its share of the step: 1 % less of it takes
    off so much. Resources that have no part in the step are left out.
    """
    found = {name: -sum(elasticity[rate] for rate in RATES_OF[name]) for name in _taking_part(step)}
    if BUBBLE in found:
        found[BUBBLE] = float(step.resources[BUBBLE]) / float(step.step)
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def bound_of(step: StepTime, reprice: Reprice) -> str:
    """Return what binds a step (scalars only); `reprice` prices it again on scaled hardware."""
    return next(iter(leverage(elasticities(reprice), step)))


def leverage_of(name: str, step: StepTime, reprice: Reprice) -> Real:
    """Return the `leverage` of one resource, also where sizes are arrays: one pricing with a trifle more of it."""
    more = reprice(Scales(**dict.fromkeys(RATES_OF[name], float(np.exp(_STEP)))))
    found: Real = (np.log(step.step) - np.log(more.step)) / _STEP
    return found


def bottleneck(step: StepTime, reprice: Reprice) -> Bottleneck:
    """Find what binds a step, what would bind it next, and from which factor on (scalars only).

    The elasticities, and the steps with more and more of what seems to bind by its share of the time, are priced together;
    where another resource binds, its steps are priced then.
    """
    names, at = _taking_part(step), np.log(_FACTORS)
    rates = tuple(rate for name in names for rate in RATES_OF[name])
    sides = both_sides(rates)
    likely = _Scan(names, max(names, key=lambda name: float(step.resources[name])))
    priced = priced_at(reprice, np.concatenate([sides, likely.points(at)]))
    elasticity = central(priced.part(0, len(sides)), rates)
    found = leverage(elasticity, step)
    scan = _Scan(names, next(iter(found)))
    priced = priced.part(len(sides)) if scan == likely else priced_at(reprice, scan.points(at))
    runner_up, headroom = _takeover(scan, at, scan.worth(priced, at), reprice)
    return Bottleneck(scan.bound, runner_up, headroom, elasticity)


def _taking_part(step: StepTime) -> tuple[str, ...]:
    """Return the resources that a step may wait for: it has an entry of each, be it of no seconds."""
    return tuple(name for name in RATES_OF if name in step.resources)


@dataclass(frozen=True)
class _Scan:
    """A step with more and more of what binds it: what each resource is worth then.

    Factors are given by their logarithms; what resources are worth has a row per factor, a column for each of `names`.
    """

    names: tuple[str, ...]
    bound: str

    @property
    def _rated(self) -> list[int]:
        return [place for place, name in enumerate(self.names) if RATES_OF[name]]

    def points(self, at: Array) -> Array:
        """Return where to price the step: at each factor, and with a trifle more of each resource."""
        trifles = np.array([np.zeros(len(RATES)), *(_STEP * _members(self.names[place]) for place in self._rated)])
        points: Array = (at[:, np.newaxis] * _members(self.bound))[:, np.newaxis, :] + trifles
        return points.reshape(-1, len(RATES))

    def worth(self, priced: Priced, at: Array) -> Array:
        """Return what resources are worth, from the prices at `points`."""
        step, idle = (value.reshape(len(at), -1) for value in (priced.step, priced.idle))
        if self.bound == BUBBLE:
            kept = np.exp(-at)[:, np.newaxis]
            step, idle = step - idle * (1.0 - kept), idle * kept
        logs, worth = np.log(step), np.zeros((len(at), len(self.names)))
        worth[:, self._rated] = (logs[:, :1] - logs[:, 1:]) / _STEP
        if BUBBLE in self.names:
            worth[:, self.names.index(BUBBLE)] = idle[:, 0] / step[:, 0]
        return worth

    def lead(self, worth: Array, over: str | None = None) -> Array:
        """Return by how much what binds is worth more than another resource, or than the best other one."""
        own = self.names.index(self.bound)
        other = np.delete(worth, own, axis=1).max(axis=1) if over is None else worth[:, self.names.index(over)]
        found: Array = worth[:, own] - other
        return found

    def next_best(self, worth: Array) -> str:
        """Return the resource that is worth most besides what binds, of one row."""
        return max((name for name in self.names if name != self.bound), key=lambda name: worth[self.names.index(name)])


def _takeover(scan: _Scan, at: Array, worth: Array, reprice: Reprice) -> tuple[str, float | None]:
    """Return the first resource to take over from what binds, and the factor at which it does; None: none ever does."""
    behind = 1 + np.flatnonzero(scan.lead(worth[1:]) < 0.0)
    if not behind.size:
        last = scan.next_best(worth[-1])
        return (last if worth[-1, scan.names.index(last)] > 0.0 else scan.next_best(worth[1])), None
    upper = int(behind[0])
    other = scan.next_best(worth[upper])
    if upper == 1:  # a tie, decided by rounding alone
        return other, 1.0
    lead = scan.lead(worth, other)
    crossing = _crossing(at, lead, upper)
    if crossing is not None:
        return other, float(np.exp(crossing))
    cut = np.linspace(at[upper - 1], at[upper], _CUTS + 2)[1:-1]
    worth = np.insert(worth, upper, scan.worth(priced_at(reprice, scan.points(cut)), cut), axis=0)
    return _takeover(scan, np.insert(at, upper, cut), worth, reprice)


def _crossing(at: Array, lead: Array, upper: int) -> float | None:
    """Return where a lead becomes nothing, between the point before `upper` and that one; None: not to be told yet.

    It is told where parabolas through the points on both sides agree, or the two points lie close enough together.
    """
    if at[upper] - at[upper - 1] < _NARROW:
        return _zero(at[upper - 1 : upper + 1], lead[upper - 1 : upper + 1])
    if upper + 1 >= len(at):
        return None
    sides = [slice(upper - 2, upper + 1), slice(upper - 1, upper + 2)]
    if not all((np.diff(lead[side]) < 0.0).all() for side in sides):
        return None
    first, second = (_zero(at[side], lead[side]) for side in sides)
    inside = at[upper - 1] <= min(first, second) and max(first, second) <= at[upper]
    return (first + second) / 2.0 if inside and abs(first - second) < _AGREE else None


def _zero(at: Array, lead: Array) -> float:
    """Return where a falling lead becomes nothing: the polynomial through the points, as a function of the lead."""
    found = 0.0
    for place, value in enumerate(lead):
        others = np.delete(lead, place)
        found += float(at[place] * np.prod(others / (others - value)))
    return found


def _members(name: str) -> Array:
    """Return which rates a resource stands for: 1 and 0."""
    return np.array([float(rate in RATES_OF[name]) for rate in RATES])
