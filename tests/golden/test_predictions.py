"""Shipped predictions do not move unnoticed: the golden files are changed in the same change as what moves them."""

from __future__ import annotations

import csv

import pytest

from roofsim_evidence.cases import load_cases
from roofsim_evidence.memory.cases import predict_all
from roofsim_evidence.steps.scorecard import MOVED
from tests.conftest import GOLDEN


def steps():
    return {case.name: float(case.evaluate().step.step) for case in load_cases()}


def peaks():
    return {row.case.name: row.predicted for row in predict_all()}


def stored(path):
    with path.open(encoding="utf-8", newline="") as file:
        return {row["name"]: float(row["predicted"]) for row in csv.DictReader(file)}


@pytest.mark.parametrize(
    ("name", "predictions", "documents"),
    [
        ("steps.csv", steps, "`make golden accuracy` writes tests/golden/steps.csv and docs/accuracy.md anew"),
        (
            "memory.csv",
            peaks,
            ("`make golden` writes tests/golden/memory.csv anew, `evidence page memory` docs/memory-accuracy.md"),
        ),
    ],
    ids=["steps", "memory"],
)
def test_golden_predictions(request, name, predictions, documents):
    now, path = predictions(), GOLDEN / name
    if request.config.getoption("--update-golden"):
        lines = "".join(f"{case},{value:.6g}\n" for case, value in now.items())
        path.write_text(f"name,predicted\n{lines}", encoding="utf-8")
    before = stored(path)
    assert set(before) == set(now), f"`make golden` writes the cases of tests/golden/{name}"
    moved = {case: now[case] / before[case] - 1.0 for case in now if abs(now[case] / before[case] - 1.0) > MOVED}
    worst = sorted(moved.items(), key=lambda item: -abs(item[1]))[:10]
    assert not moved, (
        f"{len(moved)} of {len(now)} predictions moved by more than {MOVED:.1%}: {worst}; if that is meant, {documents}"
    )
