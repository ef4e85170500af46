"""Build docs/accuracy.md: how far predictions are from published measurements, good and bad."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim_evidence.score import (
    GROUPINGS,
    NOMINAL_COVERAGE,
    Prediction,
    coverage_band,
    fitted,
    grouped,
    held_out,
    score,
)
from roofsim_evidence.steps import tables
from roofsim_evidence.steps.comparisons import rank_cards, software_ages
from roofsim_evidence.steps.fit import UNFITTED
from roofsim_evidence.steps.notes import TRAPS
from roofsim_evidence.steps.page_inference import section as inference
from roofsim_evidence.steps.page_kernels import section as kernels
from roofsim_evidence.steps.tables import share

if TYPE_CHECKING:
    from roofsim_evidence.steps.comparisons import Ranking
    from roofsim_evidence.steps.scorecard import Scorecard

#: Sources whose rows are single-GPU training steps with every setting stated, run by PyTorch.
TRAINING: Final = ("lambda", "dle", "timm-train")
#: Rows that an architecture or source needs for its bias or coverage to be held to a goal.
ENOUGH_FOR_BIAS: Final = 10
ENOUGH_FOR_COVERAGE: Final = 20
WORST: Final = 20
PICTURES: Final = {
    "accuracy-measured.png": "Predicted against measured steps",
    "accuracy-groups.png": "Errors by regime and family",
}


def page(card: Scorecard) -> str:
    """Return the whole page."""
    sections = (_head, _overall, _goals, _groups, _training, _neusight, _ranking, _coverage, _peers, _worst, _software)
    return "\n".join([*(section(card) for section in sections), inference(), kernels()])


def _head(card: Scorecard) -> str:
    usable, total = len(fitted(card.rows)), len(card.rows)
    return f"""# Accuracy

<!-- Written by `roofsim validate --write` (or `make accuracy`); changes made here by hand are lost. -->

This page compares predictions with {total} published measurements of whole steps on one GPU. They come from public
repositories and are listed with their sources in [measurements/README.md](../measurements/README.md). `roofsim validate` scores
them again; `roofsim validate --csv` prints every row. No row of `evidence/measurements/steps.jsonl` is excluded, however it looks; that
README lists what was read in the sources and did not become a row, with the reason. Memory is scored on
[a separate page](memory-accuracy.md), steps on several GPUs on [another](multi-gpu-accuracy.md), and decode, prefill, encoders
and diffusion on [a third](inference-accuracy.md).

- **Fitted rows.** {usable} of the {total} rows (every third when sorted by source, card, family, precision, software and a hash
  of the name) may be used to fit constants; the other {total - usable} are only scored. Of the third, fits omit
  {", ".join(UNFITTED)} and host-bound steps; these count as "may be fitted" all the same. Tables show held-out rows unless
  they say otherwise.
- **Error** is predicted / measured - 1. Median, mean, p90 and worst refer to absolute errors; bias is the median signed error:
  above zero, predictions are too slow. Rank is Spearman's correlation of predicted and measured seconds; coverage is the
  share of measurements inside the 80 % interval.
- **Baselines.** "One MFU": step = model FLOPs / (dense peak of the precision x one constant), with the constant
  ({share(card.one_constant.overall)}) fitted to the same rows that may be fitted here; "MFU per family": the same with one
  constant per family ({_constants(card)}).
- **Card left out**: predictions with constants fitted without any row of the scored card{_left_out_words(card)}.
"""


def _constants(card: Scorecard) -> str:
    return ", ".join(f"{name} {share(value)}" for name, value in sorted(card.family_constant.groups.items()))


def _left_out_words(card: Scorecard) -> str:
    if card.left_out:
        return " (`roofsim validate --leave-cards-out` repeats these fits)"
    return "; a dash: not available for the current constants (`roofsim validate --leave-cards-out` makes them)"


def _overall(card: Scorecard) -> str:
    rows = {"held out": held_out(card.rows), "may be fitted": fitted(card.rows), "all": list(card.rows)}
    pictures = "\n\n".join(f"![{title}](pictures/{name})" for name, title in PICTURES.items())
    return f"""## Overall

{tables.scores(card, rows, "rows")}
{pictures}
"""


def training(card: Scorecard) -> list[Prediction]:
    """Return the held-out rows of single-GPU training by PyTorch."""
    return [row for row in held_out(card.rows) if row.case.source in TRAINING]


def _goals(card: Scorecard) -> str:
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
    neusight = [row for row in held_out(card.rows) if row.case.source == "neusight"]
    precise = card.line(neusight) if neusight else None
    without = None if precise is None else precise.card_left_out
    ranks = [found.spearman for found in _lambda_rankings(card) if found.spearman is not None]
    coverage = score(held_out(card.rows)).coverage
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
    return f"""## Goals

Set before the constants were fitted, and evaluated on held-out rows; the ranks use all Lambda rows.

{tables.goals(rows)}"""


def _groups(card: Scorecard) -> str:
    rows = held_out(card.rows)
    texts = []
    for title, keys in {
        "By source": ("source",),
        "By GPU": ("GPU",),
        "By architecture": ("architecture",),
        "By family and precision": ("family", "precision"),
        "By regime": ("regime",),
        "By regime and family": ("regime", "family"),
    }.items():
        texts.append(f"## {title}\n\nHeld-out rows.\n\n{tables.by(card, rows, *keys)}")
    both = tables.by(card, card.rows, "source", "rows")
    texts.append(f"## The fitted third and the held-out two thirds\n\n{both}")
    return "\n".join(texts)


def _training(card: Scorecard) -> str:
    rows = training(card)
    groups = {"all": rows, **grouped(rows, GROUPINGS["architecture"])}
    return f"""## Single-GPU training

Held-out rows of lambda, dle and timm-train: PyTorch training steps of ResNet-50, ResNeXt-101, SSD-300, BERT base and large and
vision models, whose sources state every setting that matters.

{tables.scores(card, groups, "architecture")}"""


def _neusight(card: Scorecard) -> str:
    rows = [row for row in held_out(card.rows) if row.case.source == "neusight"]
    groups = {"all held out": rows, "all": [row for row in card.rows if row.case.source == "neusight"]}
    return f"""## Transformers in true FP32

Held-out rows of NeuSight's repository (TF32 off), by card. NeuSight's own mean error across GPUs is 8.9 %, that of a plain
roofline 31 %.

{tables.scores(card, groups | grouped(rows, GROUPINGS["GPU"]), "rows")}"""


def _lambda_rankings(card: Scorecard) -> list[Ranking]:
    return rank_cards(row for row in card.rows if row.case.source == "lambda")


def _ranking(card: Scorecard) -> str:
    found = _lambda_rankings(card)
    known = [ranking.spearman for ranking in found if ranking.spearman is not None]
    lowest = f"{min(known):.3f}" if known else "-"
    return f"""## Ranking of cards

Cards of the Lambda rows (including fitted rows, since a ranking needs all cards), ordered by samples per second for each model
and precision; a card with several rows counts once, by their geometric mean. Batch sizes differ between cards, as chosen by the
source. The lowest Spearman correlation is {lowest}.

{tables.rankings(found)}"""


def _coverage(card: Scorecard) -> str:
    rows = held_out(card.rows)
    total = score(rows).coverage
    if total is None:
        return "## Intervals\n\nThis version predicts no intervals, so none are scored.\n"
    cells = []
    for name, members in grouped(rows, GROUPINGS["source"]).items():
        found = score(members).coverage
        if len(members) >= ENOUGH_FOR_COVERAGE and found is not None:
            low, high = coverage_band(len(members))
            verdict = "yes" if low <= found <= high else "**no**"
            cells.append([name, str(len(members)), share(found), f"{share(low)} to {share(high)}", verdict])
    return f"""## Intervals

{share(total)} of the held-out measurements are inside their {share(NOMINAL_COVERAGE)} interval. For each source with
{ENOUGH_FOR_COVERAGE} rows or more, the table shows the share inside, and the band that would contain 99 % of such sources if rows
were independent.

{tables.markdown(("source", "n", "inside", "99 % band", "inside the band"), cells)}"""


def _peers(card: Scorecard) -> str:
    del card
    return f"""## Other tools

Mean absolute errors of other tools on rows that they can express, either measured side by side on those rows or published with
them. Only NeuSight's rows are among those of this page. None of these tools can express a training step of ResNet-50, so there is
nothing to compare for the others.

{tables.peers()}"""


def _worst(card: Scorecard) -> str:
    traps = "\n".join(f"- {text}" for text in TRAPS)
    return f"""## The worst {WORST} rows

Among all rows, fitted ones included.

{tables.worst(card, WORST)}
## Known traps

{traps}
"""


def _software(card: Scorecard) -> str:
    found = software_ages(card.rows)
    return f"""## How much identical runs differ

Scenarios that one source ran on one type of card under several software versions, fitted rows included. A prediction that knows
nothing of versions cannot avoid an error of about half the last column.

{tables.software_ages(found)}"""
