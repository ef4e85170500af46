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
from roofsim_evidence.folds.parallel import mapped
from roofsim_evidence.markdown import table as markdown
from roofsim_evidence.pages import DocsPage, filled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.numeric import Array
    from roofsim.spec.constants.links import Links
    from roofsim_evidence.collectives.measured import Collectives, Mask

PATH: Final = "docs/collectives-accuracy.md"
#: What is left out of a fit together: all rows of a publisher, of a card, or of a machine.
KINDS: Final = ("source", "card", "machine")
#: Messages from here on are moved rather than waited for.
LARGE: Final = parse("16 MiB", "B")
Scores = dict[str, Score]


def scores(table: Collectives, predicted: Array) -> Scores:
    """Return the errors by part of the table."""
    parts = sorted(set(table.parts.tolist()))
    return {part: score_of(predicted[table.parts == part], table.seconds[table.parts == part]) for part in parts}


def left_out(table: Collectives, known: Links, kind: str) -> Array:
    """Return what is predicted of every row by constants without its publisher, its card or its machine.

    Parameters
    ----------
    known
        The constants with everything fitted: what a fold without a fitted row keeps.
    """
    names = table.names(kind)
    folds = sorted(set(names[table.fitted].tolist()))
    predicted = predict(table, known)
    for name, links in zip(
        folds, mapped(lambda one: fit(table, table.fitted & (names != one), known), folds), strict=True
    ):
        mine = names == name
        predicted[mine] = predict(table.only(mine), links)
    return predicted


def columns(table: Collectives, known: Links) -> dict[str, Array]:
    """Return what is predicted of every row: with everything fitted, and without each kind of fold."""
    ways = {"all fitted": predict(table, known)}
    return ways | {f"{kind} left out": left_out(table, known, kind) for kind in KINDS}


def by_size(table: Collectives) -> Collectives:
    """Return rows that are scored by part and by whether messages are large."""
    large = np.where(table.size >= LARGE, " from 16 MiB", " below 16 MiB")
    return replace(table, parts=np.char.add(table.parts, large))


def report_columns(table: Collectives, ways: dict[str, Array]) -> str:
    """Return the scores of several predictions of the same rows as a Markdown table: median / 90 % below / bias."""
    columns_of = [scores(table, predicted) for predicted in ways.values()]
    cells = [(part, str(one.n), *(_short(each[part]) for each in columns_of)) for part, one in columns_of[0].items()]
    return markdown(("part", "rows", *ways), cells)


def _short(one: Score) -> str:
    return f"{share(one.median)} / {100.0 * one.p90:.0f} % / {share(one.bias, signed=True)}"


def report(by_part: Scores) -> str:
    """Return scores as a Markdown table."""
    cells = [
        (part, str(one.n), share(one.median), f"{100.0 * one.p90:.0f} %", share(one.bias, signed=True))
        for part, one in by_part.items()
    ]
    return markdown(("part", "rows", "median error", "90 % below", "bias"), cells)


def page(table: Collectives, ways: dict[str, Array]) -> DocsPage:
    """Return the page from what `columns` makes of all rows."""
    logs, clean = table.publishers == "log", ~np.char.endswith(table.parts, "host clock")

    def some(rows: Mask, names: Sequence[str]) -> str:
        chosen = table.only(rows)
        return report_columns(by_size(chosen), {name: ways[name][rows] for name in names})

    text = filled(
        "collectives-accuracy.md",
        counts=f"{len(table):,} measured collectives, {int(table.fitted.sum()):,} of them fitted",
        left_out=some(~logs & clean, tuple(ways)),
        logs=some(logs, ("all fitted",)),
        host_clock=some(~clean, ("all fitted",)),
    )
    return DocsPage(path=PATH, text=text)
