"""Evaluate all products of some numbers of layouts by the million: the programs of a `FamilyMesh`, on grids.

The column with the most values is the inner one of the grids; every combination of the values of the others is a row. A program
(`TracedProgram`) says of each point by rules and guards whether it belongs to it, and gives the figures of those that do
(`roofsim.traced.grid`). Points of which no program is known yet are given to `FamilyMesh`, which traces one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.search.axes import AxisGrid
from roofsim.search.families import Rows, ScenarioFamily
from roofsim.search.grid_program import NONE_BROKEN, grid_of
from roofsim.search.mesh import MeshAnswer, axis_of_number, mesh_of
from roofsim.search.resolving import Shared
from roofsim.search.sampling import FIGURES, floats
from roofsim.traced.grid import NoGridError
from roofsim.traced.grid_rows import GridRows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from roofsim.search.grid_program import GridProgram
    from roofsim.search.mesh import FamilyMesh
    from roofsim.spec.reading.source import Document
    from roofsim.spec.reading.told_apart import Importer

#: Points that are worked on at once.
AT_ONCE: Final = 1 << 20
#: Points that are given to `FamilyMesh` at once, to find the programs of others like them.
_TRIED: Final = 20_000
#: As many when it is known that no further program is found.
_MANY: Final = 200_000


class _Grid:
    """The answer of all points, filled program by program."""

    def __init__(self, mesh: FamilyMesh, outer: Rows, inner: str) -> None:
        self.mesh, self.outer, self.inner = mesh, outer, inner
        self.axis, values = outer.family.numbers[inner]
        self.values = floats(values)
        self.shape = len(outer), len(values)
        self.left = np.ones(self.shape, dtype=bool)
        self.answer = MeshAnswer(
            {name: np.full(self.shape, np.nan) for name in FIGURES}, np.full(self.shape, -1, np.int16)
        )
        self.asked: set[int] = set()
        """Programs whose points are all answered."""

    def fill(self) -> None:
        """Answer all points: by the programs that are known, then by those of points that none of them knows."""
        self._known()
        while self.left.any():
            before = len(self.mesh.programs)
            self._one_by_one(_TRIED)
            if len(self.mesh.programs) > before:
                self._known()
            elif self.left.any():
                self._one_by_one(_MANY)

    def _known(self) -> None:
        for program in list(self.mesh.programs):
            if id(program) not in self.asked:
                self.asked.add(id(program))
                grid = grid_of(program, self.inner)
                if grid is not None:
                    self._program(grid)

    def _program(self, grid: GridProgram) -> None:
        rows, values = grid.own(self.outer, self.values)
        rows &= self.left.any(axis=1)
        own = np.flatnonzero(rows)
        if not len(own) or not values.any():
            return
        given = grid.rows(self.outer.part(own), self.values)
        wide = max(AT_ONCE // len(own), 256)
        for first in range(0, len(values), wide):
            here = slice(first, min(first + wide, len(values)))
            leaves = {leaf: each[here] if each is self.values else each for leaf, each in given.leaves.items()}
            part = GridRows(given.codes, leaves, len(own), here.stop - first)
            try:
                self._part(grid, own, here, part, values[here])
            except NoGridError:
                return

    def _part(
        self, grid: GridProgram, own: NDArray[Any], here: slice, rows: GridRows, values: NDArray[np.bool_]
    ) -> None:
        every = len(own) == self.shape[0]
        left = self.left[:, here] if every else self.left[own, here]
        if not values.all():
            left = left & values
        if not left.any():
            return
        part = grid.part(rows, left)
        mask = part.mask[:, : rows.values]
        grid.fill(rows, part, self.answer.figures, own * self.shape[1] + here.start)
        for name, value in grid.program.figures.constants.items():
            figures = self.answer.figures[name][:, here]
            if every:
                np.copyto(figures, value, where=mask)
            else:
                figures[own] = np.where(mask, value, figures[own])
        elements, operations = grid.spent()
        self.answer.elements, self.answer.operations = (
            self.answer.elements + elements,
            self.answer.operations + operations,
        )
        done = mask | self._refused(grid, own, here, part.broken)
        if every:
            self.left[:, here] &= ~done
        else:
            self.left[own, here] &= ~done
        grid.program.answers += int(np.count_nonzero(mask))

    def _refused(
        self, grid: GridProgram, own: NDArray[Any], here: slice, broken: NDArray[np.int16]
    ) -> NDArray[np.bool_]:
        """Take note of points that break a rule, and return them."""
        refused: NDArray[np.bool_] = broken != NONE_BROKEN
        at_rule = np.flatnonzero(np.bincount(broken[refused]))
        if len(at_rule):
            code_of = np.full(NONE_BROKEN + 1, -1, dtype=np.int16)
            for number in at_rule:
                code = grid.program.rules[number]
                if code not in self.answer.codes:
                    self.answer.codes.append(code)
                code_of[number] = self.answer.codes.index(code)
            said = self.answer.refused[:, here]
            if len(own) == len(said):
                np.copyto(said, code_of[broken], where=refused)
            else:
                said[own] = np.where(refused, code_of[broken], said[own])
        return refused

    def _one_by_one(self, most: int) -> None:
        """Give some of the points that are left to the mesh."""
        at = np.flatnonzero(self.left)
        if len(at) > most:
            at = np.sort(np.random.default_rng(len(at)).permutation(at)[:most])
        place, value = np.unravel_index(at, self.shape)
        every = [index[place] for index in self.outer.at]
        every[self.axis] = value
        own = self.mesh.evaluate(Rows(self.outer.family, at, tuple(every)))
        for name, figures in own.figures.items():
            self.answer.figures[name].ravel()[at] = figures
        for number, code in enumerate(own.codes):
            if code not in self.answer.codes:
                self.answer.codes.append(code)
            self.answer.refused.ravel()[at[own.refused == number]] = self.answer.codes.index(code)
        self.answer.left += [at[left] for left in own.left]
        self.answer.elements += own.elements
        self.answer.programs += own.programs
        self.left.ravel()[at] = False


def evaluate_product(
    document: Document,
    axes: Mapping[str, Sequence[float] | NDArray[Any]],
    importer: Importer | None = None,
    shared: Shared | None = None,
) -> MeshAnswer:
    """Return the figures of all products of some numbers of a scenario.

    Parameters
    ----------
    document
        The scenario: its words, and the numbers that all layouts have.
    axes
        Field of a `Point` (``tensor``, ``pipeline``, ``micro_batch_size``, ``gpus`` ...) -> its values, each once.

    Returns
    -------
    MeshAnswer
        As that of `evaluate_layouts`, but for the shape: figures have one dimension for each axis, in the order in which they are
        given.
    """
    own = [axis_of_number(name, np.asarray(values).tolist()) for name, values in axes.items()]
    for axis in own:
        document = axis.put(document, axis.values[0])
    sizes = [len(axis.values) for axis in own]
    inner = int(np.argmax(sizes))
    outer = [place for place in range(len(own)) if place != inner]
    count = math.prod(sizes[place] for place in outer)
    index = np.unravel_index(np.arange(count), [sizes[place] for place in outer]) if outer else ()
    at = [np.zeros(count, dtype=np.int64)] * len(own)
    for place, values in zip(outer, index, strict=True):
        at[place] = values
    numbers = {name: (place, list(own[place].values)) for place, name in enumerate(axes)}
    family = ScenarioFamily(document, AxisGrid(tuple(own)), numbers, {})
    mesh = mesh_of(family, importer, Shared() if shared is None else shared)
    grid = _Grid(mesh, Rows(family, np.arange(count), tuple(at)), list(axes)[inner])
    grid.fill()
    shape = [*(sizes[place] for place in outer), sizes[inner]]
    answer = grid.answer
    answer.figures = {name: np.moveaxis(values.reshape(shape), -1, inner) for name, values in answer.figures.items()}
    answer.refused = np.moveaxis(answer.refused.reshape(shape), -1, inner)
    return answer
