"""Predict every row of some sets without its source, without its card and without its family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.records import replace
from roofsim_evidence.folds import files
from roofsim_evidence.folds.files import Stored
from roofsim_evidence.folds.kinds import KINDS, ONCE, Fold, folds_of
from roofsim_evidence.folds.parallel import mapped
from roofsim_evidence.left_out.refits import Refit, fittable
from roofsim_evidence.left_out.sets import SETS, changes, in_sight, predicted, priced

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from roofsim.calibrate.cases import Case


def write_all(names: Sequence[str], report: Callable[[str], None], *, write: bool = True) -> list[Path]:
    """Fit without each fold, predict the rows of some sets, and store the predictions; return the files."""
    cases = {name: SETS[name]() for name in names}
    every = [(name, case) for name, rows in cases.items() for case in rows]
    folds = [fold for kind in KINDS for fold in folds_of((case for name, case in every if name not in ONCE), kind)]
    refits = _refits(folds, report) if folds else {}
    stored = mapped(lambda one: _row(*one, refits), every)
    paths, rest = [], iter(stored)
    for name, mine in cases.items():
        chosen = {case.name: row for case in mine if (row := next(rest)) is not None}
        if write:
            paths.append(files.write(name, chosen))
        report(f"{name}: {len(chosen)} of {len(mine)} rows")
    return paths


def _refits(folds: Sequence[Fold], report: Callable[[str], None]) -> dict[Fold, Refit]:
    """Fit without each fold."""
    rows = fittable()
    report(f"{len(rows.cases)} steps and {len(rows.facts)} engines priced")
    refits = dict(zip(folds, mapped(rows.without, folds), strict=True))
    report(f"{len(folds)} folds fitted")
    return refits


def _row(name: str, case: Case, refits: Mapping[Fold, Refit]) -> Stored | None:
    """Return the predictions of a row of a set; None where it is not answered."""
    answer = priced(case, Refit())
    if answer is None:
        return None
    shipped, traits = answer
    left_out = dict.fromkeys(KINDS, shipped)
    for kind, name_of in () if name in ONCE else KINDS.items():
        refit = refits[Fold(kind=kind, name=name_of(case))]
        value = predicted(case, refit) if changes(case, refit) else shipped
        left_out[kind] = shipped if value is None else value
    return Stored(shipped=shipped, left_out=left_out, traits=replace(traits, in_sight=in_sight(name, case)))
