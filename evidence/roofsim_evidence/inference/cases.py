"""Load and predict the published measurements of inference."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from roofsim.calibrate.cases import BYTES
from roofsim.calibrate.predict import Prediction, predict_case
from roofsim.errors import NoDataError, SpecError
from roofsim.records import replace
from roofsim_evidence.cases import fittable, load

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roofsim.calibrate.cases import Case

#: Quantities as the tables of the pages name them.
SHORT: Final = {
    "step_time": "time",
    "time_per_output_token": "tpot",
    "time_to_first_token": "ttft",
    "output_tokens_per_second": "output_rate",
    "reserved": "reserved",
    "parameters": "weights",
}


@cache
def load_inference_cases() -> tuple[Case, ...]:
    """Return all measurements of inference, in the order of the file; all may be fitted."""
    return fittable(load("inference"))


def predict_inference(case: Case) -> Prediction | str:
    """Predict a case with the shipped constants, or say why it is not priced; of memory, the page scores no intervals."""
    try:
        row = predict_case(case)
        return replace(row, interval=None) if case.quantity in BYTES else row
    except (SpecError, NoDataError) as problem:
        return str(problem).splitlines()[0]


def predict_all(cases: Iterable[Case] | None = None) -> tuple[list[Prediction], list[tuple[Case, str]]]:
    """Predict some cases, or all that are published; those that are not priced come with the reason."""
    rows, unpriced = [], []
    for case in load_inference_cases() if cases is None else cases:
        prediction = predict_inference(case)
        if isinstance(prediction, str):
            unpriced.append((case, prediction))
        else:
            rows.append(prediction)
    return rows, unpriced
