"""Find what was running on a thread of the host when it launched a kernel: operators, annotations and modules, nested."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from roofsim.lower.recorded.call import RecordedCall

#: What PyTorch calls a module that runs: ``nn.Module: Linear_3``.
_MODULE: Final = "nn.Module: "
#: What its autograd calls the node that it works off.
_NODE: Final = "autograd::engine::evaluate_function: "
_OPTIMIZER: Final = re.compile(r"^Optimizer\.(step|zero_grad)|^_foreach_|optimizer[._]step", re.IGNORECASE)
_BACKWARD: Final = re.compile(r"Backward\d*$|^backward\b|\bbackward pass\b", re.IGNORECASE)
_FORWARD: Final = re.compile(r"^forward\b|\bforward pass\b", re.IGNORECASE)
#: A step that the profiler marks.
STEP: Final = re.compile(r"^ProfilerStep\s*#\s*(\d+)$")


@dataclass(frozen=True, slots=True)
class Range:
    """Something that ran on a thread of the host from one instant to another, in seconds.

    Attributes
    ----------
    number
        Which one it is, counted from 1.
    sequence
        Number that a forward operator shares with the node of its backward; None where it has none.
    call
        Of an operator: what the profiler says of its inputs; None where it says nothing.
    """

    name: str
    start: float
    end: float
    number: int
    external: int | None = None
    sequence: int | None = None
    dims: tuple[tuple[int, ...], ...] = ()
    is_operator: bool = True
    call: RecordedCall | None = None


@dataclass(frozen=True, slots=True)
class Callers:
    """What was running when a kernel was launched, outermost first."""

    ranges: tuple[Range, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of operators and annotations; modules are in `module`."""
        return tuple(one.name for one in self.ranges if not one.name.startswith(_MODULE) and not STEP.match(one.name))

    @property
    def module(self) -> str:
        """Path of the modules."""
        return ".".join(one.name.removeprefix(_MODULE) for one in self.ranges if one.name.startswith(_MODULE))

    @property
    def operator(self) -> Range | None:
        """The innermost operator."""
        return next((one for one in reversed(self.ranges) if one.is_operator), None)

    @property
    def calls(self) -> tuple[tuple[int, RecordedCall], ...]:
        """Numbers and inputs of the operators, innermost first."""
        return tuple((one.number, one.call) for one in reversed(self.ranges) if one.call is not None)

    @property
    def sequence(self) -> int | None:
        """The sequence number of the outermost node of autograd, else of the innermost operator that has one."""
        nodes = [one.sequence for one in self.ranges if one.name.startswith(_NODE) and one.sequence is not None]
        if nodes:
            return nodes[0]
        return next((one.sequence for one in reversed(self.ranges) if one.sequence is not None), None)

    @property
    def phase(self) -> str:
        """``optimizer`` or ``backward`` where something says so, ``forward`` elsewhere; empty of nothing at all."""
        names = [one.name for one in self.ranges]
        if any(_OPTIMIZER.search(name) for name in names):
            return "optimizer"
        if any(name.startswith(_NODE) or _BACKWARD.search(name) for name in names):
            return "backward"
        known = any(one.is_operator for one in self.ranges) or any(_FORWARD.search(name) for name in names)
        return "forward" if known else ""


def callers_of(ranges: Iterable[tuple[Any, Range]], launches: Iterable[tuple[Any, float, int]]) -> dict[int, Callers]:
    """Return what was running at each launch.

    Parameters
    ----------
    ranges
        Thread, and what ran on it.
    launches
        Thread, seconds, and the correlation of the launch.
    """
    threads: dict[Any, list[Range]] = defaultdict(list)
    for thread, one in ranges:
        threads[thread].append(one)
    asked: dict[Any, list[tuple[float, int]]] = defaultdict(list)
    for thread, at, correlation in launches:
        asked[thread].append((at, correlation))
    return {
        correlation: callers
        for thread, own in asked.items()
        for correlation, callers in _on_thread(threads.get(thread, []), sorted(own))
    }


def _on_thread(ranges: list[Range], launches: list[tuple[float, int]]) -> Iterator[tuple[int, Callers]]:
    ordered = sorted(ranges, key=lambda one: (one.start, -one.end, one.number))
    stack: list[Range] = []
    place = 0
    for at, correlation in launches:
        while place < len(ordered) and ordered[place].start <= at:
            while stack and stack[-1].end <= ordered[place].start:
                stack.pop()
            stack.append(ordered[place])
            place += 1
        yield correlation, Callers(tuple(one for one in stack if one.start <= at < one.end))
