"""Read the stored predictions of constants that never saw a row's source, card or family."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Final

from roofsim_evidence.folds.kinds import ONCE
from roofsim_evidence.places import measurements
from roofsim_evidence.record.sets import Predicted, SetPrediction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.calibrate.cases import Case

FOLDER: Final = "out_of_fold"
#: What the columns of predictions begin with; what follows was left out.
PREFIX: Final = "without_"


def left_out(name: str, cases: Sequence[Case]) -> dict[str, Predicted]:
    """Return the predictions of a set by what was left out (``without_card``); nothing where none are stored.

    They have no intervals; rows that have no stored prediction are left out of both.
    """
    path = measurements() / FOLDER / f"{name}.csv"
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        stored = {line["name"]: line for line in csv.DictReader(file)}
    ways = [key for key in next(iter(stored.values()), {}) if key.startswith(PREFIX)]
    ways = [key for key in ways if name not in ONCE or key == f"{PREFIX}source"]
    known = [(case, stored[case.name]) for case in cases if case.name in stored]
    return {
        way: Predicted(
            rows=[SetPrediction(case=case, predicted=float(line[way])) for case, line in known if line[way]], refused=[]
        )
        for way in ways
    }
