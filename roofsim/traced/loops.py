"""Go through the points of a grid, stretch by stretch: what is left to do for each of them.

An operation takes results of others, numbers that are the same along a stretch, and the numbers of a point. Nothing is looked up.
Where it can be, all of it is one loop through the registers of the processor (`roofsim.traced.compiled`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roofsim.records import dataclass
from roofsim.traced.compiled import LANES, LoopStretches
from roofsim.traced.replay import AT_ONCE
from roofsim.traced.steps import worked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from roofsim.traced.compiled import CompiledSteps
    from roofsim.traced.grid_rows import Stretches


@dataclass(frozen=True)
class PointLoop:
    """Operations of each point.

    Attributes
    ----------
    numbers, leaves
        What they take of a stretch, and of a point.
    steps
        The operations, for `worked`.
    compiled
        The same as one loop of machine code; None where there is none.
    """

    numbers: list[int]
    leaves: list[int]
    steps: list[Any]
    compiled: CompiledSteps | None

    def put(self, given: LoopInput, wanted: Mapping[int, NDArray[np.float64]], offsets: NDArray[np.int64]) -> None:
        """Put the results of points where they belong.

        Parameters
        ----------
        wanted
            Operation -> where its results go: elements behind each other.
        offsets
            Where in these the results of each row begin.
        """
        if self.compiled is None:
            self._plainly(given, wanted, offsets)
            return
        cut, mask = given.cut, given.mask
        own = LoopStretches(given.numbers, cut.starts, cut.stops, offsets[cut.row], cut.row * mask.shape[1])
        self.compiled.run(own, given.values, mask, [*wanted.values()])

    def _plainly(self, given: LoopInput, wanted: Mapping[int, NDArray[np.float64]], offsets: NDArray[np.int64]) -> None:
        """Do the operations with numpy, for so many points at a time as stay in the processor's cache."""
        cut = given.cut
        of_stretch = np.repeat(np.arange(len(cut.row), dtype=np.int32), cut.stops - cut.starts)
        asked = given.mask[np.unique(cut.row), :-LANES]
        of_point, inner = of_stretch[asked.ravel()], np.nonzero(asked)[1]
        for first in range(0, len(inner), AT_ONCE):
            here, column = of_point[first : first + AT_ONCE], inner[first : first + AT_ONCE]
            at: dict[int, Any] = {
                node: np.take(given.numbers[:, place], here) for place, node in enumerate(self.numbers)
            }
            at |= {leaf: np.take(given.values[place], column) for place, leaf in enumerate(self.leaves)}
            worked(self.steps, at, len(here))
            place = np.take(offsets[cut.row], here) + column
            for node, result in wanted.items():
                result[place] = at[node]


@dataclass(frozen=True)
class LoopInput:
    """Points that a loop is done for.

    Attributes
    ----------
    numbers
        What each stretch gives: one row of numbers.
    values
        What each value of the inner column gives: a row for each leaf, and `LANES` more columns.
    cut
        The stretches: of a row that has any, all.
    mask
        Row times value of the inner column, and `LANES` more columns that are never asked for.
    """

    numbers: NDArray[np.float64]
    values: NDArray[np.float64]
    cut: Stretches
    mask: NDArray[np.bool_]
