"""Score the constants of links, and fill docs/collectives-accuracy.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.calibrate.score import Score, score_of
from roofsim.records import replace
from roofsim.report.scores import share
from roofsim.units import parse
from roofsim_evidence.collectives.fit import fit
from roofsim_evidence.collectives.measured import predict
from roofsim_evidence.markdown import table as markdown
from roofsim_evidence.pages import DocsPage, filled

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.numeric import Array
    from roofsim.spec.constants.links import Links
    from roofsim_evidence.collectives.measured import Collectives

PATH: Final = "docs/collectives-accuracy.md"
#: Systems whose rows may be fitted, to be left out one at a time.
LEFT_OUT: Final = (
    "dgx-a100", "dgx-h100", "dgx-b200", "azure-nc96ads-a100-v4", "server-4x-h100-pcie-nvlink", "server-8x-arc-b60",
    "server-8x-gtx1080ti", "server-8x-p100-pcie",
)  # fmt: skip
#: Messages from here on are moved rather than waited for.
LARGE: Final = parse("16 MiB", "B")
Scores = dict[str, Score]


def scores(table: Collectives, predicted: Array) -> Scores:
    """Return the errors by part of the table."""
    parts = sorted(set(table.parts.tolist()))
    return {part: score_of(predicted[table.parts == part], table.seconds[table.parts == part]) for part in parts}


def held_out_scores(table: Collectives, links: Links) -> Scores:
    """Return the errors on the rows that were not fitted."""
    held = table.only(~table.fitted)
    return scores(held, predict(held, links))


def left_out(table: Collectives, known: Links) -> Scores:
    """Return the errors on each system with all of its rows left out of the fit, engines' own kernels apart."""
    by_system: Scores = {}
    for system in LEFT_OUT:
        mine = table.of(system=system)
        links = fit(table, table.fitted & ~mine, known)
        rows = table.only(mine & ~table.unfit & (table.per_node == table.ranks))
        large = np.where(rows.size >= LARGE, " from 16 MiB", " below 16 MiB")
        rows = replace(rows, parts=np.char.add(rows.parts, large))
        by_system |= scores(rows, predict(rows, links))
    return by_system


def report(by_part: Scores) -> str:
    """Return scores as a Markdown table."""
    cells = [
        (part, str(one.n), share(one.median), f"{100.0 * one.p90:.0f} %", share(one.bias, signed=True))
        for part, one in by_part.items()
    ]
    return markdown(("part", "rows", "median error", "90 % below", "bias"), cells)


def page(table: Collectives, links: Links, transferred: Scores) -> DocsPage:
    """Return the page; `transferred` are the scores of systems that were left out of the fit."""
    held_out = held_out_scores(table, links)

    def some(wanted: Callable[[str], bool]) -> str:
        return report({part: one for part, one in held_out.items() if wanted(part)})

    text = filled(
        "collectives-accuracy.md",
        counts=f"{len(table):,} measured collectives, {int(table.fitted.sum()):,} of them fitted",
        held_out=some(lambda part: not part.startswith("log ") and _clean(part)),
        logs=some(lambda part: part.startswith("log ")),
        transferred=report(transferred),
        host_clock=some(lambda part: not _clean(part)),
    )
    return DocsPage(path=PATH, text=text)


def _clean(part: str) -> bool:
    return not part.endswith("host clock")
