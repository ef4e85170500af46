"""Find mixes of resources that reach a target: with the least growth in all, and with the least price at a market of cards."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.sensitivity import RATES, STEP, priced_at
from roofsim.decide.market import RESOURCES
from roofsim.decide.prices import END
from roofsim.decide.resources import floor_of
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roofsim.decide.market import Market
    from roofsim.decide.resources import Lanes
    from roofsim.evaluate import Evaluation
    from roofsim.numeric import Array

#: What a resource grows by at once, in the logarithm, and what it must still be worth.
_STRIDE: Final = 0.05
_WORTH: Final = 0.001
_MOST_STRIDES: Final = 1_000
#: Points of the last stride.
_CUTS: Final = 65
#: Least price of a resource, percent for one percent more: a fit may say that more of it costs nothing, or less.
_LEAST_PRICE: Final = 0.01


@dataclass(frozen=True, kw_only=True)
class PricedMix:
    """A mix of what a market prices, and what a card with so much would cost.

    Attributes
    ----------
    factors
        Factors on memory bandwidth and tensor FLOP/s.
    price, low, high
        Price of such a card over that of the scenario's own, and the ends of its 80 % interval by the errors of the market's fit.
    """

    factors: dict[str, float]
    price: float
    low: float
    high: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return dict(self.__dict__)


def least_mix(
    evaluation: Evaluation,
    seconds: float,
    rates: tuple[str, ...],
    prices: Mapping[str, float] | None = None,
    lanes: Lanes | None = None,
) -> dict[str, float] | None:
    """Return factors on several rates that reach a step of some seconds with the least growth: the smallest product of factors.

    Of a resource that moves several rates (`lanes`) it is one factor. The rate that shortens the step most per percent (with
    `prices`: per percent of the price) grows by a little, again and again. None where no mix reaches it.
    """
    moved = [(rate,) if lanes is None else lanes.moved(rate) for rate in rates]
    if floor_of(evaluation, tuple(one for each in moved for one in each))[0] > seconds:
        return None
    along = np.array([[float(rate in each) for rate in RATES] for each in moved])
    costs = np.array([1.0 if prices is None else prices[rate] for rate in rates])
    logs, grown = np.zeros(len(RATES)), dict.fromkeys(rates, 0.0)
    for _ in range(_MOST_STRIDES):
        steps = _steps(evaluation, logs + np.concatenate([np.zeros((1, len(RATES))), along * STEP, along * _STRIDE]))
        if steps[0] <= seconds:
            return {rate: math.exp(log) for rate, log in grown.items() if log > 0.0}
        near, far = steps[1:].reshape(2, len(rates))
        worth = np.log(steps[0] / near) / STEP
        best = int(np.argmax(np.where(worth >= _WORTH, worth / costs, 0.0)))
        if worth[best] < _WORTH:
            return None
        stride = _STRIDE if far[best] > seconds else _last_stride(evaluation, logs, along[best], seconds)
        logs, grown[rates[best]] = logs + along[best] * stride, grown[rates[best]] + stride
    return None


def _last_stride(evaluation: Evaluation, logs: Array, along: Array, seconds: float) -> float:
    """Return the part of a stride that reaches the target."""
    cut = np.linspace(0.0, _STRIDE, _CUTS)
    return float(cut[np.flatnonzero(_steps(evaluation, logs + cut[:, np.newaxis] * along) <= seconds)[0]])


def _steps(evaluation: Evaluation, logs: Array) -> Array:
    return priced_at(evaluation.reprice, logs).step[:, 0]


def cheapest_mix(evaluation: Evaluation, seconds: float, market: Market | None) -> PricedMix | None:
    """Return the mix of what a market prices that reaches a step of some seconds for the least price; None where none does.

    Capacity, which a market prices too, shortens no step.
    """
    if market is None:
        return None
    rates: tuple[str, ...] = tuple(name for name in RESOURCES if name in RATES)
    prices: dict[str, float] = {name: max(market.exponents[name], _LEAST_PRICE) for name in rates}
    factors = least_mix(evaluation, seconds, rates, prices)
    if not factors:
        return None
    grown = {name: math.log(factor) for name, factor in factors.items()}
    middle = sum(max(market.exponents[name], 0.0) * log for name, log in grown.items())
    error = END * math.sqrt(sum((market.errors[name] * log) ** 2 for name, log in grown.items()))
    return PricedMix(
        factors=factors, price=math.exp(middle), low=math.exp(max(middle - error, 0.0)), high=math.exp(middle + error)
    )
