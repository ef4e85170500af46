"""Work out a `SampleTrace` for rows times the values of one more column.

Points are all products of some rows (a combination of the values of the other columns each) and of the values of one column, of
which only some belong to the trace. What does not depend on that column is worked out for the rows alone (`Replay`). Columns that
follow from it and have few values (micro batches in flight, bytes of a bucket) cut a row into *stretches*, along which they stay
the same; what depends on them is worked out once for each stretch. Left are operations on the column's own number and on what
follows from it in each point (the number of micro batches): `roofsim.traced.loops`.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.points import QUOTIENTS
from roofsim.traced.compiled import LANES, compiled
from roofsim.traced.forms import refs
from roofsim.traced.grid_rows import GridSet, Stretches
from roofsim.traced.loops import LoopInput, PointLoop
from roofsim.traced.replay import AT_ONCE
from roofsim.traced.steps import prepared, worked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from roofsim.traced.grid_rows import GridRows
    from roofsim.traced.replay import Replay

#: Functions that work on each element by itself, besides numpy's of that kind and those that divide.
_EACH: Final = frozenset({np.where, np.isclose})
#: Stretches per point from which on a column that follows from the inner one is worked out in each point.
_SHORT: Final = 0.25

#: Answers of rows or stretches that are kept for grids that have the same ones, and how many rows such an answer may have.
_MOST_KNOWN: Final = 4
_MOST_ROWS: Final = 8192


class NoGridError(Exception):
    """A trace cannot be worked out for rows times values: it must be for points."""


class GridReplay:
    """A `Replay` for grids.

    Parameters
    ----------
    inner
        Bit of the column whose values all rows share.
    """

    def __init__(self, replay: Replay, inner: int) -> None:
        self.replay, self.inner, self.nodes = replay, inner, replay.nodes
        self.following = _following(replay, inner)
        """Columns that follow from the inner one -> the operation that they are made of."""
        self.varied = inner | sum(self.following)
        self.dense: dict[int, bool] = {}
        """Of these, whether a column is worked out in each point, once that is known."""
        self.alias = {
            number: self.following[node.columns]
            for number, node in self.nodes.items()
            if node.function is None and node.columns in self.following
        }
        """Leaf of a column that follows -> the operation whose values it has."""
        self.elements = self.operations = 0.0
        self._parts: dict[tuple[int, ...], Replay] = {}
        self._loops: dict[tuple[int, ...], PointLoop] = {}
        self._grids: dict[tuple[int, ...], list[Any]] = {}
        self._known: OrderedDict[Any, dict[int, NDArray[Any]]] = OrderedDict()
        """What `_replayed` returned the last times, by what it was given."""

    def varies(self, number: int) -> bool:
        """Tell whether an operation depends on the inner column."""
        return bool(self.nodes[number].columns & self.varied)

    # -- what rows decide ------------------------------------------------------------------------------------------

    def of_rows(self, wanted: Iterable[int], rows: GridRows) -> dict[int, NDArray[Any]]:
        """Return operations that do not depend on the inner column, for each row."""
        return self._replayed(tuple(sorted(set(wanted))), rows, rows.codes, {}, rows.rows)

    def of_stretches(self, wanted: Iterable[int], rows: GridRows, cut: Stretches) -> dict[int, NDArray[Any]]:
        """Return operations that depend on no number of a single point, for each stretch."""
        codes = {bit: np.take(code, cut.row) for bit, code in rows.codes.items()}
        given: dict[int, NDArray[Any]] = {}
        for bit, values in cut.columns.items():
            distinct, place = np.unique(values, return_inverse=True)
            codes[bit] = place.ravel()
            given |= {leaf: distinct for leaf in self.alias if self.nodes[leaf].columns == bit}
        return self._replayed(tuple(sorted(set(wanted))), rows, codes, given, len(cut.row))

    def _replayed(
        self,
        wanted: tuple[int, ...],
        rows: GridRows,
        codes: Mapping[int, NDArray[Any]],
        given: Mapping[int, NDArray[Any]],
        count: int,
    ) -> dict[int, NDArray[Any]]:
        if not wanted:
            return {}
        part = self._parts.get(wanted)
        if part is None:
            part = self._parts[wanted] = self.replay.part(wanted, self.following)
        leaves = {
            leaf: given[leaf] if leaf in given else self._leaf(leaf, rows)
            for leaf in part.leaves
            if self.nodes[leaf].columns not in part.derived
        }
        own = {bit: codes[bit] for bit in {self.nodes[leaf].columns for leaf in leaves}}
        key = wanted, *(array.tobytes() for array in (*leaves.values(), *own.values()))
        known = self._known.pop(key, None)
        if known is None:
            results, _, elements = part.worked_out(leaves, own, count, differ=False)
            self.elements += elements
            known = {number: np.asarray(results[str(number)]) for number in wanted}
        if count <= _MOST_ROWS:
            self._known[key] = known
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        return known

    # -- what a few columns and the inner one decide ---------------------------------------------------------------

    def on_grid(self, wanted: Sequence[int], rows: GridRows, chosen: GridSet) -> dict[int, NDArray[Any]]:
        """Return operations for a row of each combination, times all values.

        Raises
        ------
        NoGridError
            Where one of them is not elementwise.
        """
        if not wanted:
            return {}
        order, numbers, leaves = self._needed(wanted, self.varied)
        steps = self._grids.get(tuple(wanted))
        if steps is None:
            steps = self._grids[tuple(wanted)] = self._steps(order, wanted)
        of_rows = self.of_rows(numbers, rows)
        given = {leaf: self._leaf(leaf, rows)[np.newaxis] for leaf in leaves}
        count, width = len(chosen.first), rows.values
        made: dict[int, NDArray[Any]] = {}
        tall = max(AT_ONCE // width, 1)
        for first in range(0, count, tall):
            here = chosen.first[first : first + tall]
            at: dict[int, Any] = {number: values[here][:, np.newaxis] for number, values in of_rows.items()} | given
            worked(steps, at, len(here) * width)
            for number in wanted:
                if number not in made:
                    made[number] = np.empty((count, width), np.asarray(at[number]).dtype)
                made[number][first : first + tall] = at[number]
        self.elements += len(order) * count * width
        return made

    def _leaf(self, leaf: int, rows: GridRows) -> NDArray[Any]:
        return rows.leaves[self.replay.given.get(leaf, leaf)]

    def told_apart(self, columns: int, rows: GridRows) -> GridSet:
        """Tell rows apart by columns that the inner one has no part in."""
        derived = {bit: node for bit, node in self.replay.derived.items() if bit & columns and bit not in rows.codes}
        for bit, node in derived.items():
            rows.codes[bit] = np.unique(self.of_rows([node], rows)[node], return_inverse=True)[1].ravel()
        numbers = np.zeros(rows.rows, dtype=np.int64)
        for bit, code in rows.codes.items():
            if bit & columns:
                numbers = numbers * (int(code.max()) + 1) + code
        _, first, place = np.unique(numbers, return_index=True, return_inverse=True)
        return GridSet(first, place.ravel())

    def outer(self, wanted: Iterable[int]) -> int:
        """Return the columns that tell rows apart as far as operations depend on them, and on columns that follow."""
        columns = 0
        for number in wanted:
            columns |= self.nodes[number].columns
        return self._outer(columns)

    def _outer(self, columns: int) -> int:
        outer = columns & ~self.varied
        for bit, node in self.following.items():
            if bit & columns:
                outer |= self._outer(self.nodes[node].columns)
        return outer

    def _needed(self, wanted: Iterable[int], varied: int) -> tuple[list[int], list[int], list[int]]:
        """Return operations that depend on `varied` columns, what else they take, and leaves of the inner column."""
        order: set[int] = set()
        numbers: set[int] = set()
        leaves: set[int] = set()
        todo = list(wanted)
        while todo:
            number = todo.pop()
            node = self.nodes[number]
            if not node.columns & varied:
                numbers.add(number)
            elif number in self.alias:
                todo.append(self.alias[number])
                order.add(number)
            elif node.function is None:
                leaves.add(number)
            elif number not in order:
                order.add(number)
                todo += refs((node.arguments, node.options))
        return sorted(order), sorted(numbers), sorted(leaves)

    def _steps(self, order: Sequence[int], wanted: Iterable[int]) -> list[Any]:
        """Return operations as `worked` does them.

        Raises
        ------
        NoGridError
            Where one of them is not elementwise.
        """
        last: dict[int, int] = {}
        taken = {
            number: [self.alias[number]] if number in self.alias else [*refs((node.arguments, node.options))]
            for number in order
            for node in (self.nodes[number],)
        }
        for number in order:
            last |= dict.fromkeys(taken[number], number)
        kept, steps = {*wanted}, []
        for number in order:
            node = self.nodes[number]
            free = tuple(ref for ref in set(taken[number]) if last[ref] == number and ref not in kept)
            if number in self.alias:
                steps.append((_same, self.alias[number], number, free))
                continue
            simple = isinstance(node.function, np.ufunc) or node.function in _EACH or node.function in QUOTIENTS
            if not simple or any(self.nodes[ref].shape != (-1,) for ref in (number, *taken[number])):
                raise NoGridError(f"{node.function} is not elementwise")
            steps.append((node.function, prepared(node), number, free))
        return steps

    # -- stretches, and what each point decides --------------------------------------------------------------------

    def settle(self, wanted: Iterable[int]) -> None:
        """Where operations on numbers of points are not elementwise, let each point be a stretch.

        Raises
        ------
        NoGridError
            Where that does not help.
        """
        try:
            self._loop_of(tuple(wanted))
        except NoGridError:
            self.dense = dict.fromkeys(self.dense, False)
            self._loop_of(tuple(wanted))

    def learn(self, made: Mapping[int, NDArray[Any]], mask: NDArray[np.bool_]) -> None:
        """Take note of which columns that follow from the inner one are worked out in each point: those of short stretches."""
        for bit, node in self.following.items():
            if bit not in self.dense and mask.any():
                values = made[node][mask]
                many = np.count_nonzero(values[1:] != values[:-1]) > _SHORT * (len(values) - 1)
                self.dense[bit] = bool(many or bit == self.replay.positive)

    def stretches(
        self, made: Mapping[int, NDArray[Any]], mask: NDArray[np.bool_], chosen: GridSet, fine: NDArray[np.bool_]
    ) -> Stretches:
        """Return the stretches of the rows that are fine.

        Parameters
        ----------
        made
            Operations that columns which follow are made of, of each combination of `chosen`.
        mask
            Points of these combinations of which at least one row has an answer: others say nothing.

        Raises
        ------
        NoGridError
            Where columns have numbers for which operations were not written anew.
        """
        at = np.flatnonzero(mask)
        of_set = at // mask.shape[1]
        heads = np.ones(len(at), dtype=bool)
        np.not_equal(of_set[1:], of_set[:-1], out=heads[1:])
        new = heads.copy()
        kept: dict[int, NDArray[Any]] = {}
        for bit, node in self.following.items():
            values = np.take(made[node], at)
            if bit == self.replay.positive and not (values > 0.0).all():
                raise NoGridError("numbers that are not positive")
            if not self.dense[bit]:
                heads[1:] |= values[1:] != values[:-1]
                kept[bit] = values
        head = np.flatnonzero(heads)
        starts = np.where(new[head], 0, at[head] - of_set[head] * mask.shape[1])
        stops = np.append(starts[1:], 0)
        stops = np.where(stops == 0, mask.shape[1], stops)
        counts = np.bincount(of_set[head], minlength=len(mask))
        rows = np.flatnonzero(fine & (counts[chosen.place] > 0))
        of_row = counts[chosen.place[rows]]
        row = np.repeat(rows, of_row)
        run = np.arange(len(row)) + np.repeat(
            (np.cumsum(counts) - counts)[chosen.place[rows]] - (np.cumsum(of_row) - of_row), of_row
        )
        columns = {bit: np.take(values, head[run]) for bit, values in kept.items()}
        return Stretches(row, starts[run], stops[run], columns)

    def at_points(
        self,
        wanted: Mapping[int, NDArray[np.float64]],
        offsets: NDArray[np.int64],
        rows: GridRows,
        cut: Stretches,
        mask: NDArray[np.bool_],
    ) -> None:
        """Work out operations for the points of a mask.

        Parameters
        ----------
        wanted
            Operation -> where its results go: elements behind each other.
        offsets
            Where in these the results of each row begin.
        mask
            Row times value of the inner column, and `LANES` more columns that are never asked for.

        Raises
        ------
        NoGridError
            Where one of them is not elementwise.
        """
        loop = self._loop_of(tuple(wanted))
        of_each = self.of_stretches(loop.numbers, rows, cut)
        numbers = np.empty((len(cut.row), len(loop.numbers)))
        for place, number in enumerate(loop.numbers):
            numbers[:, place] = of_each[number]
        values = np.ones((len(loop.leaves), rows.values + LANES))
        for place, leaf in enumerate(loop.leaves):
            values[place, : rows.values] = self._leaf(leaf, rows)
        points = int(np.count_nonzero(mask))
        self.elements += numbers.size + values.size + len(wanted) * points
        if loop.compiled is None:
            self.elements += (len(loop.steps) + len(loop.numbers)) * points
        else:
            self.operations += loop.compiled.operations * points
        loop.put(LoopInput(numbers, values, cut, mask), wanted, offsets)

    def _loop_of(self, wanted: tuple[int, ...]) -> PointLoop:
        if wanted in self._loops:
            return self._loops[wanted]
        order, numbers, leaves = self._needed(wanted, self.inner | sum(bit for bit, yes in self.dense.items() if yes))
        steps = self._steps(order, wanted)
        own = [number for number in order if number not in self.alias]
        self._loops[wanted] = PointLoop(
            numbers, leaves, steps, compiled(self.nodes, own, numbers, leaves, wanted, self.alias)
        )
        return self._loops[wanted]


def _same(value: Any) -> Any:
    return value


def _following(replay: Replay, inner: int) -> dict[int, int]:
    """Return the columns that follow from a column, and from these."""
    following: dict[int, int] = {}
    varied, before = inner, -1
    while before != varied:
        before = varied
        for bit, node in replay.derived.items():
            if replay.nodes[node].columns & varied:
                following[bit] = node
                varied |= bit
    return dict(sorted(following.items(), key=lambda each: each[1]))
