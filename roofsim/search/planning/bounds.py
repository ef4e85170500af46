"""Say what layouts take at least, before they are resolved: what their layers take alone, and the bubble.

A layer's kernels and bytes, and what it shows of communication inside its replica, depend on the ranks of the replica and the
micro batch alone (`roofsim.search.planning.layer_costs`). The rest only adds to it: ends of the model, gradients, shards,
stragglers, messages between stages. So of ``m`` micro batches, a pipeline of ``p`` stages with ``v`` chunks each, stages of
``n_i`` layers, ``w`` seconds that a layer takes at least, and ``h`` that head and loss take on the stage that has them::

    step >= m (L w + ends) / p                       the slowest stage does no less than the mean
    step >= m (n_i w + h_i) + sum_{k < i} n_k w / v  the first micro batch comes, and the last returns, through the stages before

and the update of the first stage follows. Schedules that put gradients of weights off have no such way back. Of the memory, a
stage holds the states of its layers, what they save of each micro batch that is under way, and what stages of a small pipeline hold
beside their layers (`roofsim.search.planning.memory_bounds`). Copies to and from the host run
behind arithmetic at best: of a layer, the longer of the two counts (`roofsim.search.planning.host_bounds`).

FamilyWords stand on the first axis, rows of numbers on the second; what depends on one of the two alone is worked out on it alone.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.kept import remembered
from roofsim.numeric import smooth_maximum
from roofsim.records import dataclass, fields, replace
from roofsim.schedule.pipeline.registry import schedule_named
from roofsim.schedule.step import throttled
from roofsim.search.planning.layer_costs import HEAD, PARTS, STATES, head_part
from roofsim.spec.scenario.layout import expert_tensor_of
from roofsim.spec.scenario.sharding import ShardedOver

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from roofsim.schedule.pipeline.protocol import PipelineSchedule
    from roofsim.search.planning.host_bounds import HostTime
    from roofsim.spec.resolve import Resolved
    from roofsim.spec.scenario.point import Point
    from roofsim.spec.scenario.workload import Parallel

    Array = NDArray[np.float64]
    #: Part of what a layer takes -> that of one layer, and of the ends of the model, in each row.
    Costs = Mapping[str, tuple[Array, Array]]

_TINY: Final = float(np.finfo(float).tiny)
#: Rounding.
SLACK: Final = 1.0 - 1e-9
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
    """What bounds ask of the words of some families: on the first axis how layers are dealt out, on the second what is sharded.

    Attributes
    ----------
    schedules
        Names, of each way to deal out.
    embedding, loss
        Whether these count as a layer there: 1 or 0.
    stated
        Whether sizes of stages are stated there.
    ranks
        Of each way to shard: ranks that share what is sharded, at most; 1: nothing is.
    shared
        Part of the state -> whether it is sharded.
    places
        Of each family, the place of its pair on both axes.
    """

    schedules: tuple[str, ...]
    embedding: Array
    loss: Array
    stated: NDArray[np.bool_]
    ranks: Array
    shared: dict[str, NDArray[np.bool_]]
    places: NDArray[np.int64]

    @classmethod
    def of(cls, layouts: Sequence[Parallel]) -> FamilyWords:
        """Return what bounds ask of some layouts."""
        dealt = [
            (one.schedule, float(one.account_for_embedding), float(one.account_for_loss), one.stage_layers is not None)
            for one in layouts
        ]
        shards = [_level(one.sharding) for one in layouts]
        ways, kinds = list(dict.fromkeys(dealt)), list(dict.fromkeys(shards))
        at, of = ({key: place for place, key in enumerate(keys)} for keys in (ways, kinds))
        return cls(
            schedules=tuple(name for name, *_ in ways),
            embedding=np.array([each for _, each, _, _ in ways]).reshape(-1, 1, 1),
            loss=np.array([each for _, _, each, _ in ways]).reshape(-1, 1, 1),
            stated=np.array([each for *_, each in ways]).reshape(-1, 1, 1),
            ranks=np.array([each for _, each in kinds]).reshape(-1, 1),
            shared={
                part: np.array([part in _SHARED.get(level, STATES) for level, _ in kinds]).reshape(-1, 1)
                for part in STATES
            },
            places=np.array([at[one] * len(kinds) + of[other] for one, other in zip(dealt, shards, strict=True)]),
        )

    @cached_property
    def counted(self) -> Array:
        """How many layers the ends count as."""
        return self.embedding + self.loss

    @remembered
    def splits(self, several: bool) -> Array:
        """Tell which schedules part gradients of weights from those of inputs, with one chunk or with several."""
        split = [float(_schedule(name, several=several).splits_backward) for name in self.schedules]
        return np.array(split).reshape(-1, 1, 1)

    @cached_property
    def folds(self) -> NDArray[np.bool_]:
        """Whether the first stage has the head, where there are several chunks."""
        first = [_schedule(name, several=True).head_on_first(2.0) for name in self.schedules]
        return np.array(first).reshape(-1, 1, 1)

    def of_families(self, mesh: Array) -> Array:
        """Return what is known on both axes and of each row, family by family."""
        flat = mesh.reshape(-1, mesh.shape[-1])
        whole = len(flat) == len(self.places) and bool((self.places == np.arange(len(flat))).all())
        return flat if whole else flat[self.places]


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

    def part(self, where: NDArray[np.int64]) -> Layouts:
        """Return some of them."""
        columns = {one.name: getattr(self, one.name) for one in fields(self)}
        parts: dict[str, Any] = {name: each[where] for name, each in columns.items() if isinstance(each, np.ndarray)}
        return replace(self, **parts)

    @cached_property
    def layers(self) -> float:
        """Layers that are alike."""
        return float(self.resolved.model.layers_alike() or 0)

    @cached_property
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
        held = np.ones((len(words.schedules), 1, len(self.stages)))
        each = np.broadcast_to(index, held.shape)
        for several in (False, True):
            where = np.flatnonzero((self.stages > 1.0) & ((self.chunks > 1.0) == several))
            virtual = self.chunks[where] if several else 1.0
            known: dict[tuple[str, bytes], Array] = {}
            for at, name in enumerate(words.schedules if len(where) else ()):
                key = name, each[at, 0, where].tobytes()
                if key not in known:
                    schedule = _schedule(name, several=several)
                    number: Any = schedule.in_flight(
                        each[at, 0, where], self.stages[where], virtual, self.micro_batches[where]
                    )
                    known[key] = number
                held[at, 0, where] = known[key]
        return np.maximum(held, 1.0)


@cache
def _schedule(name: str, *, several: bool) -> PipelineSchedule:
    """Return a schedule with one chunk per stage, or with several."""
    return schedule_named(name, 2.0 if several else 1.0)


def key_columns(point: Point) -> list[Any]:
    """Return the numbers that what a layer takes depends on in every space; each a number or an array."""
    return [point.tensor, point.context, point.expert, expert_tensor_of(point), _samples(point)]


def _samples(point: Point) -> Any:
    """Return the samples of a micro batch."""
    sizes = (point.micro_batch_size, point.batch_size)
    return next((size for size in sizes if size is not None), 1)


# -- seconds --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeviceTime:
    """Seconds of one micro batch in each row of some layouts: of a layer, of the whole model, and of head and loss.

    And those of a layer's update, and in which the card may draw the energy of a layer.
    """

    layer: Array
    whole: Array
    head: Array
    update: Array
    energy: Array

    @classmethod
    def of(cls, layouts: Layouts, costs: Costs) -> DeviceTime:
        """Return what layers and ends take, with the power that they may draw."""
        layer, ends = ({part: costs[part][half] for part in PARTS} for half in (0, 1))
        micro, resolved, update = layouts.micro_batches, layouts.resolved, layer["update"]
        device, host = _seconds(resolved, layer, update, micro)
        device_ends, host_ends = _seconds(resolved, ends, update, micro)
        # A device that waits for its host in its layers catches up in the ends: the longer of two sums, not the sum of the longer.
        whole = np.maximum(
            layouts.layers * device + np.maximum(device_ends, 0.0), layouts.layers * host + np.maximum(host_ends, 0.0)
        )
        slowest = np.maximum(device, host)
        head = _head_seconds(resolved, layer, ends, {part: costs[head_part(part)][1] for part in HEAD}, slowest)
        return cls(slowest, whole, head, np.maximum(update, 0.0), np.maximum(layer["energy"], 0.0))


def least_step(layouts: Layouts, words: FamilyWords, device: DeviceTime, host: HostTime | None = None) -> Array:
    """Return the seconds that a step takes at least: of each family (first axis) and row (second axis)."""
    micro, shards = layouts.micro_batches, layouts.shards(words)
    fewer, left = layouts.dealt(words)
    first = np.maximum(fewer - words.counted - layouts.others, 0.0)
    seconds, whole, head, once = device.layer, device.whole, device.head, device.update / shards
    if host is not None:
        copied = host.micro_batch(shards, words.shared["parameters"])
        head = np.where((copied > seconds) | host.fewer_kernels, 0.0, head)  # copies run behind the head as well
        seconds = np.maximum(0.0 if host.fewer_kernels else seconds, copied)
        whole = np.maximum(0.0 if host.fewer_kernels else whole, layouts.layers * copied)
        once = host.once(shards, device.layer)
    shape = (len(words.schedules), len(words.ranks), len(layouts.stages))
    least = np.broadcast_to(_bubbled(layouts, words, fewer, left, seconds, head), shape) * SLACK
    np.maximum(least, micro * whole / layouts.stages * SLACK, out=least)
    least += first * (once * SLACK)
    return words.of_families(least)


def least_energy(layouts: Layouts, words: FamilyWords, device: DeviceTime, step: Array) -> Array:
    """Return the seconds at the power limit in which a GPU may draw what it draws at least in a step that takes `step`.

    A card that waits draws `waiting_power` of it, and the rest is drawn by kernels (`roofsim.analyze.watts`): of whichever stage
    sets the pace, those of the layers that each stage has at least.
    """
    waiting = layouts.resolved.constants.physics["waiting_power"]
    fewer, _ = layouts.dealt(words)
    layers = np.where(words.stated, 0.0, np.maximum(fewer - words.counted - layouts.others, 0.0))
    shape = (len(words.schedules), len(words.ranks), len(layouts.stages))
    kernels = words.of_families(np.broadcast_to(layers * (layouts.micro_batches * device.energy * SLACK), shape))
    least: Array = waiting * step + (1.0 - waiting) * np.minimum(kernels, step)
    return least


def least_of_all(layouts: Layouts, words: FamilyWords, device: DeviceTime) -> Array:
    """Return the seconds that a step of each row takes at least in any family: without copies to the host, and without update."""
    fewer, left = layouts.dealt(words)
    most: Array = _bubbled(layouts, words, fewer, left, device.layer, device.head).min(axis=(0, 1))
    return np.maximum(most, layouts.micro_batches * device.whole / layouts.stages) * SLACK


def _seconds(resolved: Resolved, parts: dict[str, Array], update: Array, micro: Array) -> tuple[Array, Array]:
    """Return what some kernels take of the device in one micro batch, slowed by power, where an update once a step draws less.

    And what they take of the host, which the device waits for.
    """
    physics = resolved.constants.physics
    norm, clock_power = physics["busy_corner"], physics["clock_power"]
    short, drawn = np.maximum(parts["short"], 0.0), np.maximum(parts["drawn"], 0.0)
    stretch: Any = np.inf
    for more in (0.0, np.maximum(update, 0.0) / micro):  # none of the update, and all of it
        together = np.maximum(short + more, _TINY)
        limited = smooth_maximum(together, throttled(together, drawn, clock_power), norm)
        stretch = np.minimum(stretch, (limited - together) / np.maximum(drawn, _TINY))
    device: Array = short + np.maximum(parts["held"], 0.0) + np.maximum(parts["links"], 0.0)
    device = device + np.where(drawn > 0.0, drawn * np.maximum(stretch, 0.0), 0.0)
    return device, parts["host"] - _SLOWED * np.maximum(update, 0.0) / micro


def _head_seconds(
    resolved: Resolved, layer: dict[str, Array], ends: dict[str, Array], head: dict[str, Array], device: Array
) -> Array:
    """Return what head and loss add at least to what their stage's layers take in one micro batch; `device`: one of these.

    Where they draw less power than the layers, these may run at a higher clock beside them: of a second, what is
    left of it in ``s (d / s)^(1 / c)`` when ``d`` stays (`throttled`). Messages of layers may hide behind them.
    """
    short, held, drawn, host = (np.maximum(head[part], 0.0) for part in HEAD)
    cooler = drawn * np.maximum(layer["short"], 0.0) < np.maximum(layer["drawn"], 0.0) * short
    spared = 1.0 / resolved.constants.physics["clock_power"]
    seconds = held + short * np.where(cooler, 1.0 - spared, 1.0) + np.minimum(ends["links"], 0.0)
    added: Array = np.where(device > layer["host"], seconds, np.minimum(seconds, host))
    return np.maximum(added, 0.0)


def _bubbled(layouts: Layouts, words: FamilyWords, fewer: Array, left: Array, layer: Array, head: Array) -> Array:
    """Return the seconds of a pipeline at least, with layers of `layer` seconds dealt out as they are; families by rows."""
    stages, micro, depth = layouts.stages, layouts.micro_batches, layouts.layers
    several = layouts.chunks > 1.0
    split = np.where(several, words.splits(True), words.splits(False))
    way = np.where(split > 0.0, 0.0, 1.0 / layouts.chunks)
    last = np.maximum(fewer - words.loss - layouts.others_from(words, stages - 1.0, fewer), 0.0)
    through = (micro * last + np.maximum(depth - last, 0.0) * way) * layer + np.where(
        several & words.folds, 0.0, micro * head
    )
    before = np.maximum(np.minimum(left, stages - 2.0) * fewer - words.counted - layouts.others, 0.0)
    fuller = micro * np.maximum(fewer + 1.0 - layouts.others_from(words, left, fewer), 0.0) + before * way
    most = np.where((left > 0.0) & (left <= stages - 2.0), np.maximum(through, fuller * layer), through)
    return np.where((stages > 1.0) & ~words.stated, most, 0.0)
