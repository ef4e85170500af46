"""Say what one per cent more of each resource buys: elasticities of the step time, here and on scaled hardware."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.cost.scales import Scales
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.numeric import Array, Real
    from roofsim.schedule.step import StepTime

    Reprice = Callable[[Scales], StepTime]

#: Half width of the central difference, in the logarithm of the rate.
STEP: Final = 1e-4
RATES: Final = Scales.resources()
#: Axes of factors that each point has of its own: rows, rates, points.
_OF_POINTS: Final = 3


@dataclass(frozen=True)
class Priced:
    """Steps on scaled hardware: seconds, and those of them in which ranks wait for one another.

    One row per pricing and one column per point; one column where the step is that of one configuration.
    """

    step: Array
    idle: Array

    def part(self, start: int, stop: int | None = None) -> Priced:
        """Return some of the rows."""
        return Priced(self.step[start:stop], self.idle[start:stop])


def priced_at(reprice: Reprice, points: Array) -> Priced:
    """Price a step on hardware with other rates, all rows in one pricing.

    Parameters
    ----------
    points
        Logarithms of factors on the rates: (rows, rates), or (rows, rates, points) with factors of each point's own.
    """
    logs = points if points.ndim == _OF_POINTS else points[..., np.newaxis]
    factors = np.exp(logs)
    varied: Array = np.any(logs != 0.0, axis=(0, 2))
    scaled = reprice(Scales(**{name: factors[:, place, :] for place, name in enumerate(RATES) if varied[place]}))
    step, idle = (np.asarray(value, dtype=np.float64) for value in (scaled.step, scaled.resources.get("bubble", 0.0)))
    shape = np.broadcast_shapes(step.shape, idle.shape, (len(logs), logs.shape[2]))
    return Priced(np.broadcast_to(step, shape), np.broadcast_to(idle, shape))


def both_sides(rates: tuple[str, ...] = RATES) -> Array:
    """Return the points on both sides of the hardware as it is, along some rates; `central` reads their prices."""
    along = np.eye(len(RATES))[[RATES.index(rate) for rate in rates]]
    return np.concatenate([along, -along]) * STEP


def central(priced: Priced, rates: tuple[str, ...] = RATES) -> dict[str, Real]:
    """Return d ln(step time) / d ln(rate) by name of the rate, from the prices of `both_sides`; of other rates 0."""
    faster, slower = np.log(priced.step).reshape(2, len(rates), -1)
    slopes = (faster - slower) / (2.0 * STEP)
    none: Real = 0.0 if slopes.shape[-1] == 1 else np.zeros(slopes.shape[-1])
    return dict.fromkeys(RATES, none) | dict(zip(rates, map(unwrapped, slopes), strict=True))


def unwrapped(values: Array) -> Any:
    """Return a figure of each point, or of one configuration the figure itself."""
    return values.item() if values.size == 1 else values


def elasticities(reprice: Reprice) -> dict[str, Real]:
    """Return d ln(step time) / d ln(rate) for every time-like resource, from one pricing of perturbed hardware.

    Away from ties they sum to -1: a card that is k times as fast in everything takes 1/k of the time.
    """
    return central(priced_at(reprice, both_sides()))
