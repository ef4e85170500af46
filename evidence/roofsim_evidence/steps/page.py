"""Fill docs/accuracy.md: how far predictions of steps on one GPU are from published measurements, good and bad."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.calibrate.score import GROUPINGS, NOMINAL_COVERAGE, coverage_band, fitted, grouped, score
from roofsim.report.scores import share
from roofsim_evidence.markdown import met, table
from roofsim_evidence.pages import DocsPage, filled
from roofsim_evidence.steps import plots, tables
from roofsim_evidence.steps.cases import UNFITTED
from roofsim_evidence.steps.comparisons import rank_cards, software_ages
from roofsim_evidence.steps.page_inference import goals as inference_goals
from roofsim_evidence.steps.page_inference import sections as inference_sections
from roofsim_evidence.steps.page_kernels import by_class

if TYPE_CHECKING:
    from roofsim_evidence.steps.cases import StepPrediction
    from roofsim_evidence.steps.comparisons import Ranking
    from roofsim_evidence.steps.scorecard import Scorecard

PATH: Final = "docs/accuracy.md"
#: Sources whose rows are single-GPU training steps with every setting stated, run by PyTorch.
TRAINING: Final = ("lambda", "dle", "timm-train")
#: Rows that an architecture or source needs for its bias or coverage to be held to a goal.
ENOUGH_FOR_BIAS: Final = 10
ENOUGH_FOR_COVERAGE: Final = 20
WORST: Final = 20
PICTURES: Final = {
    "Predicted against measured steps": "accuracy-measured.png",
    "Errors by regime and family": "accuracy-groups.png",
}
GROUPS: Final = {
    "By source": ("source",),
    "By GPU": ("GPU",),
    "By architecture": ("architecture",),
    "By family and precision": ("family", "precision"),
    "By regime": ("regime",),
    "By regime and family": ("regime", "family"),
}


def page(card: Scorecard) -> DocsPage:
    """Return the page, with its pictures."""
    rows = list(card.rows)
    trained = training(card)
    precise = [row for row in rows if row.case.source == "neusight"]
    rankings = _lambda_rankings(card)
    ranks = [ranking.spearman for ranking in rankings if ranking.spearman is not None]
    covered = score(rows).coverage
    text = filled(
        "accuracy.md",
        total=len(rows),
        usable=len(fitted(rows)),
        unfitted=", ".join(UNFITTED),
        one_mfu=share(card.one_constant.overall),
        family_mfus=", ".join(f"{name} {share(value)}" for name, value in sorted(card.family_constant.groups.items())),
        about=card.columns.about,
        columns=card.columns.table(),
        overall=tables.scores(card, {"all": rows}, "rows"),
        pictures=PICTURES,
        goals=tables.goals(_goals(card)),
        groups={title: tables.by(card, rows, *keys) for title, keys in GROUPS.items()},
        training=tables.scores(card, {"all": trained, **grouped(trained, GROUPINGS["architecture"])}, "architecture"),
        neusight=tables.scores(
            card,
            {"all": precise, **grouped(precise, GROUPINGS["GPU"])},
            "rows",
        ),
        lowest_rank=f"{min(ranks):.3f}" if ranks else "-",
        rankings=tables.rankings(rankings),
        covered=None if covered is None else share(covered),
        nominal=share(NOMINAL_COVERAGE),
        enough=ENOUGH_FOR_COVERAGE,
        coverage=_coverage(rows),
        number=WORST,
        worst=tables.worst(card, WORST),
        software_ages=tables.software_ages(software_ages(rows)),
        inference_goals=inference_goals(),
        inference=inference_sections(),
        kernels=by_class(),
    )
    return DocsPage(path=PATH, text=text, draw=lambda folder: plots.draw(card, folder))


def training(card: Scorecard) -> list[StepPrediction]:
    """Return the rows of single-GPU training by PyTorch."""
    return [row for row in card.rows if row.case.source in TRAINING]


def _goals(card: Scorecard) -> list[tables.Goal]:
    """Return what was to be reached, set before the constants were fitted."""
    steps = card.line(training(card))
    rows: list[tables.Goal] = [
        ("training rows (lambda, dle, timm-train): median", steps.score.median, "<= 6 %", lambda value: value <= 0.06),
        ("training rows: p90", steps.score.p90, "<= 17 %", lambda value: value <= 0.17),
    ]
    for name, members in grouped(training(card), GROUPINGS["architecture"]).items():
        if len(members) >= ENOUGH_FOR_BIAS:
            rows.append(
                (f"training rows, {name}: bias", score(members).bias, "within 5 %", lambda value: abs(value) <= 0.05)
            )
    left_out = steps.card_left_out
    neusight = [row for row in card.rows if row.case.source == "neusight"]
    precise = card.line(neusight) if neusight else None
    without = None if precise is None else precise.card_left_out
    ranks = [ranking.spearman for ranking in _lambda_rankings(card) if ranking.spearman is not None]
    coverage = score(card.rows).coverage
    rows += [
        (
            "training rows, card left out: median",
            None if left_out is None else left_out.median,
            "<= 9 %",
            lambda value: value <= 0.09,
        ),
        (
            "training rows, card left out: p90",
            None if left_out is None else left_out.p90,
            "<= 22 %",
            lambda value: value <= 0.22,
        ),
        (
            "neusight, true FP32: mean",
            None if precise is None else precise.score.mean,
            "<= 7 %",
            lambda value: value <= 0.07,
        ),
        (
            "neusight, card left out: mean",
            None if without is None else without.mean,
            "<= 12 %",
            lambda value: value <= 0.12,
        ),
        ("lowest Spearman over the Lambda cards", min(ranks, default=None), ">= 0.97", lambda value: value >= 0.97),
        ("coverage of the 80 % interval", coverage, "75 % to 85 %", lambda value: 0.75 <= value <= 0.85),
    ]
    return rows


def _lambda_rankings(card: Scorecard) -> list[Ranking]:
    return rank_cards(row for row in card.rows if row.case.source == "lambda")


def _coverage(rows: list[StepPrediction]) -> str:
    cells = []
    for name, members in grouped(rows, GROUPINGS["source"]).items():
        covered = score(members).coverage
        if len(members) >= ENOUGH_FOR_COVERAGE and covered is not None:
            low, high = coverage_band(len(members))
            band = f"{share(low)} to {share(high)}"
            cells.append((name, str(len(members)), share(covered), band, met(low <= covered <= high)))
    return table(("source", "n", "inside", "99 % band", "inside the band"), cells)
