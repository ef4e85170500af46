"""Resolve the many scenarios of a sweep: as arrays, and parts that points share (model, engine, card) once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from roofsim.errors import SpecError
from roofsim.points import Diverged, points
from roofsim.records import dataclass, replace
from roofsim.search.crossing import CHECKED, InseparableError, TableCross
from roofsim.search.stacking import form_of, mapped, stack
from roofsim.spec.resolve import Resolver
from roofsim.spec.rules.rule import Checks
from roofsim.spec.scenario.point import Point, at_place
from roofsim.spec.settle.hardware import find_hardware, flat_override

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from numpy.typing import NDArray

    from roofsim.search.families import Rows
    from roofsim.spec.engine.schema import Engine
    from roofsim.spec.model.base import ModelSpec
    from roofsim.spec.reading.source import Document
    from roofsim.spec.reading.told_apart import Importer
    from roofsim.spec.resolve import Resolved
    from roofsim.spec.rules.rule import Rule
    from roofsim.spec.scenario.workload import HardwareChoice, Scenario, Workload
    from roofsim.spec.settle.hardware import Hardware

T = TypeVar("T")
C = TypeVar("C")

#: Part of a scenario that may have a table -> the section that says what it is.
_SECTION_OF: Final = {"model": "model", "engine": "workload", "hardware": "hardware"}


class NoneLeftError(Exception):
    """All points of a family break a rule."""


@dataclass(frozen=True)
class Refused:
    """Points that break a rule: their places among those that were looked at, and what the rule looked at."""

    rule: Rule[Any]
    case: Any
    places: NDArray[np.int64]

    def reason(self, place: int, document: Document) -> str:
        """Return what is wrong with one of them, and the way out."""
        return SpecError(self.rule.problem(at_place(self.case, place), document)).reason


class PointChecks(Checks):
    """Hold many points against rules at once; those that break one are set aside, and the others go on."""

    quiet = True

    def __init__(self, document: Document, count: int) -> None:
        super().__init__(document)
        self.open = np.ones(count, dtype=bool)
        self.refused: list[Refused] = []

    def hold(self, rules: Iterable[Rule[C]], case: C) -> None:
        """Set the points aside that break a rule.

        Raises
        ------
        NoneLeftError
            When no point is left.
        """
        for rule in rules:
            with np.errstate(all="ignore"):  # of points that break an earlier rule
                broken = rule.broken(case)
            if broken is False:
                continue
            places = np.flatnonzero(np.broadcast_to(np.asarray(broken, dtype=bool), self.open.shape) & self.open)
            if len(places):
                self.refused.append(Refused(rule, case, places))
                self.open[places] = False
                if not self.open.any():
                    raise NoneLeftError


class Shared:
    """What was found for earlier points: part of a scenario, as it was written -> what it is, and what was said of it."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, ...], tuple[Any, tuple[list[Any], ...], str]] = {}

    def of(self, key: tuple[str, ...], resolver: Resolver, find: Callable[[], T]) -> T:
        """Return what a part is: found before, or now; `resolver` hears what was assumed either way."""
        lists: tuple[list[Any], ...] = (resolver.assumed, resolver.origins, resolver.warnings)
        if key not in self._found:
            before = [len(heard) for heard in lists]
            value = find()
            said = tuple(list(heard[length:]) for heard, length in zip(lists, before, strict=True))
            self._found[key] = value, said, resolver.engine_label
            return value
        value, said, label = self._found[key]
        for heard, new in zip(lists, said, strict=True):
            heard.extend(new)
        resolver.engine_label = resolver.engine_label or label
        return value

    def resolver(self, document: Document, importer: Importer | None) -> Resolver:
        """Return what resolves one more document, and looks up only what none before it had."""
        return SharedResolver(document, importer, self)


class SharedResolver(Resolver):
    """Resolve one of many documents that differ in a few keys."""

    def __init__(self, document: Document, importer: Importer | None, shared: Shared) -> None:
        super().__init__(document, importer)
        self.shared = shared

    def model(self, given: str | dict[str, Any]) -> ModelSpec:
        """Find the model."""
        return self.shared.of(("model", _text(given)), self, lambda: super(SharedResolver, self).model(given))

    def engine(self, workload: Workload) -> Engine:
        """Find the engine."""
        words = [getattr(workload, name) for name in ("engine_facts", "attention", "memory_format", "phase")]
        key = ("engine", _text(self._at("workload", "engine")), _text(words))
        return self.shared.of(key, self, lambda: super(SharedResolver, self).engine(workload))

    def hardware(self, choice: HardwareChoice, gpus: int) -> Hardware:
        """Find card and node."""
        key = ("hardware", str(gpus), _text(self._at("hardware")))
        return self.shared.of(key, self, lambda: super(SharedResolver, self).hardware(choice, gpus))

    def _at(self, *path: str) -> Any:
        at: Any = self.document.data
        for part in path:
            at = at.get(part) if isinstance(at, dict) else None
        return at


class RowsResolver(SharedResolver):
    """Resolve points of a family together: their numbers are `Points`.

    Attributes
    ----------
    refused
        The points that break a rule.
    """

    def __init__(self, rows: Rows, importer: Importer | None, shared: Shared) -> None:
        super().__init__(rows.family.document, importer, shared)
        self.rows = rows
        self.checks: PointChecks = PointChecks(self.document, len(rows))

    @property
    def refused(self) -> list[Refused]:
        """Points that break a rule."""
        return self.checks.refused

    def run(self) -> Resolved:
        """Return the scenarios of all points as one; what it says of points that break a rule means nothing.

        Raises
        ------
        Diverged
            Where points differ in what decides how others are resolved.
        NoneLeftError
            When every point breaks a rule.
        SpecError
            When something is wrong with all points that no rule is about.
        """
        scenario = self._scenario()
        point = Point.of(scenario.parallel, scenario.workload, scenario.hardware.gpus)
        swept = {name: self.number(name, index, values) for name, (index, values) in self.rows.numbers().items()}
        scenario = self._of_first_rows(scenario)
        return replace(self.settled(scenario, replace(point, **swept)), points=len(self.rows))

    def number(self, name: str, index: NDArray[Any], values: list[Any]) -> Any:
        """Return a number of each point, by its name, the place of its value and the values; one number where all have the same."""
        del name
        used = np.unique(index)
        return values[used[0]] if len(used) == 1 else points(np.asarray(values, dtype=np.float64)[index])

    def joined(self, name: str, parts: list[T], index: NDArray[Any]) -> T:
        """Return the parts of a table's rows, all of one form, as looked up by each point."""
        del name
        whole: T = mapped(stack(parts, [1] * len(parts)), lambda numbers: numbers[index])
        return whole

    def along(self, name: str, axis: int, values: NDArray[np.float64]) -> Any:
        """Return a number that one axis of a table changes, as looked up by each point; `values` along that axis."""
        return points(values[self.rows.on_axis(name, axis)])

    def crossed(self, name: str, rows: int) -> TableCross | None:
        """Return a table that is found along its axes rather than row by row, of so many rows that points have; None otherwise."""
        cross = self.rows.cross(name)
        return cross if sum(cross.shape) + 2 * CHECKED < rows else None

    def _of_first_rows(self, scenario: Scenario) -> Scenario:
        """Return the scenario with the words of the first row of each table."""
        update: dict[str, Any] = {}
        for name, section in _SECTION_OF.items():
            table = self.rows.table(name)
            if table is not None:
                update[section] = getattr(self.rows.family.row(name, table[0][0])[1], section)
        return scenario.model_copy(update=update) if update else scenario

    def note_unstated(self, scenario: Scenario) -> None:
        """Note nothing: nobody reads what was assumed of a point of a sweep."""

    def model(self, given: str | dict[str, Any]) -> ModelSpec:
        """Find the models, one for each row of their table."""
        del given  # each row has its own
        return self._of_table("model", lambda resolver, scenario: resolver.model(scenario.model))

    def engine(self, workload: Workload) -> Engine:
        """Find the engines, one for each row of their table."""
        phase = {"phase": workload.phase}  # that of this model, where the scenario says inference

        def find(resolver: SharedResolver, scenario: Scenario) -> Engine:
            return resolver.engine(scenario.workload.model_copy(update=phase))

        return self._of_table("engine", find)

    def hardware(self, choice: HardwareChoice, gpus: Any) -> Hardware:
        """Find cards and nodes, one for each row of their table."""
        del choice  # each row has its own

        def find(resolver: SharedResolver, scenario: Scenario) -> Hardware:
            if isinstance(gpus, int):
                return resolver.hardware(scenario.hardware, gpus)
            if getattr(gpus, "sampled", False):
                return find_hardware(scenario.hardware, resolver.document, gpus)
            fewest, most = (resolver.hardware(scenario.hardware, int(bound(gpus))) for bound in (np.min, np.max))
            same = fewest.system == most.system and fewest.places == most.places
            return fewest if same else find_hardware(scenario.hardware, resolver.document, gpus)

        return self._of_table("hardware", find)

    def _of_table(self, name: str, find: Callable[[SharedResolver, Scenario], T]) -> T:
        """Return a part of the scenarios that may have a table: found once for each row, and looked up by each point.

        Raises
        ------
        Diverged
            Where rows are of several forms, or some cannot be.
        SpecError
            Where no row can be.
        """
        table = self.rows.table(name)
        numbers, index = ([0], None) if table is None else table
        cross = None if table is None else self.crossed(name, len(numbers))
        if cross is not None:
            try:
                return self._along_axes(name, cross, find)
            except (InseparableError, SpecError):
                pass
        parts: list[Any] = []
        forms: list[Hashable] = []
        for number in numbers:
            try:
                part, overridden = self._found(name, number, find)
                parts.append(part)
                forms.append((form_of(part), overridden) if len(numbers) > 1 else None)
            except SpecError as error:
                parts.append(error)
                forms.append(None)
        if index is None or len(set(forms)) == 1:
            if isinstance(parts[0], SpecError):
                raise parts[0]
            return parts[0] if index is None else self.joined(name, parts, index)  # type: ignore[no-any-return]
        known = {form: number for number, form in enumerate(dict.fromkeys(forms))}
        raise Diverged(np.array([known[form] for form in forms])[index])

    def _along_axes(self, name: str, cross: TableCross, find: Callable[[SharedResolver, Scenario], T]) -> T:
        """Return a part of the scenarios, found along the axes of its table.

        Raises
        ------
        InseparableError
            Where a number follows from several axes, or rows are of several forms.
        SpecError
            Where some row cannot be.
        """
        forms: set[Hashable] = set()

        def part(number: int) -> T:
            row, overridden = self._found(name, number, find)
            forms.add((form_of(row), overridden))
            if len(forms) > 1:
                raise InseparableError
            return row

        return cross.joined(part, lambda axis, values: self.along(name, axis, values))  # type: ignore[no-any-return]

    def _found(self, name: str, number: int, find: Callable[[SharedResolver, Scenario], T]) -> tuple[T, Hashable]:
        """Return a part of a row of a table, and which facts of its hardware the row states."""
        document, scenario = self.rows.family.row(name, number)
        resolver = SharedResolver(document, self.importer, self.shared)
        part = find(resolver, scenario)
        self.engine_label = resolver.engine_label or self.engine_label
        return part, tuple(path for path, _ in flat_override(scenario.hardware.override))


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=repr)
