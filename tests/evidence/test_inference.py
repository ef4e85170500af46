"""The shipped measurements of inference: what is drawn for fits, what is not priced, what a width holds."""

from __future__ import annotations

import numpy as np
import pytest

from roofsim.calibrate.cases import SERVED
from roofsim_evidence.inference.cases import SHORT, load_inference_cases, predict_all
from roofsim_evidence.inference.fit import FITS, PricedFacts, cases_of, predict, priced, shipped_facts
from roofsim_evidence.inference.notes import LABELS
from roofsim_evidence.inference.page import page
from roofsim_evidence.inference.times import times
from tests.surely import sure

CASES = load_inference_cases()
PRICED = [case for case in CASES if case.quantity not in SERVED and case.gpus == 1]
#: Diffusion takes long to price: a few rows stand for all.
QUICK = [case for case in PRICED if case.source != "lambda-diffusers"]
SOME = QUICK[::23] + [case for case in PRICED if case.source == "lambda-diffusers"][::40]


@pytest.fixture(scope="module")
def predictions():
    return predict_all(SOME)


def test_every_case_may_be_fitted():
    assert all(case.fits for case in CASES)
    assert {case.source for case in CASES} <= set(LABELS)


def test_names_are_unique_and_every_case_says_where_it_is_from():
    assert len({case.name for case in CASES}) == len(CASES)
    assert all(case.citation and case.measured > 0.0 and case.grade in "AB" for case in CASES)
    assert {case.quantity for case in CASES} == set(SHORT)


def test_what_is_priced_on_one_gpu_has_a_number(predictions):
    rows, unpriced = predictions
    assert not unpriced
    assert all(np.isfinite(row.predicted) and row.predicted > 0.0 for row in rows)
    assert np.median([abs(row.error) for row in rows]) < 0.2


@pytest.mark.parametrize("quantity", sorted({case.quantity for case in CASES} & set(SERVED)))
def test_servers_are_predicted_by_serve(quantity):
    server = next(case for case in CASES if case.quantity == quantity)
    [row], unpriced = predict_all([server])
    assert not unpriced
    assert 0.2 < row.predicted / server.measured < 5.0
    low, high = sure(row.interval)
    assert low < row.predicted < high


def test_page_has_a_line_for_every_engine(predictions):
    text = page(*predictions).text
    assert all(f"| {row.case.software}, {row.case.regime} |" in text for row in times(predictions[0]))


def test_fits_begin_at_the_shipped_constants():
    for fit in FITS:
        case = cases_of(fit)[0]
        rows, _ = predict_all([case])
        assert predict(case, fit, shipped_facts(fit)) == pytest.approx(rows[0].predicted, rel=1e-9)


def test_constants_of_an_engine_are_fitted_to_what_is_left():
    """Rows made with other constants give these back, whichever rows are left out, and none without rows."""
    fit = next(fit for fit in FITS if fit.engine == "torchscript")
    made = 1.3 * shipped_facts(fit)
    rows = priced(fit)
    few = list(range(0, len(rows.cases), 7))
    centre = np.log([predict(rows.cases[index], fit, made) / rows.cases[index].measured for index in few])
    again = PricedFacts(
        fit, tuple(rows.cases[index] for index in few), rows.start, rows.logs[few] - centre[:, None, None]
    )
    gpu = again.cases[0].gpu
    assert sure(again.fitted(lambda case: case.gpu == gpu))["host_call_time"] == pytest.approx(made[0], rel=0.03)
    assert again.fitted(lambda _: True) is None
