"""Say what one per cent more of each resource buys: elasticities of the step time, here and on scaled hardware."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.cost.pricing import Scales
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.numeric import Array, Real
    from roofsim.schedule.step import StepTime

    Reprice = Callable[[Scales], StepTime]

#: Half width of the central difference, in the logarithm of the rate.
STEP: Final = 1e-4
RATES: Final = Scales.resources()


@dataclass(frozen=True)
class Priced:
    """Steps on scaled hardware, one element per point: seconds, and those of them in which ranks wait for one another."""

    step: Array
    idle: Array

    def part(self, start: int, stop: int | None = None) -> Priced:
        """Return some of the points."""
        return Priced(self.step[start:stop], self.idle[start:stop])


def priced_at(reprice: Reprice, points: Array) -> Priced:
    """Price a step on hardware with other rates, all points in one pricing.

    Parameters
    ----------
    points
        Logarithms of factors on the rates: one row per point, one column for each of `RATES`.
    """
    factors = np.exp(points)
    varied: Array = np.any(points != 0.0, axis=0)
    scaled = reprice(
        Scales(**{name: factors[:, place : place + 1] for place, name in enumerate(RATES) if varied[place]})
    )
    return Priced(*(_column(value, len(points)) for value in (scaled.step, scaled.resources.get("bubble", 0.0))))


def both_sides(rates: tuple[str, ...] = RATES) -> Array:
    """Return the points on both sides of the hardware as it is, along some rates; `central` reads their prices."""
    along = np.eye(len(RATES))[[RATES.index(rate) for rate in rates]]
    return np.concatenate([along, -along]) * STEP


def central(priced: Priced, rates: tuple[str, ...] = RATES) -> dict[str, float]:
    """Return d ln(step time) / d ln(rate) by name of the rate, from the prices of `both_sides`; of other rates 0."""
    faster, slower = np.log(priced.step).reshape(2, -1)
    return dict.fromkeys(RATES, 0.0) | dict(zip(rates, ((faster - slower) / (2.0 * STEP)).tolist(), strict=True))


def elasticities(reprice: Reprice) -> dict[str, float]:
    """Return d ln(step time) / d ln(rate) for every time-like resource, from one pricing of perturbed hardware.

    Away from ties they sum to -1: a card that is k times as fast in everything takes 1/k of the time.
    """
    return central(priced_at(reprice, both_sides()))


def _column(value: Real, rows: int) -> Array:
    return np.broadcast_to(np.ravel(np.asarray(value, dtype=np.float64)), (rows,))
