"""Fit constants of engines to the rows that may be fitted: with all cards, or without each in turn.

Without a card, a fit shows how far the constants carry to one that nobody measured.
"""

from __future__ import annotations

import csv
import io
from copy import deepcopy
from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.api import resolve
from roofsim.calibrate.cases import STEP_TIME
from roofsim.evaluate import evaluate
from roofsim.output import save_text
from roofsim.records import dataclass
from roofsim_evidence.inference.cases import load_inference_cases
from roofsim_evidence.places import measurements

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from roofsim.calibrate.cases import Case
    from roofsim.numeric import Array

#: Range of a constant around its shipped value.
BOUNDS: Final = (0.4, 2.5)
#: Step of a numerical derivative, rounds of the fit, and the logarithmic error from which a row counts less.
STEP, ROUNDS, SOFT = 0.02, 8, 0.05


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


def left_out_path() -> Path:
    """Return the file of predictions by constants that never saw the card."""
    return measurements() / "inference_without_card.csv"


def read_left_out() -> dict[str, tuple[float, float]]:
    """Return name -> shipped prediction at the time, and prediction without the card."""
    with left_out_path().open(encoding="utf-8", newline="") as file:
        return {row["name"]: (float(row["shipped"]), float(row["card_left_out"])) for row in csv.DictReader(file)}


def shipped_facts(fit: EngineFit) -> Array:
    """Return the shipped values of the constants."""
    from roofsim.spec.engine.schema import catalog_engine

    engine = catalog_engine(fit.engine)
    return np.array([float(engine.fact(name)) for name in fit.facts])


def predict(case: Case, fit: EngineFit, values: Array) -> float:
    """Predict a case with other constants."""
    scenario = deepcopy(case.scenario)
    facts = scenario["workload"].setdefault("engine_facts", {})
    for path, value in zip(fit.facts, values, strict=True):
        if path.endswith("_share"):
            facts[path] = min(float(value), 1.0)
        else:
            facts[path] = f"{float(value)!r} s" if path.endswith("_time") else float(value)
    return float(evaluate(resolve(scenario)).step.step)


def fitted_without(card: str | None, fit: EngineFit, cases: Sequence[Case]) -> Array:
    """Return the constants fitted to the rows that may be fitted, but those of a card; None: to all of them."""
    from scipy.optimize import least_squares

    start = shipped_facts(fit)
    mine = [case for case in cases if case.fits and case.gpu != card]

    def errors(factors: Array) -> Array:
        return np.array([np.log(predict(case, fit, start * factors) / case.measured) for case in mine])

    solution = least_squares(
        errors, np.ones(len(start)), bounds=BOUNDS, loss="soft_l1", f_scale=SOFT, diff_step=STEP, max_nfev=ROUNDS
    )
    best: Array = start * solution.x
    return best


def cases_of(fit: EngineFit) -> list[Case]:
    """Return the rows of an engine's regime on one GPU."""
    return [
        case
        for case in load_inference_cases()
        if case.software == fit.engine and case.regime == fit.regime and case.gpus == 1 and case.quantity == STEP_TIME
    ]


def fitted_facts(fit: EngineFit) -> dict[str, float]:
    """Return the constants of an engine as all cards' rows decide them."""
    return dict(zip(fit.facts, fitted_without(None, fit, cases_of(fit)).tolist(), strict=True))


def write_left_out(report: Callable[[str], None]) -> None:
    """Fit without every card in turn, and store the predictions of its rows."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("name", "shipped", "card_left_out"))
    for fit in FITS:
        cases = cases_of(fit)
        for card in sorted({case.gpu for case in cases}):
            values = fitted_without(card, fit, cases)
            facts = dict(zip(fit.facts, values.tolist(), strict=True))
            report(f"{fit.engine} {fit.regime} without {card}: {facts}")
            for case in cases:
                if case.gpu == card:
                    pair = predict(case, fit, shipped_facts(fit)), predict(case, fit, values)
                    writer.writerow((case.name, *(f"{seconds:.6g}" for seconds in pair)))
    save_text(left_out_path(), file.getvalue())
