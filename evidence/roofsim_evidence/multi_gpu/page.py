"""Fill docs/multi-gpu-accuracy.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.calibrate.score import grouped, score
from roofsim_evidence.columns import out_of_fold, without
from roofsim_evidence.markdown import table
from roofsim_evidence.multi_gpu.notes import COMPOSED, LABELS, PEERS
from roofsim_evidence.pages import DocsPage, filled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim_evidence.steps.cases import StepPrediction

PATH: Final = "docs/multi-gpu-accuracy.md"
WORST: Final = 15
HEADS: Final = ("n", "mean", "median", "p90", "bias", "rank", "in interval", "published peer, mean")


def group_of(row: StepPrediction) -> str:
    """Return the line of the table that a row belongs to."""
    case = row.case
    gpu = case.gpu.upper().split("-")
    card = f"{gpu[0]} {gpu[2]}" if gpu[0] == "A100" else "H100 500 W" if "500W" in gpu else gpu[0]
    narrow = " fp8" if case.scenario["workload"]["precision"] == "fp8" else ""
    return f"{LABELS[case.source]}: {case.family}, {card}{narrow}"


def page(shipped: Sequence[StepPrediction], composed: Sequence[StepPrediction]) -> DocsPage:
    """Return the page of measured rows, each predicted without its source where that is stored, and of composed ones."""
    columns, rows = out_of_fold("multi-gpu", shipped), without("source", "multi-gpu", shipped)
    sources = [*grouped(rows, lambda row: LABELS[row.case.source]).items(), ("all", list(rows))]
    text = filled(
        "multi-gpu-accuracy.md",
        total=len(rows),
        fitted=sum(row.case.fits for row in rows),
        about=columns.about,
        left_out=columns.table(),
        refused=sum(not row.fits for row in rows),
        sources=_scores("source", sources, PEERS),
        sets=_scores("sets", list(grouped(rows, group_of).items())),
        composed=_scores("set", [(LABELS[COMPOSED], list(composed))]),
        worst=_worst(rows),
    )
    return DocsPage(path=PATH, text=text)


def sets(rows: Sequence[StepPrediction]) -> str:
    """Return the table of scores by set."""
    return _scores("sets", list(grouped(rows, group_of).items()))


def _scores(
    head: str, groups: Sequence[tuple[str, Sequence[StepPrediction]]], peers: dict[str, str] | None = None
) -> str:
    return table(
        (head, *HEADS), [_cells(name, rows, (peers or {}).get(name, "")) for name, rows in groups], last="left"
    )


def _cells(name: str, rows: Sequence[StepPrediction], peer: str) -> tuple[str, ...]:
    scored = score(rows)
    rank = "" if scored.rank is None else f"{scored.rank:.2f}"
    inside = "" if scored.coverage is None else f"{scored.coverage:.0%}"
    errors = (f"{value:.1%}" for value in (scored.mean, scored.median, scored.p90))
    return (name, str(scored.n), *errors, f"{scored.bias:+.1%}", rank, inside, peer)


def _worst(rows: Sequence[StepPrediction]) -> str:
    worst = sorted(rows, key=lambda row: -abs(row.error))[:WORST]
    cells = [
        (
            row.case.name,
            LABELS[row.case.source],
            f"{row.case.measured:.3g} s",
            f"{row.predicted:.3g} s",
            f"{row.error:+.1%}",
        )
        for row in worst
    ]
    return table(("row", "source", "measured", "predicted", "error"), cells, left=2)
