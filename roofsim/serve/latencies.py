"""Percentiles of latencies of requests that come at a rate: what one request meets that another does not.

A time to the first token differs by what runs when the request comes, by who came before it, and by its wait for room; the chain of
steps of `waiting_prompts` says how often which of these is. A time per token is a mean over a life: requests that decode beside it
come and go slowly, prompts of others pass quickly. Both spreads have the means of the steady state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.records import dataclass, replace
from roofsim.serve.full_steps import alone, room_in_step
from roofsim.serve.spread import LatencySpread
from roofsim.serve.variation import own_times, spread_by
from roofsim.serve.waiting_prompts import arriving, arriving_at, most_in_pass

if TYPE_CHECKING:
    from roofsim.numeric import Array
    from roofsim.serve.load import Load, Steady
    from roofsim.serve.open_loop import ArrivingPrompts, Behind
    from roofsim.serve.timing import Timing

#: Share of the time of a number of requests under way that is not worth while, and the fewest of them.
_RARE: Final = 2e-3
_LEAST: Final = 2.0**-10
#: Lives that stand for all, each for an equal share of the busy time.
_LIVES: Final = 12
#: Moments of a step at which a prompt may come.
_MOMENTS: Final = 4
#: Prompts that may come before another in one step.
_BEFORE: Final = 24
#: Chance of a state that is not worth while.
_NEVER: Final = 1e-5
#: Of the time, what prompts take at most where their number scatters.
_ALMOST: Final = 0.98
#: Points that stand for a normal distribution, and lengths that stand for a gamma distribution.
_POINTS: Final = np.linspace(-4.0, 4.0, 25)
_LENGTHS: Final = (-1.2816, -0.5244, 0.0, 0.5244, 1.2816)  # the middles of fifths of a standard normal distribution
#: The shortest of these, as a share of the mean.
_SHORTEST: Final = 0.05
#: Times that a scatter lasts, below which a mean over them is one of them.
_BRIEF: Final = 1e-3
_ROUNDING: Final = 2.0**-24


@dataclass(frozen=True, kw_only=True)
class Alone:
    """What a request takes that is alone: to the first token, and seconds per token behind it (None: there is none)."""

    first: LatencySpread
    each: float | None


@dataclass(frozen=True, kw_only=True)
class TokenLatencies:
    """Spreads of the times of requests under a load: to the first token, and per token behind it (None: there is none).

    What is beyond `alone` comes of other requests: it is queueing.
    """

    first: LatencySpread
    each: LatencySpread | None
    alone: Alone


def alone_on(timing: Timing, load: Load, prompt: float) -> Alone:
    """Return what a request takes whose prompt runs alone in so many seconds."""
    first = LatencySpread(seconds=np.array([prompt]), weights=np.ones(1), travel=load.request_time)
    if load.outputs <= 0.0:
        return Alone(first=first, each=None)
    return Alone(first=first, each=timing.decode_step(1.0, load.context) * load.checks / load.outputs)


@dataclass(frozen=True)
class _Node:
    """A number of requests that decode, and the share of the busy time with about so many."""

    share: float
    decoding: float


def latencies_of(behind: Behind) -> TokenLatencies:
    """Return the spreads of the latencies of a steady state."""
    company, taken, steady, load = behind.company, behind.taken, behind.steady, behind.company.load
    wait = taken.queued / company.rate
    mean = steady.time_to_first_token - load.request_time - wait
    alike = not company.scattered or load.checks <= 0.0
    own = _own_times(behind)
    mean -= float(own[0] @ own[1]) + behind.queueing.longer
    first = _alike(steady, load, mean, wait) if alike else _first(behind, mean)
    first = spread_by(first, behind.queueing, own, load.prompts_squared)
    first = replace(first, travel=load.request_time)
    if taken.crowded > 0.0 and wait > 0.0:
        first = replace(first, waiting=taken.crowded, wait=wait / taken.crowded)
    lone = alone(company.timing, load, 0.0, load.budget)
    return TokenLatencies(first=first, each=_each(behind), alone=alone_on(company.timing, load, lone))


def _own_times(behind: Behind) -> tuple[Array, Array]:
    """Return by how many seconds prompts take longer than the mean one, and how many do."""
    load, timing, taken = behind.company.load, behind.company.timing, behind.taken
    decoding = taken.decoding / max(1.0 - taken.idle, _LEAST) if load.checks > 0.0 else 0.0
    return own_times(timing, load, decoding, room_in_step(timing, load, decoding))


def _alike(steady: Steady, load: Load, mean: float, wait: float) -> LatencySpread:
    """Return a spread between the short and the long case of a steady state, evenly around the mean."""
    low = steady.first_token_low - load.request_time
    high = max(steady.first_token_high - load.request_time - 2.0 * wait, mean)
    shares = (np.arange(_BEFORE) + 0.5) / _BEFORE
    # Of an exponential distribution above the least, cut where the long case has it.
    far = np.minimum(low - (mean - low) * np.log1p(-shares), max(high, mean) * 2.0)
    return LatencySpread(seconds=far, weights=np.full(len(far), 1.0 / len(far))).around(low, mean)


def _nodes(behind: Behind) -> list[_Node]:
    """Return the numbers of requests that decode for which steps are priced, each with its share of the busy time."""
    places, shares = behind.places, behind.taken.shares
    total, priced = float(shares.sum()), places.priced
    if len(shares) <= 1 or total <= 0.0 or len(priced) <= 1:
        return [_Node(1.0, max(behind.taken.decoding, _LEAST))]
    above = np.clip(np.searchsorted(priced, places.decoding, side="right"), 1, len(priced) - 1)
    part = np.clip((places.decoding - priced[above - 1]) / (priced[above] - priced[above - 1]), 0.0, 1.0)
    count = len(priced)
    each = np.bincount(above, shares * part, count) + np.bincount(above - 1, shares * (1.0 - part), count)
    often = np.flatnonzero(each > _RARE * total)
    return [_Node(float(each[at]) / total, float(priced[at])) for at in often]


# -- the first token ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _States:
    """What a prompt may find when it comes: states with their shares of the time.

    Attributes
    ----------
    shares, seconds, left
        Of each state: how often, how long its step takes, and how many pieces of prompts are left behind it.
    pieces, most
        Pieces of a prompt, and those that one step runs.
    numbers, steps
        Seconds of a step with so many pieces.
    """

    shares: Array
    seconds: Array
    left: Array
    pieces: int
    most: float
    numbers: Array
    steps: Array

    def kept(self) -> _States:
        """Return the states that are worth while."""
        often = self.shares > _NEVER
        return replace(self, shares=self.shares[often], seconds=self.seconds[often], left=self.left[often])


def _first(behind: Behind, mean: float) -> LatencySpread:
    company, idle = behind.company, behind.taken.idle
    lone = alone(company.timing, company.load, 0.0, company.load.budget)
    values, weights = [np.array([lone])], [np.array([idle])]
    for node in _nodes(behind):
        of = _shared_states if company.passes is None else _states_apart
        states = of(company, node.decoding)
        seconds, chances = _met(states.kept(), company.rate)
        values.append(seconds)
        weights.append(chances * (node.share * (1.0 - idle)))
    return LatencySpread.of(np.concatenate(values), np.concatenate(weights)).around(lone, mean)


def _shared_states(company: ArrivingPrompts, decoding: float) -> _States:
    """Return the states of steps that prompts share with decode."""
    chain = company.shared(decoding)
    shares = np.maximum(chain.chances, 0.0) * chain.seconds
    return _States(
        shares=shares / shares.sum(),
        seconds=chain.seconds,
        left=chain.numbers - chain.run,
        pieces=chain.pieces,
        most=chain.most,
        numbers=chain.run,
        steps=chain.seconds,
    )


def _states_apart(company: ArrivingPrompts, decoding: float) -> _States:
    """Return the states of a decode step and of the passes over prompts behind it."""
    passes, plain = company.passes, company.plain(decoding)
    assert passes is not None
    count, most = len(passes.seconds), most_in_pass(company.load)
    numbers: Array = np.arange(count * 1.0)
    begins = arriving(company.rate * plain, count)
    begins[0] = 0.0
    visits = np.maximum(np.linalg.solve((np.eye(count) - passes.moves).T, begins), 0.0)
    shares = visits * passes.seconds
    shares[0] = plain
    seconds = passes.seconds.copy()
    seconds[0] = plain
    return _States(
        shares=shares / shares.sum(),
        seconds=seconds,
        left=np.maximum(numbers - most, 0.0),
        pieces=1,
        most=float(most),
        numbers=np.minimum(numbers, most),
        steps=np.concatenate([[0.0], passes.seconds[1:]]),
    )


def _met(states: _States, rate: float) -> tuple[Array, Array]:
    """Return the seconds of a prompt that comes at random to these states, and their chances.

    It waits for the end of the step, then for those before it as far as they do not fit in a step with it; others that came
    behind it in that step make its own longer.
    """
    moments = (np.arange(_MOMENTS) + 0.5) / _MOMENTS
    seconds, passed = (
        one.ravel() for one in np.broadcast_arrays(states.seconds[:, np.newaxis], moments[np.newaxis, :])
    )
    left, shares = np.repeat(states.left, _MOMENTS), np.repeat(states.shares / _MOMENTS, _MOMENTS)
    chances = arriving_at(rate * passed * seconds, _BEFORE)
    before = np.arange(_BEFORE * 1.0) * states.pieces
    ahead = left[:, np.newaxis] + before[np.newaxis, :]
    behind = (rate * (1.0 - passed) * seconds * states.pieces)[:, np.newaxis]
    steps = np.ceil((ahead + states.pieces) / states.most * (1.0 - _ROUNDING))
    full = float(np.interp(states.most, states.numbers, states.steps))
    present = ahead + states.pieces + behind + (steps - 1.0) * (rate * full * states.pieces - states.most)
    last = np.interp(np.minimum(present, states.most), states.numbers, states.steps)
    whole = ((1.0 - passed) * seconds)[:, np.newaxis] + (steps - 1.0) * full + last
    return whole.ravel(), (shares[:, np.newaxis] * chances).ravel()


# -- tokens behind it --------------------------------------------------------------------------------------------------


def _each(behind: Behind) -> LatencySpread | None:
    """Return the spread of times per token.

    Those who decode beside a request are replaced in about its own time, more slowly where one more makes all stay longer: the mean
    over a life scatters less than the number at one time (an Ornstein-Uhlenbeck process). Prompts of others that it meets come at
    random, each with those that come meanwhile (a branching process).
    """
    company, steady, load = behind.company, behind.steady, behind.company.load
    mean = steady.time_per_output_token
    if mean is None:
        return None
    if not company.scattered or load.checks <= 0.0:
        return LatencySpread(seconds=np.array([mean]), weights=np.ones(1))
    lives = _lives(behind)
    middle = sum(life.share * life.each for life in lives)
    chances = np.exp(-0.5 * _POINTS**2)
    values, weights = [], []
    for length in _lengths(load.variation):
        for life in lives:
            scatter = kept_of_scatter(max(1.0 - life.slope, 0.0) * length)
            each = (middle + scatter * (life.each - middle)) * mean / middle
            values.append(each * (1.0 - life.prompts) + _prompts_met(life, each, company.rate, load.outputs * length))
            weights.append(chances * life.share)
    return LatencySpread.of(np.concatenate(values), np.concatenate(weights)).around(0.0, mean)


@dataclass(frozen=True, kw_only=True)
class _Life:
    """What lives are like with about so many requests under way.

    Attributes
    ----------
    share
        Of the busy time with so many.
    each
        Seconds per token.
    prompts
        Share of these that prompts of others add.
    slope
        By how many percent a request stays longer with one percent more of them.
    """

    share: float
    each: float
    prompts: float
    slope: float


def _lives(behind: Behind) -> list[_Life]:
    """Return lives beside several numbers of requests, each for an equal share of the busy time."""
    places, shares = behind.places, behind.taken.shares
    total = float(shares.sum())
    each = places.kept * places.decoding / places.numbers / behind.company.load.outputs
    slopes = np.gradient(np.log(places.kept), np.log(places.numbers)) if len(shares) > 1 else np.zeros(len(shares))
    reached = (np.cumsum(shares) - 0.5 * shares) / total
    which = np.minimum(reached * _LIVES, _LIVES - 1.0).astype(int)
    lives = []
    for number in np.unique(which):
        here = np.where(which == number, shares, 0.0)
        share = float(here.sum())
        if share > 0.0:
            means = (float(here @ of) / share for of in (each, places.prompts, slopes))
            lives.append(_Life(**dict(zip(("each", "prompts", "slope"), means, strict=True)), share=share / total))
    return lives


def _prompts_met(life: _Life, each: float, rate: float, outputs: float) -> Array:
    """Return what prompts of others add to a time per token of so many seconds: values of a gamma distribution."""
    share = min(life.prompts, _ALMOST)
    if share <= 0.0:
        return np.zeros(len(_POINTS))
    prompt = share / rate  # seconds that each of them adds
    scatter = rate * each * outputs * (prompt / outputs) ** 2 / (1.0 - share) ** 2
    return _gamma(each * life.prompts, scatter, _POINTS)


def _gamma(mean: float, variance: float, points: Array) -> Array:
    """Return values of a gamma distribution where a standard normal one has `points` (Wilson and Hilferty, 1931)."""
    ninth = variance / (9.0 * mean * mean)
    values: Array = mean * np.maximum(1.0 - ninth + points * np.sqrt(ninth), 0.0) ** 3
    return values


def kept_of_scatter(lives: float) -> float:
    """Return the deviation of a mean over so many times that a scatter lasts, against that of the scatter at one time.

    >>> round(kept_of_scatter(1.0), 3), kept_of_scatter(0.0)
    (0.858, 1.0)
    """
    if lives < _BRIEF:
        return 1.0
    return float(np.sqrt(2.0 * (lives + np.expm1(-lives)))) / lives


def _lengths(variation: float) -> list[float]:
    """Return output lengths, as shares of their mean, that stand for all."""
    if variation <= 0.0:
        return [1.0]
    lengths = np.maximum(_gamma(1.0, variation**2, np.array(_LENGTHS)), _SHORTEST)
    return [float(length) for length in lengths]
