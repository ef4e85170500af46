"""Fill docs/inference-accuracy.md."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.calibrate.cases import BYTES, SERVED
from roofsim.calibrate.score import grouped, score
from roofsim_evidence.columns import out_of_fold
from roofsim_evidence.inference.cases import SHORT
from roofsim_evidence.inference.notes import LABELS
from roofsim_evidence.inference.times import times
from roofsim_evidence.markdown import table
from roofsim_evidence.pages import DocsPage, filled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roofsim.calibrate.cases import Case
    from roofsim.calibrate.predict import Prediction

    Rows = Sequence[Prediction]
    Unpriced = Sequence[tuple[Case, str]]

PATH: Final = "docs/inference-accuracy.md"
WORST: Final = 15
HEADS: Final = ("group", "n", "median", "mean", "p90", "bias", "rank", "in interval")


def page(shipped: Rows, unpriced: Unpriced) -> DocsPage:
    """Return the page; its rows are predicted without their sources, where that is stored."""
    columns = [out_of_fold("inference", times(shipped)), out_of_fold("servers", served(shipped))]
    left_out = {row.case.name: row for one in columns for row in one.left_out.get("source", one.shipped)}
    rows = [left_out.get(row.case.name, row) for row in shipped]
    timed = times(rows)
    one, many = [row for row in timed if row.case.gpus == 1], [row for row in timed if row.case.gpus > 1]
    text = filled(
        "inference-accuracy.md",
        total=len(rows) + len(unpriced),
        priced=len(rows),
        servers=len(served(rows)),
        waiting=len(unpriced),
        fitted=sum(row.case.fits for row in rows),
        engines=scores(one, lambda row: f"{row.case.software}, {row.case.regime}"),
        several=scores(many, lambda row: f"{row.case.software}, {row.case.regime}"),
        regimes=scores(timed, lambda row: f"{row.case.regime}, {'one GPU' if row.case.gpus == 1 else 'several'}"),
        sources=scores(timed, lambda row: f"{LABELS[row.case.source]}, quality {row.case.grade}"),
        cards=scores(one, lambda row: f"{row.architecture}, {row.case.software}, {row.case.regime}"),
        served=_servers(rows),
        about=" ".join(one.about for one in columns if one.about),
        left_out=columns[0].table(),
        servers_left_out=columns[1].table(),
        memory=scores(
            [row for row in rows if row.case.quantity in BYTES],
            lambda row: f"{row.case.software}, {SHORT[row.case.quantity]}",
        ),
        unpriced=_unpriced(unpriced),
        worst=_worst(timed),
    )
    return DocsPage(path=PATH, text=text)


def served(rows: Rows) -> list[Prediction]:
    """Return the rows of servers."""
    return [row for row in rows if row.case.quantity in SERVED]


def scores(rows: Rows, key: Callable[[Prediction], str]) -> str:
    """Return the table of scores by group, and of all rows."""
    groups = [*grouped(rows, key).items(), ("all", list(rows))] if rows else []
    return table(HEADS, [_cells(name, mine) for name, mine in groups])


def _cells(name: str, rows: Rows) -> tuple[str, ...]:
    scored = score(rows)
    rank = "" if scored.rank is None else f"{scored.rank:.2f}"
    covered = "" if scored.coverage is None else f"{scored.coverage:.0%}"
    errors = (f"{scored.median:.1%}", f"{scored.mean:.1%}", f"{scored.p90:.1%}", f"{scored.bias:+.1%}")
    return (name, str(scored.n), *errors, rank, covered)


def _measured_as(key: Callable[[Prediction], str]) -> Callable[[Prediction], str]:
    """Return a key that says first what was measured."""
    return lambda row: f"{SHORT[row.case.quantity]}, {key(row)}"


def _servers(rows: Rows) -> str:
    """Return the scores of servers: time per token and to the first one at fixed concurrency, rates of saturated ones."""
    mine = served(rows)
    kinds = grouped(mine, _measured_as(lambda row: "experts" if row.experts else "dense"))
    engines = grouped(mine, _measured_as(lambda row: row.case.software))
    return table(HEADS, [_cells(name, members) for name, members in (*kinds.items(), *engines.items())])


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
