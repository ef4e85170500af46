"""Published peaks of memory: every row resolves, scores and widths are what they say, the page is that of the rows."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from roofsim.analyze.intervals import memory_intervals, memory_is_measured
from roofsim.analyze.ledger import memory_of
from roofsim.api import resolve
from roofsim.calibrate.score import grouped, score
from roofsim.evaluate import evaluate
from roofsim_evidence.memory.cases import SHORT, load_memory_cases, predict_all, stated
from roofsim_evidence.memory.notes import note
from roofsim_evidence.memory.page import PATH, page
from roofsim_evidence.places import measurements
from tests.surely import sure

CASES = load_memory_cases()
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def rows():
    return predict_all()


@pytest.mark.parametrize("source", sorted({case.source for case in CASES}))
def test_every_row_resolves_and_says_where_it_is_from(source):
    for case in (case for case in CASES if case.source == source):
        resolved = resolve(case.scenario)
        assert resolved.engine.name == case.engine
        assert case.quantity in SHORT
        assert case.citation.count("/") >= 1
        assert case.note
        # A card's capacity is not what the source ran out of.
        assert 0.0 < case.measured < 1.05 * resolved.gpu.memory.capacity


def test_names_are_unique():
    assert len({case.name for case in CASES}) == len(CASES)


def test_every_source_is_described():
    readme = (measurements() / "README.md").read_text(encoding="utf-8")
    text = page(predict_all()).text
    for source in {case.source for case in CASES}:
        assert f"- `{source}`: " in text
        assert f"`{source}`" in readme


def test_no_row_apart_may_be_fitted():
    assert all(case.fits is not bool(case.apart) for case in CASES)


def test_predictions_are_held_against_what_was_measured(rows):
    for row in rows:
        assert 0.0 < row.state < 2.0 * row.predicted
        low, high = row.interval
        assert low <= row.predicted <= high


def test_errors_do_not_grow(rows):
    """The goals of the page, and the one that is not met at its present value."""
    sources = grouped(stated(rows), lambda row: row.case.source)
    assert score(sources["simumax"]).mean <= 0.01
    assert score(sources["torchtitan"]).mean <= 0.06
    for name, members in sources.items():
        assert score(members).median <= (0.25 if name == "megatron-bridge" else 0.1), name
    # A user's interval also holds what nobody had in sight; that of a source left out is held to 75 to 85 % in test_intervals.
    assert sure(score(stated(rows)).coverage) >= 0.75


def test_the_page_is_that_of_the_rows(rows):
    shown = (ROOT / PATH).read_text(encoding="utf-8")
    heads = [line for line in page(rows).text.splitlines() if line.startswith("#")]
    assert [line for line in shown.splitlines() if line.startswith("#")] == heads
    assert f"{len(rows)} published peaks" in shown


def test_engines_that_nobody_measured_have_wider_intervals():
    spans = []
    for engine in ("torchtitan", "deepspeed"):
        resolved = resolve({"model": "gpt2-124m", "workload": {"engine": engine}})
        memory = memory_of(evaluate(resolved))
        low, high = memory_intervals(memory, resolved)["allocated_peak"]
        spans.append(math.log(high / low))
        assert memory_is_measured(resolved) is (engine == "torchtitan")
    assert spans[1] > 1.02 * spans[0]


def test_every_row_of_the_worst_has_words(rows):
    assert all(note(row) for row in rows)
