"""Scores, baselines and comparisons on rows made by hand, and the page made of them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofsim.calibrate.cases import Case
from roofsim.calibrate.score import GROUPINGS, coverage_band, grouped, score, spearman
from roofsim_evidence.folds.files import read
from roofsim_evidence.steps.baseline import fit_baseline
from roofsim_evidence.steps.cases import UNFITTED, StepPrediction, load_cases, predict_step
from roofsim_evidence.steps.comparisons import rank_cards, software_ages
from roofsim_evidence.steps.notes import note
from roofsim_evidence.steps.page import page
from roofsim_evidence.steps.plots import draw
from roofsim_evidence.steps.scorecard import scorecard

PAGE = Path(__file__).resolve().parents[2] / "docs" / "accuracy.md"


def case_of(name="one", measured=1.0, **changes):
    scenario = {
        "model": "resnet50",
        "workload": {"micro_batch_size": 8, "precision": "bf16", "engine": "pytorch-eager"},
        "hardware": {"gpu": changes.get("gpu", "v100-sxm2-16gb")},
    }
    given: dict[str, Any] = {
        "source": "lambda", "year": 2022, "software": "pytorch", "regime": "train", "family": "cnn",
        "scenario": scenario,
    } | {key: value for key, value in changes.items() if key != "gpu"}  # fmt: skip
    return Case(name=name, measured=measured, **given)


def row_of(predicted, case=None, **changes):
    given: dict[str, Any] = {"architecture": "volta", "samples": 8.0, "ideal": 0.25} | changes
    return StepPrediction(case=case or case_of(), predicted=predicted, **given)


def rows_of(*errors):
    return [row_of(1.0 + error, case_of(f"case-{index}")) for index, error in enumerate(errors)]


def test_a_score_says_what_it_says():
    scored = score(rows_of(0.1, -0.2, 0.3, 0.05, -0.1))
    assert scored.n == 5
    assert scored.median == pytest.approx(0.1)
    assert scored.mean == pytest.approx(0.15)
    assert scored.p90 == pytest.approx(0.26)
    assert scored.worst == pytest.approx(0.3)
    assert scored.bias == pytest.approx(0.05)
    assert scored.rank is None  # all measured the same
    assert scored.coverage is None


def test_a_score_of_nothing_is_refused():
    with pytest.raises(ValueError, match="needs rows"):
        score([])


def test_coverage_counts_what_lies_inside():
    intervals = [(0.9, 1.1), (1.0, 2.0), (1.1, 1.2), None]
    rows = [replace(row, interval=interval) for row, interval in zip(rows_of(0, 0, 0, 0), intervals, strict=True)]
    assert score(rows).coverage == pytest.approx(2 / 3)
    assert score(rows, [1.0] * 4).coverage is None


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1, 2, 3, 4], [10, 20, 30, 40], 1.0),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1.0),
        ([1, 2], [1, 2], None),
        ([1, 1, 1], [1, 2, 3], None),
        ([1, 2, 2, 4], [1, 2, 3, 4], 0.9486832980505138),
    ],
)
def test_spearman(first, second, expected):
    assert spearman(first, second) == (None if expected is None else pytest.approx(expected))


def test_the_band_around_the_nominal_coverage():
    low, high = coverage_band(20)
    assert low < 0.8 < high
    assert coverage_band(2000)[1] - coverage_band(2000)[0] < high - low


def test_sources_are_fitted_whole_or_not_at_all():
    cases = load_cases()
    for source in {case.source for case in cases}:
        assert {case.fits for case in cases if case.source == source} == {source not in UNFITTED}


def test_groups_hold_every_row_once():
    rows = [row_of(1.0, case) for case in load_cases()]
    for key in GROUPINGS.values():
        assert sum(len(members) for members in grouped(rows, key).values()) == len(rows)


def _of_fit(fits, count, **changes):
    """Return cases that may (or may not) be fitted."""
    return [replace(case_of(f"row-{index}", **changes), fits=fits) for index in range(count)]


def test_the_baseline_sees_fitted_rows_only():
    used = [row_of(1.0, case, ideal=0.5) for case in _of_fit(True, 3)]
    scored = [row_of(1.0, case, ideal=0.1) for case in _of_fit(False, 5, source="timm-infer")]
    baseline = fit_baseline([*used, *scored])
    assert baseline.overall == pytest.approx(0.5)
    assert baseline.seconds(scored) == pytest.approx([0.2] * 5)


def test_the_baseline_of_a_row_never_saw_its_publisher():
    rows = [
        row_of(1.0, case, ideal=share)
        for source, share in (("timm-train", 0.5), ("timm-infer", 0.5), ("dle", 0.25))
        for case in _of_fit(True, 2, source=source)
    ]
    assert fit_baseline(rows).seconds(rows) == pytest.approx([2.0] * 4 + [0.5] * 2)


def test_a_family_without_fitted_rows_takes_the_overall_constant():
    used = [row_of(1.0, case, ideal=0.5) for case in _of_fit(True, 3)]
    other = [row_of(1.0, case, ideal=0.2) for case in _of_fit(False, 2, family="vit")]
    baseline = fit_baseline([*used, *other], GROUPINGS["family"])
    assert set(baseline.groups) == {"cnn"}
    assert baseline.seconds(other) == pytest.approx([0.4] * 2)


def test_a_baseline_of_nothing_is_refused():
    with pytest.raises(ValueError, match="may be fitted"):
        fit_baseline([row_of(1.0, case) for case in _of_fit(False, 3)])


def test_cards_are_ranked_by_samples_per_second_once_each():
    measured = {"a100": (1.0, 1.2), "v100": (2.0,), "t4": (5.0,), "p4": (9.0,)}
    guess = {"a100": 1.5, "v100": 1.4, "t4": 4.0, "p4": 8.0}
    rows = [
        row_of(guess[gpu], case_of(f"{gpu}-{index}", seconds, gpu=gpu))
        for gpu, times in measured.items()
        for index, seconds in enumerate(times)
    ]
    (ranking,) = rank_cards(rows)
    assert ranking.cards == 4
    assert ranking.spearman == pytest.approx(0.8)
    assert ranking.swapped is not None
    assert ranking.swapped[:2] == ("v100", "a100")


def test_equal_scenarios_of_two_versions_are_one_line():
    old, new = case_of("old", 1.2, year=2020), case_of("new", 1.0)
    released = {**new.scenario, "workload": {**new.scenario["workload"], "engine_facts": {"library_released": 2022.5}}}
    rows = [row_of(1.1, old), row_of(1.0, replace(new, scenario=released)), row_of(1.0, case_of("else", gpu="t4"))]
    (age,) = software_ages(rows)
    assert age.spread == pytest.approx(0.2)
    assert list(age.measured) == ["2020 pytorch", "2022 pytorch"]


@pytest.fixture(scope="module")
def shipped_rows():
    """Return a row for each shipped case, not predicted but guessed: the page is what is tested."""
    return [
        row_of(case.measured * (0.8 + 0.4 * (index % 7) / 6), case, architecture="volta", ideal=0.3 * case.measured)
        for index, case in enumerate(load_cases())
    ]


def test_the_page_has_every_source_card_peer_and_trap(shipped_rows):
    text = page(scorecard(shipped_rows)).text
    for names in ({row.case.source for row in shipped_rows}, {row.case.gpu for row in shipped_rows}):
        for name in names:
            assert f"\n| {name} |" in text or f"| {name}," in text, name
    assert "| Calculon | `calculon-ai/calculon` |" in text
    assert "- **Software age.**" in text
    assert "nan" not in text.replace("finance", "")


def test_the_page_lists_the_worst_rows_whatever_they_are(shipped_rows):
    bad = [
        replace(row, predicted=9.0 * row.case.measured) if index == 17 else row
        for index, row in enumerate(shipped_rows)
    ]
    text = page(scorecard(bad)).text
    assert f"| `{bad[17].case.name}` |" in text
    assert "+800.0 %" in text


def test_the_page_says_where_intervals_fail(shipped_rows):
    narrow = [replace(row, interval=(row.predicted, row.predicted)) for row in shipped_rows]
    assert "**no**" in page(scorecard(narrow)).text.split("## Intervals")[1].split("##")[0]


def test_pictures_are_drawn(shipped_rows, tmp_path):
    for path in draw(scorecard(shipped_rows), tmp_path):
        assert path.read_bytes().startswith(b"\x89PNG")


def test_notes_name_what_is_known():
    assert "PyTorch engine" in note(row_of(1.0, case_of(source="dle-tf")))
    assert note(row_of(1.0, case_of())) == ""


def test_a_shipped_case_is_predicted():
    (case,) = [case for case in load_cases() if case.name == "train-timm-0001"]
    row = predict_step(case)
    assert row.samples == 512
    assert 0.0 < row.ideal < row.predicted
    assert abs(row.error) < 0.5


def test_the_written_page_is_of_what_is_stored():
    stored = read("steps")
    errors = [abs(stored[case.name].left_out["source"] / case.measured - 1.0) for case in load_cases()]
    line = re.search(r"^\| all \| (\d+) \| ([\d.]+) % \| [\d.]+ % \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert line is not None
    assert int(line[1]) == len(errors)
    assert abs(float(line[2]) - 100.0 * float(np.median(errors))) < 0.6, "`make accuracy` writes docs/accuracy.md"
