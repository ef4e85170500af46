"""Hold what a group of predictions is read beside: fits that never saw its card, and baselines of one constant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.calibrate.score import GROUPINGS, Score, score
from roofsim.records import dataclass
from roofsim_evidence.columns import OutOfFold, out_of_fold, without
from roofsim_evidence.steps.baseline import Baseline, fit_baseline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim_evidence.steps.cases import StepPrediction


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
    rows
        Predictions without the source of each row; shipped ones where none are stored of today's.
    columns
        Predictions without the source, the card and the family.
    """

    rows: tuple[StepPrediction, ...]
    columns: OutOfFold
    one_constant: Baseline
    family_constant: Baseline

    def line(self, rows: Sequence[StepPrediction]) -> Line:
        """Score a group of rows in every way."""
        names = {row.case.name for row in rows}
        ways = self.columns.scores(lambda row: row.case.name in names)
        return Line(
            score=score(rows),
            card_left_out=ways.get("card"),
            one_constant=score(rows, self.one_constant.seconds(rows)),
            family_constant=score(rows, self.family_constant.seconds(rows)),
        )


def scorecard(rows: Sequence[StepPrediction]) -> Scorecard:
    """Fit the baselines, and read what is stored of fits without sources, cards and families."""
    return Scorecard(
        rows=tuple(without("source", "steps", rows)),
        columns=out_of_fold("steps", rows),
        one_constant=fit_baseline(rows),
        family_constant=fit_baseline(rows, GROUPINGS["family"]),
    )
