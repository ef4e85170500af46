"""Put scenarios that differ in numbers alone into one whose numbers are `Points`, and say which may be put together."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from roofsim.numeric import real
from roofsim.points import Points, number_at, points
from roofsim.records import dataclass, fields, is_dataclass, replace
from roofsim.schedule.pipeline.registry import schedule_named
from roofsim.schema.base import BaseModel
from roofsim.spec.scenario.point import Point
from roofsim.spec.settle.hardware import flat_override

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from numpy.typing import NDArray

    from roofsim.spec.resolve import Resolved

#: Texts of a scenario that decide nothing.
_TEXTS: Final = ("assumed", "warnings", "origins")
#: Degrees of parallelism that change the graph where they exceed 1.
_DEGREES: Final = (
    "tensor", "pipeline", "virtual_stages", "data", "context", "context_heads", "expert", "expert_tensor",
)  # fmt: skip
#: What numbers of several points are not.
_PLAIN: Final = (str, int, float)
#: Stands for any number in the form of a scenario.
_NUMBER: Final = "number"


@dataclass(frozen=True)
class Structure:
    """What decides the program of a scenario before any of its numbers is looked at: points of one structure are priced together.

    Attributes
    ----------
    split
        The degrees of parallelism that exceed 1.
    accumulates
        Whether a training step has several micro batches.
    nodes
        Whether it fills a node.
    simulated
        Whether it is a training pipeline whose closed form is not exact, which is run event by event.
    form
        All of the scenario but its numbers: model family, phase, engine and its words, card, system, sharding, recomputation,
        schedule, precision.
    """

    split: frozenset[str]
    accumulates: bool
    nodes: bool
    simulated: bool
    form: Hashable


@dataclass(frozen=True)
class PointBatch:
    """Points of a sweep that are worked on together.

    Attributes
    ----------
    places
        Which points of the space they are.
    resolved
        Their scenarios as one, whose numbers are `Points` in the order of `places`; of one point the scenario itself, or None
        where it is still to be resolved on its own.
    varies
        Parts of `resolved` that have numbers of several points.
    """

    places: NDArray[np.int64]
    resolved: Resolved | None
    varies: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.places)

    def part(self, chosen: NDArray[Any]) -> PointBatch:
        """Return some of the points, by their places in this piece."""
        if len(chosen) == len(self):
            return self
        if self.resolved is None or len(chosen) == 1:
            return PointBatch(self.places[chosen], None)
        varies = varying(self.resolved) if self.varies is None else self.varies
        return PointBatch(self.places[chosen], taken(self.resolved, chosen, varies), varies)

    def parts(self, labels: NDArray[Any]) -> list[PointBatch]:
        """Return the points of each label apart."""
        return [self.part(chosen) for chosen in alike(labels)]

    @classmethod
    def of(cls, pieces: Sequence[Self]) -> PointBatch:
        """Return the points of several pieces of one structure as one piece."""
        if len(pieces) == 1:
            return pieces[0]
        scenarios = [piece.resolved for piece in pieces if piece.resolved is not None]
        return PointBatch(np.concatenate([piece.places for piece in pieces]), stacked(scenarios))


def alike(labels: NDArray[Any]) -> list[NDArray[Any]]:
    """Return the places of equal labels (numbers, or rows of them), label by label.

    >>> [places.tolist() for places in alike(np.array([3, 1, 3]))]
    [[1], [0, 2]]
    """
    numbers = np.zeros(len(labels), dtype=np.int64)
    for column in labels.reshape(len(labels), -1).T:
        values, index = np.unique(column, return_inverse=True)
        numbers = numbers * len(values) + index.ravel()
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)


def structures_of(
    resolved: Resolved, forms: dict[int, tuple[object, Hashable]] | None = None
) -> list[tuple[Structure, NDArray[Any]]]:
    """Return the structures of the points of a scenario, each with the places of its points.

    `forms` keeps those of parts that scenarios share.
    """
    form = _form_of_scenario(resolved, {} if forms is None else forms)
    keys = _keys(resolved)
    structures = []
    for places in alike(keys):
        splits, accumulates, nodes, simulated = keys[places[0]].tolist()
        split = frozenset(name for bit, name in enumerate(_DEGREES) if splits >> bit & 1)
        structures.append((Structure(split, bool(accumulates), bool(nodes), bool(simulated), form), places))
    return structures


def by_structure(resolved: Resolved) -> list[NDArray[Any]]:
    """Return the places of the points of each structure, where one scenario's structures need no names."""
    return alike(_keys(resolved))


def _keys(resolved: Resolved) -> NDArray[np.int64]:
    """Return of each point the numbers that its structure depends on, (points, 4)."""
    point = Point.of(resolved.parallel, resolved.workload, resolved.gpus)
    trains, micro_batches = resolved.workload.phase == "train", point.micro_batches
    keys = np.zeros((resolved.points, 4), dtype=np.int64)
    for bit, name in enumerate(_DEGREES):
        degree = getattr(point, name)
        keys[:, 0] |= (np.asarray(1 if degree is None else degree) > 1).astype(np.int64) << bit
    keys[:, 1] = np.asarray(micro_batches) > 1 if trains else False
    keys[:, 2] = np.asarray(point.gpus) >= np.asarray(resolved.system.gpus_per_node)
    if trains and np.any(np.asarray(point.pipeline) > 1):
        numbers = np.zeros((resolved.points, 3), dtype=np.int64)
        for column, number in enumerate((point.pipeline, micro_batches, point.virtual_stages)):
            numbers[:, column] = np.asarray(number)
        for places in alike(numbers):
            keys[places, 3] = not _is_exact(resolved.parallel.schedule, *numbers[places[0]].tolist())
    return keys


@cache
def _is_exact(schedule: str, stages: int, micro_batches: int, virtual: int) -> bool:
    """Tell whether the closed form of a pipeline is exact."""
    numbers = real(stages), real(micro_batches), real(virtual)
    return stages == 1 or schedule_named(schedule, numbers[2]).is_exact(*numbers)


def _form_of_scenario(resolved: Resolved, forms: dict[int, tuple[object, Hashable]]) -> Hashable:
    key: list[Hashable] = [tuple(path for path, _ in flat_override(resolved.override))]
    for name in parts_of(resolved):
        part = getattr(resolved, name)
        if not isinstance(part, BaseModel):
            key.append(form_of(part))
            continue
        if id(part) not in forms:
            forms[id(part)] = part, form_of(part)
        key.append(forms[id(part)][1])
    return tuple(key)


def parts_of(resolved: Resolved) -> list[str]:
    """Return the fields of a scenario that decide what is computed."""
    return [field.name for field in fields(resolved) if field.name not in (*_TEXTS, "override", "choice", "points")]


def form_of(value: Any) -> Hashable:
    """Return what of a value is no number: values of one form differ in numbers alone."""
    if value is None or isinstance(value, str | bool):
        form: Hashable = value
    elif isinstance(value, int | float | Points):
        form = _NUMBER
    elif isinstance(value, BaseModel):
        form = type(value), tuple(form_of(part) for part in value.__dict__.values())
    elif isinstance(value, dict):
        form = tuple((str(key), form_of(part)) for key, part in value.items())
    elif isinstance(value, list | tuple):
        form = tuple(form_of(part) for part in value)
    elif is_dataclass(value):
        form = type(value), tuple(form_of(getattr(value, field.name)) for field in fields(value))
    else:
        form = repr(value)
    return form


def stacked(scenarios: Sequence[Resolved]) -> Resolved:
    """Return one scenario for several of the same structure: numbers that differ are `Points`, one element per scenario.

    Each may itself stand for several points; its elements stay in order.
    """
    first, counts = scenarios[0], [one.points for one in scenarios]
    update: dict[str, Any] = {
        name: stack([getattr(one, name) for one in scenarios], counts) for name in parts_of(first)
    }
    return replace(first, points=sum(counts), **update | dict.fromkeys(_TEXTS, ()))


def stack(values: list[Any], counts: list[int]) -> Any:
    """Return values of one form as one value; each stands for so many points. Numbers that differ become `Points`."""
    first = values[0]
    if all(value is first for value in values):
        return first
    stacked_value = first
    if isinstance(first, int | float | Points) and not isinstance(first, bool):
        stacked_value = _numbers(values, counts)
    elif isinstance(first, BaseModel):
        columns = {name: stack([value.__dict__[name] for value in values], counts) for name in first.__dict__}
        update = {name: value for name, value in columns.items() if value is not first.__dict__[name]}
        stacked_value = first.model_copy(update=update)
    elif isinstance(first, dict):
        stacked_value = {key: stack([value[key] for value in values], counts) for key in first}
    elif isinstance(first, list | tuple):
        stacked_value = type(first)(stack(list(column), counts) for column in zip(*values, strict=True))
    elif is_dataclass(first):
        names = [field.name for field in fields(first) if field.init]
        columns = {name: stack([getattr(value, name) for value in values], counts) for name in names}
        stacked_value = replace(first, **columns)  # type: ignore[type-var]
    return stacked_value


def _numbers(values: list[Any], counts: list[int]) -> Any:
    first = values[0]
    if not any(isinstance(value, Points) for value in values) and all(value == first for value in values):
        return first
    return points(np.concatenate([np.broadcast_to(value, count) for value, count in zip(values, counts, strict=True)]))


def varying(resolved: Resolved) -> tuple[str, ...]:
    """Return the parts of a scenario that have numbers of several points."""
    return tuple(name for name in parts_of(resolved) if has_points(getattr(resolved, name)))


def has_points(value: Any) -> bool:
    """Tell whether there are numbers of several points in a value."""
    if value is None or isinstance(value, _PLAIN):
        return False
    return isinstance(value, Points) or any(map(has_points, _inside(value)))


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, BaseModel):
        return value.__dict__.values()
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, list | tuple):
        return value
    if is_dataclass(type(value)):
        return (getattr(value, field.name) for field in fields(value) if field.init)
    return ()


def taken(resolved: Resolved, chosen: NDArray[Any], varies: Sequence[str]) -> Resolved:
    """Return the scenario of some of its points; degrees and sizes that are the same in all of them are one number."""
    update = {name: mapped(getattr(resolved, name), lambda numbers: numbers[chosen]) for name in varies}
    some = replace(resolved, points=len(chosen), **update)
    point = Point.of(some.parallel, some.workload, some.gpus)
    point = mapped(point, lambda numbers: number_at(numbers, 0) if (numbers == numbers[0]).all() else numbers)
    parallel, workload = point.layout(some.parallel), point.batch(some.workload)
    return replace(some, parallel=parallel, workload=workload, gpus=point.gpus)


def mapped(value: Any, change: Callable[[Points], Any]) -> Any:
    """Return a value with all `Points` in it changed; what has none is the same object."""
    if isinstance(value, Points):
        return change(value)
    if isinstance(value, BaseModel):
        update = _changes(value.__dict__, change)
        return value.model_copy(update=update) if update else value
    if isinstance(value, dict):
        update = _changes(value, change)
        return value | update if update else value
    if isinstance(value, list | tuple):
        items = [mapped(each, change) for each in value]
        return type(value)(items) if any(a is not b for a, b in zip(items, value, strict=True)) else value
    if is_dataclass(type(value)):
        update = _changes({field.name: getattr(value, field.name) for field in fields(value) if field.init}, change)
        return replace(value, **update) if update else value
    return value


def _changes(values: dict[Any, Any], change: Callable[[Points], Any]) -> dict[Any, Any]:
    changed = {}
    for key, value in values.items():
        if value is not None and not isinstance(value, _PLAIN) and (new := mapped(value, change)) is not value:
            changed[key] = new
    return changed
