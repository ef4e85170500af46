"""Shipped predictions do not move unnoticed: the golden files are changed in the same change as what moves them."""

from __future__ import annotations

import pytest

from roofsim_evidence.folds.files import MOVED
from tests.golden.predictions import FILES, stored


@pytest.mark.parametrize("name", FILES)
def test_golden_predictions(name):
    now, before = FILES[name](), stored(name)
    assert set(before) == set(now), f"`make golden` writes the cases of tests/golden/{name}"
    moved = {case: now[case] / before[case] - 1.0 for case in now if abs(now[case] / before[case] - 1.0) > MOVED}
    worst = sorted(moved.items(), key=lambda item: -abs(item[1]))[:10]
    assert not moved, (
        f"{len(moved)} of {len(now)} predictions moved by more than {MOVED:.1%}: {worst}; if that is meant, `make golden` writes "
        f"tests/golden/{name} anew, and `evidence page steps memory` the pages"
    )
