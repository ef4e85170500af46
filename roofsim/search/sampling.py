"""Resolve, build and price a few sample points of a family, and keep what was done as a program that works for others like them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import numpy as np

from roofsim.analyze.ledger import memory_of
from roofsim.analyze.watts import drawn_watts
from roofsim.evaluate import evaluate
from roofsim.records import dataclass, field
from roofsim.search.resolving import NoneLeftError, PointChecks, RowsResolver
from roofsim.search.stacking import alike, mapped, stack
from roofsim.spec.scenario.point import DEGREES
from roofsim.traced.notes import Ref
from roofsim.traced.open_mesh import MeshReplay
from roofsim.traced.points import TracedPoints
from roofsim.traced.replay import Replay
from roofsim.traced.trace import SampleTrace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from roofsim.evaluate import Evaluation
    from roofsim.points import Points
    from roofsim.search.crossing import TableCross
    from roofsim.search.families import Rows
    from roofsim.search.resolving import Shared, SharedResolver
    from roofsim.spec.reading.told_apart import Importer
    from roofsim.spec.resolve import Resolved
    from roofsim.spec.rules.rule import Rule
    from roofsim.spec.scenario.workload import Scenario

T = TypeVar("T")
C = TypeVar("C")

#: Bytes that places beyond the device lack, all together.
MISSING: Final = "missing_off_device"
#: What the figures of layouts are.
FIGURES: Final = ("step_time", "memory.peak", "memory.capacity", MISSING)
#: The figure that is worked out where it is asked for: what each GPU draws on average, NaN where that is not known.
WATTS: Final = "watts"
#: Values of a table's axes up to which all of them are found for a program, whatever the points that it is traced for have.
MOST_VALUES: Final = 16_384
#: What code raises that is written for one number, and is given several.
NOT_FOR_ARRAYS: Final = (TypeError, ValueError, AttributeError, IndexError, KeyError)


class TraceChecks(PointChecks):
    """Take note of the conditions of rules that sample points are held against; none of them breaks one."""

    def __init__(self, document: Any, count: int) -> None:
        super().__init__(document, count)
        self.conditions: list[tuple[str, Any]] = []

    def hold(self, rules: Iterable[Rule[C]], case: C) -> None:
        """Note the rules' conditions."""
        for rule in rules:
            broken = rule.broken(case)
            if isinstance(broken, TracedPoints):
                self.conditions.append((rule.code, broken))
            elif np.any(broken):
                raise NoneLeftError


class SampledRows(RowsResolver):
    """Resolve sample points: what they have of each column is a leaf of a trace.

    Attributes
    ----------
    bits
        Name of a column -> its bit.
    leaves
        Node of a leaf -> the name of its column; of a table also its value in each of the table's rows.
    """

    def __init__(
        self, rows: Rows, samples: NDArray[Any], trace: SampleTrace, importer: Importer | None, shared: Shared
    ) -> None:
        super().__init__(rows, importer, shared)
        self.samples, self.trace = samples, trace
        self.checks: TraceChecks = TraceChecks(self.document, trace.samples)
        self.bits: dict[str, int] = {}
        self.leaves: dict[int, tuple[str, NDArray[np.float64] | None]] = {}
        self.axes: dict[str, tuple[str, int, tuple[Any, ...]]] = {}
        """Column of an axis of a table that was found along its axes -> the table, which axis, and its values."""
        self.decided = 0
        """Guards of the trace that the resolving needed."""

    def run(self) -> Resolved:
        """Return the scenarios of the samples as one."""
        resolved = super().run()
        self.decided = len(self.trace.guards)
        return resolved

    def _bit(self, name: str) -> int:
        if name not in self.bits:
            self.bits[name] = self.trace.column()
        return self.bits[name]

    def number(self, name: str, index: NDArray[Any], values: list[Any]) -> Any:
        """Return a number of the samples; one number where all points have the same."""
        if (index == index[0]).all():
            return values[index[0]]
        made = self.trace.leaf(floats(values)[index[self.samples]], self._bit(name))
        self.leaves[made.node] = name, None
        return made

    def joined(self, name: str, parts: list[T], index: NDArray[Any]) -> T:
        """Return the parts of a table's rows as the samples have them."""

        def leaf(numbers: Points) -> TracedPoints:
            values = np.asarray(numbers)
            made = self.trace.leaf(values[index[self.samples]], self._bit(name))
            self.leaves[made.node] = name, values
            return made

        whole: T = mapped(stack(parts, [1] * len(parts)), leaf)
        return whole

    def along(self, name: str, axis: int, values: NDArray[np.float64]) -> TracedPoints:
        """Return a number that one axis of a table changes as the samples have it: of a column of its own."""
        column = f"{name} {axis}"
        made = self.trace.leaf(np.take(values, self.rows.on_axis(name, axis)[self.samples]), self._bit(column))
        self.leaves[made.node] = column, values
        return made

    def crossed(self, name: str, rows: int) -> TableCross | None:
        """Return a table of few enough values, however many rows the points have: a program is kept for all of them."""
        del rows
        cross = self.rows.cross(name)
        return cross if sum(cross.shape) <= MOST_VALUES else None

    def _along_axes(self, name: str, cross: TableCross, find: Callable[[SharedResolver, Scenario], T]) -> T:
        whole = super()._along_axes(name, cross, find)
        for axis, values in enumerate(self.rows.axis_values(name)):
            self.axes[f"{name} {axis}"] = name, axis, values
        return whole


def priced_as_arrays(rows: Rows, importer: Importer | None, shared: Shared) -> dict[str, NDArray[np.float64]]:
    """Return the figures of points as code gives them that nobody takes note of.

    Raises
    ------
    Diverged
        Where they do not agree on what decides their program.
    """
    with np.errstate(all="ignore"):
        evaluation = evaluate(RowsResolver(rows, importer, shared).run())
        figures = _figures(evaluation)
    return {name: np.broadcast_to(np.asarray(value, dtype=np.float64), len(rows)) for name, value in figures.items()}


def _figures(evaluation: Evaluation) -> dict[str, Any]:
    memory, watts = memory_of(evaluation), drawn_watts(evaluation)
    missing: Any = sum(memory.missing_off_device.values(), 0.0)
    figures = (evaluation.step.step, memory.device_total, memory.capacity, missing, np.nan if watts is None else watts)
    return dict(zip((*FIGURES, WATTS), figures, strict=True))


def floats(values: Sequence[Any]) -> NDArray[np.float64]:
    """Return the values of an axis as numbers; NaN for what no scenario takes."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


@dataclass
class TracedProgram:
    """What was traced of points that decide alike.

    Attributes
    ----------
    bits, leaves
        As those of `SampledRows`.
    tables
        Name of a table that the points share rows of -> the numbers of these rows.
    axes
        As that of `SampledRows`: columns of tables whose axes change numbers of their own.
    fixed
        Column -> the value that all its points have, a number or the values of a table's axes.
    split
        Degree of parallelism -> whether it exceeds 1.
    rules
        Codes of the rules whose conditions it has, in the order in which they are held.
    refuses, guards, figures, watts
        Conditions of the rules, of points that break none what they must decide alike, the figures, and `WATTS`.
    """

    bits: dict[str, int]
    leaves: dict[int, tuple[str, NDArray[np.float64] | None]]
    tables: dict[str, tuple[Any, ...]]
    axes: dict[str, tuple[str, int, tuple[Any, ...]]]
    fixed: dict[str, Any]
    split: dict[str, bool]
    rules: tuple[str, ...]
    refuses: Replay
    guards: Replay
    figures: Replay
    watts: Replay
    answers: int = 0
    """How many points it gave figures of."""
    grids: dict[str, Any] = field(default_factory=dict)
    """Column -> what gives figures of grids of which it is the inner one."""
    meshes: dict[str, MeshReplay] = field(default_factory=dict)
    """Its parts on open meshes, as they are asked for."""

    def answered(
        self, rows: Rows, *, watts: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[str, Any], float]:
        """Work out points.

        Returns
        -------
        tuple
            Of each point the first rule that it breaks, -1 where it breaks none and -2 where it does not belong to the program;
            which points have figures, and these; and how many elements of arrays that took.
        """
        leaves, codes = self.columns(rows)
        broken, belongs, elements = self.refuses.run(leaves, codes, len(rows))
        first = first_broken([broken[str(place)] for place in range(len(self.rules))], len(rows))
        first[~belongs] = -2
        fine = np.flatnonzero(first == -1)
        if not len(fine):
            return first, fine, {}, elements
        if len(fine) < len(rows):
            codes = {bit: np.take(code, fine) for bit, code in codes.items()}
        _, belongs, more = self.guards.run(leaves, codes, len(fine))
        elements += more
        if not belongs.all():
            first[fine[~belongs]] = -2
            place = np.flatnonzero(belongs)
            codes = {bit: np.take(code, place) for bit, code in codes.items()}
            fine = np.take(fine, place)
        if not len(fine):
            return first, fine, {}, elements
        results, _, more = self.figures.run(leaves, codes, len(fine))
        if watts:
            drawn, _, further = self.watts.run(leaves, codes, len(fine))
            results, more = results | drawn, more + further
        return first, fine, results, elements + more

    def own(self, rows: Rows, beside: str = "") -> NDArray[np.bool_]:
        """Tell which points may belong to it, by single columns, all `beside` one."""
        own = np.ones(len(rows), dtype=bool)
        for name, (index, values) in rows.numbers().items():
            if name == beside:
                continue
            may = self.may(name, values)
            if not may.all():
                own &= np.take(may, index)
        for name, known in self.tables.items():
            values = rows.table_values(name)
            index = rows.table_index(name)
            own &= np.take(np.array([value in known for value in values]), index)
        for table, axis, known in self.axes.values():
            own &= np.take(
                np.array([value in known for value in rows.axis_values(table)[axis]]), rows.on_axis(table, axis)
            )
        return own

    def may(self, name: str, values: Sequence[Any]) -> NDArray[np.bool_]:
        """Tell which values of a number points that belong to it may have."""
        numbers = floats(values)
        may = np.ones(len(values), dtype=bool)
        if name in self.fixed:
            may &= numbers == self.fixed[name]
        if name in self.split:
            may &= (numbers > 1.0) == self.split[name]
        return may

    def mesh_of(self, part: str) -> MeshReplay:
        """Return what works out one of its parts (``refuses``, ``guards``, ``figures``) on open meshes."""
        if part not in self.meshes:
            replay: Replay = getattr(self, part)
            self.meshes[part] = MeshReplay(replay if part != "figures" else replay.plain())
        return self.meshes[part]

    def columns(self, rows: Rows) -> tuple[dict[int, NDArray[Any]], dict[int, NDArray[Any]]]:
        """Return the values of its leaves, and which of them each point has."""
        numbers = rows.numbers()
        codes: dict[int, NDArray[Any]] = {}
        for name, bit in self.bits.items():
            if name in self.tables:
                known = {value: place for place, value in enumerate(self.tables[name])}
                places = np.array([known.get(value, 0) for value in rows.table_values(name)], dtype=np.int32)
                codes[bit] = np.take(places, rows.table_index(name))
            elif name in self.axes:
                table, axis, values = self.axes[name]
                known = {value: place for place, value in enumerate(values)}
                places = np.array([known.get(value, 0) for value in rows.axis_values(table)[axis]], dtype=np.int32)
                codes[bit] = np.take(places, rows.on_axis(table, axis))
            else:
                codes[bit] = numbers[name][0]
        used: dict[str, NDArray[Any]] = {}
        for name, bit in self.bits.items():
            used[name], codes[bit] = _used(codes[bit])
        leaves = {
            node: np.take(floats(numbers[name][1]) if of_table is None else of_table, used[name], axis=0)
            for node, (name, of_table) in self.leaves.items()
        }
        return leaves, codes


class Tracing:
    """The tracing of some points of a family, by samples of them, which are dropped at the end of the context."""

    def __init__(
        self, rows: Rows, samples: NDArray[Any], number: int, importer: Importer | None, shared: Shared
    ) -> None:
        self.rows = rows
        self.trace = SampleTrace(number)
        self.resolver = SampledRows(rows, samples, self.trace, importer, shared)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.trace.close()

    def program(self) -> TracedProgram:
        """Resolve, build and price the samples.

        Raises
        ------
        TraceDiverged
            Where they do not agree on what decides their program.
        UntracedError
            Where code does something of which no note can be taken.
        """
        with np.errstate(all="ignore"):
            evaluation = evaluate(self.resolver.run())
            figures = _figures(evaluation)
        return self._program({name: _node(value) for name, value in figures.items()})

    def _program(self, figures: dict[str, Any]) -> TracedProgram:
        rows, conditions = self.rows, self.resolver.checks.conditions
        numbers = {name: floats(values)[index[0]] for name, (index, values) in rows.numbers().items()}
        codes, last = {str(place): _node(broken) for place, (_, broken) in enumerate(conditions)}, self.trace.guards
        return TracedProgram(
            bits=self.resolver.bits,
            leaves=self.resolver.leaves,
            tables={
                name: tuple(rows.table_values(name))
                for name in rows.family.tables
                if not any(table == name for table, *_ in self.resolver.axes.values())
            },
            axes=self.resolver.axes,
            fixed={name: value for name, value in numbers.items() if name not in self.resolver.bits},
            split={name: bool(value > 1.0) for name, value in numbers.items() if name in DEGREES},
            rules=tuple(code for code, _ in conditions),
            refuses=Replay(self.trace, codes, guards=last[: self.resolver.decided]),
            guards=Replay(self.trace, {}, guards=last[self.resolver.decided :]),
            figures=Replay(self.trace, {name: node for name, node in figures.items() if name != WATTS}, (), anew=True),
            watts=Replay(self.trace, {name: node for name, node in figures.items() if name == WATTS}, guards=()),
        )

    def parted(self, node: int) -> list[NDArray[Any]]:
        """Return the points, parted by what they say where samples did not agree."""
        first, fine, results, _ = self._program({"label": Ref(node)}).answered(self.rows)
        parts = [np.flatnonzero((first >= 0) | (first == -2)), *(fine[part] for part in alike(_flat(results, fine)))]
        return [part for part in parts if len(part)]


def _used(codes: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
    """Return which values of a column some points have, and which of these each has."""
    there = np.bincount(codes) > 0
    places: NDArray[np.int32] = np.cumsum(there, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(there), np.take(places, codes)


def _flat(results: dict[str, Any], fine: NDArray[Any]) -> NDArray[Any]:
    label = results.get("label")
    return np.zeros(len(fine)) if label is None else np.broadcast_to(label, (len(fine), *np.shape(label)[1:]))


def _node(value: Any) -> Any:
    return Ref(value.node) if isinstance(value, TracedPoints) else value


def first_broken(conditions: Sequence[Any], count: int) -> NDArray[np.int64]:
    """Return the number of the first condition that each point breaks; -1 where there is none."""
    first = np.full(count, -1)
    for number in reversed(range(len(conditions))):
        first[np.broadcast_to(conditions[number], count).astype(bool)] = number
    return first
