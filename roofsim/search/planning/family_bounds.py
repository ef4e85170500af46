"""Bound all layouts of a family at once, before any is resolved: layers are priced once for all families that have the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim import records
from roofsim.numeric import is_scalar
from roofsim.points import Diverged
from roofsim.records import dataclass, fields, replace
from roofsim.search.planning.bounds import (
    DeviceTime,
    FamilyWords,
    Layouts,
    key_columns,
    least_energy,
    least_of_all,
    least_step,
)
from roofsim.search.planning.host_bounds import HostTime
from roofsim.search.planning.layer_costs import HEAD, HOST, MEMORY, PARTS, STATES, head_part, host_layers, priced_layers
from roofsim.search.planning.memory_bounds import least_memory
from roofsim.search.sampling import floats
from roofsim.search.stacking import alike, taken, varying
from roofsim.spec.scenario.offload import Offload
from roofsim.spec.scenario.point import Point
from roofsim.spec.settle.offload import places

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from numpy.typing import NDArray

    from roofsim.search.families import Rows
    from roofsim.search.planning.bounds import Costs
    from roofsim.search.planning.objectives import Goal
    from roofsim.search.stacking import PointBatch
    from roofsim.spec.resolve import Resolved
    from roofsim.spec.scenario.workload import Parallel

    Array = NDArray[np.float64]

#: Numbers of a layout that its layers' costs do not depend on, or by way of `key_columns`.
_NOT_OF_LAYERS: Final = frozenset(
    {
        *("gpus", "pipeline", "virtual_stages", "data", "global_batch_size"),
        *("tensor", "context", "expert", "expert_tensor", "micro_batch_size", "batch_size"),
    }
)
#: Layouts that are resolved to find one that is possible, for each of the numbers that what layers take depends on.
MOST_ALIKE: Final = 256
#: Ends of the names of sizes of a workload.
_SIZES: Final = ("gpus", "size", "length", "steps")


@dataclass(frozen=True)
class FamilyBound:
    """What is known of layouts before they are resolved: families on the first axis, rows of numbers on the second.

    Attributes
    ----------
    least
        What the objective of each is at least; 0 where nothing is known.
    full
        Which of them cannot fit in memory.
    """

    least: Array
    full: NDArray[np.bool_]

    @classmethod
    def none(cls, families: int, rows: int) -> FamilyBound:
        """Return that nothing is known."""
        return cls(np.zeros((families, rows)), np.zeros((families, rows), dtype=bool))


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
    samples
        What the places were priced of: a scenario, the layouts of it, and their places.
    hosts
        Parts of the state that are off the device -> what layers take of the host and hold, as `costs`; filled when asked for.
    """

    resolved: Resolved | None = None
    places: dict[tuple[float, ...], int] = records.field(default_factory=dict)
    costs: dict[str, NDArray[np.float64]] = records.field(default_factory=dict)
    scales: dict[tuple[float, ...], float] = records.field(default_factory=dict)
    samples: list[tuple[Resolved, NDArray[np.int64], NDArray[np.int64]]] = records.field(default_factory=list)
    hosts: dict[Offload, dict[str, NDArray[np.float64]]] = records.field(default_factory=dict)

    def host(self, offload: Offload) -> dict[str, NDArray[np.float64]]:
        """Return what layers take of the host with parts of the state off the device; 0 where that cannot be known."""
        if offload not in self.hosts:
            columns = {name: np.zeros((len(self.places), 2)) for name in (*HOST, *MEMORY)}
            for resolved, chosen, places in self.samples:
                known = host_layers(resolved, chosen, offload)
                for at, place in zip(chosen.tolist(), places.tolist(), strict=True):
                    for name, pair in known.get(at, {}).items():
                        columns[name][place] = pair
            self.hosts[offload] = columns
        return self.hosts[offload]


@dataclass(frozen=True)
class WordsOfClass:
    """The words of some families whose layers take the same.

    Attributes
    ----------
    count
        How many families there are.
    parts
        What is off the device, the words of the families that have this, and which of all they are.
    whole
        The words of all.
    """

    count: int
    parts: list[tuple[Offload | None, FamilyWords, Any]]
    whole: FamilyWords

    @classmethod
    def of(cls, layouts: Sequence[Parallel]) -> WordsOfClass:
        """Return the words of some layouts."""
        families: dict[Offload | None, list[int]] = {}
        for at, one in enumerate(layouts):
            families.setdefault(one.offload if places(one.offload) else None, []).append(at)
        parts = [(off, FamilyWords.of([layouts[at] for at in own]), np.array(own)) for off, own in families.items()]
        return cls(len(layouts), parts, FamilyWords.of(layouts))

    @property
    def fewer_kernels(self) -> bool:
        """Whether some leave kernels out that a layer alone has."""
        return any(offload is not None and "gradients" in places(offload) for offload, _, _ in self.parts)


@dataclass(frozen=True)
class _Drawn:
    """Layouts of some rows, what was known of their layers and where, and what a second of a step adds to the objective."""

    layouts: Layouts
    table: LayerTable
    index: NDArray[np.int64]
    costs: dict[str, tuple[Array, Array]]
    device: DeviceTime
    scale: Any


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

    def of(self, rows: Rows, families: WordsOfClass, like: Callable[[], Rows | None], words: Hashable) -> FamilyBound:
        """Return what is known of each layout of some families whose layers take the same.

        Parameters
        ----------
        rows
            The numbers of the layouts, with the words of any of the families.
        families
            Their words, by what is off the device.
        like
            Gives the rows of the family whose layers are priced for all that have the same `words` of layers.
        """
        known = FamilyBound.none(families.count, len(rows))
        drawn = self._drawn(rows, like, words)
        if drawn is None:
            return known
        layouts, table, index, costs, device = drawn.layouts, drawn.table, drawn.index, drawn.costs, drawn.device
        capacity = np.max(np.asarray(layouts.resolved.gpu.memory.capacity, dtype=np.float64))
        with np.errstate(all="ignore"):
            for offload, chosen, own in families.parts:
                held, host = _on_host(table, index, layouts, costs, offload)
                memory = least_memory(layouts, chosen, costs | held)
                known.full[own] = memory > capacity
                if self.goal.objective == "memory":
                    known.least[own] = memory
                else:
                    step = least_step(layouts, chosen, device, host)
                    energy = self.goal.of_energy
                    known.least[own] = least_energy(layouts, chosen, device, step) if energy else step
        if self.goal.objective != "memory" and not is_scalar(drawn.scale):
            known.least[:] *= drawn.scale
        lost = np.flatnonzero((index < 0) | ~np.isfinite(known.least.sum(axis=0)))
        known.least[:, lost], known.full[:, lost] = 0.0, False
        return known

    def of_all(self, rows: Rows, families: WordsOfClass, like: Callable[[], Rows | None], words: Hashable) -> Array:
        """Return what the objective is at least in each row, whatever the words that layers do not depend on."""
        drawn = None if self.goal.objective == "memory" or families.fewer_kernels else self._drawn(rows, like, words)
        if drawn is None:
            return np.zeros(len(rows))
        with np.errstate(all="ignore"):
            least = least_of_all(drawn.layouts, families.whole, drawn.device) * drawn.scale
            if self.goal.of_energy:  # of cards that wait all the time
                least *= drawn.layouts.resolved.constants.physics["waiting_power"]
        return np.where((drawn.index >= 0) & np.isfinite(least), least, 0.0)

    def _drawn(self, rows: Rows, like: Callable[[], Rows | None], words: Hashable) -> _Drawn | None:
        """Return the layouts of some rows with what their layers take; None where nothing is known of any."""
        if words not in self.tables:
            others = like()
            self.tables[words] = self._table(others) if others is not None else LayerTable()
        table = self.tables[words]
        if table.resolved is None:
            return None
        point = _point(rows)
        index = _looked_up(_keys(rows, point), table.places)
        if (index < 0).all():
            return None
        layouts = Layouts.of(point, table.resolved, len(rows))
        costs = {name: (each[index, 0], each[index, 1]) for name, each in table.costs.items()}
        with np.errstate(all="ignore"):
            device = DeviceTime.of(layouts, costs)
        return _Drawn(layouts, table, index, costs, device, self._scale_of(table, rows, point))

    def _scale_of(self, table: LayerTable, rows: Rows, point: Point) -> Any:
        """Return what a second of a step adds to the objective, in each row."""
        if not self.goal.scaled:
            return 1.0
        names, where = _distinct(_scale_keys(rows, point))
        scales = np.array([table.scales.get(tuple(name), 0.0) for name in names.tolist()])
        return np.nan_to_num(scales[where], nan=0.0)

    def _table(self, rows: Rows) -> LayerTable:
        """Price the layers of a family on each of the ranks that its layouts have."""
        known: dict[tuple[float, ...], int] = {}
        costs: list[dict[str, tuple[float, float]]] = []
        scales: dict[tuple[float, ...], float] = {}
        samples: list[tuple[Resolved, NDArray[np.int64], NDArray[np.int64]]] = []
        resolved: Resolved | None = None
        rows = rows.part(first_of_each(rows, scaled=self.goal.scaled))
        point = _point(rows)
        every, scaling = _keys(rows, point), _scale_keys(rows, point)
        for one, here in self._pieces(rows, every):
            resolved = one
            if self.goal.scaled:
                self._note_scales(scales, one, scaling[here])
            keys, first = np.unique(every[here], axis=0, return_index=True)
            new = [at for at, key in enumerate(map(tuple, keys.tolist())) if key not in known]
            if not new:
                continue
            priced = priced_layers(one, first[new])
            new = [at for at in new if int(first[at]) in priced]
            samples.append((one, first[new], np.arange(len(costs), len(costs) + len(new))))
            for at in new:
                known[tuple(keys[at].tolist())] = len(costs)
                costs.append(priced[int(first[at])])
        columns = {
            name: np.array([one[name] for one in costs]).reshape(-1, 2)
            for name in (*PARTS, *map(head_part, HEAD), *MEMORY)
        }
        return LayerTable(resolved, known, columns, scales, samples)

    def _pieces(self, rows: Rows, keys: NDArray[np.float64]) -> Iterable[tuple[Resolved, NDArray[np.int64]]]:
        """Return the layouts whose layers may be priced, as they are resolved together: those of the most keys first.

        What they are resolved apart for (chunks of a pipeline) is no matter of a layer's: the first may have the keys of all.
        """
        pieces = []
        for piece in self.read(rows):
            one, here = piece.resolved, rows.places_of(piece.places)
            if one is not None and one.workload.phase == "train" and one.model.layers_alike() is not None:
                pieces.append((len(_distinct(keys[here])[0]), one, here))
        return [(one, here) for _, one, here in sorted(pieces, key=lambda each: -each[0])]

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


def _on_host(
    table: LayerTable, index: NDArray[np.int64], layouts: Layouts, costs: Costs, offload: Offload | None
) -> tuple[dict[str, tuple[Array, Array]], HostTime | None]:
    """Return what is held otherwise where parts of the state are off the device, and how long the host is busy.

    Activations are moved whatever the state does, and the state whatever they do.
    """
    if offload is None:
        return {}, None
    moved = places(offload)
    state = offload.model_copy(update={"activations": "none"})
    tables = [table.host(state) if len(moved) > ("activations" in moved) else {}]
    tables += [table.host(Offload(activations=offload.activations)) if "activations" in moved else {}]
    first, second = ({name: (each[index, 0], each[index, 1]) for name, each in one.items()} for one in tables)
    held: dict[str, tuple[Array, Array]] = {str(name): first[name] for name in STATES if name in first}
    saved, copies = (second[name] if second else costs[name] for name in ("saved", "copies"))
    held |= {"saved": saved, "copies": copies}
    if "parameters" in moved:  # copies of weights are made again of what is fetched
        held |= {"saved": (saved[0] - copies[0], saved[1]), "copies": (0.0 * copies[0], copies[1])}
    flows = [{name: each[0] for name, each in one.items() if name in HOST} for one in (first, second)]
    resolved, fewer = layouts.resolved, "gradients" in moved
    return held, HostTime(resolved=resolved, gpus=layouts.gpus, state=flows[0], saved=flows[1], fewer_kernels=fewer)


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


def first_of_each(rows: Rows, *, scaled: bool) -> NDArray[np.int64]:
    """Return which are the first layouts with each of the numbers that tables have: enough that some are possible where any is.

    `scaled`: what a second of a step adds to the objective is asked for as well.
    """
    point = _point(rows)
    first = _firsts(_keys(rows, point))
    return np.union1d(first, _firsts(_scale_keys(rows, point))) if scaled else first


def _firsts(keys: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the places of the first rows of each kind, in order."""
    _, which = _distinct(keys)
    order = np.argsort(which, kind="stable")
    begins = np.flatnonzero(np.diff(which[order], prepend=-1))
    number = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order)))
    return np.sort(order[number < MOST_ALIKE])


def _looked_up(keys: NDArray[np.float64], places: dict[tuple[float, ...], int]) -> NDArray[np.int64]:
    """Return the place of each key; -1 where it is not known."""
    names, where = _distinct(keys)
    known = np.array([places.get(tuple(name), -1) for name in names.tolist()], dtype=np.int64)
    return known[where]


def _distinct(keys: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the rows that differ, and which of them each row is; sums that rows may share by chance alone are sorted first."""
    sums = keys @ np.sqrt(np.arange(2.0, keys.shape[1] + 2.0))
    _, first, where = np.unique(sums, return_index=True, return_inverse=True)
    names, where = keys[first], where.ravel()
    if not (names[where] == keys).all():
        names, where = np.unique(keys, axis=0, return_inverse=True)
    return names, where.ravel()
