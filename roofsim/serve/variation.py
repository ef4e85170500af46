"""What bursts and unequal prompts make of the time to the first token of requests that come at random and are all alike."""

from __future__ import annotations

from functools import lru_cache
from math import exp, log1p, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.records import dataclass, replace
from roofsim.serve.full_steps import alone
from roofsim.serve.spread import LatencySpread

if TYPE_CHECKING:
    from roofsim.numeric import Array
    from roofsim.serve.load import Load
    from roofsim.serve.timing import Timing

#: Shares of the prompts, from the shortest on, that the sizes which stand for all are the means of.
_EDGES: Final = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0)
_NORMAL: Final = NormalDist()
#: Of the time, what prompts take at most; and the share of the prompts that are delayed at least, where some are.
_ALMOST: Final = 0.98
_SELDOM: Final = 0.02
#: How much of a prompt is left when another one comes.
_LEFT: Final = np.array([0.125, 0.375, 0.625, 0.875])
#: What variation of services counts against that of arrivals in bursts' correction (Kraemer and Langenbach-Belz, 1976).
_SERVICES: Final = 4.0
#: Shares that stand for an exponential distribution, each for as many.
_EVEN: Final = (np.arange(12) + 0.5) / 12.0


@dataclass(frozen=True, kw_only=True)
class Queueing:
    """What other prompts make of the mean wait of one, against prompts that are all alike and come at random.

    Attributes
    ----------
    fewer
        Seconds that it is shorter by, where prompts come more evenly than at random.
    longer, delayed
        Seconds that it is longer by, and the share of the prompts that are so: the others find nobody who is in the way.
    uneven
        How much of these seconds long prompts make; bursts make the rest.
    """

    fewer: float = 0.0
    longer: float = 0.0
    delayed: float = 1.0
    uneven: float = 0.0

    @property
    def seconds(self) -> float:
        """By how much the mean wait is longer."""
        return self.longer - self.fewer


def queueing(load: Load, *, rate: float, full: float, each: float, more: float, alike: float) -> Queueing:
    """Return what bursts, and prompts of many lengths, make of the wait behind other prompts.

    The work that waits in a queue goes with the squared coefficients of variation of arrivals and services, A and S (Kingman,
    1961): ``rate x more^2 / 2 / (1 - busy) x (A - 1 + S)`` more than at random and all alike, with the seconds `more` that one
    more prompt makes a step longer. Where much is idle, bursts find it less crowded (Kraemer and Langenbach-Belz, 1976). Of
    arrivals that are more even than at random the wait is the share A of that at random.

    Parameters
    ----------
    full
        The rate as a share of the highest.
    each, more
        Seconds that each prompt adds in the mean, and that one more adds to a step with one.
    alike
        Mean seconds behind other prompts that come at random and are all alike.
    """
    arrivals, prompts = load.arrivals_squared, load.prompts_squared
    busy = min(rate * each, _ALMOST)
    one = 0.5 * rate * more**2 / (1.0 - busy)
    bunched = _bunched(load, full)
    return Queueing(
        fewer=alike * max(1.0 - arrivals, 0.0),
        longer=one * (bunched + prompts),
        delayed=min(max(busy, _SELDOM), 1.0),
        uneven=prompts / (bunched + prompts) if prompts else 0.0,
    )


def waits_of_many(load: Load, busy: float) -> float:
    """Return the mean wait for one of several servers against that of prompts that are all alike and come at random.

    It goes with A + S (Allen and Cunneen), with the correction of bursts as in `queueing`.

    >>> from types import SimpleNamespace
    >>> waits_of_many(SimpleNamespace(arrivals_squared=1.0, prompts_squared=0.5), 0.5)
    1.5
    """
    arrivals, prompts = load.arrivals_squared, load.prompts_squared
    return min(arrivals, 1.0) + _bunched(load, busy) + prompts


def counted_bursts(load: Load, number: Array | float) -> Any:
    """Return the variance over the mean of arrivals while one request is under way, in which so many come in the mean.

    Over long times it is the squared coefficient of variation A of the times between them; over times in which hardly one
    comes it is 1, whatever they are. In between it goes with the number against A.

    >>> from types import SimpleNamespace
    >>> counted_bursts(SimpleNamespace(arrivals_squared=9.0), 9.0), counted_bursts(SimpleNamespace(arrivals_squared=1.0), 9.0)
    (5.0, 1.0)
    """
    arrivals = load.arrivals_squared
    return 1.0 + (arrivals - 1.0) * number / (number + max(arrivals, 1.0))


def _bunched(load: Load, busy: float) -> float:
    """Return by how much arrivals in bursts count as more than at random: less, the more often nobody is in the way."""
    more = max(load.arrivals_squared - 1.0, 0.0)
    if not more:
        return 0.0
    services = load.arrivals_squared + _SERVICES * load.prompts_squared
    return more * exp(-max(1.0 - busy, 0.0) * more / services)


@lru_cache(maxsize=64)
def sizes(squared: float) -> tuple[Array, Array]:
    """Return prompts as shares of their mean that stand for log-normal ones, and how many are about so long.

    >>> some, often = sizes(1.0)
    >>> round(float(some @ often), 9)
    1.0
    """
    spread = sqrt(log1p(squared))
    edges = [_NORMAL.inv_cdf(edge) if 0.0 < edge < 1.0 else (-np.inf if edge <= 0.0 else np.inf) for edge in _EDGES]
    weights = np.diff(_EDGES)
    parts = np.diff(
        [1.0 if np.isposinf(edge) else 0.0 if np.isneginf(edge) else _NORMAL.cdf(edge - spread) for edge in edges]
    )
    return parts / weights, weights


def own_times(timing: Timing, load: Load, decoding: float, room: float) -> tuple[Array, Array]:
    """Return by how many seconds prompts take longer than the mean one beside so many requests, and how many do."""
    if load.prompts_squared <= 0.0:
        return np.zeros(1), np.ones(1)
    shares, often = sizes(load.prompts_squared)
    mean = alone(timing, load, decoding, room)
    return np.array(
        [alone(timing, replace(load, tokens=load.tokens * share), decoding, room) - mean for share in shares]
    ), often


def spread_by(spread: LatencySpread, queueing: Queueing, own: tuple[Array, Array], squared: float) -> LatencySpread:
    """Return a spread of prompts all alike with what unequal ones and bursts add: own times, and waits of some.

    Who waits behind a long prompt waits for what is left of it, and long ones are met as often as they are long; who waits in
    a burst waits as behind many (exponential).
    """
    parts: list[tuple[Array, Array]] = [own]
    if queueing.longer > 0.0:
        values = -np.log1p(-_EVEN)
        waits, often = [values / values.mean()], [np.full(len(_EVEN), (1.0 - queueing.uneven) / len(_EVEN))]
        if queueing.uneven > 0.0:
            shares, number = sizes(squared)
            left = (shares[:, np.newaxis] * _LEFT[np.newaxis, :]).ravel()
            met = np.repeat(shares * number / len(_LEFT), len(_LEFT))
            waits.append(left / float(left @ met))
            often.append(met * queueing.uneven)
        wait, chances = np.concatenate(waits) * queueing.longer / queueing.delayed, np.concatenate(often)
        chances = np.concatenate([[1.0 - queueing.delayed], chances * queueing.delayed])
        parts.append((np.concatenate([[0.0], wait]), chances))
    seconds, weights = spread.seconds, spread.weights
    for added, shared in parts:
        if len(added) > 1:
            seconds = (seconds[:, np.newaxis] + added[np.newaxis, :]).ravel()
            weights = (weights[:, np.newaxis] * shared[np.newaxis, :]).ravel()
    if len(seconds) == len(spread.seconds):
        return spread
    return LatencySpread.of(seconds, weights).around(0.0, float(seconds @ weights))
