"""Write the scores that travel with roofsim: errors out of fold by set of measurements and source."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Final

from roofsim.calibrate import published
from roofsim.calibrate.score import grouped, score
from roofsim.errors import Place, Problem, SpecError
from roofsim.output import save_text
from roofsim_evidence.columns import without
from roofsim_evidence.folds.files import MOVED
from roofsim_evidence.left_out.page import stored_rows
from roofsim_evidence.left_out.refits import Refit
from roofsim_evidence.left_out.sets import priced
from roofsim_evidence.places import checkout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from roofsim.calibrate.predict import Prediction

#: Set of the table -> the stored sets that it is made of.
TABLE: Final = {
    "steps": ("steps",),
    "multi-gpu": ("multi-gpu",),
    "inference": ("inference", "servers"),
    "external-inference": ("external-inference",),
    "mlperf-training": ("mlperf-training",),
    "mlperf-inference": ("mlperf-inference",),
    "memory": ("memory",),
}
#: One row of so many is predicted again, to see whether what is stored still holds.
AGAIN: Final = 50
HEADS: Final = ("measurements", "source", "n", "median", "mean", "p90", "worst", "bias", "rank", "coverage")
DIGITS: Final = 4


def lines(name: str, rows: Sequence[Prediction]) -> list[dict[str, str]]:
    """Return the lines of one set: rows by source, and all of them."""
    groups = {**grouped(rows, lambda row: row.case.source), "all": list(rows)}
    return [{"measurements": name, "source": source, **_numbers(members)} for source, members in groups.items()]


def _numbers(rows: Sequence[Prediction]) -> dict[str, str]:
    scored = score(rows)
    values = {head: getattr(scored, head) for head in HEADS[3:]}
    return {
        "n": str(scored.n),
        **{head: "" if value is None else f"{value:.{DIGITS}f}" for head, value in values.items()},
    }


def write(sets: Mapping[str, Sequence[Prediction]]) -> Path:
    """Write the table, sets in their order; return its file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, HEADS, lineterminator="\n")
    writer.writeheader()
    for name, rows in sets.items():
        writer.writerows(lines(name, rows))
    path = checkout() / "roofsim" / "calibrate" / published.TABLE
    save_text(path, text.getvalue())
    return path


def write_all() -> Path:
    """Score every set by its stored predictions, each row's source left out, and write the table.

    Raises
    ------
    SpecError
        When predictions have moved since they were stored: with the set and the command that stores them again.
    """
    return write({name: [row for part in parts for row in _rows(part)] for name, parts in TABLE.items()})


def _rows(name: str) -> list[Prediction]:
    """Return a set's rows as predicted without their source, after some of them were predicted again."""
    rows = stored_rows(name)
    stored = {row.case.name: row.predicted for row in rows}
    answers = ((row.case.name, priced(row.case, Refit())) for row in rows[::AGAIN])
    now = {case: answer[0] for case, answer in answers if answer is not None}
    moved = [case for case, value in now.items() if abs(value / stored[case] - 1.0) > MOVED]
    if moved:
        message = f"{len(moved)} of {len(now)} predictions moved since they were stored, {moved[0]} among them"
        hint = "Run `evidence fit folds --write` first."
        raise SpecError(Problem(message, Place(f"evidence/measurements/out_of_fold/{name}.csv"), "", hint))
    return [row for row in without("source", name, rows) if not row.case.apart]
