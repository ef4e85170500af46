"""The queue of prompts that run in passes of their own, one after the other until none waits, as a Markov chain over passes."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from math import log
from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.records import dataclass
from roofsim.serve.full_steps import room_in_step
from roofsim.serve.in_step import seconds_in_step

if TYPE_CHECKING:
    from roofsim.numeric import Array
    from roofsim.serve.load import Load
    from roofsim.serve.timing import Timing

#: Prompts that may wait at once; those of more are counted as so many.
_WAITING: Final = 96
#: As many as there usually are: more are followed only where the last of these has a chance that counts.
_USUALLY: Final = 24
_NEVER: Final = 2.0**-24
#: Rounds in which replicas that wait for one another find how long their steps are.
_TOGETHER: Final = 6
#: Of a prompt, what is not worth a piece.
_ROUNDING: Final = 2.0**-24


def seconds_beside(timing: Timing, load: Load, running: float, prompts: float) -> float:
    """Return the seconds that so many prompts add to decode, in one step or, where they do not fit, in several."""
    if prompts <= 0.0:
        return 0.0
    pieces = max(prompts * load.tokens / room_in_step(timing, load, running), 1.0)
    filled = pieces * timing.step(running, load.context, prompts * load.tokens / pieces, prompts / pieces)
    return filled - (pieces * timing.decode_step(running, load.context) if timing.mixed else 0.0)


def most_in_pass(load: Load) -> int:
    """Return the prompts that one pass takes at most; a prompt of more than its tokens takes several passes."""
    return max(int(load.budget // load.tokens), 1)


@dataclass(frozen=True, kw_only=True)
class PromptPasses:
    """Passes over the prompts that wait, behind which come those that arrived meanwhile, until none waits.

    With ``P(m)`` for the seconds of a pass where m prompts wait, of which it takes as many as fit, and ``chance(k)`` for those
    that arrive during it::

        until(m)   = P(m) + sum of chance(k) x until(m - taken + k)
        present(m) = P(m) x (m + rate x P(m) / 2) + sum of chance(k) x present(m - taken + k)

    Attributes
    ----------
    rate
        Prompts per second, at random.
    until
        Seconds until none waits, beginning with 0, 1, 2, ... of them; negative where that never comes.
    present
        Prompts that wait or run meanwhile, summed over these seconds.
    behind
        Seconds from the end of each prompt's pass until none waits, summed over the prompts that run meanwhile.
    seconds, moves
        Of a pass before which 0, 1, 2, ... prompts wait, and the chances of how many wait behind it.
    """

    rate: float
    until: Array
    present: Array
    behind: Array
    seconds: Array
    moves: Array

    @classmethod
    def of(cls, timing: Timing, load: Load, rate: float) -> PromptPasses:
        """Price passes, and solve the chain."""
        numbers, most = np.arange(_WAITING), most_in_pass(load)
        some = [seconds_beside(timing, load, 0.0, float(number)) for number in range(min(most, _WAITING - 1) + 1)]
        passes = np.array(some)[np.minimum(numbers, len(some) - 1)]
        chances = np.zeros((_WAITING, _WAITING))
        for number in numbers[1:]:
            left = max(int(number) - most, 0)
            chances[number, left:] = arriving(rate * passes[number], _WAITING - left)
        chances[:, 0] = 0.0  # then none waits
        once = np.stack([passes, passes * (numbers + 0.5 * rate * passes)], axis=1)
        system = np.eye(_WAITING) - chances
        until, present = _solved(system, once).T
        behind = _solved(system, np.minimum(numbers, most) * (chances @ until))
        return cls(rate=rate, until=until, present=present, behind=behind, seconds=passes, moves=chances)

    @property
    def endless(self) -> bool:
        """Whether prompts alone are more than the server can do."""
        return bool((self.until < 0.0).any())

    def cycle(self, decode: float) -> float:
        """Return the mean seconds from the begin of a decode step to that of the next, the passes between them included."""
        return decode + float(arriving(self.rate * decode, _WAITING) @ self.until)

    def decode_time(self, decode: float, checks: float) -> float:
        """Return the mean seconds from the pass of a prompt until its request has had so many decode steps.

        It waits for the passes behind its own, has a step and waits for those before the next; behind the last none is waited for.
        """
        cycle = self.cycle(decode)
        behind = float(arriving(self.rate * decode, _WAITING) @ self.behind) / cycle / self.rate
        return checks * cycle - (cycle - decode) + behind

    def mean_time(self, decode: float) -> float:
        """Return the mean seconds of a prompt until its pass ends, beside decode steps of so many seconds (Little's law)."""
        chances = arriving(self.rate * decode, _WAITING)
        present = 0.5 * self.rate * decode**2 + float(chances @ self.present)
        return present / self.cycle(decode) / self.rate


@dataclass(frozen=True, kw_only=True)
class SharedSteps:
    """Steps that prompts share with requests under way, by the pieces of prompts that wait when one begins.

    A step that begins with k pieces takes ``T(k)``, and the next begins with those that came meanwhile and those that did not
    fit: long steps follow long ones. The numbers are a Markov chain; those present over time give the mean time of a prompt
    (Little's law).

    Attributes
    ----------
    rate
        Prompts per second, at random.
    pieces, most
        Of a prompt; that one step runs.
    numbers, run, seconds, chances
        Pieces that wait when a step begins, those that it runs, how long it takes, and how often a step begins so.
    """

    rate: float
    pieces: int
    most: float
    numbers: Array
    run: Array
    seconds: Array
    chances: Array

    @classmethod
    def usual(cls, timing: Timing, load: Load, rate: float, running: float) -> SharedSteps:
        """Return the steps with as many numbers as it takes."""
        few = cls.of(timing, load, rate, running, _USUALLY)
        return few if abs(float(few.chances[-1])) < _NEVER else cls.of(timing, load, rate, running, _WAITING)

    @classmethod
    def of(cls, timing: Timing, load: Load, rate: float, running: float, most: int) -> SharedSteps:
        """Price steps with fewer than `most` pieces that wait, and solve the chain."""
        room = room_in_step(timing, load, running)
        pieces = max(int(np.ceil(load.tokens / room * (1.0 - _ROUNDING))), 1)
        numbers: Array = np.arange(most * 1.0)
        run = np.minimum(numbers, room * pieces / load.tokens)
        steps = {
            each: timing.step(running, load.context, each * load.tokens / pieces, max(each / pieces, 1.0))
            for each in sorted(set(run.tolist()))
        }
        chances, alone = np.eye(most)[0], np.array([steps[each] for each in run.tolist()])
        seconds = alone
        for _ in range(_TOGETHER if load.in_step > 1.0 else 1):
            chances = _steps_begun(seconds, run, rate, pieces)
            seconds = seconds_in_step(alone, chances, load.in_step)
        full = room * pieces / load.tokens
        return cls(rate=rate, pieces=pieces, most=full, numbers=numbers, run=run, seconds=seconds, chances=chances)

    @property
    def mean(self) -> float:
        """Mean seconds of a step."""
        return float(self.chances @ self.seconds)

    @property
    def prompt_time(self) -> float:
        """Mean seconds of a prompt until its last step ends."""
        waiting = np.ceil(self.numbers / self.pieces) + 0.5 * self.rate * self.seconds
        return float(self.chances @ (self.seconds * waiting)) / self.mean / self.rate


def _steps_begun(seconds: Array, run: Array, rate: float, pieces: int) -> Array:
    """Return the chances that a step begins with 0, 1, 2, ... pieces of prompts, of which it runs so many in so many seconds."""
    most = len(run)
    moves = np.zeros((most, most))
    numbers: Array = np.arange(most * 1.0)
    coming, left = arriving_at(rate * seconds, most), numbers - run
    all_run = int(np.count_nonzero(left <= 0.0))  # the fewest: behind their steps none is left
    width = (most - 1) // pieces + 1
    moves[:all_run, ::pieces] = coming[:all_run, :width]
    moves[:all_run, -1] += coming[:all_run, width:].sum(axis=1)
    for number in range(all_run, most):
        whole = int(left[number])
        for first, share in ((whole, 1.0 - left[number] + whole), (whole + 1, left[number] - whole)):
            if share > 0.0:
                width = (most - 1 - first) // pieces + 1
                moves[number, first::pieces] += share * coming[number, :width]
                moves[number, -1] += share * float(coming[number, width:].sum())
    system = np.vstack([(moves.T - np.eye(most))[:-1], np.ones(most)])
    return _solved(system, np.eye(most)[-1])


def filled(timing: Timing, load: Load, rate: float, decode: float, waiting: float) -> float:
    """Return the seconds of a decode step and of the passes in which others take the places of the requests that it ends.

    All places were taken, so that `waiting` prompts wait before it, and those that come during it: so many run at once, and
    behind them those that come meanwhile, until the places are taken again. The more wait, the fewer passes.
    """
    places = load.limit / load.checks
    seconds, present = decode, waiting + rate * decode
    while places > 0.0:
        now = min(max(present, 1.0), places)
        each = seconds_beside(timing, load, 0.0, now)
        seconds, places, present = seconds + each, places - now, present - now + rate * each
    return seconds


def prompts_only(timing: Timing, load: Load, rate: float, lone: float) -> float:
    """Return the mean seconds to the first token where it is the last: passes take as many waiting prompts as fit.

    The numbers that wait when a pass begins make up a Markov chain; the mean number over time gives the mean time (Little).
    """
    most = most_in_pass(load)
    taken = [
        lone * min(waiting, 1) if most == 1 else seconds_beside(timing, load, 0.0, float(min(waiting, most)))
        for waiting in range(_WAITING)
    ]
    moves = np.zeros((_WAITING, _WAITING))
    for waiting in range(1, _WAITING):
        left = max(waiting - most, 0)
        moves[waiting, left:] = arriving(rate * taken[waiting], _WAITING - left)
    idle = moves[:, 0].copy()  # then the next prompt begins alone
    moves[:, 1] += moves[:, 0]
    chain = moves[1:, 1:]
    system = np.vstack([(chain.T - np.eye(_WAITING - 1))[:-1], np.ones(_WAITING - 1)])
    share = _solved(system, np.eye(_WAITING - 1)[-1])
    seconds = np.array(taken[1:])
    present = float(share @ (seconds * (np.arange(1, _WAITING) + 0.5 * rate * seconds)))
    return present / float(share @ (seconds + idle[1:] / rate)) / rate


@lru_cache(maxsize=256)
def log_factorials(most: int) -> Array:
    """Return the logarithms of the factorials of 0, 1, ... `most`."""
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, most + 1)))])


def arriving(mean: float, most: int) -> Array:
    """Return the chances of 0, 1, ... arrivals (Poisson); those of more than there is room for are put on the last."""
    chances: Array = np.exp(np.arange(most) * log(max(mean, 2.0**-500)) - mean - log_factorials(most - 1))
    chances[-1] += max(1.0 - float(chances.sum()), 0.0)
    return chances


def arriving_at(means: Array, most: int) -> Array:
    """Return the chances of 0, 1, ... arrivals, as `arriving` does, a row for each mean."""
    logs = np.log(np.maximum(means, 2.0**-500))[:, np.newaxis]
    chances: Array = np.exp(np.arange(most) * logs - means[:, np.newaxis] - log_factorials(most - 1))
    chances[:, -1] += np.maximum(1.0 - chances.sum(axis=1), 0.0)
    return chances


def _solved(system: Array, right: Array) -> Array:
    """Solve linear equations; negative times where there is no solution, as beyond saturation."""
    solution: Array = -np.ones(right.shape)
    with suppress(np.linalg.LinAlgError):
        solution[...] = np.linalg.solve(system, right)
    return solution
