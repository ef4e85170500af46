"""Evaluate all products of some numbers of layouts by the million: the programs of a `FamilyMesh`, on grids.

The column with the most values is the inner one of the grids; every combination of the values of the others is a row. A program
(`TracedProgram`) says of each point by rules and guards whether it belongs to it, and gives the figures of those that do
(`roofsim.traced.grid`). Points of which no program is known yet are given to `FamilyMesh`, which traces one.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.records import dataclass
from roofsim.search.axes import Axis, AxisGrid
from roofsim.search.families import Rows, ScenarioFamily
from roofsim.search.mesh import MeshAnswer, axis_of_number, mesh_of
from roofsim.search.resolving import Shared
from roofsim.search.sampling import FIGURES, floats
from roofsim.traced.grid import GridReplay, GridRows, NoGridError
from roofsim.traced.replay import broken_by

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from roofsim.search.mesh import FamilyMesh
    from roofsim.search.sampling import TracedProgram
    from roofsim.spec.reading.source import Document
    from roofsim.spec.reading.told_apart import Importer
    from roofsim.traced.notes import Guard

#: Points that are worked on at once.
AT_ONCE: Final = 1 << 20
#: Points that are given to `FamilyMesh` at once, to find the programs of others like them.
_TRIED: Final = 20_000
#: What is said of points that break no rule.
_NONE: Final = np.iinfo(np.int16).max


class GridProgram:
    """A program for the grids of one inner column.

    Raises
    ------
    NoGridError
        Where all points have one value of this column, or what follows from it cannot be told.
    """

    def __init__(self, program: TracedProgram, inner: str) -> None:
        if inner not in program.bits:
            raise NoGridError(f"one value of {inner}")
        self.program, self.inner = program, inner
        bit = program.bits[inner]
        self.refuses, self.guards, self.figures = (
            GridReplay(replay, bit) for replay in (program.refuses, program.guards, program.figures)
        )
        if not set(self.guards.following) <= set(self.figures.following):
            raise NoGridError("guards on columns that figures do not have")

    def rows(self, rows: Rows, values: NDArray[np.float64]) -> GridRows:
        """Return rows as the program's columns have them, with the values of the inner one."""
        leaves, codes = self.program.columns(rows)
        del codes[self.program.bits[self.inner]]
        leaves |= {node: values for node, (name, _) in self.program.leaves.items() if name == self.inner}
        return GridRows(codes, leaves, len(rows), len(values))

    def own(self, rows: Rows, values: NDArray[np.float64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Tell which rows, and which values, may belong to it, by single columns."""
        split = self.program.split.get(self.inner)
        fine = np.ones(len(values), dtype=bool) if split is None else (values > 1.0) == split
        return self.program.own(rows, beside=self.inner), fine

    def first_broken(self, rows: GridRows) -> tuple[NDArray[np.int16], NDArray[np.bool_]]:
        """Return the first rule that each point breaks, and which points belong to it as far as rules and what they need say."""
        nodes: dict[int, list[int]] = {}
        codes = np.full(rows.rows, _NONE, dtype=np.int16)
        for place in range(len(self.program.rules)):
            if str(place) in self.refuses.replay.results:
                nodes.setdefault(self.refuses.replay.results[str(place)].node, []).append(place)
            elif self.refuses.replay.constants[str(place)]:
                codes[:] = np.minimum(codes, place)
        varied = [node for node in nodes if self.refuses.varies(node)]
        for node, broken in self.refuses.of_rows(set(nodes) - {*varied}, rows).items():
            codes = np.minimum(codes, np.where(broken.astype(bool), min(nodes[node]), _NONE).astype(np.int16))
        whole = np.broadcast_to(codes[:, np.newaxis], (rows.rows, rows.values))
        if varied:
            chosen, made = self.refuses.on_grid(varied, rows)
            least = np.full((len(chosen.first), rows.values), _NONE, dtype=np.int16)
            for node, broken in made.items():
                np.minimum(least, min(nodes[node]), out=least, where=broken.astype(bool))
            whole = np.minimum(np.take(least, chosen.place, axis=0), codes[:, np.newaxis])
        return whole, self._holds(self.refuses, self.refuses.replay.guards, rows)

    def _holds(self, replay: GridReplay, guards: Sequence[Guard], rows: GridRows) -> NDArray[np.bool_]:
        """Tell which points say what guards ask, of those that stretches do not decide."""
        kept = functools.reduce(operator.or_, (bit for bit in replay.following if not self._dense(bit)), 0)
        alone = [guard for guard in guards if not replay.varies(guard.node)]
        fine = np.ones(rows.rows, dtype=bool)
        for node, values in replay.of_rows([guard.node for guard in alone], rows).items():
            for guard in alone:
                if guard.node == node:
                    fine &= ~broken_by(values, guard.value, replay.nodes[node].axis)
        whole = np.broadcast_to(fine[:, np.newaxis], (rows.rows, rows.values))
        varied = [guard for guard in guards if replay.varies(guard.node) and not replay.nodes[guard.node].columns & kept]
        if varied:
            chosen, made = replay.on_grid([guard.node for guard in varied], rows)
            every = np.ones((len(chosen.first), rows.values), dtype=bool)
            for guard in varied:
                every &= made[guard.node] == guard.value
            whole = np.take(every, chosen.place, axis=0) & fine[:, np.newaxis]
        return whole

    def spent(self) -> float:
        """Return the elements of arrays that were worked out since it was asked the last time."""
        spent = 0.0
        for replay in (self.refuses, self.guards, self.figures):
            spent, replay.elements = spent + replay.elements, 0.0
        return spent

    def _dense(self, bit: int) -> bool:
        return self.figures.dense.get(bit, True)

    def answered(
        self, rows: GridRows, mask: NDArray[np.bool_]
    ) -> tuple[NDArray[Any], NDArray[Any], dict[str, Any], NDArray[np.bool_]]:
        """Return row and value of the points of a mask that belong to it, their figures, and which of the mask these are."""
        if len(self.figures.dense) < len(self.figures.following):
            self.figures.stretches(rows, mask)  # tells which columns points have of their own
        guards, replay = self.program.guards.guards, self.guards
        mask = mask & self._holds(replay, guards, rows)
        cut = self.figures.stretches(rows, mask)
        kept = functools.reduce(operator.or_, (bit for bit in replay.following if not self._dense(bit)), 0)
        later = [guard for guard in guards if replay.nodes[guard.node].columns & kept]
        if any(replay.nodes[guard.node].columns & (replay.varied & ~kept) for guard in later):
            raise NoGridError("a guard on the numbers of points")
        if later and len(cut.place):
            fine = np.ones(len(cut.starts) - 1, dtype=bool)
            own = cut.of({bit for bit in cut.columns if bit in replay.following})
            for node, values in replay.of_stretches([guard.node for guard in later], rows, own).items():
                for guard in later:
                    if guard.node == node:
                        fine &= ~broken_by(values, guard.value, replay.nodes[node].axis)
            if not fine.all():
                cut = cut.kept(fine)
                mask = np.zeros_like(mask)
                mask[cut.place, cut.inner] = True
        figures: dict[str, Any] = dict(self.program.figures.constants)
        if len(cut.place):
            named = {name: ref.node for name, ref in self.program.figures.results.items()}
            made = self.figures.at_points(sorted(set(named.values())), rows, cut)
            figures |= {name: made[node] for name, node in named.items()}
        return cut.place, cut.inner, figures, mask


def _grid_of(program: TracedProgram, inner: str) -> GridProgram | None:
    """Return a program for grids; None where it has none."""
    if inner not in program.grids:
        try:
            program.grids[inner] = GridProgram(program, inner)
        except NoGridError:
            program.grids[inner] = None
    own: GridProgram | None = program.grids[inner]
    return own


class _Grid:
    """The answer of all points, filled program by program."""

    def __init__(self, mesh: FamilyMesh, outer: Rows, inner: str) -> None:
        self.mesh, self.outer, self.inner = mesh, outer, inner
        self.axis, values = outer.family.numbers[inner]
        self.values = floats(values)
        self.shape = len(outer), len(values)
        self.left = np.ones(self.shape, dtype=bool)
        self.answer = MeshAnswer({name: np.full(self.shape, np.nan) for name in FIGURES}, np.full(self.shape, -1, np.int16))
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
                self._one_by_one(AT_ONCE)

    def _known(self) -> None:
        for program in list(self.mesh.programs):
            if id(program) not in self.asked:
                self.asked.add(id(program))
                grid = _grid_of(program, self.inner)
                if grid is not None:
                    self._program(grid)

    def _program(self, grid: GridProgram) -> None:
        rows, values = grid.own(self.outer, self.values)
        rows &= self.left.any(axis=1)
        own, inner = np.flatnonzero(rows), np.flatnonzero(values)
        if not len(own) or not len(inner):
            return
        wide = max(AT_ONCE // len(own), min(len(inner), 256))
        tall = max(AT_ONCE // wide, 1)
        for first in range(0, len(inner), wide):
            for top in range(0, len(own), tall):
                try:
                    self._part(grid, own[top : top + tall], inner[first : first + wide])
                except NoGridError:
                    return

    def _part(self, grid: GridProgram, rows: NDArray[Any], inner: NDArray[Any]) -> None:
        here = np.s_[rows[0] : rows[-1] + 1] if len(rows) == rows[-1] - rows[0] + 1 else rows
        there = np.s_[inner[0] : inner[-1] + 1] if len(inner) == inner[-1] - inner[0] + 1 else inner
        left = self.left[here][:, there]
        if not left.any():
            return
        given = grid.rows(self.outer.part(rows), self.values[inner])
        first, own = grid.first_broken(given)
        own = own & left
        broken = own & (first != _NONE)
        place, value, figures, fine = grid.answered(given, own & ~broken)
        self.answer.elements += grid.spent()
        for number in np.unique(first[broken]):
            code = grid.program.rules[number]
            if code not in self.answer.codes:
                self.answer.codes.append(code)
            at, column = np.nonzero(broken & (first == number))
            self.answer.refused[rows[at], inner[column]] = self.answer.codes.index(code)
        at = rows[place] * self.shape[1] + inner[value]
        for name, made in figures.items():
            self.answer.figures[name].ravel()[at] = made
        self.left[rows[place], inner[value]] = False
        at, column = np.nonzero(broken)
        self.left[rows[at], inner[column]] = False
        grid.program.answers += len(place)

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
