"""Shipped predictions do not move unnoticed: measurements/golden.csv is changed in the same change as what moves them."""

from __future__ import annotations

import csv

from roofsim.calibrate.cases import folder, load_cases
from roofsim.calibrate.scorecard import MOVED

GOLDEN = folder() / "golden.csv"


def stored():
    with GOLDEN.open(encoding="utf-8", newline="") as file:
        return {row["name"]: float(row["predicted"]) for row in csv.DictReader(file)}


def test_golden_predictions(request):
    now = {case.name: float(case.evaluate().step.step) for case in load_cases()}
    if request.config.getoption("--update-golden"):
        lines = "".join(f"{name},{seconds:.6g}\n" for name, seconds in now.items())
        GOLDEN.write_text(f"name,predicted\n{lines}", encoding="utf-8")
    before = stored()
    assert set(before) == set(now), "`make golden` writes the cases of measurements/golden.csv"
    moved = {name: now[name] / before[name] - 1.0 for name in now if abs(now[name] / before[name] - 1.0) > MOVED}
    worst = sorted(moved.items(), key=lambda item: -abs(item[1]))[:10]
    assert not moved, (
        f"{len(moved)} of {len(now)} predictions moved by more than {MOVED:.1%}: {worst}; "
        "if that is meant, `make golden accuracy` writes measurements/golden.csv and docs/accuracy.md anew"
    )
