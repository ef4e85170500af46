"""The steady state of a server to which requests come at a rate of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.kept import remembered
from roofsim.records import dataclass, field, replace
from roofsim.serve import closed_loop
from roofsim.serve.full_steps import alone, room_in_step
from roofsim.serve.load import Load, Steady
from roofsim.serve.variation import Queueing, counted_bursts, own_times, queueing
from roofsim.serve.waiting_prompts import PromptPasses, SharedSteps, filled, prompts_only, seconds_beside

if TYPE_CHECKING:
    from roofsim.numeric import Array
    from roofsim.serve.timing import Timing

_ROUNDS: Final = 40
#: Of all time, what prompts take at most.
_ALMOST: Final = 0.999
#: Where the queue of requests beyond the limit is cut; its tail is geometric and summed by itself.
_NUMBERS: Final = 33
#: Places of which the last are never taken.
_PLACES: Final = 2.0**16


def highest_rate(timing: Timing, load: Load) -> float:
    """Return the requests per second that a replica sustains at most: what it does with all places taken at all times.

    Requests that come at a rate keep no step with one another, however alike they are.
    """
    return closed_loop.highest_rate(timing, replace(load, alike=False))


def steady_state(timing: Timing, load: Load, rate: float, *, poisson: bool) -> Steady | None:
    """Return the steady state at `rate` requests per second of one replica; None where there is none."""
    behind = behind_state(timing, load, rate, poisson=poisson)
    return None if behind is None else behind.steady


@dataclass(frozen=True, kw_only=True)
class Behind:
    """A steady state with what it was worked out from: the prompts that arrive, and the places over time."""

    steady: Steady
    company: ArrivingPrompts
    places: Places
    taken: Taken
    queueing: Queueing


def behind_state(
    timing: Timing, load: Load, rate: float, *, poisson: bool, highest: float | None = None
) -> Behind | None:
    """Return the steady state at `rate` requests per second of one replica, and what is behind it; None where there is none.

    `highest` is the `highest_rate`, where it is known.
    """
    highest = highest_rate(timing, load) if highest is None else highest
    if rate >= highest:
        return None
    company = ArrivingPrompts(timing, load, rate, scattered=poisson)
    places = Places.of(company, load)
    taken = places.taken(load, rate, rate / highest) if poisson else places.taken_evenly(load, rate)
    running, wait_for_room = taken.decoding, taken.queued / rate
    step = running / (rate * load.checks) if load.checks > 0.0 else 0.0
    first, low, high, queue = _first(company, taken, step, rate / highest)
    decode = step * load.checks
    steady = Steady(
        time_to_first_token=load.request_time + wait_for_room + first,
        time_per_output_token=decode / load.outputs if load.outputs > 0.0 else None,
        end_to_end=load.request_time + wait_for_room + first + decode,
        request_rate=rate,
        running=rate * decode,
        waiting=rate * (load.request_time + wait_for_room + first),
        prompt_share=min(max(rate * company.each(running), 0.0), 1.0),
        first_token_low=load.request_time + low,
        first_token_high=load.request_time + 2.0 * wait_for_room + high,
    )
    return Behind(steady=steady, company=company, places=places, taken=taken, queueing=queue)


class ArrivingPrompts:
    """What prompts that come at a rate add to steps; `scattered` ones come at random, others evenly."""

    def __init__(self, timing: Timing, load: Load, rate: float, *, scattered: bool) -> None:
        self.timing = timing
        self.load = load
        self.rate = rate
        self.scattered = scattered
        self.passes = None if timing.mixed else PromptPasses.of(timing, load, rate)

    def step(self, running: float) -> float:
        """Return the mean seconds from the begin of a step to that of the next, the passes of prompts between them included."""
        if self.passes is not None:
            return self.passes.cycle(self.plain(running))
        return self.shared(running).mean if self.scattered else self._mixed(running)[0]

    def decode_time(self, running: float) -> float:
        """Return the mean seconds from the first token of a request to its last."""
        checks = self.load.checks
        if self.passes is not None and checks > 0.0:
            return self.passes.decode_time(self.plain(running), checks)
        return checks * self.step(running)

    def plain(self, running: float) -> float:
        """Return the seconds of a step without prompts."""
        return self.timing.decode_step(running, self.load.context)

    def each(self, running: float) -> float:
        """Return the seconds that each prompt adds."""
        if self.passes is None:
            return self._mixed(running)[1]
        return min(seconds_beside(self.timing, self.load, running, 1.0), _ALMOST / self.rate)

    def prompt_time(self, running: float) -> float:
        """Return the mean seconds in which a prompt that comes at random has run, behind those before it."""
        if self.passes is not None:
            return self.passes.mean_time(self.plain(running))
        return self.shared(running).prompt_time

    def kept(self, running: float) -> float:
        """Return the seconds for which a request keeps its place."""
        return self.decode_time(running) + self.prompt_time(running)

    def filling(self, limit: float) -> Array:
        """Return how far steps are as full as they can be where all places are taken and 1, 2, ... requests wait: from 0 to 1."""
        if self.load.checks <= 0.0:
            return np.ones(1)
        ends = max(limit / self.load.checks, 1.0)
        numbers: Array = np.arange(np.ceil(ends) + 1.0)
        if self.passes is None:
            return np.minimum(numbers[1:] / ends, 1.0)
        decode = self.timing.decode_step(limit, self.load.context)
        seconds = np.array([filled(self.timing, self.load, self.rate, decode, float(number)) for number in numbers])
        gained = seconds[0] - seconds[1:]
        return np.ones(1) if gained[-1] <= 0.0 else np.maximum.accumulate(np.clip(gained / gained[-1], 0.0, 1.0))

    @remembered
    def shared(self, running: float) -> SharedSteps:
        """Return the steps that prompts share with so many requests that decode."""
        return SharedSteps.usual(self.timing, self.load, self.rate, running)

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


@dataclass(frozen=True, kw_only=True)
class Taken:
    """The places of a server over time.

    Attributes
    ----------
    decoding, queued
        Requests that decode, and that wait for room, in the mean.
    idle
        Share of the time without any.
    prompt_time
        Mean seconds of a prompt that comes at random to a server that is not idle, from its place to its first token.
    shares
        Share of the time with 1, 2, ... places taken; the last: all of them. Empty where the number does not vary.
    crowded
        Share of the time in which requests wait for room.
    """

    decoding: float
    queued: float
    idle: float
    prompt_time: float
    shares: Array = field(default_factory=lambda: np.zeros(0))
    crowded: float = 0.0


@dataclass(frozen=True)
class Places:
    """What one request does to others, with 1, 2, ... up to the limit of requests that have a place.

    Attributes
    ----------
    decoding
        How many of the requests with a place decode.
    kept
        Mean seconds for which a request keeps its place.
    prompts
        Share of the time that prompts add to steps.
    first
        Mean seconds of a prompt from its place to its first token.
    filling
        How far steps are as full as they can be where 1, 2, ... requests wait for room: from 0 to 1.
    priced
        Requests that decode for which steps were priced; the others lie between these.
    """

    numbers: Array
    decoding: Array
    kept: Array
    prompts: Array
    first: Array
    filling: Array
    priced: Array

    @classmethod
    def of(cls, company: ArrivingPrompts, load: Load) -> Places:
        """Price steps at some numbers of requests, and put the others between them."""
        limit = int(min(max(load.limit, 1.0), _PLACES))
        some: Array = np.unique(np.round(np.geomspace(1.0, limit, _NUMBERS))) if limit > 1 else np.array([1.0])
        seconds, kept, decode, plain, first = (
            np.array([price(float(number)) for number in some])
            for price in (company.step, company.kept, company.decode_time, company.plain, company.prompt_time)
        )
        shares = np.clip(1.0 - plain / seconds, 0.0, _ALMOST)
        # With so many in a step some more have a place: those whose prompts run, or who wait for their first step.
        taken = some * kept / (load.checks * seconds) if load.checks > 0.0 else some
        numbers: Array = np.arange(1.0, limit + 1.0)
        decoding, places, prompts, firsts = (
            np.interp(numbers, taken, of) for of in (decode / kept, kept, shares, first)
        )
        return cls(
            numbers=numbers,
            decoding=numbers * decoding,
            kept=places,
            prompts=prompts,
            first=firsts,
            filling=company.filling(float(limit)),
            priced=some,
        )

    def taken_evenly(self, load: Load, rate: float) -> Taken:
        """Return the places taken where requests come evenly: their number does not vary."""
        if load.checks <= 0.0:
            idle = max(1.0 - rate * float(self.kept[0]), 0.0)
            return Taken(decoding=0.0, queued=0.0, idle=idle, prompt_time=float(self.first[0]))
        mean = 1.0
        for _ in range(_ROUNDS * 2):
            mean = 0.5 * (mean + rate * float(np.interp(mean, self.numbers, self.kept)))
        decoding, first = (float(np.interp(mean, self.numbers, of)) for of in (self.decoding, self.first))
        return Taken(decoding=decoding, queued=0.0, idle=max(1.0 - mean, 0.0), prompt_time=first)

    def taken(self, load: Load, rate: float, full: float) -> Taken:
        """Return the places taken by requests that come at random.

        `full` is the rate as a share of that with all places taken. In time measured in steps, each request stays for as many
        as it has tokens, and as many come as fit in a step's seconds; their number is a birth and death process ``p(n) =
        p(n-1) x rate x kept / n``. Prompts make steps longer, longer steps bring more prompts: arrivals come in bunches, whose
        variance is (A + P^2 S) / (1 - P)^2 times that of single ones, with P for the share of prompts and A and S for the squared
        coefficients of variation of times between requests and of prompts (a branching process), while the more alike
        requests are, the more their ends come in the bunches of their beginnings. The process is a diffusion with so much
        more variance, around the same mean.
        """
        if load.checks <= 0.0:
            return self.taken_evenly(load, rate)
        squared = min(load.variation, 1.0) ** 2
        arriving = counted_bursts(load, rate * self.kept) + load.prompts_squared * self.prompts**2
        bunched = (arriving / (1.0 - self.prompts) ** 2 + squared) / (1.0 + squared)
        # Where steps are linear in requests, bunches must not change the mean in time measured in steps.
        gain = np.gradient(np.log(self.kept), np.log(self.numbers)) if len(self.numbers) > 1 else np.zeros(1)
        shift = 0.5 * (bunched - 1.0) * np.clip(1.0 - gain, 0.0, 1.0)
        rises = np.log(rate * self.kept / (self.numbers + shift)) / bunched
        logs = np.concatenate([[0.0], np.cumsum(rises)]) - np.log(np.concatenate([bunched[:1], bunched]))
        tail, waiting = self._beyond(load, rate, full, float(logs[-1]))
        highest = max(float(logs.max()), float(tail.max()))
        weights, beyond = np.exp(logs - highest), np.exp(tail - highest)
        beyond[-1] /= 1.0 - full ** (1.0 / self._scatter(load))  # the last stands for all further ones
        busy = weights[1:].copy()
        busy[-1] += beyond.sum()
        total = float(weights[0] + busy.sum())
        return Taken(
            decoding=float(busy @ self.decoding) / total,
            queued=float(beyond @ waiting) / total,
            idle=float(weights[0]) / total,
            prompt_time=float(busy @ self.first) / float(busy.sum()),
            shares=busy / total,
            crowded=float(beyond.sum()) / total,
        )

    def _scatter(self, load: Load) -> float:
        """Return the variance of those that wait for room: they make no step longer, and come and go one by one."""
        squared, prompts = min(load.variation, 1.0) ** 2, float(self.prompts[-1])
        arriving = counted_bursts(load, float(self.numbers[-1])) + load.prompts_squared * prompts**2
        return float(0.5 * (arriving + squared * (1.0 - prompts) ** 2))

    def _beyond(self, load: Load, rate: float, full: float, last: float) -> tuple[Array, Array]:
        """Return the logarithms of the weights of 1, 2, ... requests that wait for room, and these numbers.

        Work that waits varies no more at the limit than below it, and a request that waits has all of its work before it,
        one with a place the rest of its decode steps: so much more often is there one more that waits than one more with a
        place. Where more wait than leave in a step, steps have as many prompts as places; where fewer, as many as come.
        """
        squared = min(load.variation, 1.0) ** 2
        numbers: Array = np.arange(1.0, len(self.filling) + 1.0)
        few = np.log(rate * float(self.kept[-1]) / float(self.numbers[-1]))
        rises = (few + (np.log(full) - few) * self.filling) / self._scatter(load)
        work = 2.0 / (1.0 - float(self.prompts[-1])) / (1.0 + squared)
        waiting = numbers.copy()
        ratio = full ** (1.0 / self._scatter(load))
        waiting[-1] += ratio / (1.0 - ratio)
        return last + np.log(work) + np.cumsum(rises), waiting


def _first(company: ArrivingPrompts, taken: Taken, step: float, full: float) -> tuple[float, float, float, Queueing]:
    """Return the mean seconds to the first token behind the client and the wait for room, a short and a long case, and its queue.

    Who comes to an idle server begins at once; else waits for the end of a step, and has the next ones with those who came
    meanwhile, as far as they fit in, and with the requests that decode. Arrivals see what is there over time.
    """
    timing, load, rate = company.timing, company.load, company.rate
    decoding = taken.decoding / max(1.0 - taken.idle, 2.0**-20) if load.checks else 0.0
    room = room_in_step(timing, load, decoding)
    lone = alone(timing, load, 0.0, room)
    shifts, often = own_times(timing, load, decoding, room)
    longer = float(shifts @ often)
    if load.checks <= 0.0:
        even = not company.scattered and rate * lone <= 1.0
        mean = lone if even else prompts_only(timing, load, rate, lone)
        queue = _queueing(company, 0.0, full, lone, mean - lone) if company.scattered else Queueing()
        mean += queue.seconds + longer
        return mean, lone, max(3.0 * mean - 2.0 * lone, mean), queue
    beside = alone(timing, load, decoding, room)
    busy = taken.prompt_time
    queue = Queueing()
    if company.scattered:
        lonely = beside + 0.5 * timing.decode_step(decoding, load.context)
        queue = _queueing(company, decoding, full, company.each(decoding), max(busy - lonely, 0.0))
    if not company.scattered:
        plain, share = timing.decode_step(decoding, load.context), min(rate * company.each(decoding), 1.0)
        evenly = beside + 0.5 * (step if timing.mixed else share * lone + (1.0 - share) * plain)
        # What takes longer to arrive than the time between two requests arrives in no order.
        busy = evenly + min(rate * load.request_time, 1.0) * max(busy - evenly, 0.0)
    mean = taken.idle * lone + (1.0 - taken.idle) * busy + queue.seconds + longer
    return mean, lone, max(mean, busy + 2.0 * (busy - beside)), queue


def _queueing(company: ArrivingPrompts, decoding: float, full: float, each: float, alike: float) -> Queueing:
    """Return what bursts and unequal prompts make of the wait behind other prompts."""
    timing, load = company.timing, company.load
    if load.arrivals_squared == 1.0 and load.prompts_squared == 0.0:
        return Queueing()
    one, two = (seconds_beside(timing, load, decoding, number) for number in (1.0, 2.0))
    return queueing(load, rate=company.rate, full=full, each=each, more=max(two - one, 0.0), alike=alike)
