"""Fill docs/out-of-fold.md: every set beside each other, a column for each kind of thing that is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.analyze.distance import parts_of, spread
from roofsim.analyze.intervals import around
from roofsim.calibrate.cases import BYTES
from roofsim.calibrate.predict import Prediction
from roofsim.calibrate.score import grouped, score
from roofsim.records import replace
from roofsim.spec.constants.intervals import shipped
from roofsim_evidence.cases import load
from roofsim_evidence.columns import CELLS, LARGE, errors, out_of_fold
from roofsim_evidence.folds import files
from roofsim_evidence.folds.kinds import KINDS
from roofsim_evidence.intervals import draws
from roofsim_evidence.intervals.check import coverage
from roofsim_evidence.intervals.fit import amounts_of
from roofsim_evidence.intervals.rows import FILES, RATES, all_rows, row_of
from roofsim_evidence.markdown import table
from roofsim_evidence.pages import DocsPage, filled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim_evidence.columns import OutOfFold

PATH: Final = "docs/out-of-fold.md"
#: The set that nothing is fitted to: its machines are known, and each is left out as it is.
UNFITTED: Final = "mlperf-training"
#: Ends of the band in which the coverage of a large cell is to lie.
BAND: Final = (0.7, 0.9)
WAYS: Final = ("all fitted", *KINDS)


def stored_rows(name: str) -> list[Prediction]:
    """Return the rows of a set with their shipped predictions, as stored, and with the interval that a user gets."""
    stored, known = files.read(name), shipped()
    rows = []
    for case in load(FILES[name]):
        if case.name in stored:
            row = row_of(case, stored[case.name])
            memory = case.quantity in BYTES
            fresh = replace(row, traits=replace(row.traits, in_sight=False))
            predicted = stored[case.name].shipped
            counted = amounts_of(fresh, known.measured, predicted=predicted, memory=memory)
            below, above = spread(parts_of(counted, known.ends("memory" if memory else "time")))
            ends = (above, below) if case.quantity in RATES else (below, above)
            architecture = row.traits.architecture
            rows.append(
                Prediction(case=case, predicted=predicted, interval=around(predicted, *ends), architecture=architecture)
            )
    return rows


def page() -> DocsPage:
    """Return the page."""
    sets = {name: out_of_fold(name, stored_rows(name)) for name in FILES}
    text = filled(
        "out-of-fold.md",
        sets=table(("set", "n", *WAYS, "machine"), [_line(name, one) for name, one in sets.items()]),
        cells=table(("left out", "cells", "inside the band", "out of it"), _cells(list(sets.values()))),
        large=LARGE,
        widths=coverage(),
        pairs=_pairs(),
    )
    return DocsPage(path=PATH, text=text)


def _line(name: str, one: OutOfFold) -> tuple[str, ...]:
    scores = one.scores()
    shown = [errors(scores[way]) if way in scores else "-" for way in WAYS]
    return name, str(len(one.shipped)), *shown, errors(scores["all fitted"]) if name == UNFITTED else "not stated"


def _cells(sets: Sequence[OutOfFold]) -> list[tuple[str, ...]]:
    """Return by column how many large cells are covered as they should be, and which are not."""
    lines: list[tuple[str, ...]] = []
    for kind in KINDS:
        covered = {
            f"{one.name}: {cell} {name}": score(members).coverage
            for one in sets
            for cell, key in CELLS.items()
            for name, members in grouped(one.left_out.get(kind, ()), key).items()
            if LARGE <= len(members) < len(one.shipped)
        }
        outside = {
            name: share for name, share in covered.items() if share is not None and not BAND[0] <= share <= BAND[1]
        }
        names = ", ".join(f"{name} {share:.0%}" for name, share in sorted(outside.items(), key=lambda one: one[1]))
        lines.append((kind, str(len(covered)), str(len(covered) - len(outside)), names))
    return lines


def _pairs() -> str:
    """Return the bias of each engine on each architecture that was young then: draws of what software takes to learn a chip."""
    biases = draws.biases(all_rows(), draws.young_pair)
    cells = [(name, f"{bias:+.1%}") for name, bias in sorted(biases.items(), key=lambda one: one[1])]
    return table(("engine and architecture", "measured against predicted, median logarithm"), cells)
