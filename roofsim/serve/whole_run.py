"""A benchmark run of so many requests, from its first to its last: full at the beginning, drained at the end.

A client sends as many requests at once as it keeps under way, then one for each that ends. The first wave of prompts queues for
the first passes; the last requests run beside fewer and fewer. Means over a run hold both.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.records import dataclass, field, replace

if TYPE_CHECKING:
    from roofsim.serve.load import Load, Steady
    from roofsim.serve.timing import Timing

#: Requests against those that run at once, from which the ends of a run are not worth while; and events of a run, at most.
LONG: Final = 64.0
_EVENTS: Final = 100_000.0
#: Lengths that those of one pass have at most: quantiles of a normal distribution, at least a tenth of the mean.
_LENGTHS: Final = 5
_SPREAD: Final = (-1.4, -0.55, 0.0, 0.55, 1.4)  # the mean of each fifth of a standard normal distribution


def is_short(load: Load, requests: float, concurrency: float) -> bool:
    """Tell whether the ends of a run of so many requests show, and can be followed."""
    inside = max(min(concurrency, load.limit), 1.0)
    passes = requests * max(load.tokens / load.budget, 1.0)
    return requests < LONG * inside and passes + requests <= _EVENTS


@dataclass
class _Group:
    """Requests whose prompts ended in one pass, and which end in one step."""

    count: float
    steps: int


@dataclass
class _Run:
    """A server and its client, followed from event to event."""

    timing: Timing
    load: Load
    prompt: float
    unsent: float
    now: float = 0.0
    steps: int = 0
    arriving: list[tuple[float, float]] = field(default_factory=list)  # when, how many
    waiting: deque[list[float]] = field(default_factory=deque)  # when sent, how many
    left: float = 0.0  # tokens of the first that waits
    ending: list[tuple[int, int, _Group]] = field(default_factory=list)
    running: float = 0.0
    cached: float = 0.0
    serial: int = 0
    firsts: float = 0.0
    decodes: float = 0.0
    outputs: float = 0.0
    busy: float = 0.0  # seconds x requests that decode

    def send(self, count: float) -> None:
        """Send requests, as far as there are any left."""
        count = min(count, self.unsent)
        if count > 0.0:
            self.unsent -= count
            heapq.heappush(self.arriving, (self.now + self.load.request_time, count))

    def arrive(self) -> None:
        """Take what has come to the scheduler."""
        while self.arriving and self.arriving[0][0] <= self.now:
            when, count = heapq.heappop(self.arriving)
            self.waiting.append([when - self.load.request_time, count])

    def follow(self) -> None:
        """Run until the last request has ended."""
        while True:
            self.arrive()
            if self.waiting and self.running < self.load.limit:
                self._with_prompts()
            elif self.running > 0.0:
                self._decode()
            elif self.arriving:
                self.now = self.arriving[0][0]
            else:
                return

    def _step(self, steps: int, seconds: float) -> None:
        self.now += steps * seconds
        if not steps or self.running <= 0.0:
            return
        self.busy += steps * seconds * self.running

    def _decode(self) -> None:
        """Run decode steps until a request ends, or another comes that may run."""
        context = self.cached / self.running
        seconds = self.timing.decode_step(self.running, context)
        steps = max(self.ending[0][0] - self.steps, 1)
        if self.arriving and self.running < self.load.limit and seconds > 0.0:
            steps = max(min(steps, int((self.arriving[0][0] - self.now) / seconds) + 1), 1)
        halfway = context + 0.5 * (steps - 1) * self.timing.tokens_per_check
        self._step(steps, self.timing.decode_step(self.running, halfway))
        self._decoded(steps)

    def _with_prompts(self) -> None:
        """Run a step with as many prompts as it has room for."""
        timing, load = self.timing, self.load
        decodes = timing.mixed
        room = load.budget - (self.running * (1.0 + timing.draft_tokens) if decodes else 0.0)
        places = load.limit - self.running
        tokens = finished = 0.0
        done: list[tuple[float, float]] = []
        while self.waiting and places > 0.0 and room > 0.0:
            group = self.waiting[0]
            if self.left <= 0.0:
                self.left = load.tokens
            piece = min(self.left, room)
            whole = min(group[1], places)
            if piece == self.left == load.tokens and whole >= 1.0:
                count = max(min(whole, float(int(room / load.tokens))), min(whole, 1.0))
                used = count * load.tokens
            else:
                count, used = (min(whole, 1.0), piece) if piece >= self.left else (0.0, piece)
            tokens, room = tokens + used, room - used
            if count <= 0.0:
                self.left -= used
                break
            self.left = 0.0
            places, finished, group[1] = places - count, finished + count, group[1] - count
            done.append((group[0], count))
            if group[1] <= 0.0:
                self.waiting.popleft()
        if tokens <= 0.0:  # no room beside those that decode
            self._decode()
            return
        running = self.running if decodes else 0.0
        context = self.cached / self.running if self.running else 1.0
        seconds = timing.step(running, context, tokens, max(finished, 1.0))
        self._step(1, seconds)
        if decodes and self.running:
            self._decoded(1)
        for sent, count in done:
            self.firsts += count * (self.now - sent)
            self._begin(count)

    def _decoded(self, steps: int) -> None:
        self.steps += steps
        self.cached += steps * self.running * self.timing.tokens_per_check
        ended = 0.0
        while self.ending and self.ending[0][0] <= self.steps:
            _, _, group = heapq.heappop(self.ending)
            ended += group.count
            self.cached -= group.count * (self.prompt + group.steps * self.timing.tokens_per_check)
        if ended:
            self.running = max(self.running - ended, 0.0) if self.ending else 0.0
            self.send(ended)

    def _begin(self, count: float) -> None:
        """Let requests decode whose prompts have ended; their lengths differ."""
        load = self.load
        if load.checks <= 0.0:
            self.send(count)
            return
        lengths = (0.0,) if load.variation <= 0.0 else _SPREAD
        dealt = min(len(lengths), max(int(count), 1))
        offset = self.serial
        for number in range(dealt):
            share = lengths[(offset + number) % len(lengths)]
            steps = max(round(load.checks * max(1.0 + share * load.variation, 0.1)), 1)
            group = _Group(count / dealt, steps)
            self.serial += 1
            heapq.heappush(self.ending, (self.steps + steps, self.serial, group))
            self.outputs += group.count * steps * self.timing.tokens_per_check
        self.running += count
        self.cached += count * self.prompt


def run(timing: Timing, load: Load, prompt: float, steady: Steady, requests: float, concurrency: float) -> Steady:
    """Return the means over a run of so many requests of one replica, with so many under way at most."""
    state = _Run(timing=timing, load=load, prompt=prompt, unsent=requests)
    state.send(concurrency)
    state.follow()
    first, rate = state.firsts / requests, requests / state.now
    # What prompts of others make of a time between tokens is that of every step that it has: those that end do not wait.
    each = None if load.outputs <= 0.0 else state.busy / max(state.outputs, 1.0)
    # Whole steps of a short run come to other lengths than asked for.
    decode = 0.0 if each is None else each * load.outputs
    return replace(
        steady,
        time_to_first_token=first,
        time_per_output_token=each,
        end_to_end=first + decode,
        request_rate=rate,
        running=state.busy / state.now,
        waiting=max(rate * first, 0.0),
        first_token_low=min(steady.first_token_low, first),
        first_token_high=float(np.maximum(steady.first_token_high, 2.0 * first - min(steady.first_token_low, first))),
    )
