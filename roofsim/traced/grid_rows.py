"""Describe the rows of a grid: what they have, which of them a few columns tell apart, and the stretches of their points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray


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

    def any(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return for each combination, and each value of the inner column, whether one of its rows is in a mask."""
        order = np.argsort(self.place, kind="stable")
        firsts = np.searchsorted(self.place[order], np.arange(len(self.first)))
        there: NDArray[np.bool_] = np.logical_or.reduceat(mask[order], firsts, axis=0)
        return there


@dataclass(frozen=True)
class Stretches:
    """Stretches of the rows of a grid, along which columns that follow from the inner one stay the same; they cover whole rows.

    Attributes
    ----------
    row
        Row of each stretch, in order.
    starts, stops
        Its first value of the inner column, and the first behind it.
    columns
        Column -> its value in each stretch.
    """

    row: NDArray[np.int64]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    columns: dict[int, NDArray[Any]]

    def of(self, columns: Iterable[int]) -> Stretches:
        """Return them with some of their columns alone."""
        return Stretches(self.row, self.starts, self.stops, {bit: self.columns[bit] for bit in columns})
