"""Evaluate all products of some numbers of layouts by the million: the programs of a `FamilyMesh`, on grids.

The column with the most values is the inner one of the grids; every combination of the values of the others is a row. A program
(`TracedProgram`) says of each point by rules and guards whether it belongs to it, and gives the figures of those that do
(`roofsim.traced.grid`). Points of which no program is known yet are given to `FamilyMesh`, which traces one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.records import dataclass
from roofsim.search.axes import Axis, AxisGrid
from roofsim.search.families import Rows, ScenarioFamily
from roofsim.search.mesh import MeshAnswer, axis_of_number, mesh_of
from roofsim.search.resolving import Shared
from roofsim.search.sampling import FIGURES, floats
from roofsim.traced.compiled import LANES
from roofsim.traced.grid import GridReplay, GridRows, NoGridError
from roofsim.traced.replay import broken_by

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from roofsim.search.mesh import FamilyMesh
    from roofsim.search.sampling import TracedProgram
    from roofsim.spec.reading.source import Document
    from roofsim.spec.reading.told_apart import Importer
    from roofsim.traced.grid import Stretches
    from roofsim.traced.notes import Guard

#: Points that are worked on at once.
AT_ONCE: Final = 1 << 20
#: Points that are given to `FamilyMesh` at once, to find the programs of others like them.
_TRIED: Final = 20_000
#: What is said of points that break no rule.
_NONE: Final = np.iinfo(np.int16).max


@dataclass(frozen=True)
class GridPart:
    """What a program says of the points of a grid.

    Attributes
    ----------
    mask
        Which points it gives figures of; row times value, and `LANES` more columns.
    cut
        Stretches of their rows.
    broken
        The first rule that each point breaks which it refuses; `_NONE` of all others.
    """

    mask: NDArray[np.bool_]
    cut: Stretches
    broken: NDArray[np.int16]


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
        results, self.always = program.refuses.results, _NONE
        self.rules: dict[int, int] = {}
        """Node of the condition of a rule -> the first rule that has it."""
        for place in reversed(range(len(program.rules))):
            if str(place) in results:
                self.rules[results[str(place)].node] = place
            elif program.refuses.constants[str(place)]:
                self.always = place

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

    def part(self, rows: GridRows, left: NDArray[np.bool_]) -> GridPart:
        """Return what it says of the points of a grid that are left.

        Raises
        ------
        NoGridError
            Where it cannot be worked out for grids.
        """
        refuses, guards, figures = self.refuses, self.guards, self.figures
        rules = [node for node in self.rules if refuses.varies(node)]
        first = [guard for guard in self.program.refuses.guards if refuses.varies(guard.node)]
        then = [guard for guard in self.program.guards.guards if guards.varies(guard.node) and not self._of_stretch(guard)]
        asked = [*rules, *(guard.node for guard in first)], [guard.node for guard in then], [*figures.following.values()]
        columns = refuses.outer(asked[0]) | guards.outer(asked[1]) | figures.outer(asked[2])
        chosen = figures.told_apart(columns, rows)
        shape = len(chosen.first), rows.values
        made, following = refuses.on_grid(asked[0], rows, chosen), figures.on_grid(asked[2], rows, chosen)
        broken, belongs = np.full(shape, self.always, dtype=np.int16), np.ones(shape, dtype=bool)
        for node in rules:
            np.minimum(broken, np.int16(self.rules[node]), out=broken, where=made[node].astype(bool))
        for guard in first:
            belongs &= made[guard.node] == guard.value
        answers = belongs & (broken == _NONE)
        for node, values in guards.on_grid(asked[1], rows, chosen).items():
            for guard in then:
                if guard.node == node:
                    answers &= values == guard.value
        if len(figures.dense) < len(figures.following):
            figures.learn(following, answers)
            return self.part(rows, left)
        own, code = self._rules_of_rows(rows)
        fine = own & (code == _NONE) & self._guards_of_rows(rows)
        cut = figures.stretches(following, answers, chosen, fine)
        mask = np.zeros((rows.rows, rows.values + LANES), dtype=bool)
        np.logical_and(np.take(answers, chosen.place, axis=0), left, out=mask[:, : rows.values])
        mask[~fine] = False
        self._guards_of_stretches(rows, cut, mask)
        broken[~belongs] = _NONE
        whole = np.take(broken, chosen.place, axis=0)
        if (code < _NONE).any():
            whole = np.where(np.take(belongs, chosen.place, axis=0), np.minimum(whole, code[:, np.newaxis]), _NONE)
        whole[~own] = _NONE
        whole[~left] = _NONE
        return GridPart(mask, cut, whole)

    def _of_stretch(self, guard: Guard) -> bool:
        """Tell whether stretches say whether a guard holds; before it is known which columns have stretches none does."""
        columns = self.guards.nodes[guard.node].columns
        return any(columns & bit and not self.figures.dense.get(bit, True) for bit in self.guards.following)

    def _rules_of_rows(self, rows: GridRows) -> tuple[NDArray[np.bool_], NDArray[Any]]:
        """Return which rows belong to it as far as rules are concerned, and the first rule that each breaks."""
        refuses, guards = self.refuses, self.program.refuses.guards
        nodes = [node for node in (*self.rules, *(guard.node for guard in guards)) if not refuses.varies(node)]
        made = refuses.of_rows(nodes, rows)
        code = np.full(rows.rows, _NONE, dtype=np.int16)
        for node, place in self.rules.items():
            if node in made:
                np.minimum(code, np.int16(place), out=code, where=made[node].astype(bool))
        return _held(refuses, [guard for guard in guards if guard.node in made], made, rows.rows), code

    def _guards_of_rows(self, rows: GridRows) -> NDArray[np.bool_]:
        alone = [guard for guard in self.program.guards.guards if not self.guards.varies(guard.node)]
        return _held(self.guards, alone, self.guards.of_rows([guard.node for guard in alone], rows), rows.rows)

    def _guards_of_stretches(self, rows: GridRows, cut: Stretches, mask: NDArray[np.bool_]) -> None:
        """Take the points out of a mask whose stretches say something else than a guard asks for."""
        guards, dense = self.guards, self.figures.dense
        asked = [guard for guard in self.program.guards.guards if guards.varies(guard.node) and self._of_stretch(guard)]
        points = guards.inner | sum(bit for bit in guards.following if dense[bit])
        if any(guards.nodes[guard.node].columns & points for guard in asked):
            raise NoGridError("a guard on numbers of stretches and of points")
        if not asked or not len(cut.row):
            return
        own = cut.of([bit for bit in cut.columns if bit in guards.following])
        made = guards.of_stretches([guard.node for guard in asked], rows, own)
        held = _held(guards, asked, made, len(cut.row))
        if not held.all():
            some = np.unique(cut.row)
            spread = np.repeat(held, cut.stops - cut.starts).reshape(len(some), -1)
            mask[some, : rows.values] &= spread

    def fill(self, rows: GridRows, part: GridPart, figures: dict[str, NDArray[Any]], offsets: NDArray[np.int64]) -> None:
        """Put figures of points where they belong: `offsets` says where in the arrays those of each row begin."""
        wanted = {ref.node: figures[name].ravel() for name, ref in self.program.figures.results.items()}
        if len(part.cut.row):
            self.figures.at_points(wanted, offsets, rows, part.cut, part.mask)
        if len(wanted) < len(self.program.figures.results):
            raise NoGridError("two figures that are the same")

    def spent(self) -> float:
        """Return the elements of arrays that were worked out since it was asked the last time."""
        spent = 0.0
        for replay in (self.refuses, self.guards, self.figures):
            spent, replay.elements = spent + replay.elements, 0.0
        return spent


def _held(replay: GridReplay, guards: Sequence[Guard], made: Mapping[int, NDArray[Any]], count: int) -> NDArray[np.bool_]:
    """Tell which of so many rows or stretches say what guards ask for."""
    held = np.ones(count, dtype=bool)
    for guard in guards:
        held &= ~broken_by(made[guard.node], guard.value, replay.nodes[guard.node].axis)
    return held


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
        self.answer.elements += grid.spent()
        done = mask | self._refused(grid, own, here, part.broken)
        if every:
            self.left[:, here] &= ~done
        else:
            self.left[own, here] &= ~done
        grid.program.answers += int(np.count_nonzero(mask))

    def _refused(self, grid: GridProgram, own: NDArray[Any], here: slice, broken: NDArray[np.int16]) -> NDArray[np.bool_]:
        """Take note of points that break a rule, and return them."""
        refused: NDArray[np.bool_] = broken != _NONE
        for number in np.flatnonzero(np.bincount(broken[refused])):
            code = grid.program.rules[number]
            if code not in self.answer.codes:
                self.answer.codes.append(code)
            place, value = np.nonzero(broken == number)
            self.answer.refused[own[place], value + here.start] = self.answer.codes.index(code)
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
