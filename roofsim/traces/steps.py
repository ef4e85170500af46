"""Choose one step of a trace: the median of those that it holds completely."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, kw_only=True)
class Marked:
    """A step as the host marks it, in seconds of the file's clock."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, kw_only=True)
class ChosenStep:
    """One step of a trace.

    Attributes
    ----------
    start, seconds
        When it begins on the file's clock, and how long it takes.
    host
        From when to when the host works on it.
    correlations
        Those of its launches; -1 stands for kernels that have none.
    steps
        Seconds of every complete step.
    """

    name: str
    start: float
    seconds: float
    host: tuple[float, float]
    correlations: frozenset[int]
    steps: tuple[float, ...]
    notes: tuple[str, ...] = ()


def choose(
    marked: Sequence[Marked], kernels: Sequence[tuple[int, float, float]], launched: Mapping[int, float]
) -> ChosenStep:
    """Return the step of median length.

    A step takes from its first kernel to the first kernel of the step behind it, so that a host which runs ahead of the device
    does not shorten it. The last step of a trace has none behind it: it counts only where it is the only one, from whichever
    of host and device begins first to whichever ends last.

    Parameters
    ----------
    marked
        Steps that the host marks; none: the whole trace is one.
    kernels
        Correlation (-1: none), start and seconds of each.
    launched
        Correlation -> seconds at which the host launched it.
    """
    steps = sorted(marked, key=lambda one: one.start)
    if not steps:
        return _whole(kernels, launched)
    begins = [one.start for one in steps]
    members: list[list[tuple[int, float, float]]] = [[] for _ in steps]
    for one in kernels:
        at = launched.get(one[0], one[1])
        place = bisect_right(begins, at) - 1
        if place >= 0 and at < (begins[place + 1] if place + 1 < len(steps) else float("inf")):
            members[place].append(one)
    filled = [place for place, own in enumerate(members) if own]
    if not filled:
        return _whole(kernels, launched)
    firsts = {place: min(start for _, start, _ in members[place]) for place in filled}
    lengths = {
        place: firsts[place + 1] - firsts[place]
        for place in filled
        if place + 1 in firsts and firsts[place + 1] > firsts[place]
    }
    if not lengths:
        return _only(steps[filled[0]], members[filled[0]])
    ordered = sorted(lengths, key=lambda place: lengths[place])
    chosen = ordered[(len(ordered) - 1) // 2]
    return ChosenStep(
        name=steps[chosen].name,
        start=firsts[chosen],
        seconds=lengths[chosen],
        host=(steps[chosen].start, steps[chosen + 1].start),
        correlations=frozenset(correlation for correlation, *_ in members[chosen]),
        steps=tuple(lengths[place] for place in sorted(lengths)),
    )


def _only(step: Marked, kernels: Sequence[tuple[int, float, float]]) -> ChosenStep:
    """Return the only step of a trace."""
    start = min(step.start, *(begin for _, begin, _ in kernels))
    end = max(step.end, *(begin + seconds for _, begin, seconds in kernels))
    return ChosenStep(
        name=step.name,
        start=start,
        seconds=end - start,
        host=(step.start, max(step.end, end)),
        correlations=frozenset(correlation for correlation, *_ in kernels),
        steps=(end - start,),
        notes=("the trace holds one step only; profile three or more, so that the median can be taken",),
    )


def _whole(kernels: Sequence[tuple[int, float, float]], launched: Mapping[int, float]) -> ChosenStep:
    """Return a trace without marks as one step."""
    correlations = frozenset(correlation for correlation, *_ in kernels)
    first = min(begin for _, begin, _ in kernels)
    launches = [launched[one] for one in correlations if one in launched]
    start = min([first, *launches])
    end = max(begin + seconds for _, begin, seconds in kernels)
    return ChosenStep(
        name="",
        start=start,
        seconds=end - start,
        host=(min(start, first), end),
        correlations=correlations,
        steps=(end - start,),
        notes=("the trace marks no steps (ProfilerStep#); all of it is taken for one step",),
    )
