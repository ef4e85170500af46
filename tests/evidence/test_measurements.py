"""Files of measurements: readable, sorted, complete; and the draw of what may be fitted."""

from __future__ import annotations

import hashlib
import json

import pytest

from roofsim.calibrate.cases import QUANTITIES, line_of
from roofsim_evidence.inference.cases import load_inference_cases
from roofsim_evidence.memory.cases import load_memory_cases
from roofsim_evidence.multi_gpu.cases import load_multi_cases
from roofsim_evidence.places import measurements
from roofsim_evidence.steps.cases import load_cases

FILES = sorted(measurements().glob("*.jsonl"))
#: Loader -> rows, rows that may be fitted, and the hash of their names: a fit of tomorrow sees the rows of today.
DRAWN = {
    load_cases: (708, 498, "96b15eb324a1"),
    load_multi_cases: (1497, 404, "f75a83ccadd0"),
    load_inference_cases: (2491, 2491, "7970d9931c6d"),
    load_memory_cases: (161, 154, "da0d357adfd2"),
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_rows_are_lines_with_sorted_keys_that_differ_in_what_they_say(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert [line_of(row) for row in rows] == lines
    assert len({row["name"] for row in rows}) == len(rows)
    for row in rows:
        assert row["quantity"] in QUANTITIES
        assert isinstance(row["scenario"], dict)
        assert row["source"]


@pytest.mark.parametrize("load", DRAWN, ids=lambda load: load.__name__)
def test_what_may_be_fitted_does_not_change(load):
    cases = load()
    names = [case.name for case in cases if case.fits]
    assert (len(cases), len(names), hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]) == DRAWN[load]


def test_every_source_is_in_the_readme():
    text = (measurements() / "README.md").read_text(encoding="utf-8")
    assert all(f"## {path.name}" in text for path in FILES)
    for load in DRAWN:
        for case in load():
            assert f"`{case.source}`" in text, case.source
