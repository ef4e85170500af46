"""Evaluate layouts by the million: trace what becomes of a few sample points, and replay it for all others.

The points of a family (scenarios with the same words) differ in columns of numbers. `FamilyMesh` resolves, builds and prices a few
sample points of them as `TracedPoints`, and keeps the trace as a `Program`: which rules a point breaks, what its step takes, how
much memory. Points whose numbers decide otherwise than the samples' (`degree > 1`) are parted from them and traced on their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from roofsim.analyze.ledger import memory_of
from roofsim.errors import RoofsimError
from roofsim.evaluate import evaluate
from roofsim.points import Diverged
from roofsim.records import dataclass, field
from roofsim.replay import Replay
from roofsim.search.resolving import NoneLeftError, PointChecks, RowsResolver
from roofsim.search.stacking import alike, mapped, stack
from roofsim.spec.scenario.point import DEGREES
from roofsim.traced import SAMPLES, AmbiguousError, Ref, Trace, TraceDiverged, TracedPoints, UntracedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from roofsim.points import Points
    from roofsim.search.families import Rows
    from roofsim.search.resolving import Refused
    from roofsim.search.resolving import Shared
    from roofsim.spec.reading.told_apart import Importer
    from roofsim.spec.resolve import Resolved
    from roofsim.spec.rules.rule import Rule

T = TypeVar("T")
C = TypeVar("C")

#: What the figures of layouts are.
FIGURES: Final = ("step_time", "memory.peak", "memory.capacity")
#: What code raises that is written for one number, and is given several.
NOT_FOR_ARRAYS: Final = (TypeError, ValueError, AttributeError, IndexError, KeyError)
#: Points that are resolved to find possible ones among them.
_LOOKED: Final = 1024


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
        self, rows: Rows, samples: NDArray[Any], trace: Trace, importer: Importer | None, shared: Shared
    ) -> None:
        super().__init__(rows, importer, shared)
        self.samples, self.trace = samples, trace
        self.checks: TraceChecks = TraceChecks(self.document, trace.samples)
        self.bits: dict[str, int] = {}
        self.leaves: dict[int, tuple[str, NDArray[np.float64] | None]] = {}
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


def floats(values: Sequence[Any]) -> NDArray[np.float64]:
    """Return the values of an axis as numbers; NaN for what no scenario takes."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


@dataclass(frozen=True)
class Program:
    """What was traced of points that decide alike.

    Attributes
    ----------
    bits, leaves
        As those of `SampledRows`.
    tables
        Name of a table that the points share rows of -> the numbers of these rows.
    fixed
        Column -> the value that all its points have, a number or the values of a table's axes.
    split
        Degree of parallelism -> whether it exceeds 1.
    rules
        Codes of the rules whose conditions it has, in the order in which they are held.
    refuses, figures
        Conditions of the rules, and the figures of points that break none.
    """

    bits: dict[str, int]
    leaves: dict[int, tuple[str, NDArray[np.float64] | None]]
    tables: dict[str, tuple[Any, ...]]
    fixed: dict[str, Any]
    split: dict[str, bool]
    rules: tuple[str, ...]
    refuses: Replay
    figures: Replay

    def own(self, rows: Rows) -> NDArray[np.bool_]:
        """Tell which points may belong to it, by single columns."""
        own = np.ones(len(rows), dtype=bool)
        for name, (index, values) in rows.numbers().items():
            numbers = floats(values)
            may = np.ones(len(values), dtype=bool)
            if name in self.fixed:
                may &= numbers == self.fixed[name]
            if name in self.split:
                may &= (numbers > 1.0) == self.split[name]
            own &= np.take(may, index)
        for name, known in self.tables.items():
            values = rows.table_values(name)
            index = rows.table_index(name)
            own &= np.take(np.array([value in known for value in values]), index)
        return own

    def columns(self, rows: Rows) -> tuple[dict[int, NDArray[Any]], dict[int, NDArray[Any]]]:
        """Return the values of its leaves, and which of them each point has."""
        numbers = rows.numbers()
        codes: dict[int, NDArray[Any]] = {}
        for name, bit in self.bits.items():
            if name in self.tables:
                known = {value: place for place, value in enumerate(self.tables[name])}
                places = np.array([known.get(value, 0) for value in rows.table_values(name)], dtype=np.int32)
                codes[bit] = np.take(places, rows.table_index(name))
            else:
                codes[bit] = numbers[name][0]
        leaves = {
            node: floats(numbers[name][1]) if of_table is None else of_table
            for node, (name, of_table) in self.leaves.items()
        }
        return leaves, codes


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
    programs
        Programs that were traced for them.
    """

    figures: dict[str, NDArray[np.float64]]
    refused: NDArray[np.int64]
    codes: list[str] = field(default_factory=list)
    left: list[NDArray[np.int64]] = field(default_factory=list)
    elements: float = 0.0
    programs: int = 0

    def refuse(self, places: NDArray[Any], code: str) -> None:
        """Note points that break a rule."""
        if len(places):
            if code not in self.codes:
                self.codes.append(code)
            self.refused[places] = self.codes.index(code)


class FamilyMesh:
    """The programs of a family of points, by what decides them."""

    def __init__(self, importer: Importer | None, shared: Shared) -> None:
        self.importer, self.shared = importer, shared
        self.programs: list[Program] = []

    def evaluate(self, rows: Rows) -> MeshAnswer:
        """Return the figures of points of the family."""
        count = len(rows)
        answer = MeshAnswer({name: np.full(count, np.nan) for name in FIGURES}, np.full(count, -1))
        todo = _by_split(rows)
        for program in list(self.programs):
            todo = [left for part in todo if len(left := self._replayed(program, rows, part, answer))]
        while todo:
            todo += self._traced(rows, todo.pop(), answer)
        return answer

    def _replayed(self, program: Program, rows: Rows, chosen: NDArray[Any], answer: MeshAnswer) -> NDArray[Any]:
        """Put the figures of the points that belong to a program; return the others."""
        own = program.own(rows.part(chosen))
        inside = chosen[own]
        if not len(inside):
            return chosen
        part = rows.part(inside)
        leaves, codes = program.columns(part)
        broken, belongs, elements = program.refuses.run(leaves, codes, len(part))
        answer.elements += elements
        first = _first_broken([broken[str(place)] for place in range(len(program.rules))], len(part))
        for number, code in enumerate(program.rules):
            answer.refuse(inside[belongs & (first == number)], code)
        rest = [chosen[~own], inside[~belongs]]
        fine = np.flatnonzero(belongs & (first < 0))
        if len(fine):
            if len(fine) < len(part):
                codes = {bit: np.take(code, fine) for bit, code in codes.items()}
            results, belongs, elements = program.figures.run(leaves, codes, len(fine))
            answer.elements += elements
            places = inside[fine]
            for name, values in answer.figures.items():
                values[places[belongs]] = np.broadcast_to(results[name], belongs.shape)[belongs]
            rest.append(places[~belongs])
        return np.concatenate(rest)

    def _traced(self, rows: Rows, chosen: NDArray[Any], answer: MeshAnswer) -> list[NDArray[Any]]:
        """Trace some points, and keep the program; return points that are still to be evaluated."""
        looked = chosen if len(chosen) <= _LOOKED else np.random.default_rng(len(chosen)).permutation(chosen)[:_LOOKED]
        possible = self._possible(rows.part(looked), looked, answer)
        if not len(possible):
            return [left] if len(left := np.setdiff1d(chosen, looked, assume_unique=True)) else []
        for number in SAMPLES:
            samples = np.resize(np.searchsorted(chosen, possible), number)
            tracing = _Tracing(rows.part(chosen), samples, number, self.importer, self.shared)
            try:
                program = tracing.program()
            except AmbiguousError:
                continue
            except TraceDiverged as diverged:
                return [chosen[part] for part in tracing.parted(diverged.node)]
            except (UntracedError, Diverged, RoofsimError, *NOT_FOR_ARRAYS):
                break
            answer.programs += 1
            self.programs.append(program)
            left = self._replayed(program, rows, chosen, answer)
            if len(left) == len(chosen):  # it is of no use
                break
            return [left] if len(left) else []
        answer.left.append(chosen)
        return []

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


class _Tracing:
    """The tracing of some points of a family, by samples of them."""

    def __init__(
        self, rows: Rows, samples: NDArray[Any], number: int, importer: Importer | None, shared: Shared
    ) -> None:
        self.rows = rows
        self.trace = Trace(number)
        self.resolver = SampledRows(rows, samples, self.trace, importer, shared)

    def program(self) -> Program:
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
            memory = memory_of(evaluation)
        figures = (evaluation.step.step, memory.device_total, memory.capacity)
        return self._program(dict(zip(FIGURES, map(_node, figures), strict=True)))

    def _program(self, figures: dict[str, Any]) -> Program:
        rows, conditions = self.rows, self.resolver.checks.conditions
        numbers = {name: floats(values)[index[0]] for name, (index, values) in rows.numbers().items()}
        codes, last = {str(place): _node(broken) for place, (_, broken) in enumerate(conditions)}, self.trace.guards
        return Program(
            bits=self.resolver.bits,
            leaves=self.resolver.leaves,
            tables={name: tuple(rows.table_values(name)) for name in rows.family.tables},
            fixed={name: value for name, value in numbers.items() if name not in self.resolver.bits},
            split={name: bool(value > 1.0) for name, value in numbers.items() if name in DEGREES},
            rules=tuple(code for code, _ in conditions),
            refuses=Replay(self.trace, codes, guards=last[: self.resolver.decided]),
            figures=Replay(self.trace, figures, guards=last[self.resolver.decided :]),
        )

    def parted(self, node: int) -> list[NDArray[Any]]:
        """Return the points, parted by what they say where samples did not agree."""
        program = self._program({"label": Ref(node)})
        leaves, codes = program.columns(self.rows)
        broken, belongs, _ = program.refuses.run(leaves, codes, len(self.rows))
        first = _first_broken([broken[str(place)] for place in range(len(program.rules))], len(self.rows))
        parts = [np.flatnonzero(~belongs | (first >= 0))]
        fine = np.flatnonzero(belongs & (first < 0))
        some = {bit: np.take(code, fine) for bit, code in codes.items()}
        results, belongs, _ = program.figures.run(leaves, some, len(fine))
        parts += [fine[belongs][part] for part in alike(results["label"][belongs])]
        parts.append(fine[~belongs])
        return [part for part in parts if len(part)]


def _node(value: Any) -> Any:
    return Ref(value.node) if isinstance(value, TracedPoints) else value


def _first_broken(conditions: Sequence[Any], count: int) -> NDArray[np.int64]:
    """Return the number of the first condition that each point breaks; -1 where there is none."""
    first = np.full(count, -1)
    for number in reversed(range(len(conditions))):
        first[np.broadcast_to(conditions[number], count).astype(bool)] = number
    return first


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
