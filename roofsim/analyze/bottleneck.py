"""Say what limits a step, what would limit it next, and how far away that is: all by pricing the step again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.sensitivity import RATES, both_sides, central, elasticities, priced_at, unwrapped
from roofsim.cost.scales import Scales
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from numpy.typing import NDArray

    from roofsim.analyze.sensitivity import Priced, Reprice
    from roofsim.numeric import Array, Real
    from roofsim.schedule.step import StepTime

#: The waits of ranks for one another: no rate shortens them alone, fewer stages or more micro batches do.
BUBBLE: Final = "bubble"

#: Which hardware rates a bound stands for.
RATES_OF: Final[dict[str, tuple[str, ...]]] = {
    "compute": ("tensor_flops", "vector_flops", "unit_rate"),
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

#: Rates that bind under no name of their own.
UNBOUND: Final = ("latency",)

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
    """What binds a step; of several points arrays with one element each.

    Attributes
    ----------
    bound
        The resource with the largest leverage: 1 % more of it shortens the step most.
    runner_up
        The first to take its place as there is more of `bound`.
    headroom
        The factor on the rates of `bound` (of a bubble: by which it shrinks) at which that happens; None (in an array NaN): at no
        factor.
    elasticity
        d ln(step time) / d ln(rate) by name of the rate.
    """

    bound: Any
    runner_up: Any
    headroom: Any
    elasticity: dict[str, Real]


def _leverage(elasticity: dict[str, Real], step: StepTime, names: Sequence[str]) -> Array:
    """Return what 1 % more of each resource takes off a step, in per cent: (resources, points).

    It is the sum of the elasticities of a resource's rates, and of the bubble its share of the step: 1 % less of it takes
    off so much.
    """
    none = 0.0 * np.asarray(step.step)
    worth = [none - sum(elasticity[rate] for rate in RATES_OF[name]) for name in names]
    if BUBBLE in names:
        worth[names.index(BUBBLE)] = np.asarray(step.resources[BUBBLE] / step.step)
    return _by_point(worth)


def _by_point(rows: Sequence[Any]) -> Array:
    """Return rows of figures as an array with a column per point."""
    stacked = np.stack(np.broadcast_arrays(*map(np.asarray, rows)))
    return stacked.reshape(len(rows), -1)


def bound_of(step: StepTime, reprice: Reprice) -> Any:
    """Return what binds a step, or an array of what binds each point; `reprice` prices it again on scaled hardware."""
    names = _taking_part(step)
    best = _leverage(elasticities(reprice), step, names).argmax(axis=0)
    return _named(names, best)


def _named(names: Sequence[str], places: Any) -> Any:
    return unwrapped(np.array(names, dtype=object)[places])


def leverage_of(name: str, step: StepTime, reprice: Reprice) -> Real:
    """Return the leverage of one resource, also where sizes are arrays: one pricing with a trifle more of it."""
    more = reprice(Scales(**dict.fromkeys(RATES_OF[name], float(np.exp(_STEP)))))
    leverage: Real = (np.log(step.step) - np.log(more.step)) / _STEP
    return leverage


def bottleneck(step: StepTime, reprice: Reprice) -> Bottleneck:
    """Find what binds a step, what would bind it next, and from which factor on.

    The elasticities, and the steps with more and more of what seems to bind by its share of the time, are priced together;
    where another resource binds, its steps are priced then. All points of a step are priced together.
    """
    names, at = _taking_part(step), np.log(_FACTORS)
    rates = (*(rate for name in names for rate in RATES_OF[name]), *UNBOUND)
    sides = both_sides(rates)
    likely = _Scan(names, _by_point([step.resources[name] for name in names]).argmax(axis=0))
    around = np.broadcast_to(sides[..., np.newaxis], (*sides.shape, len(likely.bound)))
    priced = priced_at(reprice, np.concatenate([around, likely.points(at)]))
    elasticity = central(priced.part(0, len(sides)), rates)
    scan = _Scan(names, _leverage(elasticity, step, names).argmax(axis=0))
    same = np.array_equal(scan.bound, likely.bound)
    priced = priced.part(len(sides)) if same else priced_at(reprice, scan.points(at))
    takeovers = scan.takeovers(at, scan.worth(priced, at), reprice)
    runners, headrooms = np.array([name for name, _ in takeovers], dtype=object), [factor for _, factor in takeovers]
    single = len(takeovers) == 1
    return Bottleneck(
        _named(names, scan.bound),
        unwrapped(runners),
        headrooms[0] if single else np.array(headrooms, dtype=np.float64),
        elasticity,
    )


def _taking_part(step: StepTime) -> tuple[str, ...]:
    """Return the resources that a step may wait for: it has an entry of each, be it of no seconds."""
    return tuple(name for name in RATES_OF if name in step.resources)


@dataclass(frozen=True)
class _Scan:
    """Steps with more and more of what binds them: what each resource is worth then.

    Factors are given by their logarithms, (factors,) for all points or (factors, points); what resources are worth is (factors,
    resources, points). `bound` is the place in `names` of what binds each point.
    """

    names: tuple[str, ...]
    bound: NDArray[np.intp]

    @property
    def _rated(self) -> list[int]:
        return [place for place, name in enumerate(self.names) if RATES_OF[name]]

    def points(self, at: Array) -> Array:
        """Return where to price the steps: at each factor, and with a trifle more of each resource."""
        trifles = np.array([np.zeros(len(RATES)), *(_STEP * _members(self.names[place]) for place in self._rated)])
        own = np.array([_members(name) for name in self.names])[self.bound].T
        factors = at[:, np.newaxis, np.newaxis] if at.ndim == 1 else at[:, np.newaxis, :]
        points: Array = (factors * own)[:, np.newaxis] + trifles[:, :, np.newaxis]
        return points.reshape(-1, len(RATES), len(self.bound))

    def worth(self, priced: Priced, at: Array) -> Array:
        """Return what resources are worth, from the prices at `points`."""
        step, idle = (value.reshape(len(at), -1, value.shape[-1]) for value in (priced.step, priced.idle))
        if BUBBLE in self.names:
            shrinks = self.bound == self.names.index(BUBBLE)
            factors = at[:, np.newaxis] if at.ndim == 1 else at
            kept = np.where(shrinks, np.exp(-factors), 1.0)[:, np.newaxis]
            step, idle = step - idle * (1.0 - kept), idle * kept
        logs, worth = np.log(step), np.zeros((len(at), len(self.names), step.shape[-1]))
        worth[:, self._rated] = (logs[:, :1] - logs[:, 1:]) / _STEP
        if BUBBLE in self.names:
            worth[:, self.names.index(BUBBLE)] = idle[:, 0] / step[:, 0]
        return worth

    def takeovers(self, at: Array, worth: Array, reprice: Reprice) -> list[tuple[str, float | None]]:
        """Return of each point what `_takeover` says; what their searches ask for is priced together."""
        searches = [_takeover(self.names, int(own), at, worth[..., place]) for place, own in enumerate(self.bound)]
        takeovers: dict[int, tuple[str, float | None]] = {}
        asked: dict[int, Array] = {}

        def go(place: int, answer: Array | None) -> None:
            try:
                asked[place] = searches[place].send(answer)
            except StopIteration as done:
                takeovers[place] = done.value

        for place in range(len(searches)):
            go(place, None)
        while asked:
            cuts = np.zeros((_CUTS, len(searches)))
            for place, cut in asked.items():
                cuts[:, place] = cut
            worth = self.worth(priced_at(reprice, self.points(cuts)), cuts)
            for place in sorted(asked):
                del asked[place]
                go(place, worth[..., place])
        return [takeovers[place] for place in range(len(searches))]


def _takeover(
    names: tuple[str, ...], own: int, at: Array, worth: Array
) -> Generator[Array, Array | None, tuple[str, float | None]]:
    """Return the first resource to take over from what binds one point, and the factor at which it does; None: none ever does.

    `own` is the place of what binds, `worth` (factors, resources). Where the factors `at` are too far apart to tell, it asks for
    what resources are worth at some between them.
    """
    while True:
        behind = 1 + np.flatnonzero(_lead(worth[1:], own) < 0.0)
        if not behind.size:
            last = _next_best(worth[-1], own)
            return names[last if worth[-1, last] > 0.0 else _next_best(worth[1], own)], None
        upper = int(behind[0])
        other = _next_best(worth[upper], own)
        if upper == 1:  # a tie, decided by rounding alone
            return names[other], 1.0
        crossing = _crossing(at, worth[:, own] - worth[:, other], upper)
        if crossing is not None:
            return names[other], float(np.exp(crossing))
        cut = np.linspace(at[upper - 1], at[upper], _CUTS + 2)[1:-1]
        between = yield cut
        assert between is not None
        at, worth = np.insert(at, upper, cut), np.insert(worth, upper, between, axis=0)


def _lead(worth: Array, own: int) -> Array:
    """Return by how much what binds is worth more than the best other resource."""
    lead: Array = worth[:, own] - np.delete(worth, own, axis=1).max(axis=1)
    return lead


def _next_best(row: Array, own: int) -> int:
    """Return the place of the resource that is worth most besides what binds."""
    return max((place for place in range(len(row)) if place != own), key=lambda place: row[place])


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
    crossing = 0.0
    for place, value in enumerate(lead):
        others = np.delete(lead, place)
        crossing += float(at[place] * np.prod(others / (others - value)))
    return crossing


def _members(name: str) -> Array:
    """Return which rates a resource stands for: 1 and 0."""
    return np.array([float(rate in RATES_OF[name]) for rate in RATES])
