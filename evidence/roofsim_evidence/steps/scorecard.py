"""Hold what a group of predictions is read beside: baselines of one constant, and fits that never saw the card."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Final

from roofsim.calibrate.score import GROUPINGS, Score, score
from roofsim.output import save_text
from roofsim.records import dataclass
from roofsim_evidence.places import measurements
from roofsim_evidence.steps.baseline import Baseline, fit_baseline

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from roofsim.calibrate.cases import Case
    from roofsim_evidence.steps.cases import StepPrediction

#: Relative change of a shipped prediction that does not pass unnoticed: golden files and stored fits are void beyond it.
MOVED: Final = 0.005


@dataclass(frozen=True, kw_only=True)
class Line:
    """A group's score, and those of the other ways to predict the same rows."""

    score: Score
    card_left_out: Score | None
    one_constant: Score
    family_constant: Score


@dataclass(frozen=True, kw_only=True)
class Scorecard:
    """All predictions with their baselines.

    Attributes
    ----------
    left_out
        Case -> seconds under constants fitted without its card; empty where no such fit is stored.
    """

    rows: tuple[StepPrediction, ...]
    one_constant: Baseline
    family_constant: Baseline
    left_out: dict[str, float]

    def line(self, rows: Sequence[StepPrediction]) -> Line:
        """Score a group of rows in every way."""
        known = [self.left_out[row.case.name] for row in rows if row.case.name in self.left_out]
        return Line(
            score=score(rows),
            card_left_out=score(rows, known) if len(known) == len(rows) else None,
            one_constant=score(rows, self.one_constant.seconds(rows)),
            family_constant=score(rows, self.family_constant.seconds(rows)),
        )


def scorecard(rows: Sequence[StepPrediction]) -> Scorecard:
    """Fit the baselines and read the stored fits without cards."""
    return Scorecard(
        rows=tuple(rows),
        one_constant=fit_baseline(rows),
        family_constant=fit_baseline(rows, GROUPINGS["family"]),
        left_out=read_left_out(rows),
    )


def left_out_path() -> Path:
    """Return the file of predictions by constants that never saw the card."""
    return measurements() / "steps_without_card.csv"


def predict_left_out(cases: Sequence[Case]) -> list[float]:
    """Return the seconds of each case under constants fitted without any row of its card.

    Takes minutes: each card is a fit of its own.
    """
    from roofsim.spec.constants.kernels import shipped
    from roofsim_evidence.steps import fit as steps
    from roofsim_evidence.steps.table import step_table

    constants = shipped()
    table = step_table(cases, list(constants.classes))
    return [float(seconds) for seconds in steps.leave_cards_out(table, steps.usable(cases, table), constants)]


def write_left_out(names: Sequence[str], shipped: Sequence[float], card_left_out: Sequence[float]) -> None:
    """Store predictions without the card, each beside the shipped one of its time, which says later if it still holds."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["name", "shipped", "card_left_out"])
    for name, predicted, left_out in zip(names, shipped, card_left_out, strict=True):
        writer.writerow([name, f"{predicted:.6g}", f"{left_out:.6g}"])
    save_text(left_out_path(), file.getvalue())


def read_left_out(rows: Sequence[StepPrediction]) -> dict[str, float]:
    """Return the stored predictions without the card; none at all if a shipped prediction has moved since."""
    path = left_out_path()
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        stored = {line["name"]: (float(line["shipped"]), float(line["card_left_out"])) for line in csv.DictReader(file)}
    for row in rows:
        before = stored.get(row.case.name)
        if before is None or abs(row.predicted / before[0] - 1.0) > MOVED:
            return {}
    return {name: seconds for name, (_, seconds) in stored.items()}
