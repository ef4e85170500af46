"""MLPerf Inference: rows that nothing is fitted to, said in words of a scenario, and what they show."""

from __future__ import annotations

import json
import re

import pytest

from roofsim.api import serve
from roofsim.calibrate.bounded import output_rate_within
from roofsim.calibrate.cases import read_cases
from roofsim.calibrate.predict import predict_case
from roofsim.errors import SpecError
from roofsim.spec import catalog
from roofsim_evidence.mlperf_inference.cases import (
    ASKED,
    is_time,
    latencies,
    plainly,
    predict_each,
    rates,
    served_cases,
    speed,
    unsaid,
)
from roofsim_evidence.mlperf_inference.page import LABELS, factor, page
from tests.surely import sure


def unlike(cases, number):
    """Return one case per kind of scenario, at most so many."""
    kinds = {json.dumps([case.scenario, case.quantity]): case for case in cases}
    return list(kinds.values())[:number]


@pytest.fixture(scope="module")
def passes():
    """Passes of one card each: networks under TensorRT, with the batches of their submitters."""
    kinds = {(case.family, case.gpu, case.precision): case for case in rates() if is_time(case)}
    return predict_each(kinds.values())


def test_every_row_is_said_or_has_a_reason():
    said, others = served_cases(), unsaid()
    assert len(said) + len(others) == 830
    assert all(row.reason for row in others)
    assert not any(case.fits for case in said)
    assert all(case.citation and case.machine and case.grade in "AB" and case.measured > 0.0 for case in said)
    assert {case.family for case in said} == set(LABELS)
    assert {case.name for case in said}.isdisjoint(row.name for row in others)


def test_reasons_are_still_true():
    """A card that the catalog has by now, or another reason than the page of names gives, is no reason."""
    cards = [row.reason.rpartition(": ")[2] for row in unsaid() if row.reason.startswith("GPU not in the catalogue")]
    spelled = [re.sub(r"g$", "gb", catalog.normal(card).removeprefix("nvidia-")) for card in cards]
    assert not {*spelled} & {*catalog.known("gpu"), *catalog.known_aliases("gpu")}
    assert "jetson-agx-orin-64gb" in catalog.known("gpu")
    graphs = {row.reason for row in unsaid() if row.benchmark == "rgat"}
    assert all(str(catalog.why_not("model", "gnn-rgat")).startswith(reason) for reason in graphs)
    assert not any("RetinaNet" in row.reason or "3-D convolution" in row.reason for row in unsaid())


def test_passes_of_built_engines(passes):
    """BERT and images come out near what was measured; with the facts of language models ResNet-50 was 4 to 9 times too slow."""
    rows, without = passes
    assert not without
    bert = [speed(row) for row in rows if row.case.family == "bert"]
    assert len(bert) >= 9
    assert all(0.7 < one < 1.4 for one in bert)
    built = [row for row in rows if row.case.family == "resnet50" and row.case.engine == "tensorrt"]
    offline = [speed(row) for row in built if "offline" in row.case.name]
    assert len(offline) >= 4
    assert all(0.8 < one < 1.2 for one in offline)
    # One image at a time on Ada comes out 1.7 times too slow or too fast, and the page says so.
    assert all(1 / 1.8 < speed(row) < 1.8 for row in built)


def test_rates_keep_their_bounds():
    """Tighter bounds give lower rates; bounds that nothing reaches give the highest rate."""
    case = next(case for case in rates() if case.bounds is not None and case.family == "llama2-70b")
    scenario, bounds = case.scenario, sure(case.bounds)
    served = serve(scenario)
    highest = served.highest_rate * scenario["workload"]["output_length"]
    loose = output_rate_within(served, scenario, {"time_to_first_token": 1e4, "time_per_output_token": 1e3})
    asked = output_rate_within(served, scenario, bounds)
    tight = output_rate_within(served, scenario, {name: value / 3.0 for name, value in bounds.items()})
    assert tight < asked < loose == pytest.approx(highest, rel=2e-3)
    assert predict_case(case).predicted == asked


def test_equal_questions_are_asked_once():
    case = rates()[0]
    rows, _ = predict_each([case, case])
    assert rows[0].predicted == rows[1].predicted


@pytest.mark.parametrize("bounds", [{}, [1.0], {"latency": 1.0}, {"time_to_first_token": 0.0}])
def test_bounds_that_are_none(tmp_path, bounds):
    row = {
        "scenario": {"model": "llama3-8b"},
        "measured": 1.0,
        "quantity": "output_tokens_per_second",
        "bounds": bounds,
    }
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row))
    with pytest.raises(SpecError, match="bounds"):
        read_cases(path)


def test_an_ordinary_user_states_no_options():
    for case in rates():
        workload = plainly(case).scenario["workload"]
        assert set(workload.get("serving", {})) <= set(ASKED)
        assert isinstance(workload["precision"], str)


def test_the_page(passes):
    rows, _ = passes
    text = page((rows, [(rates()[0], "why")]), (rows, []), predict_each(unlike(latencies(), 2)), unsaid()).text
    assert "## What no scenario can say" in text
    assert " nan" not in text
    assert max(factor([row]) for row in rows) >= 1.0
