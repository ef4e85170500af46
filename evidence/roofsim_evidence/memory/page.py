"""Fill docs/memory-accuracy.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.calibrate.score import grouped, score
from roofsim.report.scores import share
from roofsim_evidence.columns import out_of_fold, without
from roofsim_evidence.markdown import met, table
from roofsim_evidence.memory.cases import SHORT, stated
from roofsim_evidence.memory.notes import note
from roofsim_evidence.pages import DocsPage, filled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roofsim_evidence.memory.cases import MemoryPrediction

    Rows = Sequence[MemoryPrediction]

PATH: Final = "docs/memory-accuracy.md"
WORST: Final = 15
HEADS: Final = ("source", "measured", "n", "median", "mean", "p90", "worst", "bias", "in interval", "state alone: mean")
#: Source -> largest mean error that is the goal; of the others, the median.
MEANS: Final = {"simumax": 0.01, "torchtitan": 0.06}
MEDIAN: Final = 0.1
COVERED: Final = (0.75, 0.85)


def page(shipped: Rows) -> DocsPage:
    """Return the page; its rows are predicted without their sources, where that is stored."""
    columns, rows = out_of_fold("memory", shipped), without("source", "memory", shipped)
    known = stated(rows)
    text = filled(
        "memory-accuracy.md",
        rows=len(rows),
        about=columns.about,
        left_out=columns.table(),
        apart=len(rows) - len(known),
        goals=_goals(known),
        sources=scores(known),
        quantities=_scores(known, _quantity),
        separate=scores([row for row in rows if row.case.apart]),
        inside=share(score(known).coverage),
        intervals=_intervals(known),
        peers=_peers(known),
        number=WORST,
        worst=_worst(known),
    )
    return DocsPage(path=PATH, text=text)


def scores(rows: Rows) -> str:
    """Return the table of scores by source and quantity."""
    return _scores(rows, lambda row: (f"`{row.case.source}`", SHORT[row.case.quantity]))


def _quantity(row: MemoryPrediction) -> tuple[str, str]:
    return f"all, {'training' if row.case.regime == 'train' else 'inference'}", SHORT[row.case.quantity]


def _groups(rows: Rows, key: Callable[[MemoryPrediction], tuple[str, str]]) -> list[tuple[tuple[str, str], Rows]]:
    """Return the rows by two names, in order of both."""
    groups = grouped(rows, lambda row: "|".join(key(row)))
    return [((name.split("|")[0], name.split("|")[1]), members) for name, members in groups.items()]


def _scores(rows: Rows, key: Callable[[MemoryPrediction], tuple[str, str]]) -> str:
    return table(HEADS, [(*names, *_cells(members)) for names, members in _groups(rows, key)], left=2)


def _cells(members: Rows) -> tuple[str, ...]:
    """Return the cells of a score."""
    scored = score(members)
    state = score(members, [row.state for row in members])
    errors = (scored.median, scored.mean, scored.p90, scored.worst)
    return (
        str(scored.n),
        *map(share, errors),
        share(scored.bias, signed=True),
        share(scored.coverage),
        share(state.mean),
    )


def _goals(rows: Rows) -> str:
    sources = grouped(rows, lambda row: row.case.source)
    cells = []
    for name, limit in MEANS.items():
        value = score(sources[name]).mean
        cells.append((f"`{name}`: mean", f"<= {share(limit)}", share(value), met(value <= limit)))
    for name, members in sources.items():
        if name not in MEANS:
            value = score(members).median
            cells.append((f"`{name}`: median", f"<= {share(MEDIAN)}", share(value), met(value <= MEDIAN)))
    inside = score(rows).coverage or 0.0
    low, high = COVERED
    cells.append(("80 % intervals, source left out", "75 % to 85 %", share(inside), met(low <= inside <= high)))
    return table(("rows", "goal", "now", "met"), cells, left=2)


def _peers(rows: Rows) -> str:
    """Return mean absolute errors of others beside ours: of published predictions row by row, or as measured elsewhere."""
    cells = []
    for name in ("simumax", "simumax-moe"):
        mine = [row for row in rows if row.case.source == name]
        theirs = score(mine, [row.case.peer or np.nan for row in mine]).mean
        ours = score(mine).mean
        cells.append(
            ("SimuMax", "`MooreThreads/SimuMax`", f"`{name}`, {len(mine)} rows", f"{theirs:.2%}", f"{ours:.2%}")
        )
    titan = score([row for row in rows if row.case.source == "torchtitan"]).mean
    cells.append(("cookbook", "`EleutherAI/cookbook`", "`torchtitan`", "10.9 %", share(titan)))
    return table(("tool", "repository", "rows", "its mean error", "roofsim's"), cells, left=3)


def _intervals(rows: Rows) -> str:
    cells = []
    for names, members in _groups(rows, _quantity):
        spans = [(row.interval[1] / row.interval[0]) ** 0.5 - 1.0 for row in members if row.interval is not None]
        cells.append((*names, str(len(members)), share(float(np.median(spans))), share(score(members).coverage)))
    return table(("regime", "measured", "n", "half width", "inside"), cells, left=2)


def _worst(rows: Rows) -> str:
    worst = sorted(rows, key=lambda row: -abs(row.error))[:WORST]
    cells = [
        (
            f"`{row.case.name}`",
            row.case.source,
            note(row),
            _gib(row.case.measured),
            _gib(row.predicted),
            share(row.error, signed=True),
        )
        for row in worst
    ]
    return table(("row", "source", "known cause", "measured", "predicted", "error"), cells, left=3)


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB"
