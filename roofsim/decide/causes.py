"""Attribute the difference of two steps to what they are made of, and that of several changes at once to each of them."""

from __future__ import annotations

import math
from itertools import permutations
from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.ops import op_table
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from roofsim.evaluate import Evaluation

#: Changes up to which every order is taken: 2 to this power scenarios.
MOST_ORDERED: Final = 5


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A part of a difference, in seconds of a step.

    Attributes
    ----------
    before, after
        Seconds of it in both steps; None of a change.
    """

    cause: str
    seconds: float
    before: float | None = None
    after: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        own = {"cause": self.cause, "seconds": self.seconds}
        return own if self.before is None else own | {"before": self.before, "after": self.after}


def of_parts(before: Mapping[str, float], after: Mapping[str, float], difference: float) -> tuple[Cause, ...]:
    """Return what differs between two steps by what they are made of, the largest first; it sums to the difference.

    Parameters
    ----------
    before, after
        Seconds by name, each of which sum to the step.
    difference
        Of the steps, seconds.
    """
    causes = []
    for name in dict.fromkeys((*before, *after)):
        first, second = float(before.get(name, 0.0)), float(after.get(name, 0.0))
        if first or second:
            causes.append(Cause(cause=name, seconds=second - first, before=first, after=second))
    return _closed(sorted(causes, key=lambda cause: -abs(cause.seconds)), difference)


def _closed(causes: Sequence[Cause], difference: float) -> tuple[Cause, ...]:
    """Return causes whose seconds sum to the difference to the last bit: the largest takes what rounding left."""
    if not causes:
        return ()
    first, *others = causes
    return (replace(first, seconds=difference - math.fsum(cause.seconds for cause in others)), *others)


def kinds_of_time(evaluation: Evaluation) -> dict[str, float]:
    """Return the seconds of a step by kind: arithmetic, memory, communication that shows ..."""
    return {name: float(value) for name, value in evaluation.step.breakdown.items()}


def limits(evaluation: Evaluation) -> dict[str, float]:
    """Return the seconds of a step by the mechanism that limits them: power, each kind of link and the bubble among them."""
    return {name: float(value) for name, value in evaluation.step.resources.items()}


def ops(evaluation: Evaluation, by: str) -> dict[str, float]:
    """Return the seconds of a step by op (or class, layer, phase), and of what it waits for."""
    seconds: dict[str, float] = {}
    for row in op_table(evaluation, by=by).rows:
        seconds[row["name"]] = seconds.get(row["name"], 0.0) + row["time"]
    return seconds


def of_changes(
    names: Sequence[str], step_with: Callable[[frozenset[int]], float | None]
) -> tuple[tuple[Cause, ...], str | None]:
    """Return what each of several changes adds to a step, and by which rule.

    A change adds what the step becomes longer by when it is made, on average over all orders in which the changes can be made one
    after the other (Shapley, 1953); an order in which a scenario on the way is refused does not count. Of more than
    `MOST_ORDERED` changes the order given and its reverse are taken.

    Parameters
    ----------
    names
        The changes.
    step_with
        Returns the seconds of a step with some of the changes, by place; None where that is refused.
    """
    places = range(len(names))
    few = len(names) <= MOST_ORDERED
    steps: dict[frozenset[int], float | None] = {}

    def step(made: Iterable[int]) -> float | None:
        key = frozenset(made)
        if key not in steps:
            steps[key] = step_with(key)
        return steps[key]

    sums, orders = [0.0] * len(names), 0
    for order in permutations(places) if few else (tuple(places), tuple(reversed(places))):
        way = [step(order[:made]) for made in range(len(order) + 1)]
        if None in way:
            continue
        orders += 1
        for place, first, second in zip(order, way, way[1:], strict=False):
            assert first is not None
            assert second is not None
            sums[place] += second - first
    both = step(places), step(())
    if not orders or None in both:
        return (), None
    assert both[0] is not None
    assert both[1] is not None
    causes = [Cause(cause=name, seconds=total / orders) for name, total in zip(names, sums, strict=True)]
    ranked = sorted(causes, key=lambda cause: -abs(cause.seconds))
    return _closed(ranked, both[0] - both[1]), _rule(orders, few=few, all_orders=math.factorial(len(names)))


def _rule(orders: int, *, few: bool, all_orders: int) -> str:
    if not few:
        return "the mean of the order given and its reverse"
    if orders == all_orders:
        return "the mean over all orders in which they can be made"
    return (
        f"the mean over the {orders} of {all_orders} orders that are possible"
        if orders > 1
        else "the only order that is possible"
    )
