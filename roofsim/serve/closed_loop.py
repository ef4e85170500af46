"""The steady state of a server in which a fixed number of requests is always under way."""

from __future__ import annotations

from math import erfc, exp, pi, sqrt
from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.records import dataclass
from roofsim.serve.full_steps import alone, full_rate, most_decoding, room_in_step
from roofsim.serve.in_step import chances_of_largest
from roofsim.serve.load import Load, Steady
from roofsim.serve.waiting_prompts import log_factorials

if TYPE_CHECKING:
    from roofsim.numeric import Array
    from roofsim.serve.timing import Timing

#: Rounds of a fixed point; each halves what is left of the error, or nearly.
_ROUNDS: Final = 60
#: Rounds in which the usual number of prompts in a pass is found.
_SIZES: Final = 8
#: Where a fixed point is found.
_CLOSE: Final = 2.0**-16
#: How sharply the corner between few and many prompts is passed, with the root of the requests (see `_queued`): where all are
#: equally long, and where lengths differ. At 2 a full server of long prompts answers 16 % more slowly than simulations of it, at 4
#: small steps that are full take 10 % longer per token; 3 agrees with both (tests/serve).
_SHARP_ALIKE: Final = 2.0
_SHARP: Final = 3.0
#: Beyond that corner: exponents at which nothing is left of the smaller.
_FAR: Final = 64.0
#: Chance of a queue below which there is none.
_FEW: Final = 2.0**-40
#: Others with a prompt in a step beyond which their number is taken as normal, and points that stand for it.
_MANY: Final = 128.0
_POINTS: Final = 33
#: How far a round goes to what it finds.
_NEW: Final = 0.85


@dataclass(frozen=True)
class _Cycle:
    """One life of a request: its first token after `first` seconds at the server, then `decode` seconds of steps."""

    first: float
    decode: float
    low: float
    high: float

    @property
    def time(self) -> float:
        return self.first + self.decode

    @property
    def parts(self) -> tuple[float, float, float, float]:
        return self.first, self.decode, self.low, self.high


def steady_state(timing: Timing, load: Load, concurrency: float) -> Steady:
    """Return the steady state with `concurrency` requests of one replica under way.

    Requests beyond what may run wait for room: one by one they take the place of those that end.
    """
    inside = min(concurrency, load.limit)
    count, cycle = inside, _Cycle(0.0, 0.0, 0.0, 0.0)
    for _ in range(_ROUNDS):
        # While a request travels between client and server, its place is empty, unless others wait for it.
        cycle = _life(timing, load, count)
        present = concurrency * cycle.time / (cycle.time + load.request_time)
        before, count = count, count + _NEW * (max(min(present, inside), min(1.0, inside)) - count)
        if abs(count - before) <= _CLOSE * count:
            break
    rate = min(count / cycle.time, concurrency / (cycle.time + load.request_time))
    waiting = max(concurrency / rate - cycle.time - load.request_time, 0.0)
    first = load.request_time + waiting + cycle.first
    decoding = rate * cycle.decode
    alone = timing.decode_step(decoding, load.context) * load.checks
    return Steady(
        time_to_first_token=first,
        time_per_output_token=cycle.decode / load.outputs if load.outputs > 0.0 else None,
        end_to_end=first + cycle.decode,
        request_rate=rate,
        running=decoding,
        waiting=concurrency - decoding,
        prompt_share=max(1.0 - alone / cycle.time, 0.0) if cycle.time else 0.0,
        first_token_low=load.request_time + waiting + cycle.low,
        first_token_high=load.request_time + waiting + cycle.high,
    )


def highest_rate(timing: Timing, load: Load) -> float:
    """Return the requests per second that one replica sustains at most: those of a closed loop that keeps all places taken."""
    return load.limit / _life(timing, load, load.limit).time


def _life(timing: Timing, load: Load, count: float) -> _Cycle:
    """Return the life of one of `count` requests at the server."""
    own = _independent(timing, load, count)
    if not load.alike or timing.mixed or load.checks <= 0.0:
        return own
    bunched, share = _lockstep(timing, load, count)
    mixed = [a + (b - a) * share for a, b in zip(own.parts, bunched.parts, strict=True)]
    return _Cycle(*mixed)


# -- prompts first, equal requests --------------------------------------------------------------------------------------


def _lockstep(timing: Timing, load: Load, count: float) -> tuple[_Cycle, float]:
    """Return the life of one of `count` equal requests where prompts run first, and how far they keep together.

    All prompts run, pass after pass; then all decode in lockstep and end at once. A bunch that fits one pass dissolves, for
    the first that comes back starts alone; a larger one stays together: who comes back during a full pass waits for it.
    """
    passes = count * load.tokens / load.budget
    whole = max(passes, 1.0)
    each = timing.prompt_pass(count * load.tokens / whole, count / whole)
    first = 0.5 * (whole + 1.0) * each
    behind = 0.5 * (whole - 1.0) * each
    lone = max(load.tokens / load.budget, 1.0) * timing.prompt_pass(min(load.tokens, load.budget))
    cycle = _Cycle(first, load.checks * timing.decode_step(count, load.context) + behind, lone, whole * each)
    return cycle, min(max(2.0 * (passes - 1.0), 0.0), 1.0)


# -- each request for itself ---------------------------------------------------------------------------------------------


def _independent(timing: Timing, load: Load, count: float) -> _Cycle:
    """Return the life of one of `count` requests that begin and end at any time of one another's lives.

    The steps of each are as long as chance puts prompts of others in them; how long they are says how many that are.
    """
    lone = alone(timing, load, 0.0, load.budget)
    cycle = _Cycle(lone, load.checks * timing.decode_step(count, load.context), lone, lone)
    for _ in range(_ROUNDS):
        new = _next(timing, load, count, lone, cycle)
        before, cycle = cycle, _Cycle(*(a + _NEW * (b - a) for a, b in zip(cycle.parts, new.parts, strict=True)))
        if abs(cycle.time - before.time) <= _CLOSE * cycle.time:
            break
    return _queued(timing, load, count, cycle)


def _queued(timing: Timing, load: Load, count: float, cycle: _Cycle) -> _Cycle:
    """Return the life of a request where prompts queue because steps are full: then no more begin than end.

    Between a server that never has a queue and one that always has, chance decides; of more requests it decides less. A
    closed loop of one queue deviates from the larger of both by a part of ``1 / sqrt(count)`` at the corner; by twice that where
    all requests are equally long, for those that began together meet again.
    """
    if not timing.mixed and load.checks > 0.0:
        return cycle
    sharp = (_SHARP_ALIKE if load.alike else _SHARP) * max(count, 1.0) ** 0.5
    least = count / full_rate(timing, load)
    power = float(np.exp(np.clip(sharp * np.log(least / cycle.time), -_FAR, _FAR)))
    whole = max(cycle.time, least) * (1.0 + min(power, 1.0 / power)) ** (1.0 / sharp)
    decode = cycle.decode
    if load.checks > 0.0:
        running = most_decoding(timing, load)
        room = room_in_step(timing, load, running)
        full = load.checks * timing.step(running, load.context, room, room / load.tokens)
        usual = decode + (full - decode) * power / (1.0 + power)
        wait = _queue(load, count, running, room) * least / count
        decode = min(max(whole - cycle.first - wait, min(decode, usual)), usual, whole - cycle.first)
        if least < cycle.time:  # steps are not full yet
            whole = max(whole, cycle.time + wait)
    return _Cycle(whole - decode, decode, cycle.low, max(cycle.high - cycle.first, 0.0) + whole - decode)


def _queue(load: Load, count: float, running: float, room: float) -> float:
    """Return the prompts that wait where `count` requests share steps that are full with `running` ones.

    Each step lets ``room / tokens`` prompts begin and ends ``running / checks`` requests, so that the number that decodes is
    drawn to `running`, around which ends scatter: at random from step to step, as lengths do from life to life. Those that
    decode no more, and have no place in a step, wait: a normal number that is not negative.
    """
    scatter = 0.5 * (1.0 + min(load.variation, 1.0) ** 2)
    others = min(running, count - 1.0)
    if others <= 0.0:
        return 0.0
    deviation = sqrt(max(0.5 * scatter * others / (1.0 + load.checks / load.tokens), _FEW))
    beyond = (count - running - max(room / load.tokens, 1.0)) / deviation
    density, above = exp(-0.5 * beyond * beyond) / sqrt(2.0 * pi), 0.5 * erfc(-beyond / sqrt(2.0))
    return deviation * (beyond + density / above if above > _FEW else -1.0 / beyond)


def _next(timing: Timing, load: Load, count: float, lone: float, cycle: _Cycle) -> _Cycle:
    running = count * cycle.decode / cycle.time if cycle.time else 0.0
    room = room_in_step(timing, load, running)
    pieces = max(load.tokens / room, 1.0)
    # Chance that another request has a prompt in a given step: its share of the steps of a life.
    at_work = pieces if timing.mixed else 1.0
    numbers, chances = _others(
        count - 1.0, min(at_work / max(load.checks + (pieces if timing.mixed else 0.0), 1.0), 1.0)
    )
    chances = chances_of_largest(chances, load.in_step)
    beside = [_seconds(timing, load, running, others, room, pieces) for others in numbers]
    plain, step = timing.decode_step(running, load.context), float(chances @ np.array(beside))
    step += 0.0 if timing.mixed else plain
    own = [_own(timing, load, running, others, room, pieces) for others in numbers]
    first = float(chances @ np.array(own))
    if timing.mixed:
        wait = 0.5 * step if load.request_time > 0.0 and count > 1.0 else 0.0
    else:
        first, wait = _met(timing, load, count, room, (plain, step), cycle, first)
    decode = load.checks * step
    # Where prompts bunch, one waits for a full step, and has its own in the next.
    bunched = 2.0 * _own(timing, load, running, min(count, max(room / load.tokens, 1.0)) - 1.0, room, pieces)
    return _Cycle(first + wait, decode, lone, max(first + wait, bunched))


def _met(
    timing: Timing, load: Load, count: float, room: float, steps: tuple[float, float], cycle: _Cycle, together: float
) -> tuple[float, float]:
    """Return the seconds of the pass of a prompt where prompts run first, and how long it waits for it.

    Those that end in one step come back `together`, if they travel fast. If not, a prompt waits for the end of a pass or of
    a decode step, and shares its pass with those that came meanwhile.
    """
    plain, step = steps
    rate, pieces = (count - 1.0) / cycle.time, max(load.tokens / room, 1.0)
    share, interval = max(1.0 - plain / step, 0.0) if step else 0.0, plain
    for _ in range(_SIZES):
        others = min(max(rate * interval, 1.0), max(room / load.tokens, 1.0)) - 1.0
        interval = share * _own(timing, load, 0.0, others, room, pieces) + (1.0 - share) * plain
    interval += _scatter(timing, load, room, rate, pieces)
    kept = float(np.exp(-load.request_time / interval)) if interval else 1.0
    apart = _own(timing, load, 0.0, rate * interval, room, pieces)
    return apart + kept * (together - apart), 0.5 * interval * (1.0 - kept)


def _scatter(timing: Timing, load: Load, room: float, rate: float, pieces: float) -> float:
    """Return by how much a prompt that arrives sees a longer pass than the mean one.

    A pass that runs k prompts is followed by one of those that came meanwhile, a Poisson number with mean ``share k``. Summed
    over the passes between two decode steps, the mean of squared lengths over the mean is
    ``(a step + share / (1 - share) seconds of a prompt) / (1 + share)``.
    """
    most = max(room / load.tokens, 1.0)
    pair = min(most, 2.0)
    each = _own(timing, load, 0.0, pair - 1.0, room, pieces) / pair
    share = min(rate * each, load.most_prompts)
    return each * share / (1.0 - share * share)


def _seconds(timing: Timing, load: Load, running: float, prompts: float, room: float, pieces: float) -> float:
    """Return what a request that decodes sees of a step in which others have prompts."""
    tokens = prompts * load.tokens / pieces
    if timing.mixed:
        return timing.step(running, load.context, min(tokens, room), prompts)
    if not prompts:
        return 0.0
    passes = max(prompts * load.tokens / load.budget, 1.0)
    return passes * timing.prompt_pass(prompts * load.tokens / passes, prompts / passes)


def _own(timing: Timing, load: Load, running: float, others: float, room: float, pieces: float) -> float:
    """Return the seconds in which a prompt runs, beside those of others; what does not fit in a step follows in turn."""
    tokens = (others + 1.0) * load.tokens / pieces
    if others <= 0.0:
        return alone(timing, load, running, room)
    if tokens <= room:
        return pieces * timing.step(running, load.context, tokens, others + 1.0)
    turns = (0.5 * others + 1.0) * load.tokens / room
    return turns * timing.step(running, load.context, room, room / load.tokens)


def _others(trials: float, chance: float) -> tuple[list[float], Array]:
    """Return how many others may have a prompt in a step, and the chances of that; of many some that stand for all."""
    mean = max(trials, 0.0) * chance
    if mean <= _MANY and chance < 1.0:
        chances = _binomial(trials, chance)
        return [float(number) for number in range(len(chances))], chances
    deviation = float(np.sqrt(mean * max(1.0 - chance, 0.0)))
    if deviation <= 0.0:
        return [mean], np.ones(1)
    away: Array = np.linspace(-4.0, 4.0, _POINTS)
    weights: Array = np.exp(-0.5 * away**2)
    return [float(number) for number in np.maximum(mean + deviation * away, 0.0)], weights / weights.sum()


def _binomial(trials: float, chance: float) -> Array:
    """Return the chances of 0, 1, ... successes, up to where nothing is left.

    >>> _binomial(2.0, 0.5).tolist()
    [0.25, 0.5, 0.25]
    """
    whole = max(round(trials), 0)
    if whole == 0 or chance <= 0.0:
        return np.ones(1)
    if chance >= 1.0:
        certain: Array = np.eye(whole + 1)[whole]
        return certain
    most = min(whole, int(trials * chance + 8.0 * np.sqrt(trials * chance) + 12.0))
    number, logs = np.arange(most + 1), log_factorials(whole)
    terms = (
        logs[whole]
        - logs[number]
        - logs[whole - number]
        + number * np.log(chance)
        + (whole - number) * np.log1p(-chance)
    )
    chances: Array = np.exp(terms)
    chances /= chances.sum()
    return chances
