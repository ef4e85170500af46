"""Number the combinations of columns that points have, each set of columns once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

#: Combinations of columns up to which their rows are found by a table of all of them, for each row that is looked at.
_DENSE: Final = 8
#: As many are always.
_FEW: Final = 16_000
#: Points per combination of the base, at least.
_SPARSE: Final = 16
_INT32: Final = int(np.iinfo(np.int32).max)


class Keys:
    """The combinations of columns that some points have.

    Columns of few values are the *base*: which of their combinations a point has is found once, and the combinations of fewer of
    them, and of what follows from them, are found among those of the base.

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
        self._base, self._follow = 0, 0
        """Columns of the base, and those that follow from them besides."""
        base = self._small(rows)
        if base.bit_count() > 1 and base != self._given:
            self._set(base)
            self._base = base

    def _small(self, rows: int) -> int:
        """Return the columns of the base."""
        most, base, size = rows // _SPARSE, 0, 1
        for bit in sorted(self._counts, key=self._counts.__getitem__):
            size *= self._counts[bit]
            if size > most:
                break
            base |= bit
        return base

    def add(self, column: int, codes: NDArray[Any], count: int, of: int) -> None:
        """Add a column that follows from others, `of`: which of its values each combination of these has."""
        self._counts[column] = count
        if self._base and of & (self._base | self._follow) == of:
            place = self.rows_of(of, self._base)
            self._sets[self._base].codes[column] = codes if place is None else np.take(codes, place)
            self._follow |= column
        else:
            place = self.rows_of(of)
            self._points.codes[column] = codes if place is None else np.take(codes, place)

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
        return self._codes(self._set(columns), column)

    def rows_of(self, fewer: int, columns: int | None = None) -> NDArray[Any] | None:
        """Return the row of each combination of `columns` (of each point) among those of fewer; None where they are the same."""
        own = self._set(fewer)
        key = fewer, columns
        if key not in self._between:
            other = self._points if columns is None else self._set(columns)
            self._between[key] = None if own is other else self._rows_among(fewer, own, other)
        return self._between[key]

    def _rows_among(self, fewer: int, own: _KeySet, other: _KeySet) -> NDArray[Any]:
        base = self._sets.get(self._base)
        if base is not None and other is self._points and own is not base and self._in_base(fewer):
            inner, place = self.rows_of(fewer, self._base), self.rows_of(self._base)
            assert inner is not None
            assert place is not None
            return np.take(inner, place)
        return own.place(self._number(own.parts, other), other.rows)

    def _in_base(self, columns: int) -> bool:
        return bool(self._base) and columns & (self._base | self._follow) == columns

    def _codes(self, source: _KeySet, bit: int) -> NDArray[Any]:
        if bit not in source.codes:  # a point's follows from the base
            place = self.rows_of(self._base)
            base = self._sets[self._base]
            source.codes[bit] = base.codes[bit] if place is None else np.take(base.codes[bit], place)
        return source.codes[bit]

    def _set(self, columns: int) -> _KeySet:
        if columns not in self._sets:
            # Columns that others add say nothing new of a point.
            whole = columns & self._given == self._given
            same = self._base and columns & self._base == self._base and self._in_base(columns)
            self._sets[columns] = self._points if whole else self._sets[self._base] if same else self._made(columns)
        return self._sets[columns]

    def _made(self, columns: int) -> _KeySet:
        """Find the combinations of columns, among those of the fewest rows that have these columns."""
        parts = self._parts(columns)
        sets = [each for bits, each in self._sets.items() if bits & columns == columns]
        if self._in_base(columns):
            sets.append(self._sets[self._base])
        source = min(sets, key=lambda each: each.rows, default=self._points)
        numbers = self._number(parts, source)
        size = math.prod(count for _, count in parts)
        if size <= max(_DENSE * source.rows, _FEW):
            there = np.zeros(size, dtype=bool)
            there[numbers] = True
            first = np.flatnonzero(there)
            table: NDArray[Any] = np.cumsum(there, dtype=np.int32)
            table -= np.int32(1)
        else:
            first, table = np.unique(numbers), np.empty(0, dtype=np.int32)
        codes: dict[int, NDArray[Any]] = {}
        left = first
        for part, count in reversed(parts):
            left, own = np.divmod(left, count)
            if part in self._counts:
                codes[part] = own
            else:
                inner = self._set(part)
                codes |= {bit: np.take(inner.codes[bit], own) for bit in self._counts if bit & part}
        return _KeySet(codes, len(first), first, table, parts)

    def _parts(self, columns: int) -> tuple[tuple[int, int], ...]:
        """Return what the number of a combination is made of: columns, or several of the base as one, with their counts."""
        inner = columns & (self._base | self._follow)
        if inner.bit_count() > 1 and inner != columns and self._base:
            others = [(bit, self._counts[bit]) for bit in self._counts if bit & columns & ~inner]
            return ((inner, self.count(inner)), *others)
        return tuple((bit, self._counts[bit]) for bit in self._counts if bit & columns)

    def _number(self, parts: Sequence[tuple[int, int]], source: _KeySet) -> NDArray[Any]:
        """Return one number for each combination of some columns, of each row of a set."""
        own = [(part, count) for part, count in parts if count > 1]
        kind = np.int32 if math.prod(count for _, count in own) < _INT32 else np.int64
        numbers: Any = np.zeros(source.rows, dtype=kind)
        for place, (part, count) in enumerate(own):
            if part in self._counts:
                codes = self._codes(source, part)
            elif source is self._points:
                row = self.rows_of(part)
                codes = np.arange(source.rows) if row is None else row
            else:
                inner = self._set(part)
                codes = inner.place(self._number(inner.parts, source), source.rows)
            if place:
                numbers *= kind(count)
            numbers += codes.astype(kind, copy=False)
        return numbers  # type: ignore[no-any-return]


@dataclass
class _KeySet:
    """The combinations of some columns: the codes of each, and what finds the row of a combination by its number."""

    codes: dict[int, NDArray[Any]]
    rows: int
    numbers: NDArray[Any] | None = None
    table: NDArray[Any] | None = None
    parts: tuple[tuple[int, int], ...] = ()
    """Columns that the numbers are made of, with the counts of their values."""

    def place(self, numbers: NDArray[Any], rows: int) -> NDArray[Any]:
        """Return the rows of combinations."""
        if self.table is None or self.numbers is None:
            return np.arange(rows)
        return np.take(self.table, numbers) if len(self.table) else np.searchsorted(self.numbers, numbers)
