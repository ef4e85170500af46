"""Number the combinations of columns that points have, each set of columns once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

#: Combinations of columns up to which their rows are found by a table of all of them, for each row that is looked at.
_DENSE: Final = 8
#: As many are always.
_FEW: Final = 16_000


class Keys:
    """The combinations of columns that some points have.

    Parameters
    ----------
    codes
        Bit of a column -> which of its values each point has.
    counts
        Bit of a column -> how many values it has.
    rows
        How many points there are.
    differ
        Whether hardly two points have the same values of all these columns, so that they need not be found.
    """

    def __init__(
        self, codes: Mapping[int, NDArray[Any]], counts: Mapping[int, int], rows: int, *, differ: bool = True
    ) -> None:
        self.rows = rows
        self._counts = dict(counts)
        self._points = _KeySet(dict(codes), rows)
        self._sets: dict[int, _KeySet] = {}
        self._given = sum(codes) if differ else -1
        self._between: dict[tuple[int, int | None], NDArray[Any] | None] = {}

    def add(self, column: int, codes: NDArray[Any], count: int) -> None:
        """Add a column of all points."""
        self._points.codes[column], self._counts[column] = codes, count

    def prepare(self, columns: Iterable[int]) -> None:
        """Find the combinations of several sets of columns, the larger sets first: the smaller are found among theirs."""
        known = sum(self._counts)
        for each in sorted(columns, key=lambda bits: -bits.bit_count()):
            if each & known == each:
                self._set(each)

    def count(self, columns: int) -> int:
        """Return how many combinations of some columns there are."""
        return self._set(columns).rows

    def codes(self, columns: int, column: int) -> NDArray[Any]:
        """Return which value of one of them each combination of some columns has."""
        return self._set(columns).codes[column]

    def rows_of(self, fewer: int, columns: int | None = None) -> NDArray[Any] | None:
        """Return the row of each combination of `columns` (of each point) among those of fewer; None where they are the same."""
        own = self._set(fewer)
        key = fewer, columns
        if key not in self._between:
            other = self._points if columns is None else self._set(columns)
            same = own is other
            self._between[key] = None if same else own.place(self._number(fewer, other), other.rows)
        return self._between[key]

    def _set(self, columns: int) -> _KeySet:
        if columns not in self._sets:
            # Columns that others add say nothing new of a point.
            whole = columns & self._given == self._given
            self._sets[columns] = self._points if whole else self._made(columns)
        return self._sets[columns]

    def _made(self, columns: int) -> _KeySet:
        """Find the combinations of columns, among those of the fewest rows that have these columns."""
        own = [bit for bit in self._counts if bit & columns]
        sets = (self._points, *self._sets.values())
        able = (each for each in sets if all(bit in each.codes for bit in own))
        source = min(able, key=lambda each: each.rows)
        numbers = self._number(columns, source)
        size = 1
        for bit in own:
            size *= self._counts[bit]
        if size <= max(_DENSE * source.rows, _FEW):
            there = np.zeros(size, dtype=bool)
            there[numbers] = True
            first = np.flatnonzero(there)
            table: NDArray[Any] = np.cumsum(there, dtype=np.int32) - np.int32(1)
        else:
            first, table = np.unique(numbers), np.empty(0, dtype=np.int32)
        codes = {}
        left = first
        for bit in reversed(own):
            left, codes[bit] = np.divmod(left, self._counts[bit])
        return _KeySet(codes, len(first), first, table)

    def _number(self, columns: int, source: _KeySet) -> NDArray[Any]:
        """Return one number for each combination of some columns, of each row of a set."""
        own = [bit for bit in self._counts if bit & columns and self._counts[bit] > 1]
        size = math.prod(self._counts[bit] for bit in own)
        kind = np.int32 if size < np.iinfo(np.int32).max else np.int64
        numbers: Any = np.zeros(source.rows, dtype=kind)
        for place, bit in enumerate(own):
            if place:
                numbers *= kind(self._counts[bit])
            numbers += source.codes[bit].astype(kind, copy=False)
        return numbers  # type: ignore[no-any-return]


@dataclass
class _KeySet:
    """The combinations of some columns: the codes of each, and what finds the row of a combination by its number."""

    codes: dict[int, NDArray[Any]]
    rows: int
    numbers: NDArray[Any] | None = None
    table: NDArray[Any] | None = None

    def place(self, numbers: NDArray[Any], rows: int) -> NDArray[Any]:
        """Return the rows of combinations."""
        if self.table is None or self.numbers is None:
            return np.arange(rows)
        return np.take(self.table, numbers) if len(self.table) else np.searchsorted(self.numbers, numbers)
