"""What is predicted for every published step and peak of memory today, and what is stored."""

from __future__ import annotations

import csv
from pathlib import Path

from roofsim.output import save_text
from roofsim_evidence.memory.cases import predict_all
from roofsim_evidence.steps.cases import load_cases

FOLDER = Path(__file__).parent


def steps() -> dict[str, float]:
    """Return the seconds of every step on one GPU."""
    return {case.name: float(case.evaluate().step.step) for case in load_cases()}


def peaks() -> dict[str, float]:
    """Return the bytes of every peak."""
    return {row.case.name: row.predicted for row in predict_all()}


#: File -> what it stores.
FILES = {"steps.csv": steps, "memory.csv": peaks}


def stored(name: str) -> dict[str, float]:
    """Return the predictions of a file."""
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return {row["name"]: float(row["predicted"]) for row in csv.DictReader(file)}


def write(name: str) -> None:
    """Store the predictions of today."""
    lines = "".join(f"{case},{value:.6g}\n" for case, value in FILES[name]().items())
    save_text(FOLDER / name, f"name,predicted\n{lines}")
