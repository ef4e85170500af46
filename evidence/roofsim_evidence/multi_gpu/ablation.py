"""Predict published steps without one mechanism at a time: docs/mechanisms/evidence.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.calibrate.score import grouped, score
from roofsim.errors import Problem, UnknownNameError, did_you_mean
from roofsim_evidence.markdown import table
from roofsim_evidence.multi_gpu.mechanisms import ABLATIONS
from roofsim_evidence.multi_gpu.notes import LABELS
from roofsim_evidence.pages import DocsPage, filled
from roofsim_evidence.steps.cases import predict_steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from roofsim.calibrate.cases import Case
    from roofsim_evidence.multi_gpu.mechanisms import Ablation
    from roofsim_evidence.steps.cases import StepPrediction

PATH: Final = "docs/mechanisms/evidence.md"
HEADS: Final = ("mechanism", "when switched off", "source", "n", "with", "without", "moves")
#: Change of the mean prediction below which a set is not listed.
VISIBLE: Final = 0.002


def predicted_without(mechanism: Ablation, cases: Sequence[Case]) -> dict[str, StepPrediction]:
    """Return predictions by name of the case, for the cases that the mechanism can move."""
    touched = [case for case in cases if mechanism.touches(case)]
    return {row.case.name: row for row in predict_steps(touched, mechanism.off)}


def lines_of(mechanism: Ablation, rows: Sequence[StepPrediction]) -> Iterator[tuple[str, ...]]:
    """Yield the table's lines of one mechanism: a line for each source that it moves."""
    without = predicted_without(mechanism, [row.case for row in rows])
    title = (f"[{mechanism.name}]({mechanism.page}.md)", mechanism.without)
    for source, mine in grouped((row for row in rows if row.case.name in without), lambda row: row.case.source).items():
        others = [without[row.case.name] for row in mine]
        moved = sum(new.predicted / old.predicted for new, old in zip(others, mine, strict=True)) / len(mine) - 1.0
        if abs(moved) >= VISIBLE:
            before, after = score(mine), score(others)
            errors = (f"{one.mean:.1%} ({one.bias:+.1%})" for one in (before, after))
            yield (*title, LABELS[source], str(len(mine)), *errors, f"{moved:+.1%}")
            title = ("", "")


def rows_of_table(rows: Sequence[StepPrediction], mechanisms: Sequence[Ablation] = ABLATIONS) -> str:
    """Return the table of mechanisms."""
    lines = [line for mechanism in mechanisms for line in lines_of(mechanism, rows)]
    return table(HEADS, lines, left=3)


def page(rows: Sequence[StepPrediction]) -> DocsPage:
    """Return the page of all mechanisms."""
    return DocsPage(
        path=PATH, text=filled("mechanisms.md", total=len(rows), visible=f"{VISIBLE:.1%}", table=rows_of_table(rows))
    )


def mechanisms_named(names: Sequence[str]) -> Sequence[Ablation]:
    """Return the mechanisms of some names, all for none.

    Raises
    ------
    UnknownNameError
        With near matches.
    """
    known = {one.name: one for one in ABLATIONS}
    for name in names:
        if name not in known:
            raise UnknownNameError(Problem(f"unknown mechanism {name!r}. {did_you_mean(name, tuple(known))}".strip()))
    return [known[name] for name in names] or ABLATIONS
