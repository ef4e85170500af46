"""Fit constants that some rows share and others do not, by least squares on the logarithm of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.optimize import least_squares

from roofsim.numeric import Array
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

#: Relative error that counts as one unit of misfit; beyond it errors weigh linearly, so that medians are fitted.
TOLERANCE: Final = 0.05
#: Step of finite differences in the logarithm of a constant.
STEP: Final = 1e-4
MOST_STEPS: Final = 40

Constants = dict[str, float]
Columns = dict[str, Array]


@dataclass(frozen=True, slots=True)
class FittedConstant:
    """A positive constant to fit.

    Attributes
    ----------
    expected
        Value believed without data.
    spread
        Standard deviation of the logarithm of that belief.
    low, high
        Physically possible range.
    """

    name: str
    expected: float
    spread: float
    low: float
    high: float


@dataclass(frozen=True)
class VectorLayout:
    """Which rows use which number of the vector that is fitted.

    Attributes
    ----------
    parameters
        One entry a number in the vector; `slots` gives for each name the position that each row reads.
    """

    parameters: tuple[FittedConstant, ...]
    slots: dict[str, np.ndarray[Any, np.dtype[np.int64]]]

    def columns(self, theta: Array) -> Columns:
        """Return every constant as a column over the rows."""
        values = np.exp(theta)
        return {name: values[slot] for name, slot in self.slots.items()}


def fit(
    layout: VectorLayout, start: Array, predict: Callable[[Columns], Array], seconds: Array, weight: Array
) -> Array:
    """Return the logarithms of the constants that explain `seconds` best.

    Rows are weighted; beliefs enter as one more residual each. The Jacobian needs one evaluation per name and not per
    number, because a row reads one number of each name.
    """
    expected = np.log([p.expected for p in layout.parameters])
    spread = np.array([p.spread for p in layout.parameters])
    low, high = (np.log([getattr(p, side) for p in layout.parameters]) for side in ("low", "high"))
    target, scale = np.log(seconds), np.sqrt(weight) / TOLERANCE
    count = len(target)

    def misfit(theta: Array) -> Array:
        return np.asarray((np.log(predict(layout.columns(theta))) - target) * scale)

    def residuals(theta: Array) -> Array:
        return np.concatenate([_robust(misfit(theta)), (theta - expected) / spread])

    def jacobian(theta: Array) -> Array:
        matrix = np.zeros((count + len(theta), len(theta)))
        matrix[count:] = np.diag(1.0 / spread)
        columns = layout.columns(theta)
        here = misfit(theta)
        slope = _robust_slope(here)
        for name, slot in layout.slots.items():
            moved = {**columns, name: columns[name] * np.exp(STEP)}
            change = (np.log(predict(moved)) - target) * scale - here
            matrix[np.arange(count), slot] += change / STEP * slope
        return matrix

    inside = np.clip(start, low + 1e-9, high - 1e-9)
    solution = least_squares(
        residuals, inside, jac=jacobian, bounds=(low, high), max_nfev=MOST_STEPS, x_scale=1.0, ftol=1e-5
    )
    return np.asarray(solution.x)


def _robust(z: Array) -> Array:
    """Return r with ``r^2 = 2 (sqrt(1 + z^2) - 1)``: least squares near 0, absolute error far out."""
    return np.asarray(np.sign(z) * np.sqrt(2.0 * (np.sqrt(1.0 + z * z) - 1.0)))


def _robust_slope(z: Array) -> Array:
    r = np.abs(_robust(z))
    return np.where(r > 1e-6, np.abs(z) / np.sqrt(1.0 + z * z) / np.maximum(r, 1e-9), 1.0)
