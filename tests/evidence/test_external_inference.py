"""Measurements of inference that nothing is fitted to: where they are from, and that they stay apart."""

from __future__ import annotations

import numpy as np
import pytest

from roofsim.calibrate.cases import SERVED, STEP_TIME
from roofsim.calibrate.score import spearman
from roofsim_evidence.external import ratio
from roofsim_evidence.inference.cases import load_inference_cases, predict_all
from roofsim_evidence.inference.external_page import LABELS, external_cases, page
from tests.surely import sure

CASES = external_cases()
#: Servers take long to price: a few rows stand for all.
SOME = [case for case in CASES if case.quantity == STEP_TIME][::17] + [
    case for case in CASES if case.quantity in SERVED
][::150]


def test_none_may_be_fitted_and_all_are_cited():
    assert not any(case.fits for case in CASES)
    assert len({case.name for case in CASES}) == len(CASES)
    assert all(case.citation and case.measured > 0.0 and case.grade in "AB" for case in CASES)
    assert {case.source for case in CASES} == set(LABELS)


def test_none_is_among_those_that_may_be_fitted():
    def key(case):
        return (case.gpu, case.quantity, case.family, str(case.scenario["workload"]), case.gpus)

    known = {key(case): case.measured for case in load_inference_cases()}
    assert not [case.name for case in CASES if known.get(key(case)) == pytest.approx(case.measured, rel=0.001)]


def test_predictions_and_the_page():
    rows, unpriced = predict_all(SOME)
    assert not unpriced
    assert np.median([abs(row.error) for row in rows]) < 0.25
    assert all(0.4 < ratio(row) < 2.5 for row in rows)
    text = page(rows, []).text
    assert "## Sources" in text
    assert "nan" not in text


def test_geforce_cards_are_ranked_as_others_measured():
    rows, unpriced = predict_all([case for case in CASES if case.source == "hardware-corner"])
    assert not unpriced
    for family in ("qwen3-8b", "qwen3-14b"):
        mine = [row for row in rows if row.case.family == family]
        assert len(mine) >= 11
        assert sure(spearman([row.predicted for row in mine], [row.case.measured for row in mine])) >= 0.97
        assert np.median([abs(row.error) for row in mine]) < 0.08
