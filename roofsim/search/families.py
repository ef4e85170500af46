"""Deal the points of a sweep out to families: scenarios with the same words, whose numbers are resolved as arrays.

Axes are of three kinds. *Numbers* of a `Point` (degrees, batches, lengths) are arrays from the start. *Tables* are parts that are
found once for each of their values (a model with other numbers, what-ifs of the card, facts of the engine), and then looked up by
each point. All others are *words*: each combination of them is a family of its own.
"""

from __future__ import annotations

import itertools
import json
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.errors import SpecError
from roofsim.records import dataclass, field
from roofsim.search.crossing import TableCross
from roofsim.spec.reading.source import from_mapping
from roofsim.spec.reading.validate import validate
from roofsim.spec.scenario.point import DEGREES, SIZES
from roofsim.spec.scenario.workload import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from roofsim.search.axes import Axis, AxisGrid
    from roofsim.spec.reading.source import Document

#: Points that are resolved as one array: few enough to bound memory.
MOST_RESOLVED: Final = 65_536
#: A scenario in which the value of one key is read.
_ANY: Final = from_mapping({"model": "gpt2"})
#: Sizes that mean the same: where both are given, whether they agree is for the schema to say.
_BATCH: Final = {"micro_batch_size", "batch_size"}


def number_of(axis: Axis) -> str | None:
    """Return the field of a `Point` that an axis is; None for any other axis."""
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in axis.values):
        return None
    if axis.path == ("hardware", "gpus"):
        return "gpus"
    section, *rest = axis.path
    fields = {"parallel": DEGREES, "workload": SIZES}.get(section, ())
    return rest[0] if len(rest) == 1 and rest[0] in fields else None


def table_of(axis: Axis) -> str | None:
    """Return the part of a scenario that an axis changes numbers of; None where it is no such part."""
    if axis.path[0] == "model" and len(axis.path) > 1:
        return "model"
    section = ".".join(axis.path[:2])
    return {"hardware.override": "hardware", "workload.engine_facts": "engine"}.get(
        section if len(axis.path) > 2 else ""
    )


@dataclass
class ScenarioFamily:
    """Scenarios with the same words.

    Attributes
    ----------
    document
        The scenario of the first of them.
    numbers
        Field of a `Point` -> what each value of its axis is in a scenario; None of those that no scenario takes.
    tables
        Part of a scenario -> the axes that change it.
    scenarios
        What was read of the rows of tables.
    """

    document: Document
    space: AxisGrid
    numbers: dict[str, tuple[int, list[Any]]]
    tables: dict[str, tuple[int, ...]]
    scenarios: dict[tuple[str, int], tuple[Document, Scenario]] = field(default_factory=dict)

    def form(self) -> tuple[Any, ...]:
        """Return what its scenarios have in common, whatever the values of its columns."""
        axes = [self.space.axes[place] for place, _ in self.numbers.values()]
        axes += [self.space.axes[place] for places in self.tables.values() for place in places]
        data = self.document.data
        for axis in axes:
            data = _without(data, axis.path)
        columns = tuple(sorted(self.numbers)), tuple(sorted(axis.path for axis in axes))
        return json.dumps(data, sort_keys=True, default=repr), self.document.source, columns

    def row(self, table: str, number: int) -> tuple[Document, Scenario]:
        """Return the scenario with one combination of the values of a table's axes.

        Raises
        ------
        SpecError
            When it is none.
        """
        key = table, number
        if key not in self.scenarios:
            document = self.document
            axes = [self.space.axes[place] for place in self.tables.get(table, ())]
            at = np.unravel_index(number, [len(axis.values) for axis in axes]) if axes else ()
            for axis, place in zip(axes, at, strict=True):
                document = axis.put(document, axis.values[int(place)])
            self.scenarios[key] = document, validate(Scenario, document, si=document.data.get("units") == "SI")
        return self.scenarios[key]


@dataclass(frozen=True)
class Rows:
    """Some points of a family: which points of the space they are, and the place of each on every axis."""

    family: ScenarioFamily
    places: NDArray[np.int64]
    at: tuple[NDArray[np.int64], ...]

    def __len__(self) -> int:
        return len(self.places)

    def part(self, chosen: NDArray[Any]) -> Rows:
        """Return some of them."""
        if len(chosen) == len(self) and (chosen == np.arange(len(self))).all():
            return self
        return Rows(self.family, self.places[chosen], tuple(index[chosen] for index in self.at))

    def elsewhere(self, number: int) -> Rows:
        """Return so many points at random among all of the family, whichever of them these are."""
        shape = [len(axis.values) for axis in self.family.space.axes]
        inner, draw = inner_of(self.family.numbers, self.family.tables), np.random.default_rng(number)
        at = [
            draw.integers(0, length, number) if place in inner else np.full(number, self.at[place][0])
            for place, length in enumerate(shape)
        ]
        return Rows(self.family, np.ravel_multi_index(at, shape), tuple(at))

    def places_of(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which of them some points of the space are."""
        order = np.argsort(self.places, kind="stable")
        return order[np.searchsorted(self.places, numbers, sorter=order)]

    def readable(self) -> NDArray[np.bool_]:
        """Tell which of them have numbers that a scenario takes."""
        fine = np.ones(len(self), dtype=bool)
        for place, values in self.family.numbers.values():
            fine &= np.array([value is not None for value in values])[self.at[place]]
        return fine

    def numbers(self) -> dict[str, tuple[NDArray[np.int64], list[Any]]]:
        """Return of each swept number its values, and which of them each point has."""
        return {name: (self.at[place], values) for name, (place, values) in self.family.numbers.items()}

    def table_values(self, name: str) -> list[tuple[Any, ...]]:
        """Return the values of a table's axes in each of the rows that `table` names."""
        rows, _ = self.table(name) or ([], None)
        axes = [self.family.space.axes[place].values for place in self.family.tables[name]]
        at = [np.unravel_index(row, list(map(len, axes))) for row in rows]
        return [tuple(axis[int(place)] for axis, place in zip(axes, own, strict=True)) for own in at]

    def table_index(self, name: str) -> NDArray[np.int64]:
        """Return which of these rows each point has."""
        table = self.table(name)
        return np.zeros(len(self), dtype=np.int64) if table is None else table[1]

    def cross(self, name: str) -> TableCross:
        """Return the shape of a table: how many values each of its axes has, whether the points have them or not."""
        return TableCross(tuple(map(len, self.axis_values(name))))

    def axis_values(self, name: str) -> list[tuple[Any, ...]]:
        """Return the values of each axis of a table."""
        return [self.family.space.axes[place].values for place in self.family.tables[name]]

    def on_axis(self, name: str, axis: int) -> NDArray[np.int64]:
        """Return which value of an axis of a table each point has."""
        return self.at[self.family.tables[name][axis]]

    def table(self, name: str) -> tuple[list[int], NDArray[np.int64]] | None:
        """Return the rows of a table that the points have, and the place among them of each point's; None without such axes."""
        axes = self.family.tables.get(name)
        if axes is None:
            return None
        shape = [len(self.family.space.axes[place].values) for place in axes]
        numbers = np.ravel_multi_index([self.at[place] for place in axes], shape)
        rows, index = np.unique(numbers, return_inverse=True)
        return rows.tolist(), index.ravel()


def families_of(base: Document, space: AxisGrid) -> Iterator[tuple[ScenarioFamily, dict[int, int]]]:
    """Yield the families of a space, each with the value that all its points have on the axes that are words.

    Raises
    ------
    SpecError
        When a key lies below a value that is no mapping.
    """
    numbers, tables = numbers_of(base, space), tables_of(space)
    inner = inner_of(numbers, tables)
    words = [place for place in range(len(space.axes)) if place not in inner]
    usual = {
        place: next((at for at, value in enumerate(read) if value is not None), 0) for place, read in numbers.values()
    }
    for chosen in itertools.product(*(range(len(space.axes[place].values)) for place in words)):
        at = usual | dict(zip(words, chosen, strict=True))
        document = base
        for place, axis in enumerate(space.axes):
            document = axis.put(document, axis.values[at.get(place, 0)])
        yield ScenarioFamily(document, space, numbers, tables), at


def tables_of(space: AxisGrid) -> dict[str, tuple[int, ...]]:
    """Return the axes that change numbers of a part of a scenario: the part -> which axes they are."""
    tables: dict[str, tuple[int, ...]] = {}
    for place, axis in enumerate(space.axes):
        if (table := table_of(axis)) is not None:
            tables[table] = (*tables.get(table, ()), place)
    return tables


def inner_of(numbers: dict[str, tuple[int, list[Any]]], tables: dict[str, tuple[int, ...]]) -> list[int]:
    """Return the axes whose values points of one family differ in."""
    return sorted([*(place for place, _ in numbers.values()), *itertools.chain.from_iterable(tables.values())])


def rows_of(family: ScenarioFamily, at: dict[int, int]) -> Iterator[Rows]:
    """Yield the points of a family, at most `MOST_RESOLVED` at a time: `at` has one value of each axis that is a word."""
    shape, inner = [len(axis.values) for axis in family.space.axes], inner_of(family.numbers, family.tables)
    sizes = [shape[place] for place in inner]
    for first in range(0, math.prod(sizes), MOST_RESOLVED):
        flat = np.arange(first, min(first + MOST_RESOLVED, math.prod(sizes)))
        index = [np.full(len(flat), at.get(place, 0)) for place in range(len(shape))]
        for place, part in zip(inner, np.unravel_index(flat, sizes) if inner else (), strict=True):
            index[place] = part
        places = np.ravel_multi_index(index, shape) if shape else flat
        yield Rows(family, places, tuple(index))


def numbers_of(base: Document, space: AxisGrid) -> dict[str, tuple[int, list[Any]]]:
    """Return the axes that are numbers: field of a `Point` -> which axis it is, and what its values are in a scenario."""
    fields = {number_of(axis): place for place, axis in enumerate(space.axes)}
    batch = {name for name in _BATCH if name in fields or base.states("workload", name)}
    passed_over = {None, *(batch if len(batch) > 1 else ())}
    return {
        name: (place, [_read(space.axes[place], value) for value in space.axes[place].values])
        for name, place in fields.items()
        if name is not None and name not in passed_over
    }


def _without(data: Any, path: tuple[str, ...]) -> Any:
    """Return a mapping without what stands at a path."""
    if not isinstance(data, dict) or path[0] not in data:
        return data
    if len(path) == 1:
        return {key: value for key, value in data.items() if key != path[0]}
    return data | {path[0]: _without(data[path[0]], path[1:])}


def _read(axis: Axis, value: Any) -> Any:
    """Return what a value is in a scenario; None where no scenario takes it."""
    try:
        scenario: Any = validate(Scenario, axis.put(_ANY, value))
    except SpecError:
        return None
    for name in axis.path:
        scenario = getattr(scenario, name)
    return scenario
