"""Say of the points of a grid, by a traced program, which rules they break, which belong to it, and what their figures are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.records import dataclass
from roofsim.traced.compiled import LANES
from roofsim.traced.grid import GridReplay, NoGridError
from roofsim.traced.grid_rows import GridRows
from roofsim.traced.steps import broken_by

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from roofsim.search.families import Rows
    from roofsim.search.sampling import TracedProgram
    from roofsim.traced.grid_rows import Stretches
    from roofsim.traced.notes import Guard

#: Share of a grid's points up to which stretches are made for those alone that have an answer.
_RARE: Final = 0.2
#: What is said of points that break no rule.
NONE_BROKEN: Final = np.iinfo(np.int16).max


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
        The first rule that each point breaks which it refuses; `NONE_BROKEN` of all others.
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
        results, self.always = program.refuses.results, NONE_BROKEN
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
        then = [
            guard for guard in self.program.guards.guards if guards.varies(guard.node) and not self._of_stretch(guard)
        ]
        asked = (
            [*rules, *(guard.node for guard in first)],
            [guard.node for guard in then],
            [*figures.following.values()],
        )
        columns = refuses.outer(asked[0]) | guards.outer(asked[1]) | figures.outer(asked[2])
        chosen = figures.told_apart(columns, rows)
        shape = len(chosen.first), rows.values
        made, following = refuses.on_grid(asked[0], rows, chosen), figures.on_grid(asked[2], rows, chosen)
        broken, belongs = np.full(shape, self.always, dtype=np.int16), np.ones(shape, dtype=bool)
        for node in rules:
            np.minimum(broken, np.int16(self.rules[node]), out=broken, where=made[node].astype(bool))
        for guard in first:
            belongs &= made[guard.node] == guard.value
        answers = belongs & (broken == NONE_BROKEN)
        for node, values in guards.on_grid(asked[1], rows, chosen).items():
            for guard in then:
                if guard.node == node:
                    answers &= values == guard.value
        if len(figures.dense) < len(figures.following):
            figures.learn(following, answers)
            if len(figures.dense) < len(figures.following):  # no point has an answer
                raise NoGridError("nothing is known of its points")
            figures.settle([ref.node for ref in self.program.figures.results.values()])
            return self.part(rows, left)
        own, code = self._rules_of_rows(rows)
        fine = own & (code == NONE_BROKEN) & self._guards_of_rows(rows)
        mask = np.zeros((rows.rows, rows.values + LANES), dtype=bool)
        np.logical_and(np.take(answers, chosen.place, axis=0), left, out=mask[:, : rows.values])
        mask[~fine] = False
        if np.count_nonzero(mask) < _RARE * mask.size:
            answers = chosen.any(mask[:, : rows.values])
            fine = mask.any(axis=1)
        cut = figures.stretches(following, answers, chosen, fine)
        self._guards_of_stretches(rows, cut, mask)
        broken[~belongs] = NONE_BROKEN
        whole = np.take(broken, chosen.place, axis=0)
        if (code < NONE_BROKEN).any():
            whole = np.where(
                np.take(belongs, chosen.place, axis=0), np.minimum(whole, code[:, np.newaxis]), NONE_BROKEN
            )
        whole[~own] = NONE_BROKEN
        whole[~left] = NONE_BROKEN
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
        code = np.full(rows.rows, NONE_BROKEN, dtype=np.int16)
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

    def fill(
        self, rows: GridRows, part: GridPart, figures: dict[str, NDArray[Any]], offsets: NDArray[np.int64]
    ) -> None:
        """Put figures of points where they belong: `offsets` says where in the arrays those of each row begin."""
        wanted = {ref.node: figures[name].ravel() for name, ref in self.program.figures.results.items()}
        if len(part.cut.row):
            self.figures.at_points(wanted, offsets, rows, part.cut, part.mask)
        if len(wanted) < len(self.program.figures.results):
            raise NoGridError("two figures that are the same")

    def spent(self) -> tuple[float, float]:
        """Return the elements of arrays, and operations in registers, that were worked out since it was asked the last time."""
        elements = operations = 0.0
        for replay in (self.refuses, self.guards, self.figures):
            elements, operations = elements + replay.elements, operations + replay.operations
            replay.elements = replay.operations = 0.0
        return elements, operations


def _held(
    replay: GridReplay, guards: Sequence[Guard], made: Mapping[int, NDArray[Any]], count: int
) -> NDArray[np.bool_]:
    """Tell which of so many rows or stretches say what guards ask for."""
    held = np.ones(count, dtype=bool)
    for guard in guards:
        held &= ~broken_by(made[guard.node], guard.value, replay.nodes[guard.node].axis)
    return held


def grid_of(program: TracedProgram, inner: str) -> GridProgram | None:
    """Return a program for grids; None where it has none."""
    if inner not in program.grids:
        try:
            program.grids[inner] = GridProgram(program, inner)
        except NoGridError:
            program.grids[inner] = None
    own: GridProgram | None = program.grids[inner]
    return own
