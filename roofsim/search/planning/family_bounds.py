"""Bound all layouts of a family at once, before any is resolved: layers are priced once for all families that have the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.points import Diverged
from roofsim.records import dataclass, fields, replace
from roofsim.search.planning.bounds import Layouts, key_columns, least_memory, least_step
from roofsim.search.planning.layer_costs import MEMORY, PARTS, priced_layers
from roofsim.search.sampling import floats
from roofsim.search.stacking import alike, taken, varying
from roofsim.spec.scenario.point import Point

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from numpy.typing import NDArray

    from roofsim.search.families import Rows
    from roofsim.search.planning.objectives import Goal
    from roofsim.search.stacking import PointBatch
    from roofsim.spec.resolve import Resolved

    Array = NDArray[np.float64]

#: Numbers of a layout that its layers' costs do not depend on, or by way of `key_columns`.
_NOT_OF_LAYERS: Final = frozenset(
    {
        *("gpus", "pipeline", "virtual_stages", "data", "global_batch_size"),
        *("tensor", "context", "expert", "expert_tensor", "micro_batch_size", "batch_size"),
    }
)
#: Ends of the names of sizes of a workload.
_SIZES: Final = ("gpus", "size", "length", "steps")


@dataclass(frozen=True)
class FamilyBound:
    """What is known of layouts before they are resolved.

    Attributes
    ----------
    least
        What the objective of each is at least; 0 where nothing is known.
    full
        Which of them cannot fit in memory.
    """

    least: Array
    full: NDArray[np.bool_]

    def part(self, chosen: NDArray[Any]) -> FamilyBound:
        """Return those of some layouts."""
        return FamilyBound(self.least[chosen], self.full[chosen])


@dataclass(frozen=True)
class LayerTable:
    """What layers take in the families that have the same, by the numbers of layouts that it depends on.

    Attributes
    ----------
    resolved
        A scenario of these families; None where none is possible.
    places
        Numbers of `_keys` -> place in `costs`.
    costs
        Part of what a layer takes -> that of one layer and of the ends, of each place.
    scales
        Numbers of `_scale_keys` -> the least that a second of a step adds to the objective.
    """

    resolved: Resolved | None
    places: dict[tuple[float, ...], int]
    costs: dict[str, NDArray[np.float64]]
    scales: dict[tuple[float, ...], float]


class Bounds:
    """Bound the objective and the memory of layouts from below.

    Parameters
    ----------
    read
        Resolves layouts that are possible.
    """

    def __init__(self, goal: Goal, read: Callable[[Rows], Iterable[PointBatch]]) -> None:
        self.goal = goal
        self.read = read
        self.tables: dict[Hashable, LayerTable] = {}

    def of(self, rows: Rows, like: Callable[[], Rows | None], words: Hashable) -> FamilyBound:
        """Return what is known of the layouts of a family.

        Parameters
        ----------
        like
            Gives the rows of the family whose layers are priced for all that have the same `words` of layers.
        """
        count = len(rows)
        unknown = FamilyBound(np.zeros(count), np.zeros(count, dtype=bool))
        if words not in self.tables:
            others = like()
            self.tables[words] = self._table(others) if others is not None else LayerTable(None, {}, {}, {})
        table = self.tables[words]
        if table.resolved is None:
            return unknown
        _, scenario = rows.family.row("", 0)
        point = _point(rows)
        index = _looked_up(_keys(rows, point), table.places)
        if (index < 0).all():
            return unknown
        layouts = Layouts.of(point, scenario.parallel, table.resolved, count)
        costs = {name: (each[index, 0], each[index, 1]) for name, each in table.costs.items()}
        with np.errstate(all="ignore"):
            step, memory = least_step(layouts, costs), least_memory(layouts, costs)
        known = index >= 0
        capacity = np.max(np.asarray(table.resolved.gpu.memory.capacity, dtype=np.float64))
        least = memory if self.goal.objective == "memory" else self._scaled(table, rows, point, step)
        return FamilyBound(np.where(known, np.nan_to_num(least, nan=0.0), 0.0), known & (memory > capacity))

    def _scaled(self, table: LayerTable, rows: Rows, point: Point, step: Array) -> Array:
        """Return what steps add to the objective."""
        if self.goal.objective == "step_time":
            return step
        names, where = np.unique(_scale_keys(rows, point), axis=0, return_inverse=True)
        scales = np.array([table.scales.get(tuple(name), 0.0) for name in names.tolist()])
        least: Array = step * np.nan_to_num(scales[where.ravel()], nan=0.0)
        return least

    def _table(self, rows: Rows) -> LayerTable:
        """Price the layers of a family on each of the ranks that its layouts have."""
        places: dict[tuple[float, ...], int] = {}
        costs: list[dict[str, tuple[float, float]]] = []
        scales: dict[tuple[float, ...], float] = {}
        resolved: Resolved | None = None
        point = _point(rows)
        every, scaling = _keys(rows, point), _scale_keys(rows, point)
        for piece in self.read(rows):
            here = rows.places_of(piece.places)
            one = piece.resolved
            if one is None or one.workload.phase != "train" or one.model.layers_alike() is None:
                continue
            resolved = one
            keys, first = np.unique(every[here], axis=0, return_index=True)
            new = [at for at, key in enumerate(map(tuple, keys.tolist())) if key not in places]
            if not new:
                continue
            priced = priced_layers(one, first[new])
            for at in new:
                if int(first[at]) in priced:
                    places[tuple(keys[at].tolist())] = len(costs)
                    costs.append(priced[int(first[at])])
            if self.goal.objective not in ("step_time", "memory"):
                self._note_scales(scales, one, scaling[here])
        columns = {name: np.array([one[name] for one in costs]).reshape(-1, 2) for name in (*PARTS, *MEMORY)}
        return LayerTable(resolved, places, columns, scales)

    def _note_scales(self, scales: dict[tuple[float, ...], float], resolved: Resolved, names: NDArray[Any]) -> None:
        for name, scale in zip(map(tuple, names.tolist()), self._scale(resolved).tolist(), strict=True):
            scales[name] = min(scales.get(name, np.inf), scale)

    def _scale(self, resolved: Resolved) -> Array:
        """Return the least that each second of a layout's step adds to the objective."""
        try:
            return np.array(
                np.broadcast_to(np.asarray(self.goal.scale(resolved), dtype=np.float64), (resolved.points,))
            )
        except Diverged as diverged:  # whole nodes may have another price than single cards
            scale = np.zeros(resolved.points)
            for chosen in alike(np.asarray(diverged.labels)):
                scale[chosen] = self._scale(taken(resolved, chosen, varying(resolved)))
            return scale


def _point(rows: Rows) -> Point:
    """Return the numbers of layouts as they are written, those that differ as arrays."""
    _, scenario = rows.family.row("", 0)
    stated = Point.of(scenario.parallel, scenario.workload, scenario.hardware.gpus)
    return replace(stated, **{name: floats(values)[index] for name, (index, values) in rows.numbers().items()})


def _keys(rows: Rows, point: Point) -> NDArray[np.float64]:
    """Return the numbers that what a layer takes depends on, a row for each layout."""
    others = [name for name in sorted(rows.numbers()) if name not in _NOT_OF_LAYERS]
    return _stacked(rows, [*key_columns(point), *(getattr(point, name) for name in others)])


def _scale_keys(rows: Rows, point: Point) -> NDArray[np.float64]:
    """Return the numbers that what a second costs depends on, a row for each layout."""
    sizes = [field.name for field in fields(Point) if field.name in rows.numbers() and field.name.endswith(_SIZES)]
    return _stacked(rows, [point.gpus, *(getattr(point, name) for name in sizes)])


def _stacked(rows: Rows, columns: list[Any]) -> NDArray[np.float64]:
    tables = [rows.at[place] for places in rows.family.tables.values() for place in places]
    spread = [np.broadcast_to(np.asarray(each, dtype=np.float64), (len(rows),)) for each in (*columns, *tables)]
    return np.column_stack(spread)


def _looked_up(keys: NDArray[np.float64], places: dict[tuple[float, ...], int]) -> NDArray[np.int64]:
    """Return the place of each key; -1 where it is not known."""
    names, where = np.unique(keys, axis=0, return_inverse=True)
    known = np.array([places.get(tuple(name), -1) for name in names.tolist()], dtype=np.int64)
    return known[where.ravel()]
