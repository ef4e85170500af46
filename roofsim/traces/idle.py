"""Say when the device did nothing, and whose fault that was; and what of its messages and copies shows."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from roofsim.records import dataclass
from roofsim.traces.recorded import COLLECTIVE, TRANSFER, WAIT
from roofsim.units import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from roofsim.traces.recorded import HostWait, RecordedKernel, RecordedStep

#: Seconds that no clock of a profiler tells apart.
RESOLUTION: Final = parse("1 ns", "s")
#: Why a device has nothing to do, and what that means.
GAPS: Final = {
    "launch": "the host launches too late",
    "synchronization": "the host waits for the device, then launches again",
    "between_steps": "the host between two steps: samples, logs, checkpoints",
    "queued": "launched in time: one kernel behind another, or another stream",
    "unknown": "the trace does not say when these were launched",
}


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A stretch in which no stream of the device worked; `before`: the place of the kernel that ends it, None at the end."""

    start: float
    seconds: float
    why: str
    before: int | None


def covered(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return stretches as few that do not overlap, in order.

    >>> covered([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)])
    [(0.0, 3.0), (5.0, 6.0)]
    """
    joined: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


def length(spans: Iterable[tuple[float, float]]) -> float:
    """Return the seconds of stretches that do not overlap."""
    return sum(end - start for start, end in spans)


def apart(spans: Sequence[tuple[float, float]], others: Sequence[tuple[float, float]]) -> float:
    """Return the seconds of stretches that no other covers; both as `covered` gives them.

    >>> apart([(0.0, 4.0)], [(1.0, 2.0), (3.0, 9.0)])
    2.0
    """
    return length(covered([*spans, *others])) - length(others)


def exposed(step: RecordedStep, sort: str) -> float:
    """Return the seconds in which work of a sort runs and no kernel does: what shows of messages, or of copies to the host."""
    kernels = [one for one in step.kernels if one.sort not in (COLLECTIVE, TRANSFER, WAIT)]
    shown = apart(_spans(one for one in step.kernels if one.sort == sort), _spans(kernels))
    return shown if shown > RESOLUTION else 0.0


def _spans(kernels: Iterable[RecordedKernel]) -> list[tuple[float, float]]:
    return covered((one.start, one.end) for one in kernels)


def gaps_of(step: RecordedStep) -> list[Gap]:
    """Return when the device did nothing, in order, each with its reason (of `GAPS`)."""
    gaps, busy_until = [], None
    ends = [wait.end for wait in step.waits]
    for place, kernel in enumerate(step.kernels):
        if kernel.sort == WAIT:
            continue
        if busy_until is not None and kernel.start > busy_until + RESOLUTION:
            why = _why(kernel, busy_until, step.waits, ends)
            gaps.append(Gap(start=busy_until, seconds=kernel.start - busy_until, why=why, before=place))
        busy_until = kernel.end if busy_until is None else max(busy_until, kernel.end)
    if busy_until is not None and step.seconds > busy_until + RESOLUTION:
        why = "between_steps" if step.form != "roofsim" else "unknown"
        gaps.append(Gap(start=busy_until, seconds=step.seconds - busy_until, why=why, before=None))
    return gaps


def _why(kernel: RecordedKernel, idle_from: float, waits: Sequence[HostWait], ends: list[float]) -> str:
    if kernel.launched is None:
        return "unknown"
    if kernel.launched <= idle_from:
        return "queued"
    place = bisect_left(ends, idle_from)
    if place < len(waits) and waits[place].start < idle_from and waits[place].end <= kernel.launched:
        return "synchronization"
    return "launch"
