"""Fit how far steps are off, by group of kernels, to the residuals of steps that were not fitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.optimize import minimize

from roofsim.analyze.intervals import GROUPS, shares
from roofsim.evaluate import evaluate
from roofsim.records import replace
from roofsim.spec.constants.kernels import Spreads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.calibrate.cases import Case
    from roofsim.numeric import Array
    from roofsim.spec.constants.kernels import Constants

#: Share of measured steps that an interval is to hold.
COVERAGE: Final = 0.8
#: Degrees of freedom of the residuals: heavier tails than a normal law, so that single odd rows do not widen all.
FREEDOM: Final = 4.0
_NAMES: Final = (*GROUPS, "launch", "power")


def fit_spreads(cases: Sequence[Case], constants: Constants, residuals: dict[str, Array]) -> dict[str, Spreads]:
    """Return the spreads for each kind of residual (logarithms, one per case; NaN: not counted).

    The spread of a step is ``sqrt(common^2 + sum (share_g sigma_g)^2)`` over groups of kernels; the quantile is set so
    that the interval holds 80 % of the residuals it was fitted to.
    """
    parts = np.array([list(shares(evaluate(replace(case.resolve(), constants=constants))).values()) for case in cases])
    return {name: _fit(parts[np.isfinite(logs)], logs[np.isfinite(logs)]) for name, logs in residuals.items()}


def _fit(parts: Array, logs: Array) -> Spreads:
    def width(values: Array) -> Array:
        sigma = np.exp(values)
        total: Array = np.sqrt(sigma[0] ** 2 + ((parts * sigma[1:]) ** 2).sum(axis=1))
        return total

    def loss(values: Array) -> float:
        scale = width(values)
        likelihood = np.log(scale) + (FREEDOM + 1) / 2 * np.log1p((logs / scale) ** 2 / FREEDOM)
        return float(likelihood.sum() + (np.square(values - np.log(0.1)) / 2).sum())

    minimum: Any = minimize(loss, np.full(len(_NAMES) + 1, np.log(0.08)), method="L-BFGS-B")
    sigma = np.exp(minimum.x)
    quantile = float(np.quantile(np.abs(logs) / width(minimum.x), COVERAGE))
    return Spreads(
        common=round(float(sigma[0]), 4),
        groups={name: round(float(value), 4) for name, value in zip(_NAMES, sigma[1:], strict=True)},
        quantile=round(quantile, 4),
    )
