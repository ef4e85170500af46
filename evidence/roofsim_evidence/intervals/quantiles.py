"""Fit the ends of intervals: the scales of terms that put a tenth of measurements beyond each end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from roofsim.calibrate.score import NOMINAL_COVERAGE
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.numeric import Array

#: Share of measurements beyond each end.
BEYOND: Final = 0.5 * (1.0 - NOMINAL_COVERAGE)
#: Logarithm over which the corner of the loss is rounded, so that it can be searched by its slope.
CORNER: Final = 0.005
#: How strongly each scale is held near what was expected of it, in rows' worth of loss where it is off by one spread (logarithm).
#: Chosen by the coverage of publishers, cards and families that the widths themselves never saw.
WEIGHT, SPREAD = 100.0, 1.0
#: Smallest scale of a search.
LEAST: Final = 1e-4
#: Largest scale of a search.
MOST: Final = 10.0


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Residuals and what may explain their size.

    Attributes
    ----------
    logs
        Measured over predicted, as logarithms.
    amounts
        A row for each residual, a column for each term.
    weights
        How much each residual counts.
    floor
        Square of what terms whose scales are known put the end at.
    """

    logs: Array
    amounts: Array
    weights: Array
    floor: Array | float = 0.0

    def only(self, chosen: Any) -> Sample:
        """Return some rows."""
        return replace(self, logs=self.logs[chosen], amounts=self.amounts[chosen], weights=self.weights[chosen])

    def columns(self, chosen: Any, floor: Array) -> Sample:
        """Return some terms; the others put the end where `floor` says."""
        return replace(self, amounts=self.amounts[:, chosen], floor=floor)


def scales(sample: Sample, expected: Array, *, above: bool) -> Array:
    """Return the scale of each term at one end.

    The end lies at ``sqrt(sum (amount x scale)^2)``; the scales minimise the loss whose minimum is the quantile (Koenker and
    Bassett, Econometrica 46, 1978), each held to what is expected of it as far as rows leave it open.
    """
    beyond = sample.logs if above else -sample.logs
    rows = float(sample.weights.sum())
    squares, weights, held = np.square(sample.amounts), sample.weights / rows, WEIGHT * CORNER / rows

    def loss(values: Array) -> tuple[float, Array]:
        square = np.exp(2.0 * values)
        end = np.sqrt(squares @ square + sample.floor + LEAST**2)
        over = (beyond - end) / CORNER
        # (1 - q) * softplus(over) + q * softplus(-over): the pinball loss with a round corner.
        misfit = CORNER * (np.logaddexp(0.0, over) - BEYOND * over)
        slope = BEYOND - expit(over)
        apart = (values - np.log(expected)) / SPREAD
        total = float(weights @ misfit) + held * float(apart @ apart)
        gradient = (weights * slope / end) @ squares * square + 2.0 * held * apart / SPREAD
        return total, gradient

    bounds = [(np.log(LEAST), np.log(MOST))] * len(expected)
    best = minimize(loss, np.log(expected), jac=True, method="L-BFGS-B", bounds=bounds)
    fitted: Array = np.exp(best.x)
    return fitted


def covered(sample: Sample, below: Array, above: Array) -> Array:
    """Tell which residuals lie between the ends."""
    squares = np.square(sample.amounts)
    low, high = np.sqrt(squares @ np.square(below)), np.sqrt(squares @ np.square(above))
    inside: Array = (sample.logs >= -low) & (sample.logs <= high)
    return inside


def source_weights(names: Sequence[str], counts_as: float) -> Array:
    """Return the weight of rows by their sources: rows of one source are not independent, and count as so many at most."""
    counts = {name: names.count(name) for name in set(names)}
    return np.array([min(counts_as / counts[name], 1.0) for name in names])
