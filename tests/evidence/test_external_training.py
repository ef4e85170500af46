"""Measurements of training that nothing is fitted to: stated whole, and no part of any fit."""

from __future__ import annotations

from collections import Counter

from roofsim.calibrate.cases import BYTES
from roofsim.calibrate.predict import predict_case
from roofsim_evidence.multi_gpu.cases import load_multi_cases
from roofsim_evidence.multi_gpu.external_page import LABELS, SIZES, external_cases, page


def test_every_source_has_a_name_and_every_size_a_group():
    cases = external_cases()
    assert set(LABELS) == {case.source for case in cases}
    assert max(case.gpus for case in cases) <= max(most for most, _ in SIZES)
    assert Counter(case.source for case in cases) == {"dgxc": 138, "together": 9, "fms-acceleration": 38, "fms-fsdp": 4}


def test_none_may_be_fitted_and_all_are_cited():
    cases = external_cases()
    assert not any(case.fits for case in cases)
    assert len({case.name for case in cases}) == len(cases)
    assert all(case.citation and case.measured > 0.0 and case.grade in "AB" for case in cases)


def test_none_is_among_those_that_may_be_fitted():
    known = {str(sorted(case.scenario.items())): case.measured for case in load_multi_cases()}
    assert not [case.name for case in external_cases() if str(sorted(case.scenario.items())) in known]


def test_the_page_lists_what_is_farthest_off():
    cases = [case for case in external_cases() if case.name in ("dgxc-0138", "dgxc-0066", "fms-acceleration-0002")]
    text = page([predict_case(case) for case in cases], []).text
    far = text[text.index("## Farthest off") :]
    assert "dgxc-0138" in far
    assert "dgxc-0066" not in far
    assert any(case.quantity in BYTES for case in cases)
    assert "memory" in text
