"""Work out a `SampleTrace` for rows times the values of one more column: what few of the numbers decide once, the rest side by side.

Points are all products of some rows (a combination of the values of the other columns each) and of the values of one column, of
which only some belong to the trace. What does not depend on that column is worked out for the rows alone (`Replay`). Columns that
follow from it and have few values (micro batches in flight, bytes of a bucket) cut the points of a row into *stretches*, along which
they stay the same; what depends on them is worked out once for each stretch. What is left, operations on the column's own number and
on what follows from it in each point (the number of micro batches), takes one number of each stretch besides, never looks one up,
and goes through the processor's registers where it can be compiled (`roofsim.traced.compiled`).
"""

from __future__ import annotations

import functools
import math
import operator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.points import QUOTIENTS
from roofsim.records import dataclass
from roofsim.traced.compiled import compiled
from roofsim.traced.forms import refs
from roofsim.traced.replay import AT_ONCE, prepared, worked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from roofsim.traced.compiled import CompiledSteps
    from roofsim.traced.replay import Replay

#: Functions that work on each element by itself, besides numpy's of that kind and those that divide.
_EACH: Final = frozenset({np.where, np.isclose})
#: Stretches per point from which on a column that follows from the inner one is worked out in each point.
_SHORT: Final = 0.25


class NoGridError(Exception):
    """A trace cannot be worked out for rows times values: it must be for points."""


@dataclass
class GridRows:
    """The rows of a grid.

    Attributes
    ----------
    codes
        Bit of a column -> which of its values each row has.
    leaves
        Node of a leaf -> its value for each value of its column; those of the inner column: for each value of the grid.
    rows
        How many rows there are.
    values
        How many values the inner column has.
    """

    codes: dict[int, NDArray[Any]]
    leaves: Mapping[int, NDArray[Any]]
    rows: int
    values: int


@dataclass(frozen=True)
class GridSet:
    """Rows as far as a few columns tell them apart: a row of each combination, and the combination of each row."""

    first: NDArray[Any]
    place: NDArray[Any]


@dataclass(frozen=True)
class Stretches:
    """Points of a grid, row by row, and the stretches along which columns that follow from the inner one stay the same.

    Attributes
    ----------
    place, inner
        Row of each point, and its value of the inner column.
    starts
        First point of each stretch, and behind them how many points there are.
    columns
        Column -> its value in each stretch.
    """

    place: NDArray[Any]
    inner: NDArray[Any]
    starts: NDArray[np.int64]
    columns: dict[int, NDArray[Any]]

    @property
    def row(self) -> NDArray[Any]:
        """Row of each stretch."""
        return np.take(self.place, self.starts[:-1])

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return what each stretch has for each of its points."""
        return np.repeat(values, np.diff(self.starts))

    def of(self, columns: Iterable[int]) -> Stretches:
        """Return them with some of their columns alone."""
        return Stretches(self.place, self.inner, self.starts, {bit: self.columns[bit] for bit in columns})

    def kept(self, stay: NDArray[np.bool_]) -> Stretches:
        """Return some of the stretches."""
        points, lengths = self.spread(stay), np.diff(self.starts)[stay]
        columns = {bit: values[stay] for bit, values in self.columns.items()}
        return Stretches(self.place[points], self.inner[points], _ends(lengths), columns)


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
        self.elements = 0.0
        self._parts: dict[tuple[int, ...], Replay] = {}
        self._loops: dict[tuple[int, ...], _Loop] = {}

    def varies(self, number: int) -> bool:
        """Tell whether an operation depends on the inner column."""
        return bool(self.nodes[number].columns & self.varied)

    # -- what rows decide ------------------------------------------------------------------------------------------

    def of_rows(self, wanted: Iterable[int], rows: GridRows) -> dict[int, NDArray[Any]]:
        """Return operations that do not depend on the inner column, for each row."""
        return self._replayed(tuple(sorted(set(wanted))), rows, rows.codes, {}, rows.rows)

    def of_stretches(self, wanted: Iterable[int], rows: GridRows, cut: Stretches) -> dict[int, NDArray[Any]]:
        """Return operations that depend on no number of a single point, for each stretch."""
        row = cut.row
        codes = {bit: np.take(code, row) for bit, code in rows.codes.items()}
        given: dict[int, NDArray[Any]] = {}
        for bit, values in cut.columns.items():
            distinct, place = np.unique(values, return_inverse=True)
            codes[bit] = place.ravel()
            given |= {leaf: distinct for leaf in self.alias if self.nodes[leaf].columns == bit}
        return self._replayed(tuple(sorted(set(wanted))), rows, codes, given, len(row))

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
            leaf: given[leaf] if leaf in given else rows.leaves[self.replay.given.get(leaf, leaf)]
            for leaf in part.leaves
            if self.nodes[leaf].columns not in part.derived
        }
        needed = {self.nodes[leaf].columns for leaf in leaves}
        results, _, elements = part.worked_out(leaves, {bit: codes[bit] for bit in needed}, count, differ=False)
        self.elements += elements
        return {number: np.asarray(results[str(number)]) for number in wanted}

    # -- what a few columns and the inner one decide ---------------------------------------------------------------

    def on_grid(self, wanted: Sequence[int], rows: GridRows) -> tuple[GridSet, dict[int, NDArray[Any]]]:
        """Return operations for rows as far as they are told apart by what these depend on, times all values.

        Raises
        ------
        NoGridError
            Where one of them is not elementwise.
        """
        order, numbers, leaves = self._needed(wanted, self.varied)
        chosen = self._set_of(functools.reduce(operator.or_, (self.nodes[number].columns for number in wanted), 0), rows)
        at: dict[int, Any] = {
            number: values[chosen.first][:, np.newaxis] for number, values in self.of_rows(numbers, rows).items()
        }
        at |= {leaf: rows.leaves[self.replay.given.get(leaf, leaf)][np.newaxis] for leaf in leaves}
        shape = len(chosen.first), rows.values
        worked(self._steps(order, wanted), at, math.prod(shape))
        self.elements += len(order) * math.prod(shape)
        return chosen, {number: np.broadcast_to(at[number], shape) for number in wanted}

    def _set_of(self, columns: int, rows: GridRows) -> GridSet:
        """Tell rows apart by columns, and by what columns that follow from the inner one depend on."""
        columns = self._outer(columns)
        derived = {bit: node for bit, node in self.replay.derived.items() if bit & columns and bit not in rows.codes}
        for bit, node in derived.items():
            rows.codes[bit] = np.unique(self.of_rows([node], rows)[node], return_inverse=True)[1].ravel()
        numbers = np.zeros(rows.rows, dtype=np.int64)
        for bit, code in rows.codes.items():
            if bit & columns:
                numbers = numbers * (int(code.max()) + 1) + code
        _, first, place = np.unique(numbers, return_index=True, return_inverse=True)
        return GridSet(first, place.ravel())

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

    def stretches(self, rows: GridRows, mask: NDArray[np.bool_]) -> Stretches:
        """Return the points of a mask (rows times values), cut where columns that follow from the inner one change.

        Raises
        ------
        NoGridError
            Where columns cannot be worked out for the grid, or have numbers for which operations were not written anew.
        """
        place, inner = np.nonzero(mask)
        changes = np.ones(len(place), dtype=bool)
        np.not_equal(place[1:], place[:-1], out=changes[1:])
        if not self.following or not len(place):
            starts = np.append(np.flatnonzero(changes), len(place))
            return Stretches(place, inner, starts, {})
        chosen, made = self.on_grid(list(self.following.values()), rows)
        order = np.argsort(chosen.place, kind="stable")
        firsts = np.searchsorted(chosen.place[order], np.arange(len(chosen.first)))
        there = np.logical_or.reduceat(mask[order], firsts, axis=0)
        at = np.flatnonzero(there)
        heads = np.ones(len(at), dtype=bool)
        of_row = at // rows.values
        np.not_equal(of_row[1:], of_row[:-1], out=heads[1:])
        kept: dict[int, NDArray[Any]] = {}
        for bit, node in self.following.items():
            values = np.take(made[node], at)
            if bit == self.replay.positive and not (values > 0.0).all():
                raise NoGridError("numbers that are not positive")
            differ = values[1:] != values[:-1]
            if bit not in self.dense:
                self.dense[bit] = bool(np.count_nonzero(differ) > _SHORT * len(differ))
            if not self.dense[bit]:
                heads[1:] |= differ
                kept[bit] = values
        runs = np.empty(there.shape, dtype=np.int32)
        runs.ravel()[at] = np.cumsum(heads, dtype=np.int32) - np.int32(1)
        run = np.take(runs, chosen.place, axis=0)[mask]
        changes[1:] |= run[1:] != run[:-1]
        starts = np.flatnonzero(changes)
        of_run = np.flatnonzero(heads)[run[starts]]
        columns = {bit: np.take(values, of_run) for bit, values in kept.items()}
        return Stretches(place, inner, np.append(starts, len(place)), columns)

    def at_points(self, wanted: Sequence[int], rows: GridRows, cut: Stretches) -> dict[int, NDArray[Any]]:
        """Return operations for each point.

        Raises
        ------
        NoGridError
            Where one of them is not elementwise.
        """
        loop = self._loops.get(tuple(wanted))
        if loop is None:
            dense = self.inner | sum(bit for bit, yes in self.dense.items() if yes)
            loop = self._loops[tuple(wanted)] = self._loop([each for each in wanted if self.nodes[each].columns & dense], dense)
        alone = [number for number in wanted if number not in loop.wanted]
        of_each = self.of_stretches([*loop.numbers, *alone], rows, cut)
        made = {number: cut.spread(of_each[number]) for number in alone}
        values = np.empty((len(loop.leaves), len(cut.place)))
        for row, leaf in zip(values, loop.leaves, strict=True):
            np.take(rows.leaves[self.replay.given.get(leaf, leaf)], cut.inner, out=row)
        numbers = np.empty((len(cut.starts) - 1, len(loop.numbers)))
        for place, number in enumerate(loop.numbers):
            numbers[:, place] = of_each[number]
        self.elements += numbers.size + values.size + len(wanted) * len(cut.place)
        if loop.compiled is not None:
            done: Sequence[Any] = loop.compiled.run(numbers, cut.starts, values, len(loop.wanted))
        else:
            done = _plainly(loop, numbers, values, cut)
            self.elements += (len(loop.steps) + len(loop.numbers)) * len(cut.place)
        return made | dict(zip(loop.wanted, done, strict=True))

    def _loop(self, wanted: list[int], dense: int) -> _Loop:
        order, numbers, leaves = self._needed(wanted, dense)
        steps = self._steps(order, wanted)
        own = [number for number in order if number not in self.alias]
        return _Loop(wanted, numbers, leaves, steps, compiled(self.nodes, own, numbers, leaves, wanted, self.alias))


@dataclass(frozen=True)
class _Loop:
    """Operations of each point: those asked for, what they take of a stretch and of a point, and how they are done."""

    wanted: list[int]
    numbers: list[int]
    leaves: list[int]
    steps: list[Any]
    compiled: CompiledSteps | None


def _plainly(
    loop: _Loop, numbers: NDArray[np.float64], values: NDArray[np.float64], cut: Stretches
) -> list[NDArray[Any]]:
    """Work a loop out with numpy, so many points at a time as stay in the processor's cache."""
    points = len(cut.place)
    of_point = cut.spread(np.arange(len(numbers)))
    done = [np.empty(points) for _ in loop.wanted]
    for first in range(0, points, AT_ONCE):
        stop = min(first + AT_ONCE, points)
        here = of_point[first:stop]
        at: dict[int, Any] = {number: np.take(numbers[:, place], here) for place, number in enumerate(loop.numbers)}
        at |= {leaf: values[place, first:stop] for place, leaf in enumerate(loop.leaves)}
        worked(loop.steps, at, stop - first)
        for out, number in zip(done, loop.wanted, strict=True):
            out[first:stop] = at[number]
    return done


def _same(value: Any) -> Any:
    return value


def _ends(lengths: NDArray[Any]) -> NDArray[np.int64]:
    """Return where parts of these lengths begin, one behind the other, and where the last ends."""
    ends = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=ends[1:])
    return ends


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
