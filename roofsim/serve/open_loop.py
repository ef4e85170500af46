"""The steady state of a server to which requests come at a rate of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.kept import remembered
from roofsim.records import dataclass, replace
from roofsim.serve import closed_loop
from roofsim.serve.full_steps import alone, full_rate, room_in_step
from roofsim.serve.load import Load, Steady
from roofsim.serve.waiting_prompts import PromptPasses, prompts_only, seconds_beside

if TYPE_CHECKING:
    from roofsim.numeric import Array
    from roofsim.serve.timing import Timing

_ROUNDS: Final = 40
_HALVINGS: Final = 30
#: Of all time, what prompts take at most.
_ALMOST: Final = 0.999
#: How late the difference between two estimates of the highest rate comes in: a power of the share of that rate.
_LATEST: Final = 16.0
#: Where the queue of requests beyond the limit is cut; its tail is geometric and summed by itself.
_NUMBERS: Final = 33
#: Places of which the last are never taken.
_PLACES: Final = 2.0**16


def highest_rate(timing: Timing, load: Load) -> float:
    """Return the requests per second that a replica sustains at most: what it does with all places taken at all times.

    Requests that come at a rate keep no step with one another, however alike they are.
    """
    return closed_loop.highest_rate(timing, replace(load, alike=False))


def _own_highest(timing: Timing, load: Load) -> float:
    """Return the requests per second at which all places are taken, as this queue counts them."""
    most = full_rate(timing, load)
    if load.checks <= 0.0:
        return most
    low, high = 0.0, 1.0 / max(seconds_beside(timing, load, 0.0, 1.0) / max(load.budget / load.tokens, 1.0), 2.0**-40)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        company = _ArrivingPrompts(timing, load, middle)
        full = company.saturated or middle * _kept(company, load.limit) >= load.limit
        low, high = (low, middle) if full else (middle, high)
    return min(low, most)


def _kept(company: _ArrivingPrompts, running: float) -> float:
    """Return the seconds for which a request keeps its place."""
    timing, load = company.timing, company.load
    return load.checks * company.step(running) + max(
        load.tokens / room_in_step(timing, load, running), 1.0
    ) * timing.step(running, load.context, min(load.tokens, room_in_step(timing, load, running)))


def steady_state(timing: Timing, load: Load, rate: float, *, poisson: bool) -> Steady | None:
    """Return the steady state at `rate` requests per second of one replica; None where there is none."""
    highest = highest_rate(timing, load)
    if rate >= highest:
        return None
    asked, rate = rate, _as_counted(timing, load, rate, highest)
    company = _ArrivingPrompts(timing, load, rate)
    queue = _Places.of(company, load)
    running, queued, idle = queue.occupied(load, rate, asked / highest) if poisson else queue.evenly(load, rate)
    wait_for_room = queued / rate
    step = running / (rate * load.checks) if load.checks > 0.0 else 0.0
    first, low, high = _first(company, running, idle, step, poisson=poisson)
    if not poisson:
        # What takes longer to arrive than the time between two requests arrives in no order.
        scattered = min(rate * load.request_time, 1.0)
        first += scattered * (_first(company, running, idle, step, poisson=True)[0] - first)
    decode = step * load.checks
    return Steady(
        time_to_first_token=load.request_time + wait_for_room + first,
        time_per_output_token=decode / load.outputs if load.outputs > 0.0 else None,
        end_to_end=load.request_time + wait_for_room + first + decode,
        request_rate=asked,
        running=asked * decode,
        waiting=asked * (load.request_time + wait_for_room + first),
        prompt_share=min(max(rate * company.each(running), 0.0), 1.0),
        first_token_low=load.request_time + low,
        first_token_high=load.request_time + 2.0 * wait_for_room + high,
    )


def _as_counted(timing: Timing, load: Load, rate: float, highest: float) -> float:
    """Return the rate at which this queue is as far from its limit as the server is from its own.

    The queue for places and the closed loop with all of them taken are two estimates of one limit. Far from it the
    difference does not matter; where it must, it comes in no faster than that more requests are still more.
    """
    difference = _own_highest(timing, load) / highest - 1.0
    late = min(max(0.9 / max(abs(difference), 2.0**-8) - 1.0, 1.0), _LATEST)
    return rate * (1.0 + difference * float((rate / highest) ** late))


class _ArrivingPrompts:
    """What prompts that come at a rate add to steps."""

    def __init__(self, timing: Timing, load: Load, rate: float) -> None:
        self.timing = timing
        self.load = load
        self.rate = rate
        self.passes = None if timing.mixed else PromptPasses.of(timing, load, rate)

    def step(self, running: float) -> float:
        """Return the mean seconds from one token of a request to the next, prompts of others included."""
        if self.passes is None:
            return self._mixed(running)[0]
        return self.passes.cycle(self.timing.decode_step(running, self.load.context))

    def each(self, running: float) -> float:
        """Return the seconds that each prompt adds."""
        if self.passes is None:
            return self._mixed(running)[1]
        return min(seconds_beside(self.timing, self.load, running, 1.0), _ALMOST / self.rate)

    @property
    def saturated(self) -> bool:
        """Whether prompts alone are more than the server can do."""
        return self.passes is not None and self.passes.endless

    @remembered
    def _mixed(self, running: float) -> tuple[float, float]:
        plain = self.timing.decode_step(running, self.load.context)
        step, each = plain, 0.0
        for _ in range(_ROUNDS):
            arrivals = self.rate * step
            # Steps with prompts have one at least; Poisson arrivals come with others at times.
            prompts = arrivals / -np.expm1(-arrivals) if arrivals > 0.0 else 1.0
            each = seconds_beside(self.timing, self.load, running, float(prompts)) / float(prompts)
            each = min(each, _ALMOST / max(self.rate, 2.0**-100))
            step = 0.5 * (step + plain / (1.0 - self.rate * each))
        return step, each


@dataclass(frozen=True)
class _Places:
    """What one request does to others, with 1, 2, ... up to the limit of requests that have a place.

    Attributes
    ----------
    steps, kept
        Mean seconds of a step, prompts included, and of a place.
    prompts
        Share of the time that prompts add to steps.
    """

    numbers: Array
    steps: Array
    kept: Array
    prompts: Array

    @classmethod
    def of(cls, company: _ArrivingPrompts, load: Load) -> _Places:
        """Price steps at some numbers of requests, and put the others between them."""
        limit = int(min(max(load.limit, 1.0), _PLACES))
        some: Array = np.unique(np.round(np.geomspace(1.0, limit, _NUMBERS))) if limit > 1 else np.array([1.0])
        seconds = [company.step(float(number)) for number in some]
        places = [_kept(company, float(number)) for number in some]
        plain = [company.timing.decode_step(float(number), load.context) for number in some]
        shares = [min(max(1.0 - alone / step, 0.0), _ALMOST) for alone, step in zip(plain, seconds, strict=True)]
        numbers: Array = np.arange(1.0, limit + 1.0)
        return cls(numbers, *(np.interp(numbers, some, values) for values in (seconds, places, shares)))

    def _decoding(self, load: Load) -> Array:
        """Return how many of the requests with a place decode."""
        decoding: Array = self.numbers * load.checks * self.steps / self.kept
        return decoding

    def evenly(self, load: Load, rate: float) -> tuple[float, float, float]:
        """Return as `occupied`, where requests come evenly: their number does not vary."""
        if load.checks <= 0.0:
            return 0.0, 0.0, max(1.0 - rate * float(self.kept[0]), 0.0)
        mean = 1.0
        for _ in range(_ROUNDS * 2):
            mean = 0.5 * (mean + rate * float(np.interp(mean, self.numbers, self.kept)))
        return float(np.interp(mean, self.numbers, self._decoding(load))), 0.0, max(1.0 - mean, 0.0)

    def occupied(self, load: Load, rate: float, full: float) -> tuple[float, float, float]:
        """Return the mean requests that decode, that wait for room, and the share of time without any.

        `full` is the rate as a share of that with all places taken. In time measured in steps, each request stays for as many
        as it has tokens, and as many come as fit in a step's seconds; their number is a birth and death process ``p(n) =
        p(n-1) x rate x kept / n``. Prompts make steps longer, longer steps bring more prompts: arrivals come in bunches, whose
        variance is 1 / (1 - share of prompts)^2 times that of single ones (a branching process), while the more alike requests
        are, the more their ends come in the bunches of their beginnings. The process is a diffusion with so much more
        variance, around the same mean; its density is the smaller the larger the variance is, so that it jumps where requests
        begin to wait for room.
        """
        if load.checks <= 0.0:
            return self.evenly(load, rate)
        squared = min(load.variation, 1.0) ** 2
        bunched = (1.0 / (1.0 - self.prompts) ** 2 + squared) / (1.0 + squared)
        # Where steps are linear in requests, bunches must not change the mean in time measured in steps.
        gain = np.gradient(np.log(self.kept), np.log(self.numbers)) if len(self.numbers) > 1 else np.zeros(1)
        shift = 0.5 * (bunched - 1.0) * np.clip(1.0 - gain, 0.0, 1.0)
        rises = np.log(rate * self.kept / (self.numbers + shift)) / bunched
        logs = np.concatenate([[0.0], np.cumsum(rises)]) - np.log(np.concatenate([bunched[:1], bunched]))
        weights = np.exp(logs - logs.max())
        # Who waits for room makes no step longer, and is let in when somebody leaves: that varies less.
        waiting = 0.5 * (1.0 + squared * (1.0 - float(self.prompts[-1])) ** 2)
        ratio = min(full, 1.0 - 2.0**-20) ** (1.0 / waiting)
        edge = float(weights[-1] * bunched[-1]) / waiting
        beyond = edge * ratio / (1.0 - ratio)  # all states with requests that wait for room
        total = float(weights.sum()) + beyond
        decoding = self._decoding(load)
        running = (float(weights[1:] @ decoding) + beyond * float(decoding[-1])) / total
        return running, beyond / (1.0 - ratio) / total, float(weights[0]) / total


def _first(
    company: _ArrivingPrompts, running: float, idle: float, step: float, *, poisson: bool
) -> tuple[float, float, float]:
    """Return the mean seconds to the first token behind the client and the wait for room, a short and a long case.

    Who comes to an idle server begins at once; else waits for the end of a step (long steps are met more often), then has
    a step together with those who came meanwhile, as far as they fit in it, and with the requests that decode.
    """
    timing, load, rate = company.timing, company.load, company.rate
    decoding = running / max(1.0 - idle, 2.0**-20) if load.checks else 0.0
    room = room_in_step(timing, load, decoding)
    lone = alone(timing, load, 0.0, room)
    beside = alone(timing, load, decoding, room)
    each = company.each(decoding)
    full = timing.step(decoding, load.context, room, room / load.tokens)
    service = load.tokens / room * full
    # The queue of one server that takes prompts one by one; where many fit in a step, they seldom queue.
    # The prompt in progress is part of the step that is waited for; those behind it are not.
    busy_share = min(rate * service, 1.0 - 2.0**-10)
    queue = 0.5 * busy_share * (service / (1.0 - busy_share) - min(service, full)) * min(load.tokens / room, 1.0)
    if not poisson:
        queue = 0.0
    if load.checks <= 0.0:
        even = not poisson and rate * lone <= 1.0
        mean = lone if even else prompts_only(timing, load, rate, lone)
        return mean, lone, max(3.0 * mean - 2.0 * lone, mean)
    if timing.mixed:
        spread = each**2 * rate * step / (1.0 - (rate * each) ** 2) if poisson else 0.0
        interval = (step**2 + spread) / step
        wait = 0.5 * interval
    else:
        plain, share = timing.decode_step(decoding, load.context), min(rate * each, 1.0)
        interval = share * lone + (1.0 - share) * plain
        wait = 0.5 * interval
    others = min(rate * interval, max(room / load.tokens - 1.0, 0.0)) if poisson else 0.0
    busy = wait + beside + others * each + queue
    mean = idle * lone + (1.0 - idle) * busy
    return mean, lone, max(mean, busy + 2.0 * (queue + wait))
