"""Resolve a table along its axes: where each axis changes numbers of its own, not every combination of their values is found.

Rows along each axis, through the first one, say what an axis changes. That no number follows from two of them is held against rows
apart from these: those with the extremes of all axes, which a limit or a larger of two numbers would show in, and some at random.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.records import dataclass
from roofsim.search.stacking import mapped, stack

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from roofsim.points import Points

#: Rows at random that are held against what the axes say each for itself.
CHECKED: Final = 32
#: Axes up to which all combinations of their extremes are.
_MOST_AXES: Final = 5


class InseparableError(Exception):
    """A number follows from several axes of a table, or some of its rows cannot be."""


@dataclass(frozen=True)
class TableCross:
    """The rows of a table along each of its axes.

    Attributes
    ----------
    shape
        Number of values of each axis.
    """

    shape: tuple[int, ...]

    def lines(self) -> list[NDArray[np.int64]]:
        """Return the rows along each axis, in the order of its values."""
        strides = [int(np.prod(self.shape[axis + 1 :])) for axis in range(len(self.shape))]
        return [np.arange(length) * stride for length, stride in zip(self.shape, strides, strict=True)]

    def joined(self, find: Callable[[int], Any], put: Callable[[int, NDArray[np.float64]], Any]) -> Any:
        """Return the parts of all rows as one.

        Parameters
        ----------
        find
            Number of a row -> its part.
        put
            Axis, and a number along it, one for each of its values -> what stands for that number of all points.

        Raises
        ------
        InseparableError
            When a number follows from several axes.
        """
        lines = self.lines()
        rows = list(dict.fromkeys(np.concatenate(lines).tolist()))
        places = [np.array([rows.index(row) for row in line.tolist()]) for line in lines]
        parts = [find(row) for row in rows]
        ends: list[set[int]] = [{0, length - 1} for length in self.shape]

        def note(numbers: Points) -> Points:
            values = np.asarray(numbers)
            axis = _axis_of(values, places)
            along = values[places[axis]]
            ends[axis] |= {int(along.argmin()), int(along.argmax())}
            return numbers

        mapped(stack(parts, [1] * len(parts)), note)
        checked = self._checked(ends)
        at = np.unravel_index(checked, self.shape)
        parts += [find(row) for row in checked]

        def held(numbers: Points) -> Points:
            values = np.asarray(numbers)
            axis = _axis_of(values[: len(rows)], places)
            if not np.array_equal(values[places[axis]][at[axis]], values[len(rows) :]):
                raise InseparableError
            return numbers

        def leaf(numbers: Points) -> Any:
            values = np.asarray(numbers)[: len(rows)]
            axis = _axis_of(values, places)
            return put(axis, values[places[axis]])

        whole = stack(parts, [1] * len(parts))
        mapped(whole, held)
        return mapped(whole, leaf)

    def _checked(self, ends: Sequence[set[int]]) -> list[int]:
        """Return rows apart from the lines: of the extremes of all axes, and at random."""
        size = int(np.prod(self.shape))
        corners = list(itertools.product(*map(sorted, ends))) if len(ends) <= _MOST_AXES else []
        rows = [int(np.ravel_multi_index(corner, self.shape)) for corner in corners]
        return [*dict.fromkeys([*rows, *np.random.default_rng(size).integers(0, size, CHECKED).tolist()])]


def _axis_of(values: NDArray[Any], places: Sequence[NDArray[np.int64]]) -> int:
    """Return the axis along which a number varies."""
    varies = [axis for axis, line in enumerate(places) if (values[line] != values[line[0]]).any()]
    if len(varies) != 1:
        raise InseparableError
    return varies[0]
