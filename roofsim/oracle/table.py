"""Read a table of questions, whatever holds it, and hold the table of answers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.printed import Table
from roofsim.errors import Place, Problem, SpecError, did_you_mean
from roofsim.records import dataclass, field

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Version of names, units and meanings of kinds and columns: it changes where one of them does, not where a price does.
SCHEMA: Final = "roofsim/predict-batch/1"
#: Rows of a table at most.
MOST_ROWS: Final = 50_000_000

Column = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True, repr=False)
class PredictedTable(Table):
    """Answers, a row for each row of the table that was asked for.

    Attributes
    ----------
    kind
        What was priced.
    columns
        Name -> an array with a value per row: seconds, bytes, FLOPs, words. NaN, and an empty word, where a row has no answer.
    reasons
        Row -> why it has no answer.
    """

    kind: str
    columns: dict[str, NDArray[Any]]
    reasons: dict[int, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a column.

        Raises
        ------
        KeyError
            Names the columns there are.
        """
        if name not in self.columns:
            raise KeyError(f"no column {name!r}; there are {', '.join(self.columns)}")
        return self.columns[name]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data of schema roofsim/predict-batch/1."""
        shown = {name: [_plain(value) for value in values.tolist()] for name, values in self.columns.items()}
        return {"schema": SCHEMA, "kind": self.kind, "columns": shown, "reasons": dict(self.reasons)}


def answered(kind: str, columns: dict[str, NDArray[Any]], reasons: dict[int, str] | None = None) -> PredictedTable:
    """Return a table of answers."""
    names = list(columns)
    rows = _LazyRows(names, columns)
    return PredictedTable(title=f"{kind}s", rows=rows, kind=kind, columns=columns, reasons=reasons or {})  # type: ignore[arg-type]


class _LazyRows(Sequence[dict[str, Any]]):
    """The rows of columns, made when somebody looks at them."""

    def __init__(self, names: list[str], columns: dict[str, NDArray[Any]]) -> None:
        self.names, self.columns = names, columns

    def __len__(self) -> int:
        return len(self.columns[self.names[0]])

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        if not 0 <= place < len(self):
            raise IndexError(place)
        return {name: _plain(self.columns[name][place : place + 1].tolist()[0]) for name in self.names}


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def columns_of(table: Any) -> dict[str, Column]:
    """Return the columns of a table: a mapping of columns, rows that are mappings, or a data frame.

    Raises
    ------
    SpecError
        For something else, no rows, or columns of different lengths.
    """
    place = Place("table")
    if isinstance(table, Mapping) or (hasattr(table, "columns") and hasattr(table, "__getitem__")):
        names = list(table) if isinstance(table, Mapping) else list(table.columns)
        made = {str(name): _column(table[name], Place(f"table {name}")) for name in names}
    elif isinstance(table, Iterable) and not isinstance(table, str | bytes):
        made = _of_rows(list(table), place)
    else:
        raise SpecError(Problem(f"expected columns or rows; got {type(table).__name__}", place, hint=_EXAMPLE))
    lengths = {name: len(column) for name, column in made.items()}
    if not made or not max(lengths.values()):
        raise SpecError(Problem("has no rows", place, hint=_EXAMPLE))
    if len(set(lengths.values())) > 1:
        longest = max(lengths.values())
        made = {name: np.repeat(column, longest) if len(column) == 1 else column for name, column in made.items()}
        wrong = {name: length for name, length in lengths.items() if length not in (1, longest)}
        if wrong:
            said = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            raise SpecError(Problem(f"columns differ in their lengths: {said}", place))
    if len(next(iter(made.values()))) > MOST_ROWS:
        raise SpecError(Problem(f"has more than {MOST_ROWS} rows", place, hint="Ask in several parts."))
    return made


_EXAMPLE: Final = 'For example {"batch_size": [1, 8], "context_length": [1024, 4096]}.'


def _column(values: Any, place: Place) -> Column:
    column = np.atleast_1d(np.asarray(values))
    if column.ndim != 1:
        raise SpecError(Problem(f"expected one value per row; got an array of {column.ndim} dimensions", place))
    if column.dtype.kind in "iufb":
        return column
    return np.array([str(value) if isinstance(value, str) else value for value in column.tolist()], dtype=object)


def _of_rows(rows: list[Any], place: Place) -> dict[str, Column]:
    names: list[str] = []
    for row in rows:
        if not isinstance(row, Mapping):
            raise SpecError(Problem(f"expected rows that are mappings; got {type(row).__name__}", place, hint=_EXAMPLE))
        names += [str(name) for name in row if str(name) not in names]
    for number, row in enumerate(rows):
        missing = [name for name in names if name not in row]
        if missing:
            raise SpecError(Problem(f"row {number} has no {missing[0]}, which other rows have", place))
    return {name: _column([row[name] for row in rows], Place(f"table {name}")) for name in names}


def refuse_unknown(columns: Mapping[str, Any], known: Sequence[str], required: Sequence[str], kind: str) -> None:
    """Refuse columns that a kind does not have, and the absence of those it needs.

    Raises
    ------
    SpecError
        Lists near matches.
    """
    problems = [
        Problem(f"a {kind} has no column {name!r}", Place(f"table {name}"), hint=did_you_mean(name, list(known)))
        for name in columns
        if name not in known
    ]
    problems += [
        Problem(f"a {kind} needs the column {name!r}", Place("table"), hint=f"Columns: {', '.join(known)}.")
        for name in required
        if name not in columns
    ]
    if problems:
        raise SpecError(problems)


def numbers(
    columns: Mapping[str, Column], name: str, default: float | None = None, least: float = 0.0
) -> NDArray[np.float64]:
    """Return a column of numbers above `least`; the default where the table has none.

    Raises
    ------
    SpecError
        For a value that is no such number; names its row.
    """
    if name not in columns:
        rows = len(next(iter(columns.values())))
        return np.full(rows, default, dtype=np.float64)
    place = Place(f"table {name}")
    try:
        values = columns[name].astype(np.float64)
    except (TypeError, ValueError):
        raise SpecError(Problem("expected numbers", place)) from None
    wrong = np.flatnonzero(~(np.isfinite(values) & (values > least)))
    if len(wrong):
        value = columns[name][wrong[0]]
        raise SpecError(Problem(f"row {wrong[0]}: expected a number above {least:g}; got {value}", place))
    return values


def words(
    columns: Mapping[str, Column], name: str, default: str, known: Sequence[str] | None = None
) -> NDArray[np.object_]:
    """Return a column of words; the default where the table has none.

    Raises
    ------
    SpecError
        For a word that is not known; names its row and lists near matches.
    """
    if name not in columns:
        return np.full(len(next(iter(columns.values()))), default, dtype=object)
    values = columns[name].astype(object)
    for word in dict.fromkeys(values.tolist()):
        if known is not None and word not in known:
            row = int(np.flatnonzero(values == word)[0])
            hint = did_you_mean(str(word), list(known))
            raise SpecError(Problem(f"row {row}: unknown {name} {word!r}", Place(f"table {name}"), hint=hint))
    return values


def groups(*columns: NDArray[Any]) -> list[tuple[tuple[Any, ...], NDArray[np.int64]]]:
    """Return the combinations of words that there are, each with its rows."""
    rows: dict[tuple[Any, ...], list[int]] = {}
    for place, key in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        rows.setdefault(key, []).append(place)
    return [(key, np.array(places, dtype=np.int64)) for key, places in rows.items()]
