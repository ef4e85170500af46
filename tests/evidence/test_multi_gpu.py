"""The shipped steps of several GPUs: what is drawn for fits, what scores apart, what a width holds."""

from __future__ import annotations

import numpy as np
import pytest

from roofsim_evidence.multi_gpu.cases import load_multi_cases, measured_cases
from roofsim_evidence.multi_gpu.notes import COMPOSED, FOREIGN, LABELS, LATER
from roofsim_evidence.multi_gpu.page import group_of, page
from roofsim_evidence.steps.cases import predict_step, predict_steps

CASES = load_multi_cases()
MEASURED = measured_cases()
SOME = MEASURED[::18]


@pytest.fixture(scope="module")
def rows():
    return predict_steps(SOME)


def test_measured_steps_of_described_software_may_be_fitted():
    assert len(MEASURED) < len(CASES)
    assert all(case.fits is (case.source not in (COMPOSED, *FOREIGN, *LATER)) for case in CASES)
    assert {case.source for case in CASES} == set(LABELS)


def test_names_are_unique_and_every_case_says_where_it_is_from():
    assert len({case.name for case in CASES}) == len(CASES)
    assert all(case.grade in "AB" and case.citation and case.measured > 0.0 for case in CASES)


def test_predictions_are_within_a_factor_of_measurements(rows):
    """But for a source whose own releases differ by 77 % with nothing else changed (evidence/measurements/README.md)."""
    held = [row for row in rows if row.case.source != "megatron-bridge-experts"]
    assert all(abs(np.log1p(row.error)) < np.log(1.6) for row in held), [(row.case.name, row.error) for row in held]


def test_page_has_a_line_for_every_set(rows):
    text = page(rows, [predict_step(next(case for case in CASES if case.source == COMPOSED))]).text
    assert all(f"| {group_of(row)} |" in text for row in rows)
