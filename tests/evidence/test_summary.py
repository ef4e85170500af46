"""The table of scores that travels with roofsim: it is made of what is stored, after a look at whether that still holds."""

from __future__ import annotations

import csv

import pytest

from roofsim.errors import SpecError
from roofsim_evidence import summary
from roofsim_evidence.folds import files
from roofsim_evidence.intervals.rows import FILES


def answers(monkeypatch, factor):
    stored = {row: one.shipped for name in FILES for row, one in files.read(name).items()}
    monkeypatch.setattr(summary, "priced", lambda case, _: (factor * stored[case.name], None))


def test_the_table_is_made_of_stored_predictions(monkeypatch, tmp_path):
    answers(monkeypatch, 1.0)
    monkeypatch.setattr(summary, "checkout", lambda: tmp_path)
    monkeypatch.setattr(summary, "TABLE", {"memory": ("memory",), "mlperf-training": ("mlperf-training",)})
    (tmp_path / "roofsim" / "calibrate").mkdir(parents=True)
    with summary.write_all().open(encoding="utf-8", newline="") as file:
        lines = {(line["measurements"], line["source"]): line for line in csv.DictReader(file)}
    stored = files.read("memory")
    assert 100 < int(lines["memory", "all"]["n"]) <= len(stored)
    assert 0.5 < float(lines["memory", "all"]["coverage"]) < 1.0
    assert int(lines["mlperf-training", "all"]["n"]) == len(files.read("mlperf-training"))


def test_what_has_moved_since_is_refused(monkeypatch):
    answers(monkeypatch, 1.02)
    with pytest.raises(SpecError, match=r"4 of 4 predictions moved.*evidence fit folds --write"):
        summary._rows("memory")
