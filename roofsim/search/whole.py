"""Evaluate all points of a family on an open mesh: an axis is a dimension, and what depends on a few axes is worked out for these.

A program (`TracedProgram`) says of each point by rules and guards whether it belongs to it, and gives the figures of those that do.
Points of which no program is known yet are given to `FamilyMesh`, which traces one. What no program can say of is left.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.records import dataclass, field
from roofsim.search.families import Rows, inner_of
from roofsim.search.sampling import FIGURES, floats
from roofsim.traced.open_mesh import AT_A_TIME, Mesh, boxes_of, slabs_of
from roofsim.traced.replay import AT_ONCE
from roofsim.traced.unrolled import NotScalarError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from roofsim.search.families import ScenarioFamily
    from roofsim.search.mesh import FamilyMesh
    from roofsim.search.sampling import TracedProgram
    from roofsim.traced.notes import Guard

#: Points that are given to `FamilyMesh` at once, to find the programs of others like them.
_TRIED: Final = 4096
#: Points that are left, below which they are handed over rather than tried again.
_REST: Final = 20_000
#: What is said of points that break no rule, and of points that belong to no program.
NONE_BROKEN: Final = np.iinfo(np.int16).max
NOT_OWN: Final = np.int16(-2)


class NoMeshError(Exception):
    """A program cannot be worked out for all combinations of axes."""


@dataclass
class WholeAnswer:
    """What is known of all points of a family.

    Attributes
    ----------
    figures
        Name -> value of each point, in the shape of the family's axes; NaN of points that have none.
    refused
        Which of `codes` a point breaks; -1 where it breaks none.
    left
        Points that were not answered, and must be evaluated in another way.
    answered
        How many points have figures.
    elements
        Numbers of arrays that were worked out.
    programs
        Programs that were traced for them.
    """

    figures: dict[str, NDArray[np.float64]]
    refused: NDArray[np.int16]
    left: NDArray[np.bool_]
    codes: list[str] = field(default_factory=list)
    answered: int = 0
    elements: float = 0.0
    programs: int = 0


class WholeFamily:
    """All points of a family: those of all values of its inner axes.

    Attributes
    ----------
    inner
        Axes of the space whose values the points differ in.
    shape
        How many values each of them has.
    """

    def __init__(self, family: ScenarioFamily, at: dict[int, int]) -> None:
        self.family, self.at = family, at
        self.inner = inner_of(family.numbers, family.tables)
        self.shape = tuple(len(family.space.axes[place].values) for place in self.inner)

    def __len__(self) -> int:
        return math.prod(self.shape)

    def rows(self, numbers: NDArray[np.int64]) -> Rows:
        """Return points by their numbers: counted with the last inner axis running fastest."""
        axes = self.family.space.axes
        index = [np.full(len(numbers), self.at.get(place, 0)) for place in range(len(axes))]
        for place, part in zip(self.inner, np.unravel_index(numbers, self.shape) if self.inner else (), strict=True):
            index[place] = part
        shape = [len(axis.values) for axis in axes]
        places = np.ravel_multi_index(index, shape) if shape else numbers
        return Rows(self.family, places, tuple(index))

    def index(self) -> tuple[Any, ...]:
        """Return where its points are in arrays of the shape of the space."""
        every = range(len(self.family.space.axes))
        return tuple(slice(None) if place in self.inner else self.at.get(place, 0) for place in every)

    def readable(self) -> NDArray[np.bool_]:
        """Tell which points have numbers that a scenario takes."""
        fine = np.ones(self.shape, dtype=bool)
        for place, values in self.family.numbers.values():
            own = np.array([value is not None for value in values])
            fine &= own.reshape([-1 if axis == place else 1 for axis in self.inner])
        return fine


class _Filling:
    """The answer of all points of a family, filled program by program."""

    def __init__(
        self, mesh: FamilyMesh, whole: WholeFamily, figures: Sequence[str], heard: Callable[[int], Any]
    ) -> None:
        self.mesh, self.whole, self.names, self.heard = mesh, whole, figures, heard
        self.answer = WholeAnswer(
            {name: np.full(whole.shape, np.nan) for name in figures},
            np.full(whole.shape, -1, np.int16),
            whole.readable(),
        )
        self.open = self.answer.left.copy()
        self.asked: set[int] = set()

    def fill(self) -> None:
        """Answer all points: by the programs that are known, then by those of points that none of them knows."""
        self._known()
        while (left := int(np.count_nonzero(self.open))) > _REST or (left and not self.asked):
            before = len(self.mesh.programs)
            self._try(left)
            if len(self.mesh.programs) == before:
                return
            self._known()

    def _known(self) -> None:
        for program in list(self.mesh.programs):
            if id(program) not in self.asked:
                self.asked.add(id(program))
                try:
                    _OfProgram(self, program).fill()
                except (NoMeshError, NotScalarError):
                    continue

    def _try(self, left: int) -> None:
        """Give some of the points that are left to the mesh; their answers are found again, with all others like them."""
        at = np.flatnonzero(self.open)
        if left > _TRIED:
            at = np.sort(np.random.default_rng(left).choice(at, _TRIED, replace=False))
        own = self.mesh.evaluate(self.whole.rows(at))
        self.answer.programs += own.programs
        self.answer.elements += own.elements
        for number, code in enumerate(own.codes):
            self.refuse(np.unravel_index(at[own.refused == number], self.whole.shape), code)
        known = own.refused >= 0
        for name in self.names:
            self.answer.figures[name].ravel()[at] = own.figures[name]
            known |= ~np.isnan(own.figures[name])
        self.answer.answered += int(np.count_nonzero(~np.isnan(own.figures[FIGURES[0]])))
        self.open.ravel()[at] = False
        self.answer.left.ravel()[at[known]] = False

    def refuse(self, index: Any, code: str) -> None:
        """Note points that break a rule."""
        if code not in self.answer.codes:
            self.answer.codes.append(code)
        self.answer.refused[index] = self.answer.codes.index(code)


class _OfProgram:
    """The points of a family that a program answers."""

    def __init__(self, filling: _Filling, program: TracedProgram) -> None:
        self.filling, self.program = filling, program
        family = filling.whole.family
        bits, own = [], []
        leaves: dict[int, NDArray[Any]] = {}
        for place in filling.whole.inner:
            name, may, bit = self._axis(family, place)
            used = np.flatnonzero(may)
            own.append(used)
            bits.append(bit)
            for node, (column, of_table) in program.leaves.items():
                if column == name:
                    values = floats(family.numbers[name][1]) if of_table is None else of_table
                    leaves[node] = np.take(values, self._among(family, place, name)[used], axis=0)
        if any(bit == 0 and len(used) > 1 for bit, used in zip(bits, own, strict=True)):
            raise NoMeshError("an axis that the program knows one value of")
        if {column for column, _ in program.leaves.values()} - {
            self._axis(family, place)[0] for place in filling.whole.inner
        }:
            raise NoMeshError("a column that is no axis")
        self.own = own
        lengths = [len(used) for used in own]
        # The longest dimension is the last: numpy goes along it without a step in between.
        self.order = sorted(range(len(own)), key=lambda axis: lengths[axis])
        fresh = iter(1 << place for place in range(60, 60 + len(own)))
        self.mesh = Mesh(
            tuple(bits[axis] or next(fresh) for axis in self.order), leaves, tuple(lengths[axis] for axis in self.order)
        )

    def _axis(self, family: ScenarioFamily, place: int) -> tuple[str, NDArray[np.bool_], int]:
        """Return the column of an axis, which of its values the program may know, and the column's bit (0: it has none)."""
        program, values = self.program, family.space.axes[place].values
        for name, (own, given) in family.numbers.items():
            if own == place:
                return name, program.may(name, given), program.bits.get(name, 0)
        for table, places in family.tables.items():
            if place not in places:
                continue
            column = f"{table} {places.index(place)}"
            if column in program.axes:
                known = set(program.axes[column][2])
                return column, np.array([value in known for value in values]), program.bits.get(column, 0)
            if len(places) == 1 and table in program.tables:
                known = {row[0] for row in program.tables[table]}
                return table, np.array([value in known for value in values]), program.bits.get(table, 0)
        raise NoMeshError("an axis that is no column")

    def _among(self, family: ScenarioFamily, place: int, name: str) -> NDArray[np.int64]:
        """Return where the values of an axis stand among those that the program knows."""
        values, program = family.space.axes[place].values, self.program
        if name in program.axes:
            known = {value: at for at, value in enumerate(program.axes[name][2])}
        elif name in program.tables:
            known = {row[0]: at for at, row in enumerate(program.tables[name])}
        else:
            return np.arange(len(values))
        return np.array([known.get(value, 0) for value in values])

    def fill(self) -> None:
        """Answer the points that belong to the program."""
        if not all(len(used) for used in self.own):
            return
        index = np.ix_(*self.own)
        if not self.filling.open[index].any():
            return
        state = self._state()
        answer = self.filling.answer
        own = np.broadcast_to(state, self.mesh.shape).transpose(np.argsort(self.order))
        own = np.where(self.filling.open[index], own, NOT_OWN)
        for number in np.unique(own[(own != NOT_OWN) & (own != NONE_BROKEN)]):
            where = np.nonzero(own == number)
            self.filling.refuse(
                tuple(used[at] for used, at in zip(self.own, where, strict=True)), self.program.rules[number]
            )
        fine = own == NONE_BROKEN
        if fine.any():
            self._figures(fine)
        done = own != NOT_OWN
        count = int(np.count_nonzero(fine))
        answer.answered += count
        self.program.answers += count
        answer.left[index] &= ~done
        self.filling.open[index] &= ~done

    def _state(self) -> NDArray[np.int16]:
        """Return the rule that each point breaks, `NONE_BROKEN` or `NOT_OWN`, with the dimensions that decide it."""
        program = self.program
        refuses, guards = program.mesh_of("refuses"), program.mesh_of("guards")
        shape = (1,) * len(self.mesh.shape)
        first = np.full(shape, NONE_BROKEN, dtype=np.int16)
        results = program.refuses.results
        made = refuses.arrays(
            [ref.node for ref in results.values()] + [guard.node for guard in program.refuses.guards], self.mesh
        )
        for place in reversed(range(len(program.rules))):
            broken: Any = program.refuses.constants.get(str(place), False)
            if str(place) in results:
                broken = made[results[str(place)].node].astype(bool)
            if np.any(broken):
                first = np.where(broken, np.int16(place), first)
        first = np.where(self._held(program.refuses.guards, made), first, NOT_OWN)
        made = guards.arrays([guard.node for guard in program.guards.guards], self.mesh)
        held = self._held(program.guards.guards, made)
        state: NDArray[np.int16] = np.where((first == NONE_BROKEN) & ~held, NOT_OWN, first)
        return state

    def _held(self, guards: Sequence[Guard], made: dict[int, NDArray[Any]]) -> NDArray[np.bool_]:
        held: NDArray[np.bool_] = np.ones((1,) * len(self.mesh.shape), dtype=bool)
        for guard in guards:
            values = made[guard.node]
            rows = values.reshape(-1, *values.shape[values.ndim - len(self.mesh.shape) :])
            held = held & (rows == guard.value).all(axis=0)
        return held

    def _figures(self, fine: NDArray[np.bool_]) -> None:
        replay = self.program.mesh_of("figures")
        answer = self.filling.answer
        every = all(len(used) == length for used, length in zip(self.own, self.filling.whole.shape, strict=True))
        targets = {}
        for name in self.filling.names:
            target = answer.figures[name] if every else np.full([len(used) for used in self.own], np.nan)
            targets[name] = target
            if name in replay.replay.constants:
                np.copyto(target, replay.replay.constants[name], where=fine)
        wanted = {
            name: replay.replay.results[name].node for name in self.filling.names if name in replay.replay.results
        }
        turned = fine.transpose(self.order)
        slabs = replay.program(sorted({*wanted.values()}), self.mesh)
        loop = slabs.loop(self.mesh)
        most = AT_ONCE if loop is None else AT_A_TIME
        for where in boxes_of(slabs, self.mesh):
            if not turned[where].any():
                continue
            box = self.mesh.box(where)
            parts = [part for part in slabs_of(box.shape, most) if turned[where][part].any()]
            for part, made in zip(parts, slabs.slabs(replay, box, parts, loop), strict=True):
                asked = turned[where][part]
                for name, node in wanted.items():
                    np.copyto(targets[name].transpose(self.order)[where][part], made[node], where=asked)
                self.filling.heard(int(np.count_nonzero(asked)))
        answer.elements += replay.elements
        replay.elements = 0.0
        if not every:
            index = np.ix_(*self.own)
            for name, target in targets.items():
                answer.figures[name][index] = np.where(fine, target, answer.figures[name][index])


def evaluate_whole(
    mesh: FamilyMesh, whole: WholeFamily, figures: Sequence[str] = FIGURES, heard: Callable[[int], Any] = int
) -> WholeAnswer:
    """Return the figures of all points of a family.

    Parameters
    ----------
    figures
        Which of `FIGURES` are asked for.
    heard
        Is told of how many more points there are figures.
    """
    filling = _Filling(mesh, whole, figures, heard)
    filling.fill()
    return filling.answer
