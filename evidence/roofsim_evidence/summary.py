"""Write the scores that travel with roofsim: errors out of fold by set of measurements and source."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Final

from roofsim.calibrate import published
from roofsim.calibrate.score import grouped, score
from roofsim.output import save_text
from roofsim_evidence.columns import without
from roofsim_evidence.inference.cases import predict_all
from roofsim_evidence.inference.external_page import external_cases
from roofsim_evidence.inference.page import served
from roofsim_evidence.inference.times import times
from roofsim_evidence.memory.cases import predict_all as predict_peaks
from roofsim_evidence.memory.cases import stated
from roofsim_evidence.mlperf_training.cases import training_cases
from roofsim_evidence.multi_gpu.cases import measured_cases
from roofsim_evidence.places import checkout
from roofsim_evidence.steps.cases import load_cases, predict_steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from roofsim.calibrate.predict import Prediction

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
    """Predict every published measurement without its source, and write the table."""
    inference = predict_all()[0]
    return write(
        {
            "steps": without("source", "steps", predict_steps(load_cases())),
            "multi-gpu": without("source", "multi-gpu", predict_steps(measured_cases())),
            "inference": [
                *without("source", "inference", times(inference)),
                *without("source", "servers", served(inference)),
            ],
            "external-inference": predict_all(external_cases())[0],
            "mlperf-training": predict_steps(training_cases()),
            "memory": without("source", "memory", stated(predict_peaks())),
        }
    )
