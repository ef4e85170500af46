"""Score rows out of fold: a column each for what is left out, overall and for every large cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from roofsim.analyze.distance import parts_of, spread
from roofsim.analyze.intervals import around
from roofsim.calibrate.cases import BYTES
from roofsim.calibrate.predict import Prediction
from roofsim.calibrate.score import grouped, score
from roofsim.records import dataclass, replace
from roofsim.spec.constants.intervals import shipped
from roofsim_evidence import markdown
from roofsim_evidence.folds import files
from roofsim_evidence.folds.kinds import KINDS, ONCE, family_of, publisher_of
from roofsim_evidence.intervals.fit import amounts_of
from roofsim_evidence.intervals.rows import RATES, known_without, row_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from roofsim.calibrate.score import Score
    from roofsim.spec.constants.intervals import MeasuredRuns
    from roofsim_evidence.intervals.known import Residual

Row = TypeVar("Row", bound=Prediction)

#: Rows from which a cell is large: its coverage says something.
LARGE: Final = 20
#: What rows are told apart by in cells.
CELLS: Final[dict[str, Callable[[Prediction], str]]] = {
    "source": lambda row: publisher_of(row.case),
    "card": lambda row: row.case.gpu,
    "architecture": lambda row: row.architecture,
    "family": lambda row: family_of(row.case),
    "engine": lambda row: row.case.engine,
    "regime": lambda row: row.case.regime,
}
HEADS: Final = ("rows", "n", "all fitted", *(f"{kind} left out" for kind in KINDS))


@dataclass(frozen=True, kw_only=True)
class OutOfFold:
    """The rows of a set as they are predicted by the shipped constants, and by constants that never saw a fold.

    Attributes
    ----------
    shipped
        All rows, in their order.
    left_out
        What was left out -> the same rows; empty where nothing is stored of today's predictions.
    moved
        How many shipped predictions are no longer those beside which the others were stored.
    """

    name: str
    shipped: tuple[Prediction, ...]
    left_out: dict[str, tuple[Prediction, ...]]
    moved: int

    @property
    def about(self) -> str:
        """Say why there are no columns, if there are none."""
        if not self.moved:
            return ""
        command = "`evidence fit folds --write`"
        return f"{self.moved} shipped predictions have moved since {command} ran, so nothing is known out of fold; run it again."

    def scores(self, chosen: Callable[[Prediction], bool] = lambda _: True) -> dict[str, Score]:
        """Return the scores of some rows: with everything fitted, and without each kind of fold."""
        ways = {"all fitted": self.shipped, **self.left_out}
        rows = {way: [row for row in mine if chosen(row)] for way, mine in ways.items()}
        return {way: score(mine) for way, mine in rows.items() if mine}

    def table(self) -> str:
        """Return the table of all rows and of every large cell: median / p90 / bias / coverage."""
        cells = [self.line("all")] if self.shipped else []
        for kind, key in CELLS.items():
            for name, members in grouped(self.shipped, key).items():
                if LARGE <= len(members) < len(self.shipped):
                    cells.append(self.line(f"{kind} {name}", _in({row.case.name for row in members})))
        return markdown.table(HEADS, cells)

    def line(self, head: str, chosen: Callable[[Prediction], bool] = lambda _: True) -> tuple[str, ...]:
        """Return the line of some rows."""
        scores = self.scores(chosen)
        ways = ("all fitted", *KINDS)
        shown = [errors(scores[way]) if way in scores else "-" for way in ways]
        return head, str(scores["all fitted"].n), *shown


def _in(names: set[str]) -> Callable[[Prediction], bool]:
    return lambda row: row.case.name in names


def errors(scored: Score) -> str:
    """Return median / p90 / bias / coverage, in percent."""
    covered = "-" if scored.coverage is None else f"{scored.coverage:.0%}"
    return f"{scored.median:.1%} / {scored.p90:.1%} / {scored.bias:+.1%} / {covered}"


def out_of_fold(name: str, rows: Sequence[Prediction]) -> OutOfFold:
    """Return a set's rows in every way that is stored of them."""
    stored = files.read(name)
    moved = files.moved(stored, ((row.case.name, row.predicted) for row in rows))
    kinds = () if moved else ("source",) if name in ONCE else tuple(KINDS)
    ways = {kind: tuple(_without(rows, kind, stored)) for kind in kinds}
    return OutOfFold(name=name, shipped=tuple(rows), left_out=ways, moved=len(moved))


def without(kind: str, name: str, rows: Sequence[Row]) -> list[Row]:
    """Return a set's rows as predicted without their source, card or family; as they are where that is not stored of today."""
    stored = files.read(name)
    if files.moved(stored, ((row.case.name, row.predicted) for row in rows)):
        return list(rows)
    return list(_without(rows, kind, stored))


def _without(rows: Sequence[Row], kind: str, stored: dict[str, files.Stored]) -> Iterable[Row]:
    """Return the rows without their folds: predictions by constants, and intervals by knowledge, of what is left."""
    known = known_without(kind, {KINDS[kind](row.case) for row in rows})
    for row in rows:
        own = stored[row.case.name]
        ends = None
        if row.interval is not None:
            ends = _ends(row_of(row.case, own), own.left_out[kind], known[KINDS[kind](row.case)])
        yield replace(row, predicted=own.left_out[kind], interval=ends)


def _ends(row: Residual, value: float, known: Mapping[str, MeasuredRuns]) -> tuple[float, float]:
    """Return the interval of a row, by the shipped terms beside what a fold leaves."""
    memory = row.case.quantity in BYTES
    counted = amounts_of(row, known, predicted=value, memory=memory)
    below, above = spread(parts_of(counted, shipped().ends("memory" if memory else "time")))
    if row.case.quantity in RATES:
        below, above = above, below
    return around(value, below, above)
