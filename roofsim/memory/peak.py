"""Find the fullest of the instants of a walk, in all and by phase, elementwise for arrays; only the few that can be it are kept."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from roofsim.graph.base import Phase
from roofsim.graph.component import Purpose
from roofsim.numeric import Real, is_scalar, maximum, where
from roofsim.points import like
from roofsim.records import dataclass, field
from roofsim.symbols import Symbol
from roofsim.traced.points import as_array, noted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roofsim.graph.base import AbstractOp


@dataclass
class Instant:
    """What is alive when an op runs.

    Attributes
    ----------
    number
        Its place in the order of a walk.
    live
        Gives the bytes by category: worked out only of those that are the fullest.
    """

    number: int
    op: AbstractOp
    live: Callable[[], dict[str, Real]]


@dataclass
class Fullest:
    """The instant with the largest total so far, of equal ones the first; elementwise for arrays.

    Attributes
    ----------
    number
        Which instant it is: one number, or one for each element.
    instants
        Those that were the fullest of some element when they came.
    """

    total: Real = -1.0
    number: Any = -1
    instants: list[Instant] = field(default_factory=list)

    def offer(self, total: Real, number: int, op: AbstractOp, live: Callable[[], dict[str, Real]]) -> None:
        """Take note of an instant, if it is fuller than those before in any element."""
        higher: Any = total > self.total
        if type(total) is float and type(self.total) is float:
            if higher:
                self.total, self.number, self.instants = total, number, [Instant(number, op, live)]
            return
        higher = as_array(higher)
        if higher.all():
            self.number, self.instants = np.full(higher.shape, number), [Instant(number, op, live)]
        elif higher.any():
            self.number = np.where(higher, number, self.number)
            self.instants.append(Instant(number, op, live))
        else:
            return
        self.total = maximum(self.total, total)

    def merge(self, other: Fullest) -> None:
        """Take note of what another walk over the same elements found."""
        higher: Any = (other.total > self.total) | ((other.total == self.total) & (other.number < self.number))
        self.number = np.where(higher, other.number, self.number)
        self.total = maximum(self.total, other.total)
        self.instants = [*self.instants, *other.instants]

    def first(self) -> Instant:
        """Return the fullest instant of the first element."""
        number = int(np.ravel(self.number)[0])
        return next(instant for instant in self.instants if instant.number == number)

    def pick(self, of: Callable[[Instant], Any]) -> Any:
        """Return what a function says of the fullest instant of the first element."""
        return of(self.first())

    def live(self) -> dict[str, Real]:
        """Return the bytes by category at the fullest instant."""
        if is_scalar(self.total):
            return self.first().live()
        shape, numbers = np.shape(self.total), as_array(self.number)
        present = set(np.unique(numbers).tolist())
        fullest, *others = [instant for instant in self.instants if instant.number in present]
        parts = {name: _filled(amount, shape, self.total) for name, amount in fullest.live().items()}
        for instant in others:
            here = numbers == instant.number
            parts = {name: where(here, amount, parts[name]) for name, amount in instant.live().items()}
        return {name: like(amount, self.total) for name, amount in parts.items()}


def _filled(amount: Real, shape: tuple[int, ...], total: Real) -> Real:
    filled: Real = like(np.broadcast_to(as_array(amount), shape), total)
    return filled


class Peak:
    """The fullest instants of a walk, by phase."""

    def __init__(self) -> None:
        self.phases: dict[str, Fullest] = {}
        self.count = 0
        self._waiting: dict[str, list[tuple[Any, Instant]]] = {}
        self.in_loss: Real = 0.0
        """The largest total while the loss's gradient is taken."""

    def offer(self, total: Real, op: AbstractOp, live: Callable[[], dict[str, Real]]) -> None:
        """Take note of how much is alive when an op runs, and of what it is."""
        if op.phase is Phase.BACKWARD and op.within(Purpose.LOSS):
            self.in_loss = maximum(self.in_loss, total)
        fullest = self.phases.get(op.phase)
        if self._waiting or isinstance(total, Symbol) or getattr(total, "sampled", False):
            self._waiting.setdefault(str(op.phase), []).append((total, Instant(self.count, op, live)))
            self.count += 1
            return
        if fullest is None:
            fullest = self.phases[str(op.phase)] = Fullest()
        fullest.offer(total, self.count, op, live)
        self.count += 1

    def whole(self) -> Fullest:
        """Return the fullest instant of all phases."""
        whole: Fullest | None = None
        if self._waiting:
            self.phases |= {phase: _fullest(offered) for phase, offered in self._waiting.items()}
            return _fullest(sorted(chain(*self._waiting.values()), key=lambda one: one[1].number))
        for fullest in self.phases.values():
            if whole is None:
                whole = Fullest(fullest.total, fullest.number, fullest.instants)
            elif is_scalar(whole.total, fullest.total):
                whole = max(whole, fullest, key=lambda one: (one.total, -one.number))
            else:
                whole.merge(fullest)
        return Fullest() if whole is None else whole


@dataclass
class _FullestOfSymbols(Fullest):
    """The fullest of instants whose totals are symbols: which it is, is a symbol too."""

    def pick(self, of: Callable[[Instant], Any]) -> Any:
        """Return what a function says of the fullest instant."""
        return self.number.trace.head.picked(self.number, [of(instant) for instant in self.instants])

    def live(self) -> dict[str, Real]:
        """Return the bytes by category at the fullest instant."""
        each = [instant.live() for instant in self.instants]
        return {name: self.number.trace.head.picked(self.number, [live[name] for live in each]) for name in each[0]}


@dataclass
class _FullestOfSamples(Fullest):
    """The fullest of instants whose totals are those of sample points: which it is, is a number of each."""

    def pick(self, of: Callable[[Instant], Any]) -> Any:
        """Return what a function says of an instant: only texts are asked for so."""
        return of(self.instants[0])

    def live(self) -> dict[str, Real]:
        """Return the bytes by category at the fullest instant."""
        each = [instant.live() for instant in self.instants]
        return {name: picked(self.number, *(live[name] for live in each)) for name in each[0]}


@noted
def _first_largest_of_each(*totals: Any) -> Any:
    """Return which of several arrays is the first that is largest, elementwise."""
    return np.argmax(np.stack(np.broadcast_arrays(*totals)), axis=0)


@noted
def _picked(place: Any, *values: Any) -> Any:
    at, *each = np.broadcast_arrays(place, *values)
    return np.take_along_axis(np.stack(each), at[np.newaxis], axis=0)[0]


def picked(place: Any, *values: Any) -> Any:
    """Return the one of several numbers that stands at a place, elementwise."""
    first = values[0]
    same = all(value is first or (type(value) is type(first) is float and value == first) for value in values)
    return first if same else _picked(place, *values)


def _fullest(offered: Sequence[tuple[Any, Instant]]) -> Fullest:
    """Return the fullest of instants, of equal ones the first, whose totals are symbols."""
    totals, instants = zip(*offered, strict=True)
    if any(getattr(total, "sampled", False) for total in totals):
        place = _first_largest_of_each(*totals)
        return _FullestOfSamples(picked(place, *totals), place, list(instants))
    place = next(total for total in totals if type(total) is Symbol).trace.head.called(_first_largest, totals)
    return _FullestOfSymbols(place.trace.head.picked(place, totals), place, list(instants))


def _first_largest(totals: tuple[float, ...]) -> int:
    return totals.index(max(totals))
