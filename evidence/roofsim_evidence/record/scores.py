"""Score every set whole and by cell: source, card, family and engine, as stated and as an ordinary user would state it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.calibrate.score import grouped, score
from roofsim.records import dataclass, fields
from roofsim_evidence.record.left_out import left_out
from roofsim_evidence.record.sets import SETS, predict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from roofsim.calibrate.cases import Case
    from roofsim_evidence.record.sets import Predicted, SetPrediction

#: Rows from which on a cell is recorded.
FEWEST: Final = 20
DIGITS: Final = 4
WHOLE: Final = "all"
#: What cells are made by.
CELLS: Final[dict[str, Callable[[Case], str]]] = {
    "source": lambda case: case.source,
    "card": lambda case: case.gpu,
    "family": lambda case: case.family,
    "engine": lambda case: case.engine,
}


@dataclass(frozen=True, kw_only=True)
class CellScore:
    """Errors of a cell, as shares; see `roofsim.calibrate.score.Score`.

    Attributes
    ----------
    by, cell
        What the cell is made by, and its name; both ``all`` for a whole set.
    refused
        Rows without a prediction.
    no_room
        Rows that ran, and are predicted not to fit.
    """

    by: str
    cell: str
    n: int
    median: float | None = None
    mean: float | None = None
    p90: float | None = None
    bias: float | None = None
    rank: float | None = None
    coverage: float | None = None
    refused: int = 0
    no_room: int = 0

    def to_list(self) -> list[Any]:
        """Return the values in the order of `COLUMNS`."""
        return [getattr(self, name) for name in COLUMNS]


COLUMNS: Final = tuple(field.name for field in fields(CellScore))


def cell_scores(predicted: Predicted) -> list[CellScore]:
    """Score a set as a whole, and each cell of `FEWEST` rows or more."""
    cells = [_scored(WHOLE, WHOLE, predicted.rows, len(predicted.refused))]
    for by, key in CELLS.items():
        refused = [key(case) for case, _ in predicted.refused]
        groups = _grouped(predicted.rows, refused, key)
        cells += [
            _scored(by, name, rows, refused.count(name))
            for name, rows in groups.items()
            if name and len(rows) + refused.count(name) >= FEWEST
        ]
    return cells


def _grouped(
    rows: Sequence[SetPrediction], refused: Iterable[str], key: Callable[[Case], str]
) -> dict[str, list[SetPrediction]]:
    groups: dict[str, list[SetPrediction]] = {name: [] for name in refused}
    groups |= grouped(rows, lambda row: key(row.case))
    return dict(sorted(groups.items()))


def _scored(by: str, cell: str, rows: Sequence[SetPrediction], refused: int) -> CellScore:
    if not rows:
        return CellScore(by=by, cell=cell, n=0, refused=refused)
    own = score(rows)
    values = {name: _rounded(getattr(own, name)) for name in ("median", "mean", "p90", "bias", "rank", "coverage")}
    return CellScore(by=by, cell=cell, n=own.n, **values, refused=refused, no_room=sum(not row.fits for row in rows))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS)


def score_set(name: str, *, plain: bool = False) -> list[CellScore]:
    """Predict a set and score it."""
    return cell_scores(predict(SETS[name].cases(), plain=plain))


def score_all() -> dict[str, dict[str, list[CellScore]]]:
    """Return the scores of every set: as ``stated``, ``plain``, and ``without_`` what stored predictions left out."""
    return {
        name: {"stated": score_set(name), "plain": score_set(name, plain=True)}
        | {way: cell_scores(rows) for way, rows in left_out(name, one.cases()).items() if rows.rows}
        for name, one in SETS.items()
    }
