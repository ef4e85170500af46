"""Keep what layers take in the families that have the same, by the numbers of layouts that it depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim import records
from roofsim.records import dataclass, fields, replace
from roofsim.search.planning.bounds import key_columns
from roofsim.search.planning.layer_costs import (
    HOST,
    MEMORY,
    STAGE_PARTS,
    STAGES,
    STATES,
    host_layers,
    stage_part,
    staged_layers,
)
from roofsim.search.sampling import floats
from roofsim.spec.scenario.point import Point

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from roofsim.search.families import Rows
    from roofsim.spec.resolve import Resolved
    from roofsim.spec.scenario.offload import Offload

#: Numbers of a layout that its layers' costs do not depend on, or by way of `key_columns`.
_NOT_OF_LAYERS: Final = frozenset(
    {
        *("gpus", "pipeline", "virtual_stages", "data", "global_batch_size"),
        *("tensor", "context", "expert", "expert_tensor", "micro_batch_size", "batch_size"),
    }
)
#: Ends of keys that say how messages between replicas, and between the stages of a pipeline, are sent: a layer alone has none.
_OUTSIDE: Final = (("overlap", "data"), ("overlap", "pipeline"), ("pipeline_message",))
#: Layouts that are resolved to find one that is possible, for each of the numbers that what layers take depends on.
MOST_ALIKE: Final = 256
#: Ends of the names of sizes of a workload.
_SIZES: Final = ("gpus", "size", "length", "steps")


@dataclass(frozen=True)
class LayerTable:
    """What layers take in the families that have the same, by the numbers of layouts that it depends on.

    Attributes
    ----------
    resolved
        A scenario of these families; None where none is possible.
    places
        Numbers of `layer_keys` -> place in `costs`.
    costs
        Part of what a layer takes -> that of one layer and of the ends, of each place.
    scales
        Numbers of `scale_keys` -> the least that a second of a step adds to the objective.
    samples
        What the places were priced of: a scenario, the layouts of it, and their places.
    hosts
        Parts of the state that are off the device -> what layers take of the host and hold, as `costs`; filled when asked for.
    stages
        Part of what stages of small pipelines hold -> that of each place, as `costs`; filled when asked for.
    asked
        What was asked for so: the parts that are off the device, or the stages -> for which of `samples`.
    """

    resolved: Resolved | None = None
    places: dict[tuple[float, ...], int] = records.field(default_factory=dict)
    costs: dict[str, NDArray[np.float64]] = records.field(default_factory=dict)
    scales: dict[tuple[float, ...], float] = records.field(default_factory=dict)
    samples: list[tuple[Resolved, NDArray[np.int64], NDArray[np.int64]]] = records.field(default_factory=list)
    hosts: dict[Offload, dict[str, NDArray[np.float64]]] = records.field(default_factory=dict)
    stages: dict[str, NDArray[np.float64]] = records.field(default_factory=dict)
    asked: dict[Offload | str, set[int]] = records.field(default_factory=dict)

    def host(self, offload: Offload, wanted: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
        """Return what layers take of the host with parts of the state off the device; 0 where that cannot be known.

        Of the places that are `wanted`, and of others where they are known.
        """
        if offload not in self.hosts:
            self.hosts[offload] = {name: np.zeros((len(self.places), 2)) for name in (*HOST, *MEMORY)}
        columns = self.hosts[offload]
        self._fill(columns, offload, wanted, lambda resolved, chosen: host_layers(resolved, chosen, offload))
        return columns

    def staged(self, wanted: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
        """Return what stages of small pipelines hold, of the places that are `wanted`, and of others where it is known.

        Where that cannot be known, a stage hands on what its last layer saved.
        """
        if not self.stages:
            self.stages.update(_handed_on(self.costs))
        self._fill(self.stages, "stages", wanted, staged_layers)
        return self.stages

    def handed_on(self) -> dict[str, NDArray[np.float64]]:
        """Return what stages hold at least, whatever they hand on."""
        return _handed_on(self.costs)

    def _fill(
        self,
        columns: dict[str, NDArray[np.float64]],
        what: Offload | str,
        wanted: NDArray[np.int64],
        of_layers: Callable[[Resolved, NDArray[np.int64]], dict[int, dict[str, tuple[float, float]]]],
    ) -> None:
        """Put what layers take into columns: of the samples that were not asked before and have a place that is wanted."""
        done = self.asked.setdefault(what, set())
        for number, (resolved, chosen, places) in enumerate(self.samples):
            if number in done or not np.isin(places, wanted).any():
                continue
            done.add(number)
            known = of_layers(resolved, chosen)
            for at, place in zip(chosen.tolist(), places.tolist(), strict=True):
                for name, pair in known.get(at, {}).items():
                    columns[name][place] = pair

    def hides(self) -> NDArray[np.bool_]:
        """Tell at which places the host updates state while the backward pass goes on."""
        hides = np.zeros(len(self.places), dtype=bool)
        for resolved, _, places in self.samples:
            hides[places] = resolved.engine.communication.overlap.update
        return hides


def _handed_on(costs: dict[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
    """Return what stages hold at least where no such pipeline is known: they may hand on what their last layer made."""
    saved = costs["saved"][:, 0]
    known = dict.fromkeys(STAGE_PARTS, np.zeros((0, 2)))
    for stage in STAGES:
        known |= {
            stage_part(stage, name): np.column_stack([costs[name][:, 0], np.zeros(len(saved))]) for name in STATES
        }
        known[stage_part(stage, "saved")] = np.column_stack([saved, -saved])
        known[stage_part(stage, "above")] = np.zeros((len(saved), 2))
    return known


def point_of(rows: Rows) -> Point:
    """Return the numbers of layouts as they are written, those that differ as arrays."""
    _, scenario = rows.family.row("", 0)
    stated = Point.of(scenario.parallel, scenario.workload, scenario.hardware.gpus)
    return replace(stated, **{name: floats(values)[index] for name, (index, values) in rows.numbers().items()})


def layer_keys(rows: Rows, point: Point) -> NDArray[np.float64]:
    """Return the numbers that what a layer takes depends on, a row for each layout."""
    others = [name for name in sorted(rows.numbers()) if name not in _NOT_OF_LAYERS]
    axes = rows.family.space.axes
    tables = [place for place in _tables(rows) if not any(axes[place].path[-len(end) :] == end for end in _OUTSIDE)]
    return _stacked(rows, [*key_columns(point), *(getattr(point, name) for name in others)], tables)


def scale_keys(rows: Rows, point: Point) -> NDArray[np.float64]:
    """Return the numbers that what a second costs depends on, a row for each layout."""
    sizes = [field.name for field in fields(Point) if field.name in rows.numbers() and field.name.endswith(_SIZES)]
    return _stacked(rows, [point.gpus, *(getattr(point, name) for name in sizes)], _tables(rows))


def _tables(rows: Rows) -> list[int]:
    return [place for places in rows.family.tables.values() for place in places]


def _stacked(rows: Rows, columns: list[Any], tables: Iterable[int]) -> NDArray[np.float64]:
    whole = (*columns, *(rows.at[place] for place in tables))
    return np.column_stack([np.broadcast_to(np.asarray(each, dtype=np.float64), (len(rows),)) for each in whole])


def first_of_each(rows: Rows, *, scaled: bool) -> NDArray[np.int64]:
    """Return which are the first layouts with each of the numbers that tables have: enough that some are possible where any is.

    `scaled`: what a second of a step adds to the objective is asked for as well.
    """
    point = point_of(rows)
    first = _firsts(layer_keys(rows, point))
    return np.union1d(first, _firsts(scale_keys(rows, point))) if scaled else first


def _firsts(keys: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the places of the first rows of each kind, in order."""
    _, which = distinct(keys)
    order = np.argsort(which, kind="stable")
    begins = np.flatnonzero(np.diff(which[order], prepend=-1))
    number = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order)))
    return np.sort(order[number < MOST_ALIKE])


def looked_up(keys: NDArray[np.float64], places: dict[tuple[float, ...], int]) -> NDArray[np.int64]:
    """Return the place of each key; -1 where it is not known."""
    names, where = distinct(keys)
    known = np.array([places.get(tuple(name), -1) for name in names.tolist()], dtype=np.int64)
    return known[where]


def distinct(keys: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the rows that differ, and which of them each row is; sums that rows may share by chance alone are sorted first."""
    sums = keys @ np.sqrt(np.arange(2.0, keys.shape[1] + 2.0))
    _, first, where = np.unique(sums, return_index=True, return_inverse=True)
    names, where = keys[first], where.ravel()
    if not (names[where] == keys).all():
        names, where = np.unique(keys, axis=0, return_inverse=True)
    return names, where.ravel()
