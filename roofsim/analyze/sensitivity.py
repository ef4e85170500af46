"""Say what one per cent more of each resource buys: elasticities of the step time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.cost.pricing import Scales

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.schedule.step import StepTime

#: Half width of the central difference, in the logarithm of the rate.
STEP: Final = 1e-4


def elasticities(reprice: Callable[[Scales], StepTime]) -> dict[str, float]:
    """Return d ln(step time) / d ln(rate) for every time-like resource, from one pricing of perturbed hardware.

    Away from ties they sum to -1: a card that is k times as fast in everything takes 1/k of the time.
    """
    names = Scales.resources()
    factors = np.ones((len(names), 2 * len(names), 1))
    for index in range(len(names)):
        factors[index, 2 * index, 0] = np.exp(STEP)
        factors[index, 2 * index + 1, 0] = np.exp(-STEP)
    scaled = reprice(Scales(**{name: factors[index] for index, name in enumerate(names)}))
    times = np.log(np.broadcast_to(np.ravel(np.asarray(scaled.step)), (2 * len(names),)))
    slopes = (times[0::2] - times[1::2]) / (2.0 * STEP)
    return {name: float(slope) for name, slope in zip(names, slopes, strict=True)}
