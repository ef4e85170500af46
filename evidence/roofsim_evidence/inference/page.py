"""Fill docs/inference-accuracy.md."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.calibrate.cases import BYTES, SERVED
from roofsim.calibrate.score import grouped, held_out, score
from roofsim_evidence.inference.cases import SHORT
from roofsim_evidence.inference.fit import read_left_out
from roofsim_evidence.inference.notes import LABELS
from roofsim_evidence.inference.widths import times
from roofsim_evidence.markdown import table
from roofsim_evidence.pages import DocsPage, filled
from roofsim_evidence.steps.scorecard import MOVED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roofsim.calibrate.cases import Case
    from roofsim.calibrate.predict import Prediction

    Rows = Sequence[Prediction]
    Unpriced = Sequence[tuple[Case, str]]

PATH: Final = "docs/inference-accuracy.md"
WORST: Final = 15
HEADS: Final = ("group", "n", "median", "held out", "mean", "p90", "bias", "rank", "in interval")


def page(rows: Rows, unpriced: Unpriced) -> DocsPage:
    """Return the page."""
    timed = times(rows)
    one, many = [row for row in timed if row.case.gpus == 1], [row for row in timed if row.case.gpus > 1]
    text = filled(
        "inference-accuracy.md",
        total=len(rows) + len(unpriced),
        priced=len(rows),
        servers=sum(row.case.quantity in SERVED for row in rows),
        waiting=len(unpriced),
        fitted=sum(row.case.fits for row in rows),
        engines=scores(one, lambda row: f"{row.case.software}, {row.case.regime}"),
        several=scores(many, lambda row: f"{row.case.software}, {row.case.regime}"),
        regimes=scores(timed, lambda row: f"{row.case.regime}, {'one GPU' if row.case.gpus == 1 else 'several'}"),
        sources=scores(timed, lambda row: f"{LABELS[row.case.source]}, quality {row.case.grade}"),
        cards=scores(one, lambda row: f"{row.architecture}, {row.case.software}, {row.case.regime}"),
        served=_servers(rows),
        left_out=_left_out(timed),
        memory=scores(
            [row for row in rows if row.case.quantity in BYTES],
            lambda row: f"{row.case.software}, {SHORT[row.case.quantity]}",
        ),
        unpriced=_unpriced(unpriced),
        worst=_worst(timed),
    )
    return DocsPage(path=PATH, text=text)


def scores(rows: Rows, key: Callable[[Prediction], str]) -> str:
    """Return the table of scores by group, and of all rows."""
    groups = [*grouped(rows, key).items(), ("all", list(rows))] if rows else []
    return table(HEADS, [_cells(name, mine) for name, mine in groups])


def _cells(name: str, rows: Rows) -> tuple[str, ...]:
    scored, held = score(rows), held_out(rows)
    rest = f"{score(held).median:.1%}" if held else ""
    inside = score(held).coverage if held else None
    rank = "" if scored.rank is None else f"{scored.rank:.2f}"
    covered = "" if inside is None else f"{inside:.0%}"
    errors = (f"{scored.median:.1%}", rest, f"{scored.mean:.1%}", f"{scored.p90:.1%}", f"{scored.bias:+.1%}")
    return (name, str(scored.n), *errors, rank, covered)


def _measured_as(key: Callable[[Prediction], str]) -> Callable[[Prediction], str]:
    """Return a key that says first what was measured."""
    return lambda row: f"{SHORT[row.case.quantity]}, {key(row)}"


def _servers(rows: Rows) -> str:
    """Return the scores of servers: time per token and to the first one at fixed concurrency, rates of saturated ones."""
    served = [row for row in rows if row.case.quantity in SERVED]
    kinds = grouped(served, _measured_as(lambda row: "experts" if row.experts else "dense"))
    engines = grouped(served, _measured_as(lambda row: row.case.software))
    return table(HEADS, [_cells(name, mine) for name, mine in (*kinds.items(), *engines.items())])


def _left_out(rows: Rows) -> str:
    """Return the scores of predictions by constants that never saw the card, where they belong to today's predictions."""
    stored = read_left_out()
    known = [row for row in rows if row.case.name in stored]
    moved = [row for row in known if abs(stored[row.case.name][0] / row.predicted - 1.0) > MOVED]
    if moved:
        return (
            f"{len(moved)} shipped predictions have moved since `evidence fit inference --transfer` ran; run it again."
        )
    cells = []
    for name, mine in grouped(known, lambda row: f"{row.case.software}, {row.case.regime}").items():
        with_card, without = score(mine), score(mine, [stored[row.case.name][1] for row in mine])
        numbers = (f"{value:.1%}" for value in (with_card.median, without.median, without.p90))
        cells.append((name, str(len({row.case.gpu for row in mine})), str(len(mine)), *numbers))
    heads = ("engine, regime", "cards", "n", "median", "median without the card", "p90 without")
    about = "Constants of engines without measured kernels, refitted without any row of the scored card."
    return f"{about}\n\n{table(heads, cells)}"


def _unpriced(unpriced: Unpriced) -> str:
    """Return what is in the file and cannot be predicted yet."""
    counts = Counter((LABELS[case.source], _reason(case, why)) for case, why in unpriced)
    cells = [(source, str(number), why) for (source, why), number in sorted(counts.items())]
    return table(("source", "rows", "why"), cells, last="left")


def _reason(case: Case, why: str) -> str:
    if case.quantity in SERVED:
        return why
    return "pipeline stages in inference" if "pipeline" in why else why.partition(": ")[2] or why


def _worst(rows: Rows) -> str:
    worst = sorted(rows, key=lambda row: -abs(float(np.log1p(row.error))))[:WORST]
    cells = [
        (
            row.case.name,
            f"{row.case.software}, {row.case.regime}",
            row.case.gpu,
            row.case.family,
            f"{row.case.measured:.3g} s",
            f"{row.predicted:.3g} s",
            f"{row.error:+.0%}",
        )
        for row in worst
    ]
    return table(("row", "engine", "card", "model", "measured", "predicted", "error"), cells, left=4)
