"""Fit constants of engines to measured passes: to all that may be fitted, or to those that a fold leaves."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.api import resolve
from roofsim.calibrate.cases import STEP_TIME
from roofsim.evaluate import evaluate
from roofsim.records import dataclass
from roofsim_evidence.inference.cases import load_inference_cases

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from roofsim.calibrate.cases import Case
    from roofsim.numeric import Array

#: Factors on a constant at which rows are priced, and the logarithmic error from which a row counts less.
GRID: Final = (0.4, 0.65, 1.0, 1.55, 2.5)
SOFT: Final = 0.05


@dataclass(frozen=True, kw_only=True)
class EngineFit:
    """Constants of an engine that measurements of one regime decide: paths into its facts."""

    engine: str
    regime: str
    facts: tuple[str, ...]


FITS: Final = (
    EngineFit(
        engine="llama.cpp",
        regime="decode",
        facts=("kernel_cycles", "stream_bytes_per_clock", "weight_only.bytes_per_clock", "stream_share"),
    ),
    EngineFit(engine="fastertransformer", regime="forward", facts=("host_call_time", "narrow_product_launches")),
    EngineFit(engine="torchscript", regime="forward", facts=("host_call_time",)),
    EngineFit(engine="tensorflow-xla", regime="forward", facts=("host_call_time",)),
    EngineFit(engine="diffusers-2022", regime="pipeline", facts=("convolution_share",)),
)


def shipped_facts(fit: EngineFit) -> Array:
    """Return the shipped values of the constants."""
    from roofsim.spec.engine.schema import catalog_engine

    engine = catalog_engine(fit.engine)
    return np.array([float(engine.fact(name)) for name in fit.facts])


def with_facts(scenario: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scenario whose engine has other constants: path -> value; a share is at most 1, a number of launches at least 1."""
    changed: dict[str, Any] = deepcopy(dict(scenario))
    stated = changed["workload"].setdefault("engine_facts", {})
    for path, value in facts.items():
        if path.endswith("_share"):
            stated[path] = min(float(value), 1.0)
        elif path.endswith("_launches"):
            stated[path] = max(float(value), 1.0)
        elif path.endswith("_time"):
            stated[path] = f"{float(value)!r} s"
        else:
            stated[path] = value
    return changed


def predict(case: Case, fit: EngineFit, values: Array) -> float:
    """Predict a case with other constants."""
    facts = dict(zip(fit.facts, values.tolist(), strict=True))
    return float(evaluate(resolve(with_facts(case.scenario, facts))).step.step)


@dataclass(frozen=True)
class PricedFacts:
    """Rows of an engine's regime, priced with one constant at a time changed.

    Attributes
    ----------
    start
        The shipped constants.
    logs
        Predicted over measured, as logarithms: an axis for rows, one for constants, one for `GRID`.
    """

    fit: EngineFit
    cases: tuple[Case, ...]
    start: Array
    logs: Array

    def fitted(self, left_out: Callable[[Case], bool] = lambda _: False) -> dict[str, float] | None:
        """Return the constants that fit the rows best, of those that are not left out; None where none is left.

        The logarithm of a time is taken as a sum of what each constant does to it alone.
        """
        from scipy.interpolate import PchipInterpolator
        from scipy.optimize import least_squares

        kept = np.array([not left_out(case) for case in self.cases], dtype=bool)
        if not kept.any():
            return None
        rows = self.logs[kept]
        centre = rows[:, 0, GRID.index(1.0)]
        curves = [PchipInterpolator(np.log(GRID), rows[:, index], axis=1) for index in range(len(self.start))]

        def errors(factors: Array) -> Array:
            apart = [curve(np.log(factor)) - centre for curve, factor in zip(curves, factors, strict=True)]
            total: Array = centre + np.sum(apart, axis=0)
            return total

        solution = least_squares(
            errors, np.ones(len(self.start)), bounds=(GRID[0], GRID[-1]), loss="soft_l1", f_scale=SOFT
        )
        return dict(zip(self.fit.facts, (self.start * solution.x).tolist(), strict=True))


def priced(fit: EngineFit) -> PricedFacts:
    """Price the rows of an engine's regime with each constant at all factors of the grid."""
    start, cases = shipped_facts(fit), cases_of(fit)
    logs = np.empty((len(cases), len(start), len(GRID)))
    for row, case in enumerate(cases):
        logs[row] = np.log(predict(case, fit, start) / case.measured)
        for index, column in np.ndindex(len(start), len(GRID)):
            if GRID[column] != 1.0:
                values = np.where(np.arange(len(start)) == index, start * GRID[column], start)
                logs[row, index, column] = np.log(predict(case, fit, values) / case.measured)
    return PricedFacts(fit, tuple(cases), start, logs)


def cases_of(fit: EngineFit) -> list[Case]:
    """Return the rows of an engine's regime on one GPU, of those that may be fitted."""
    return [
        case
        for case in load_inference_cases()
        if case.fits
        and (case.software, case.regime, case.gpus, case.quantity) == (fit.engine, fit.regime, 1, STEP_TIME)
    ]
