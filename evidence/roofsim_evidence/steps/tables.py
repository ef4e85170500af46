"""Write scores as Markdown tables: every table has the baselines of one constant beside the errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.calibrate.score import GROUPINGS, grouped
from roofsim.report import words
from roofsim.report.scores import score_cells, share
from roofsim_evidence.markdown import met, table
from roofsim_evidence.steps.notes import note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from roofsim.calibrate.score import Score
    from roofsim_evidence.steps.cases import StepPrediction
    from roofsim_evidence.steps.comparisons import Ranking, SoftwareAge
    from roofsim_evidence.steps.scorecard import Line, Scorecard

#: What is held to a goal, its value, the goal in words, and whether a value meets it.
Goal = tuple[str, float | None, str, "Callable[[float], bool]"]
#: Heads of a table of scores, after the group's name.
_SCORES: Final = ("n", "median", "mean", "p90", "worst", "bias", "rank", "coverage")
_OTHERS: Final = ("card left out: median / p90", "one MFU: median / p90", "MFU per family: median / p90")


def pair(score: Score | None) -> str:
    """Return median and p90 of a score, or a dash."""
    return "-" if score is None else f"{100.0 * score.median:.1f} / {share(score.p90)}"


def line_cells(line: Line) -> list[str]:
    """Return the cells of a score and of what it stands beside."""
    return [*score_cells(line.score), pair(line.card_left_out), pair(line.one_constant), pair(line.family_constant)]


def scores(card: Scorecard, groups: dict[str, list[StepPrediction]], head: str) -> str:
    """Return the table of some groups; empty groups are left away."""
    rows = [[name, *line_cells(card.line(members))] for name, members in groups.items() if members]
    return table((head, *_SCORES, *_OTHERS), rows)


def by(card: Scorecard, rows: Iterable[StepPrediction], *keys: str) -> str:
    """Return the table of rows by one or several of `GROUPINGS`."""

    def name(row: StepPrediction) -> str:
        return ", ".join(GROUPINGS[key](row) for key in keys)

    return scores(card, grouped(rows, name), ", ".join(keys))


def rankings(entries: Sequence[Ranking]) -> str:
    """Return the table of how each model and precision ranks cards."""
    rows = []
    for ranking in entries:
        swap = "none" if ranking.spearman is not None else "-"
        if ranking.swapped is not None:
            slow, fast, ratio = ranking.swapped
            swap = f"{fast} was {share(ratio - 1.0)} faster than {slow}"
        ranks = ["- (too few cards)" if rank is None else f"{rank:.3f}" for rank in (ranking.spearman, ranking.by_peak)]
        rows.append([ranking.model, ranking.precision, str(ranking.cards), *ranks, swap])
    heads = ("model", "precision", "cards", "Spearman", "one MFU: Spearman", "worst pair in the wrong order")
    return table(heads, rows, left=2)


def software_ages(ages: Sequence[SoftwareAge]) -> str:
    """Return the table of equal scenarios under several versions of the software."""
    rows = [
        [
            age.gpu,
            age.model,
            age.precision,
            _versions(age.measured),
            _versions(age.predicted),
            share(age.spread),
        ]
        for age in ages
    ]
    heads = ("GPU", "model", "precision", "measured step by year and version", "predicted", "slowest over fastest")
    return table(heads, rows, left=5)


def _versions(seconds: dict[str, float]) -> str:
    return "; ".join(f"{name.removesuffix('a0')}: {words.seconds(value)}" for name, value in seconds.items())


def worst(card: Scorecard, count: int) -> str:
    """Return the rows with the largest errors, of all rows, with what is known about them."""
    rows = sorted(card.rows, key=lambda row: -abs(row.error))[:count]
    ours = card.one_constant.seconds(rows)
    cells = [
        [
            f"`{row.case.name}`",
            row.case.gpu,
            f"{row.case.model}, {row.case.precision}, {row.case.regime}, batch {row.samples:.0f}",
            note(row) or "not explained",
            words.seconds(row.case.measured),
            words.seconds(row.predicted),
            share(row.error, signed=True),
            share(other / row.case.measured - 1.0, signed=True),
        ]
        for row, other in zip(rows, ours, strict=True)
    ]
    heads = ("case", "GPU", "step", "known cause", "measured", "predicted", "error", "one MFU's error")
    return table(heads, cells, left=4)


def goals(rows: Iterable[Goal]) -> str:
    """Return the table of goals."""
    cells = []
    for what, value, goal, holds in rows:
        reached = "not measured" if value is None else met(holds(value))
        shown = (
            "-" if value is None else (f"{value:.3f}" if "Spearman" in what else share(value, signed="bias" in what))
        )
        cells.append([what, goal, shown, reached])
    return table(("rows", "goal", "now", "met"), cells, left=2)
