"""Lay a recorded step out again with other seconds per kernel: what waited for a kernel still does, and the host is as it was.

A kernel begins when the kernel before it on its stream has ended, when its launch has reached the device, and when a kernel of
another stream that it waited for has ended: whichever is last, and as long behind it as it was recorded. A host that waits for the
device goes on when that is done. With the recorded seconds all of it comes out as it was.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from roofsim.records import dataclass
from roofsim.traces.recorded import WAIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.traces.recorded import HostWait, RecordedKernel, RecordedStep

#: Seconds between what a kernel waits for and its start, from which something else is looked for that it waited for.
_PROMPT: Final = 10e-6


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """A step laid out again: when each kernel begins, how long it takes, and how long the step does, in seconds."""

    starts: tuple[float, ...]
    seconds: tuple[float, ...]
    step: float


def replayed(step: RecordedStep, seconds: Sequence[float]) -> Replayed:
    """Lay a step out with the seconds of each of its kernels."""
    return _Replay(step, seconds).run()


class _Replay:
    def __init__(self, step: RecordedStep, seconds: Sequence[float]) -> None:
        self.step, self.kernels, self.seconds = step, step.kernels, list(seconds)
        self.starts = [kernel.start for kernel in step.kernels]
        self.before = self._before()
        self.latency = min(
            (
                one.start - one.launched
                for one in step.kernels
                if one.launched is not None and one.start >= one.launched
            ),
            default=0.0,
        )
        self.by_end = sorted(range(len(self.kernels)), key=lambda place: self.kernels[place].end)
        self.ends = [self.kernels[place].end for place in self.by_end]
        self.done = [False] * len(self.kernels)
        self.shift = 0.0
        self.waited = 0.0

    def _before(self) -> list[int | None]:
        """Return the kernel before each on its stream."""
        last: dict[str, int] = {}
        before: list[int | None] = []
        for place, kernel in enumerate(self.kernels):
            before.append(last.get(kernel.stream))
            last[kernel.stream] = place
        return before

    def run(self) -> Replayed:
        """Go through launches and waits in the order in which the host comes to them."""
        events: list[tuple[float, int, int]] = [(_issued(one), 0, place) for place, one in enumerate(self.kernels)]
        events += [(wait.start, 1, place) for place, wait in enumerate(self.step.waits)]
        last_old = last_new = 0.0
        for _, is_wait, place in sorted(events):
            if is_wait:
                self._wait(self.step.waits[place])
                continue
            self.starts[place] = self._start(place)
            self.done[place] = True
            last_old = max(last_old, self.kernels[place].end)
            last_new = max(last_new, self._end(place))
        return Replayed(starts=tuple(self.starts), seconds=tuple(self.seconds), step=self._step(last_old, last_new))

    def _end(self, place: int) -> float:
        return self.starts[place] + self.seconds[place]

    def _start(self, place: int) -> float:
        """Return when a kernel begins: behind what it waited for, and not before its stream and its launch allow it."""
        kernel, before = self.kernels[place], self.before[place]
        allowed: list[tuple[float, float]] = []  # when it could have begun as recorded, and when it can now
        if before is not None:
            allowed.append((self.kernels[before].end, self._end(before)))
        if kernel.launched is not None:
            arrived = kernel.launched + self.latency
            allowed.append((arrived, arrived + self.shift))
        latest = max((old for old, _ in allowed), default=None)
        if latest is None or kernel.start - latest > _PROMPT:
            other = self._other(place, latest)
            if other is not None:
                allowed.append((self.kernels[other].end, self._end(other)))
        if not allowed:
            return kernel.start + self.shift
        old, new = max(allowed)
        return max(new + kernel.start - old, *(now for _, now in allowed))

    def _other(self, place: int, latest: float | None) -> int | None:
        """Return the kernel of another stream that ended last before this one began, if later than all it is known to wait for."""
        kernel = self.kernels[place]
        at = bisect_right(self.ends, kernel.start) - 1
        while at >= 0 and (latest is None or self.ends[at] > latest):
            other = self.by_end[at]
            if other != place and self.done[other] and self.kernels[other].stream != kernel.stream:
                return other
            at -= 1
        return None

    def _wait(self, wait: HostWait) -> None:
        """Let the host go on when what it waited for is done, and after what the call itself takes."""
        begins, place = wait.start + self.shift, self._ended_by(wait.end)
        old, new = (wait.start, begins) if place is None else (self.kernels[place].end, self._end(place))
        own = wait.end - max(wait.start, old)
        self.waited += max(old - wait.start, 0.0)
        self.shift = max(begins, new) + own - wait.end

    def _ended_by(self, instant: float) -> int | None:
        """Return the kernel that ended last before an instant, of those that the host has launched."""
        for at in range(bisect_right(self.ends, instant) - 1, -1, -1):
            if self.done[self.by_end[at]]:
                return self.by_end[at]
        return None

    def _step(self, old: float, new: float) -> float:
        """Return the seconds of the step: to its last kernel, and as long behind it as recorded; at least the host's."""
        whole = self.step.seconds
        host = min(max(self.step.host - self.waited, 0.0), whole) if self.step.host else 0.0
        if whole - old <= _PROMPT or not any(one.launched is not None for one in self.kernels):
            return max(new + whole - old, host)
        return max(whole + self.shift, new, host)


def _issued(kernel: RecordedKernel) -> float:
    """Return when the host issued a kernel; of a wait, and of a trace without launches, when it began."""
    return kernel.start if kernel.launched is None or kernel.sort == WAIT else kernel.launched
