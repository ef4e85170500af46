"""The shipped measurements of inference: what is drawn for fits, what is not priced, what a width holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from roofsim.calibrate.cases import SERVED
from roofsim.spec.constants.inference_spreads import InferenceSpreads, shipped
from roofsim.spec.reading.source import from_mapping
from roofsim.spec.reading.validate import validate
from roofsim_evidence.inference.cases import SHORT, load_inference_cases, predict_all
from roofsim_evidence.inference.fit import FITS, cases_of, predict, read_left_out, shipped_facts
from roofsim_evidence.inference.notes import LABELS
from roofsim_evidence.inference.page import page
from roofsim_evidence.inference.widths import engine_widths, text_of, times, widths
from roofsim_evidence.widths import half_width
from tests.surely import sure

CASES = load_inference_cases()
PRICED = [case for case in CASES if case.quantity not in SERVED and case.gpus == 1]
#: Diffusion takes long to price: a few rows stand for all.
QUICK = [case for case in PRICED if case.source != "lambda-diffusers"]
SOME = QUICK[::23] + [case for case in PRICED if case.source == "lambda-diffusers"][::40]


@pytest.fixture(scope="module")
def predictions():
    return predict_all(SOME)


def test_every_third_case_may_be_fitted():
    assert sum(case.fits for case in CASES) == -(-len(CASES) // 3)
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


@pytest.mark.parametrize("quantity", SERVED)
def test_servers_are_predicted_by_serve(quantity):
    server = next(case for case in CASES if case.quantity == quantity)
    [row], unpriced = predict_all([server])
    assert not unpriced
    assert 0.2 < row.predicted / server.measured < 5.0
    if quantity != "output_tokens_per_second":
        low, high = sure(row.interval)
        assert low < row.predicted < high


def test_widths_hold_what_they_say(predictions):
    rows = times(predictions[0])
    width = half_width(rows)
    inside = np.mean([abs(np.log1p(row.error)) <= width for row in rows])
    assert 0.75 <= inside <= 0.9


def test_files_are_what_the_schema_reads(predictions):
    import yaml

    rows = predictions[0]
    written = validate(InferenceSpreads, from_mapping(yaml.safe_load(text_of(rows)), "written"))
    assert written.one_gpu == widths(rows)["one_gpu"]
    assert written.engines == engine_widths(rows)


def test_intervals_are_those_of_the_engine(predictions):
    table = shipped()
    for row in times(predictions[0]):
        own = row.case.regime in table.engines.get(row.case.software, {})
        changed = "override" in row.case.scenario["hardware"]  # a card or host that is not as shipped: wider
        if row.interval is None or not own or changed or row.architecture not in table.architectures:
            continue
        regime: Any = row.case.regime
        width = table.width(row.case.software, regime, many=False)
        assert row.interval[0] == pytest.approx(row.predicted * np.exp(-width))


def test_page_has_a_line_for_every_engine(predictions):
    text = page(*predictions).text
    assert all(f"| {row.case.software}, {row.case.regime} |" in text for row in times(predictions[0]))


def test_fits_begin_at_the_shipped_constants():
    for fit in FITS:
        case = cases_of(fit)[0]
        rows, _ = predict_all([case])
        assert predict(case, fit, shipped_facts(fit)) == pytest.approx(rows[0].predicted, rel=1e-9)
    stored = read_left_out()
    assert {case.name for case in cases_of(FITS[0])} <= set(stored)
