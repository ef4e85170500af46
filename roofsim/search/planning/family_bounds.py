"""Bound all layouts of a family at once, before any is resolved: layers are priced once for all families that have the same."""

from __future__ import annotations

from collections import ChainMap
from typing import TYPE_CHECKING, Any

import numpy as np

from roofsim.numeric import is_scalar
from roofsim.points import Diverged
from roofsim.records import dataclass, fields, replace
from roofsim.search.planning.bounds import (
    DeviceTime,
    FamilyWords,
    Layouts,
    least_energy,
    least_of_all,
    least_step,
)
from roofsim.search.planning.host_bounds import HostTime
from roofsim.search.planning.layer_costs import (
    HEAD,
    HOST,
    MEMORY,
    PARTS,
    STAGES,
    STATES,
    head_part,
    priced_layers,
    stage_part,
)
from roofsim.search.planning.layer_table import (
    LayerTable,
    distinct,
    first_of_each,
    layer_keys,
    looked_up,
    point_of,
    scale_keys,
)
from roofsim.search.planning.memory_bounds import least_memory
from roofsim.search.stacking import alike, taken, varying
from roofsim.spec.scenario.offload import Offload
from roofsim.spec.settle.offload import places

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from numpy.typing import NDArray

    from roofsim.search.families import Rows
    from roofsim.search.planning.objectives import Goal
    from roofsim.search.stacking import PointBatch
    from roofsim.spec.resolve import Resolved
    from roofsim.spec.scenario.point import Point
    from roofsim.spec.scenario.workload import Parallel

    Array = NDArray[np.float64]


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
    def hosted(self) -> NDArray[np.bool_]:
        """Which of them have something off the device."""
        hosted = np.zeros(self.count, dtype=bool)
        for offload, _, own in self.parts:
            hosted[own] = offload is not None
        return hosted

    @property
    def fewer_kernels(self) -> bool:
        """Whether some leave kernels out that a layer alone has."""
        return any(offload is not None and "gradients" in places(offload) for offload, _, _ in self.parts)


class _OfRows(dict[str, Any]):
    """What layers and ends take in some rows, by part: looked up in a table when it is asked for."""

    def __init__(self, columns: dict[str, Array], index: NDArray[np.int64]) -> None:
        super().__init__()
        self.columns, self.index = columns, index

    def __missing__(self, name: str) -> tuple[Array, Array]:
        layer, ends = self.columns[name].T
        pair = self[name] = layer.take(self.index), ends.take(self.index)
        return pair


@dataclass(frozen=True)
class _Drawn:
    """Layouts of some rows, what was known of their layers and where, and what a second of a step adds to the objective."""

    layouts: Layouts
    table: LayerTable
    index: NDArray[np.int64]
    costs: _OfRows
    device: DeviceTime
    scale: Any

    def part(self, where: NDArray[np.int64]) -> _Drawn:
        """Return some of them."""
        return _Drawn(
            self.layouts.part(where),
            self.table,
            self.index[where],
            _OfRows(self.table.costs, self.index[where]),
            DeviceTime(*(getattr(self.device, one.name)[where] for one in fields(self.device))),
            self.scale if is_scalar(self.scale) else self.scale[where],
        )

    def stages(self, *, roughly: bool) -> _OfRows:
        """Return what stages hold beside their layers."""
        return _OfRows(self.table.handed_on() if roughly else self.table.staged(self.index), self.index)

    def without_update(self) -> _Drawn:
        """Return them with an update that takes no time on the device: it may run on the host."""
        return replace(self, device=replace(self.device, update=np.zeros_like(self.device.update)))


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

    def of(
        self,
        rows: Rows,
        families: WordsOfClass,
        like: Callable[[], Rows | None],
        words: Hashable,
        most: Array | None = None,
        *,
        roughly: bool = False,
    ) -> FamilyBound:
        """Return what is known of each layout of some families whose layers take the same.

        Parameters
        ----------
        rows
            The numbers of the layouts, with the words of any of the families.
        families
            Their words, by what is off the device.
        like
            Gives the rows of the family whose layers are priced for all that have the same `words` of layers.
        most
            What the objective of each row may be: of those whose step on the device exceeds it no more is asked.
        roughly
            Whether what stages of small pipelines hold is left out: it takes programs of its own.
        """
        known = FamilyBound.none(families.count, len(rows))
        drawn = self._drawn(rows, like, words)
        if drawn is None:
            return known
        with np.errstate(all="ignore"):
            for offload, chosen, own in families.parts:
                if most is None or not self._at_least_its_device(offload):
                    known.least[own], known.full[own] = self._of(drawn, offload, chosen, roughly=roughly)
                    continue
                device = drawn if offload is None else drawn.without_update()
                known.least[own] = least = self._step(device, chosen)
                asked = np.flatnonzero(~(least > most).all(axis=0))
                if len(asked):
                    pairs = np.ix_(own, asked)
                    known.least[pairs], known.full[pairs] = self._of(
                        drawn.part(asked), offload, chosen, None if offload else least[:, asked], roughly=roughly
                    )
        lost = np.flatnonzero((drawn.index < 0) | ~np.isfinite(known.least.sum(axis=0)))
        known.least[:, lost], known.full[:, lost] = 0.0, False
        return known

    def _at_least_its_device(self, offload: Offload | None) -> bool:
        """Tell whether what layouts take, some parts of their state off the device or none, is no less than their device alone."""
        return self.goal.objective != "memory" and (offload is None or "gradients" not in places(offload))

    def _of(
        self, drawn: _Drawn, offload: Offload | None, chosen: FamilyWords, least: Array | None = None, *, roughly: bool
    ) -> tuple[Array, NDArray[np.bool_]]:
        """Return what the objective of each family and row is at least, if it is not known, and which do not fit in memory."""
        held, host = _on_host(drawn, offload) if offload is not None else (drawn.stages(roughly=roughly), None)
        layouts = drawn.layouts
        memory = least_memory(layouts, chosen, ChainMap(held, drawn.costs))
        full = memory > np.max(np.asarray(layouts.resolved.gpu.memory.capacity, dtype=np.float64))
        if self.goal.objective == "memory":
            return memory, full
        return self._step(drawn, chosen, host) if least is None else least, full

    def _step(self, drawn: _Drawn, chosen: FamilyWords, host: HostTime | None = None) -> Array:
        """Return what an objective other than memory is at least."""
        step = least_step(drawn.layouts, chosen, drawn.device, host)
        least = least_energy(drawn.layouts, chosen, drawn.device, step) if self.goal.of_energy else step
        return least if is_scalar(drawn.scale) else least * drawn.scale

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
        point = point_of(rows)
        index = looked_up(layer_keys(rows, point), table.places)
        if (index < 0).all():
            return None
        layouts = Layouts.of(point, table.resolved, len(rows))
        costs = _OfRows(table.costs, index)
        with np.errstate(all="ignore"):
            device = DeviceTime.of(layouts, costs)
        return _Drawn(layouts, table, index, costs, device, self._scale_of(table, rows, point))

    def _scale_of(self, table: LayerTable, rows: Rows, point: Point) -> Any:
        """Return what a second of a step adds to the objective, in each row."""
        if not self.goal.scaled:
            return 1.0
        names, where = distinct(scale_keys(rows, point))
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
        point = point_of(rows)
        every, scaling = layer_keys(rows, point), scale_keys(rows, point)
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
                pieces.append((len(distinct(keys[here])[0]), one, here))
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


def _on_host(drawn: _Drawn, offload: Offload) -> tuple[dict[str, tuple[Array, Array]], HostTime]:
    """Return what is held otherwise where parts of the state are off the device, and how long the host is busy.

    Activations are moved whatever the state does, and the state whatever they do.
    """
    table, index, layouts, costs, moved = drawn.table, drawn.index, drawn.layouts, drawn.costs, places(offload)
    state = offload.model_copy(update={"activations": "none"})
    tables = [table.host(state, index) if len(moved) > ("activations" in moved) else {}]
    tables += [table.host(Offload(activations=offload.activations), index) if "activations" in moved else {}]
    first, second = (_OfRows(one, index) for one in tables)
    held: dict[str, tuple[Array, Array]] = {str(name): first[name] for name in STATES if tables[0]}
    saved, copies = (second[name] if tables[1] else costs[name] for name in ("saved", "copies"))
    held |= {"saved": saved, "copies": copies}
    if "parameters" in moved:  # copies of weights are made again of what is fetched
        held |= {"saved": (saved[0] - copies[0], saved[1]), "copies": (0.0 * copies[0], copies[1])}
    nothing = np.zeros_like(held["saved"][0])
    for stage in STAGES:  # what a stage hands on is on the device, or off it
        held[stage_part(stage, "saved")] = held["saved"][0], -held["saved"][0]
        held[stage_part(stage, "above")] = nothing, nothing
    flows = [{name: one[name][0] for name in HOST} if one.columns else {} for one in (first, second)]
    return held, HostTime(
        resolved=layouts.resolved,
        gpus=layouts.gpus,
        state=flows[0],
        saved=flows[1],
        fewer_kernels="gradients" in moved,
        hides=table.hides()[index],
    )
