"""Say what layouts take at least, before they are resolved: what their layers take alone, and the bubble.

A layer's kernels and bytes, and what it shows of communication inside its replica, depend on the ranks of the replica and the
micro batch alone (`roofsim.search.planning.layer_costs`). The rest only adds to it: ends of the model, gradients, shards,
stragglers, messages between stages. So of ``m`` micro batches, a pipeline of ``p`` stages with ``v`` chunks each, stages of
``n_i`` layers, and ``w`` seconds that a layer takes at least::

    step >= m (L w + ends) / p                   the slowest stage does no less than the mean
    step >= m n_i w + sum_{k < i} n_k w / v      the first micro batch comes, and the last returns, through the stages before

and the update of the first stage follows. Schedules that put gradients of weights off have no such way back. Of the memory, a
stage holds the states of its layers, and what they save of each micro batch that is under way. Copies to and from the host run
behind arithmetic at best: of a layer, the longer of the two counts (`roofsim.search.planning.host_bounds`).

FamilyWords stand on the first axis, rows of numbers on the second; what depends on one of the two alone is worked out on it alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.numeric import smooth_maximum
from roofsim.records import dataclass
from roofsim.schedule.pipeline.registry import schedule_named
from roofsim.schedule.step import throttled
from roofsim.search.planning.layer_costs import MEMORY, PARTS, STATES
from roofsim.spec.scenario.layout import expert_tensor_of
from roofsim.spec.scenario.sharding import ShardedOver

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from roofsim.search.planning.host_bounds import HostTime
    from roofsim.spec.resolve import Resolved
    from roofsim.spec.scenario.point import Point
    from roofsim.spec.scenario.workload import Parallel

    Array = NDArray[np.float64]
    #: Part of what a layer takes -> that of one layer, and of the ends of the model, in each row.
    Costs = Mapping[str, tuple[Array, Array]]

#: Rounding.
_SLACK: Final = 1.0 - 1e-9
#: An update may be slowed by power by at most this factor of its seconds at full clock.
_SLOWED: Final = 2.0
#: Level of sharding -> what it shares out.
_SHARED: Final = {
    None: (),
    "none": (),
    "optimizer": ("optimizer_state",),
    "gradients": ("optimizer_state", "gradients"),
}


@dataclass(frozen=True, kw_only=True)
class FamilyWords:
    """What bounds ask of the words of some families: each a column, a row for each family.

    Attributes
    ----------
    schedules
        Their names.
    embedding, loss
        Whether these count as a layer: 1 or 0.
    stated
        Whether sizes of stages are stated.
    ranks
        Ranks that share what is sharded, at most; 1: nothing is.
    shared
        Part of the state -> whether it is sharded.
    """

    schedules: tuple[str, ...]
    embedding: Array
    loss: Array
    stated: NDArray[np.bool_]
    ranks: Array
    shared: dict[str, NDArray[np.bool_]]

    @classmethod
    def of(cls, layouts: Sequence[Parallel]) -> FamilyWords:
        """Return what bounds ask of some layouts."""
        levels = [_level(one.sharding) for one in layouts]
        return cls(
            schedules=tuple(one.schedule for one in layouts),
            embedding=_column([float(one.account_for_embedding) for one in layouts]),
            loss=_column([float(one.account_for_loss) for one in layouts]),
            stated=_column([one.stage_layers is not None for one in layouts]),
            ranks=_column([ranks for _, ranks in levels]),
            shared={part: _column([part in _SHARED.get(level, STATES) for level, _ in levels]) for part in STATES},
        )

    @property
    def counted(self) -> Array:
        """How many layers the ends count as."""
        return self.embedding + self.loss

    def of_step(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the families that differ in what steps depend on, and which of them each is like."""
        return self._alike([self.embedding, self.loss, self.stated, self.ranks, self._numbered(self._split())])

    def of_memory(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the families that differ in what memory depends on, and which of them each is like."""
        return self._alike(
            [self.embedding, self.loss, self.stated, self.ranks, *self.shared.values(), self._numbered(self.schedules)]
        )

    def part(self, chosen: NDArray[np.int64]) -> FamilyWords:
        """Return some of them."""
        return FamilyWords(
            schedules=tuple(self.schedules[at] for at in chosen.tolist()),
            embedding=self.embedding[chosen],
            loss=self.loss[chosen],
            stated=self.stated[chosen],
            ranks=self.ranks[chosen],
            shared={part: each[chosen] for part, each in self.shared.items()},
        )

    def splits(self, several: bool) -> Array:
        """Tell whose schedules part gradients of weights from those of inputs, with one chunk or with several."""
        splits: Array = _column([float(split[several]) for split in self._split()])
        return splits

    def _split(self) -> list[tuple[bool, bool]]:
        known = {
            name: tuple(schedule_named(name, virtual).splits_backward for virtual in (1.0, 2.0))
            for name in set(self.schedules)
        }
        return [known[name] for name in self.schedules]  # type: ignore[misc]

    def _numbered(self, values: Sequence[Any]) -> Array:
        numbers = {value: float(at) for at, value in enumerate(dict.fromkeys(values))}
        column: Array = _column([numbers[value] for value in values])
        return column

    def _alike(self, columns: list[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        table = np.hstack([np.asarray(each, dtype=np.float64) for each in columns])
        _, first, which = np.unique(table, axis=0, return_index=True, return_inverse=True)
        return first, which.ravel()


def _column(values: list[Any]) -> Any:
    return np.array(values)[:, np.newaxis]


def _level(sharding: Any) -> tuple[str | None, float]:
    """Return what is sharded, and over how many ranks at most."""
    if isinstance(sharding, ShardedOver):
        return sharding.level, float(sharding.ranks)
    return sharding, 1.0 if sharding in (None, "none") else np.inf


@dataclass(frozen=True, kw_only=True)
class Layouts:
    """Numbers of layouts, arrays of one length.

    Attributes
    ----------
    resolved
        A scenario with their model, card, engine and constants; its own layout says nothing.
    """

    resolved: Resolved
    gpus: Array
    stages: Array
    chunks: Array
    micro_batches: Array
    data: Array
    context: Array
    tensor: Array

    @classmethod
    def of(cls, point: Point, resolved: Resolved, count: int) -> Layouts:
        """Return the layouts of a point whose numbers may be arrays."""

        def column(value: Any) -> Array:
            return np.broadcast_to(np.asarray(1.0 if value is None else value, dtype=np.float64), (count,))

        data = column(point.data)
        if point.data is None:
            data = column(point.gpus) / column(point.groups)
        micro = column(point.global_batch_size) / (column(_samples(point)) * data)
        return cls(
            resolved=resolved,
            gpus=column(point.gpus) if point.gpus is not None else data * column(point.groups),
            stages=column(point.pipeline),
            chunks=column(point.virtual_stages),
            micro_batches=micro,
            data=data,
            context=column(point.context),
            tensor=column(point.tensor),
        )

    @property
    def layers(self) -> float:
        """Layers that are alike."""
        return float(self.resolved.model.layers_alike() or 0)

    @property
    def others(self) -> float:
        """Layers that are not: they come before those that are."""
        return float(self.resolved.model.traits().depth) - self.layers

    def others_from(self, words: FamilyWords, index: Any, fewer: Array) -> Array:
        """Return how many of the other layers a stage may have, behind so many stages of at least `fewer` layers."""
        before = np.maximum(index * fewer - words.counted, 0.0)
        others: Array = np.maximum(self.others - before, 0.0)
        return others

    def dealt(self, words: FamilyWords) -> tuple[Array, Array]:
        """Return the layers, ends included, that each stage has at least, and how many stages have one more."""
        whole = self.layers + self.others + words.counted
        fewer = np.floor(whole / self.stages)
        return fewer, whole - fewer * self.stages

    def shards(self, words: FamilyWords) -> Array:
        """Return over how many ranks at most what is sharded is spread."""
        replicas = self.data * self.context
        if self.resolved.model.traits().experts:  # ranks of tensor parallelism may be replicas of experts
            return np.where(words.ranks > 1.0, self.tensor * replicas, 1.0)
        return np.minimum(words.ranks, replicas)

    def in_flight(self, words: FamilyWords, index: Array) -> Array:
        """Return the micro batches that the stage of each `index` holds at once."""
        held = np.ones((len(words.schedules), len(self.stages)))
        index = np.broadcast_to(index, held.shape)
        for name in dict.fromkeys(words.schedules):
            own = np.array([at for at, other in enumerate(words.schedules) if other == name])
            for several in (False, True):
                where = np.flatnonzero((self.stages > 1.0) & ((self.chunks > 1.0) == several))
                if len(where):
                    virtual = self.chunks[where] if several else 1.0
                    schedule, at = schedule_named(name, float(np.ravel(virtual)[0])), np.ix_(own, where)
                    held[at] = schedule.in_flight(index[at], self.stages[where], virtual, self.micro_batches[where])
        return np.maximum(held, 1.0)


def key_columns(point: Point) -> list[Any]:
    """Return the numbers that what a layer takes depends on in every space; each a number or an array."""
    return [point.tensor, point.context, point.expert, expert_tensor_of(point), _samples(point)]


def _samples(point: Point) -> Any:
    """Return the samples of a micro batch."""
    sizes = (point.micro_batch_size, point.batch_size)
    return next((size for size in sizes if size is not None), 1)


# -- seconds --------------------------------------------------------------------------------------------------------------


def least_step(layouts: Layouts, words: FamilyWords, costs: Costs, host: HostTime | None = None) -> Array:
    """Return the seconds that a step takes at least: of each family (first axis) and row (second axis)."""
    layer, ends = ({part: costs[part][half] for part in PARTS} for half in (0, 1))
    micro, resolved = layouts.micro_batches, layouts.resolved
    update = layer["update"]
    device = _seconds(resolved, layer, update, micro)
    whole = layouts.layers * device + np.maximum(_seconds(resolved, ends, update, micro), 0.0)
    chosen, like = words.of_step()
    words = words.part(chosen)
    sharding = layouts.shards(words)
    fewer, left = layouts.dealt(words)
    first = np.maximum(fewer - words.counted - layouts.others, 0.0)
    if host is None:
        seconds, once = device, np.maximum(update, 0.0) * first / sharding
    else:
        copied = host.micro_batch(sharding, words.shared["parameters"])
        seconds = np.maximum(0.0 if host.fewer_kernels else device, copied)
        whole = np.maximum(0.0 if host.fewer_kernels else whole, layouts.layers * copied)
        once = first * host.once(sharding, device)
    mean = micro * whole / layouts.stages
    bubbled = _bubbled(layouts, words, seconds, fewer, left)
    least: Array = ((np.where(words.stated, mean, np.maximum(mean, bubbled)) + once) * _SLACK)[like]
    return least


def _seconds(resolved: Resolved, parts: dict[str, Array], update: Array, micro: Array) -> Array:
    """Return what some kernels take in one micro batch, slowed by power, where an update once a step draws less."""
    physics = resolved.constants.physics
    norm, clock_power = physics["busy_corner"], physics["clock_power"]
    short, drawn = np.maximum(parts["short"], 0.0), np.maximum(parts["drawn"], 0.0)
    stretch: Any = np.inf
    for more in (0.0, np.maximum(update, 0.0) / micro):  # none of the update, and all of it
        together = np.maximum(short + more, np.finfo(float).tiny)
        limited = smooth_maximum(together, throttled(together, drawn, clock_power), norm)
        stretch = np.minimum(stretch, (limited - together) / np.maximum(drawn, np.finfo(float).tiny))
    device: Array = short + np.maximum(parts["held"], 0.0) + np.maximum(parts["links"], 0.0)
    device = device + np.where(drawn > 0.0, drawn * np.maximum(stretch, 0.0), 0.0)
    slowest: Array = np.maximum(device, parts["host"] - _SLOWED * np.maximum(update, 0.0) / micro)
    return slowest


def _bubbled(layouts: Layouts, words: FamilyWords, seconds: Array, fewer: Array, left: Array) -> Array:
    """Return what a pipeline takes at least, layers dealt out as they are."""
    stages, micro, depth = layouts.stages, layouts.micro_batches, layouts.layers
    split = np.where(layouts.chunks > 1.0, words.splits(several=True), words.splits(several=False))
    way = np.where(split > 0.0, 0.0, 1.0 / layouts.chunks)
    last = np.maximum(fewer - words.loss - layouts.others_from(words, stages - 1.0, fewer), 0.0)
    through = micro * last + np.maximum(depth - last, 0.0) * way
    before = np.maximum(np.minimum(left, stages - 2.0) * fewer - words.counted - layouts.others, 0.0)
    fuller = micro * np.maximum(fewer + 1.0 - layouts.others_from(words, left, fewer), 0.0) + before * way
    most = np.where((left > 0.0) & (left <= stages - 2.0), np.maximum(through, fuller), through)
    return np.where(stages > 1.0, most * seconds, 0.0)


# -- bytes ----------------------------------------------------------------------------------------------------------------


def least_memory(layouts: Layouts, words: FamilyWords, costs: Costs) -> Array:
    """Return the bytes that the fullest rank holds at least, when the forward pass of a micro batch has ended.

    Families stand on the first axis, rows on the second.
    """
    resolved = layouts.resolved
    fixed = float(np.min(np.asarray(resolved.architecture.context + resolved.engine.memory.runtime_memory)))
    layer = {name: np.maximum(costs[name][0], 0.0) for name in MEMORY}
    if not isinstance(resolved.workload.recompute, str):  # of some layers: how many save less is not known here
        layer |= {name: np.zeros_like(layer[name]) for name in ("saved", "copies")}
    chosen, like = words.of_memory()
    words = words.part(chosen)
    shards = layouts.shards(words)
    state: Any = 0.0
    for name in STATES:
        state = state + layer[name] / np.where(words.shared[name], shards, 1.0)
    fewer, left = layouts.dealt(words)
    first = np.maximum(fewer - words.counted - layouts.others, 0.0)
    least = _held(layouts, words, layer, state, first, np.zeros(1))
    # The first stage of the pipeline, but for the first of all, that has layers of the usual kind alone.
    index = np.maximum(np.ceil((layouts.others + words.counted) / np.maximum(fewer, 1.0)), 1.0)
    inner = index <= layouts.stages - 2.0
    own = np.where(inner, fewer + (left >= index), np.maximum(fewer - words.counted, 0.0))
    own = np.maximum(own - layouts.others_from(words, index, fewer), 0.0)
    later = _held(layouts, words, layer, state, own, np.minimum(index, np.maximum(layouts.stages - 1.0, 0.0)))
    least = np.where((layouts.stages > 1.0) & (index <= layouts.stages - 1.0), np.maximum(least, later), least)
    mean = state * layouts.layers / layouts.stages
    known: Array = ((fixed + np.where(words.stated, mean, np.maximum(least, mean))) * _SLACK)[like]
    return known


def _held(
    layouts: Layouts, words: FamilyWords, layer: dict[str, Array], state: Array, layers: Array, index: Array
) -> Array:
    """Return what a stage of so many layers holds: states, and what it saved of micro batches under way.

    A stage may hand on what its last layer made instead of saving it.
    """
    saving = np.maximum(layers - 1.0, 0.0)
    waiting = np.maximum(layer["saved"] - layer["copies"], 0.0)
    return state * layers + saving * (layer["saved"] + (layouts.in_flight(words, index) - 1.0) * waiting)
