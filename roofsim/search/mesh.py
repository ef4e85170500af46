"""Evaluate layouts by the million: trace what becomes of a few sample points, and replay it for all others.

The points of a family (scenarios with the same words) differ in columns of numbers. `FamilyMesh` has a few sample points of them
resolved, built and priced as `TracedPoints`, and keeps that as a `TracedProgram`: which rules a point breaks, what its step takes,
how much memory. Points whose numbers decide otherwise than the samples' (`degree > 1`) are parted from them and traced apart.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.errors import RoofsimError
from roofsim.points import Diverged
from roofsim.records import dataclass, field
from roofsim.search.axes import Axis, AxisGrid
from roofsim.search.families import Rows, ScenarioFamily
from roofsim.search.resolving import NoneLeftError, RowsResolver, Shared
from roofsim.search.sampling import (
    FIGURES,
    MISSING,
    NOT_FOR_ARRAYS,
    WATTS,
    TracedProgram,
    Tracing,
    floats,
    priced_as_arrays,
)
from roofsim.search.stacking import alike
from roofsim.spec.scenario.point import DEGREES, SIZES
from roofsim.symbols import UntracedError
from roofsim.traced.notes import SAMPLES, AmbiguousError, TraceDiverged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from roofsim.search.resolving import Refused
    from roofsim.spec.reading.source import Document
    from roofsim.spec.reading.told_apart import Importer

#: Keys of results that a trace has.
TRACED: Final = frozenset((*FIGURES, "memory.fits")) - {MISSING}
#: Points that are resolved to find possible ones among them.
_LOOKED: Final = 1024
#: Points of which two are priced as they are, to see whether a new program gives the same, and how nearly.
_TRIED: Final = 64
_AGREES: Final = 1e-9
#: Points without a program up to which each is priced by itself.
_ALONE: Final = 64
#: Families whose programs are kept, the latest.
_MOST: Final = 64
_MESHES: Final[OrderedDict[tuple[Any, ...], FamilyMesh]] = OrderedDict()


@dataclass
class MeshAnswer:
    """Figures of points.

    Attributes
    ----------
    figures
        Name -> value of each point; NaN of points that have none.
    refused
        Which of `codes` a point breaks; -1 where it breaks none.
    left
        Points that could not be traced, and must be evaluated in another way.
    elements
        Numbers of arrays that were worked out.
    operations
        Operations that compiled loops did on numbers in registers, which are no arrays.
    programs
        Programs that were traced for them.
    """

    figures: dict[str, NDArray[np.float64]]
    refused: NDArray[np.int64]
    codes: list[str] = field(default_factory=list)
    left: list[NDArray[np.int64]] = field(default_factory=list)
    elements: float = 0.0
    operations: float = 0.0
    programs: int = 0

    def all_figures(self) -> dict[str, NDArray[Any]]:
        """Return the figures of each point under the keys of a result, whether it fits among them."""
        return {name: values for name, values in self.figures.items() if name != MISSING} | {"memory.fits": self.fits()}

    def fits(self) -> NDArray[Any]:
        """Return whether each point fits, on the device and where its state goes."""
        return fitting(self.figures)

    def refuse(self, places: NDArray[Any], code: str) -> None:
        """Note points that break a rule."""
        if len(places):
            if code not in self.codes:
                self.codes.append(code)
            self.refused[places] = self.codes.index(code)


def fitting(figures: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """Return whether points of some figures fit, on the device and where their state goes."""
    room: NDArray[Any] = figures["memory.peak"] <= figures["memory.capacity"]
    return room & (figures[MISSING] <= 0.0)


class FamilyMesh:
    """The programs of a family of points, by what decides them."""

    def __init__(self, importer: Importer | None, shared: Shared) -> None:
        self.importer, self.shared = importer, shared
        self.programs: list[TracedProgram] = []

    def evaluate(self, rows: Rows, *, watts: bool = False) -> MeshAnswer:
        """Return the figures of points of the family; with `watts` what each GPU draws too."""
        count, names = len(rows), (*FIGURES, WATTS) if watts else FIGURES
        answer = MeshAnswer({name: np.full(count, np.nan) for name in names}, np.full(count, -1))
        todo = _by_split(rows)
        for program in list(self.programs):
            todo = [left for part in todo if len(left := self._replayed(program, rows, part, answer))]
        while todo:
            todo += self._traced(rows, todo.pop(), answer)
        # The next points are likely to be as these: those of the fewest programs are asked last.
        self.programs.sort(key=lambda program: -program.answers)
        return answer

    def _replayed(self, program: TracedProgram, rows: Rows, chosen: NDArray[Any], answer: MeshAnswer) -> NDArray[Any]:
        """Put the figures of the points that belong to a program; return the others."""
        part = rows.part(chosen)
        own = program.own(part)
        inside = chosen if own.all() else chosen[own]
        if not len(inside):
            return chosen
        part = part if len(inside) == len(chosen) else rows.part(inside)
        first, fine, figures, elements = program.answered(part, watts=WATTS in answer.figures)
        answer.elements += elements
        program.answers += len(fine)
        for number in np.unique(first[first >= 0]):
            answer.refuse(inside[first == number], program.rules[number])
        for name, values in figures.items():
            answer.figures[name][inside[fine]] = values
        return np.concatenate([chosen[~own], inside[first == -2]])

    def _traced(self, rows: Rows, chosen: NDArray[Any], answer: MeshAnswer) -> list[NDArray[Any]]:
        """SampleTrace some points, and keep the program; return points that are still to be evaluated."""
        looked = chosen if len(chosen) <= _LOOKED else np.random.default_rng(len(chosen)).permutation(chosen)[:_LOOKED]
        possible = self._possible(rows.part(looked), looked, answer)
        if not len(possible):
            return [left] if len(left := np.setdiff1d(chosen, looked, assume_unique=True)) else []
        for number in SAMPLES:
            samples = np.resize(np.searchsorted(chosen, possible), number)
            with Tracing(rows.part(chosen), samples, number, self.importer, self.shared) as tracing:
                try:
                    program = tracing.program()
                except AmbiguousError:
                    continue
                except TraceDiverged as diverged:
                    return [chosen[part] for part in tracing.parted(diverged.node)]
                except (UntracedError, Diverged, RoofsimError, *NOT_FOR_ARRAYS):
                    break
            if not self._holds(program, rows.part(np.delete(chosen, samples))):
                break
            answer.programs += 1
            self.programs.append(program)
            left = self._replayed(program, rows, chosen, answer)
            if len(left) == len(chosen):  # it is of no use
                break
            return [left] if len(left) else []
        left = self._alone(rows, possible, answer) if len(chosen) <= _ALONE else chosen
        answer.left += [left] if len(left) else []
        return []

    def _alone(self, rows: Rows, chosen: NDArray[Any], answer: MeshAnswer) -> NDArray[Any]:
        """Price points one by one that no program was made for, as they are too few; return those that have no price either."""
        left = []
        for place in chosen.tolist():
            try:
                figures = priced_as_arrays(rows.part(np.array([place])), self.importer, self.shared)
            except (RoofsimError, Diverged, *NOT_FOR_ARRAYS):
                left.append(place)
                continue
            for name, values in answer.figures.items():
                values[place] = figures[name][0]
        return np.array(left, dtype=np.int64)

    def _holds(self, program: TracedProgram, others: Rows) -> bool:
        """Tell whether a program gives what pricing gives of points that it was not traced with.

        What code makes of samples where no note is taken (``np.asarray(values).max()``) is a constant of the trace, and wrong for
        other points.
        """
        near = np.flatnonzero(program.own(others)) if len(others) else np.arange(0)
        near = near[np.linspace(0, len(near) - 1, min(len(near), _TRIED)).astype(int)]
        if not len(near):
            return True
        tried = others.part(near)
        _, fine, figures, _ = program.answered(tried, watts=True)
        for place in np.unique(fine[[0, -1]]) if len(fine) else ():
            own = priced_as_arrays(tried.part(np.array([place])), self.importer, self.shared)
            at = int(np.flatnonzero(fine == place)[0])
            for name, value in own.items():
                if not np.isclose(
                    np.broadcast_to(figures[name], len(fine))[at], value[0], rtol=_AGREES, atol=0.0, equal_nan=True
                ):
                    return False
        return True

    def _possible(self, rows: Rows, places: NDArray[Any], answer: MeshAnswer) -> NDArray[Any]:
        """Return points that break no rule and are resolved alike, in order; note those that break one."""
        resolver = RowsResolver(rows, self.importer, self.shared)
        try:
            resolver.run()
        except NoneLeftError:
            pass
        except Diverged as diverged:
            labels = diverged.labels
            if len(labels) == len(rows) and (labels != labels[0]).any():
                chosen = max(alike(labels), key=len)
                return self._possible(rows.part(chosen), places[chosen], answer)
            answer.left.append(places)
            return places[:0]
        except (RoofsimError, *NOT_FOR_ARRAYS):
            answer.left.append(places)
            return places[:0]
        _note(resolver.refused, places, answer)
        return np.sort(places[resolver.checks.open])


def mesh_of(family: ScenarioFamily, importer: Importer | None, shared: Shared) -> FamilyMesh:
    """Return what is known of scenarios with the words of a family, whatever its columns' numbers; the latest are kept."""
    key = family.form()
    mesh = _MESHES.pop(key, None)
    if mesh is None:
        mesh = FamilyMesh(importer, shared)
    _MESHES[key] = mesh
    while len(_MESHES) > _MOST:
        _MESHES.popitem(last=False)
    return mesh


def forget() -> None:
    """Drop all programs that are kept."""
    _MESHES.clear()


def evaluate_layouts(
    document: Document,
    columns: Mapping[str, Sequence[float] | NDArray[Any]],
    importer: Importer | None = None,
    shared: Shared | None = None,
) -> MeshAnswer:
    """Return the figures of many layouts of one scenario.

    Parameters
    ----------
    document
        The scenario: its words, and the numbers that all layouts have.
    columns
        Field of a `Point` (``tensor``, ``pipeline``, ``micro_batch_size``, ``gpus`` ...) -> its number in each layout, all of the
        same length.

    Returns
    -------
    MeshAnswer
        Of each layout the seconds of a step, the bytes of its memory's peak and of the card, or which rule it breaks.
    """
    axes: list[Axis] = []
    numbers: dict[str, tuple[int, list[Any]]] = {}
    at: list[NDArray[np.int64]] = []
    for name, given in columns.items():
        distinct, index = _distinct(np.asarray(given))
        axis = axis_of_number(name, distinct.tolist())
        numbers[name] = len(axes), list(axis.values)
        axes.append(axis)
        at.append(index)
    for axis in axes:
        document = axis.put(document, axis.values[0])
    family = ScenarioFamily(document, AxisGrid(tuple(axes)), numbers, {})
    rows = Rows(family, np.arange(len(at[0]) if at else 1), tuple(at))
    return mesh_of(family, importer, Shared() if shared is None else shared).evaluate(rows)


def axis_of_number(name: str, values: Sequence[float]) -> Axis:
    """Return the axis of a field of a `Point`."""
    section = "parallel" if name in DEGREES else "workload" if name in SIZES else "hardware"
    return Axis(
        f"{section}.{name}", (section, name), tuple(int(each) if each == int(each) else each for each in values)
    )


def _distinct(given: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the values of a column in order, and which of them each layout has."""
    if len(given) and given.min() >= 0.0 and given.max() <= len(given) + _LOOKED:
        whole = given.astype(np.int64)
        if (whole == given).all():  # a table of all whole numbers, instead of sorting
            there = np.bincount(whole) > 0
            return np.flatnonzero(there), np.take(np.cumsum(there) - 1, whole)
    distinct, index = np.unique(given, return_inverse=True)
    return distinct, index.ravel().astype(np.int64)


def _note(refused: Sequence[Refused], places: NDArray[Any], answer: MeshAnswer) -> None:
    for each in refused:
        answer.refuse(places[each.places], each.rule.code)


def _by_split(rows: Rows) -> list[NDArray[Any]]:
    """Return the points parted by which of their degrees exceed 1."""
    keys = np.zeros(len(rows), dtype=np.int64)
    for bit, name in enumerate(DEGREES):
        if name in rows.numbers():
            index, values = rows.numbers()[name]
            keys |= np.take(floats(values) > 1.0, index).astype(np.int64) << bit
    return alike(keys)
