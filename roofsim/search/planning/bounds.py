"""Say what layouts take at least, before they are resolved: what their layers take alone, and the bubble.

A layer's kernels and bytes, and what it shows of communication inside its replica, depend on the ranks of the replica and the
micro batch alone (`roofsim.search.planning.layer_costs`). The rest only adds to it: ends of the model, gradients, shards,
stragglers, messages between stages. So of ``m`` micro batches, a pipeline of ``p`` stages with ``v`` chunks each, stages of
``n_i`` layers, and ``w`` seconds that a layer takes at least::

    step >= m (L w + ends) / p                   the slowest stage does no less than the mean
    step >= m n_i w + sum_{k < i} n_k w / v      the first micro batch comes, and the last returns, through the stages before

and the update of the first stage follows. Schedules that put gradients of weights off have no such way back. Of the memory, a
stage holds the states of its layers, and what they save of each micro batch that is under way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.numeric import smooth_maximum
from roofsim.records import dataclass
from roofsim.schedule.pipeline.registry import schedule_named
from roofsim.schedule.step import throttled
from roofsim.search.planning.layer_costs import MEMORY, PARTS
from roofsim.spec.scenario.layout import expert_tensor_of
from roofsim.spec.scenario.sharding import ShardedOver
from roofsim.spec.settle.offload import places

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from roofsim.spec.resolve import Resolved
    from roofsim.spec.scenario.point import Point
    from roofsim.spec.scenario.workload import Parallel

    Array = NDArray[np.float64]
    #: Part of what a layer takes -> that of one layer, and of the ends of the model, in each layout.
    Costs = Mapping[str, tuple[Array, Array]]

#: Rounding.
_SLACK: Final = 1.0 - 1e-9
#: An update may be slowed by power by at most this factor of its seconds at full clock.
_SLOWED: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class Layouts:
    """Layouts with the same words: numbers as arrays of one length.

    Attributes
    ----------
    resolved
        A scenario with their model, card, engine and constants; its own layout says nothing.
    words
        Their schedule, sharding, offload, and which ends count as layers.
    """

    resolved: Resolved
    words: Parallel
    stages: Array
    chunks: Array
    micro_batches: Array
    data: Array
    context: Array
    tensor: Array

    @classmethod
    def of(cls, point: Point, words: Parallel, resolved: Resolved, count: int) -> Layouts:
        """Return the layouts of a point whose numbers may be arrays."""

        def column(value: Any) -> Array:
            return np.broadcast_to(np.asarray(1.0 if value is None else value, dtype=np.float64), (count,))

        data = column(point.data)
        if point.data is None:
            data = column(point.gpus) / column(point.groups)
        micro = column(point.global_batch_size) / (column(_samples(point)) * data)
        return cls(
            resolved=resolved,
            words=words,
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
    def alike(self) -> bool:
        """Whether all layers are, and dealt out as evenly as can be."""
        return self.words.stage_layers is None and self.layers == float(self.resolved.model.traits().depth)

    @property
    def counted(self) -> tuple[float, float]:
        """How many layers embedding and loss count as."""
        return float(self.words.account_for_embedding), float(self.words.account_for_loss)

    def dealt(self) -> tuple[Array, Array]:
        """Return the layers, ends included, that each stage has at least, and how many stages have one more."""
        whole = self.layers + sum(self.counted)
        fewer = np.floor(whole / self.stages)
        return fewer, whole - fewer * self.stages

    def splits_backward(self) -> Array:
        """Tell whose schedules part gradients of weights from those of inputs."""
        split = [float(schedule_named(self.words.schedule, virtual).splits_backward) for virtual in (1.0, 2.0)]
        return np.where(self.chunks > 1.0, split[1], split[0])

    def in_flight(self, index: float) -> Array:
        """Return the micro batches that a stage holds at once."""
        held = np.ones_like(self.stages)
        for several in (False, True):
            where = np.flatnonzero((self.stages > 1.0) & ((self.chunks > 1.0) == several))
            if len(where):
                virtual = self.chunks[where] if several else 1.0
                schedule = schedule_named(self.words.schedule, float(np.ravel(virtual)[0]))
                held[where] = schedule.in_flight(index, self.stages[where], virtual, self.micro_batches[where])
        return np.maximum(held, 1.0)


def key_columns(point: Point) -> list[Any]:
    """Return the numbers that what a layer takes depends on in every space; each a number or an array."""
    return [point.tensor, point.context, point.expert, expert_tensor_of(point), _samples(point)]


def _samples(point: Point) -> Any:
    """Return the samples of a micro batch."""
    sizes = (point.micro_batch_size, point.batch_size)
    return next((size for size in sizes if size is not None), 1)


# -- seconds --------------------------------------------------------------------------------------------------------------


def least_step(layouts: Layouts, costs: Costs) -> Array:
    """Return the seconds that a step of each layout takes at least."""
    layer, ends = ({part: costs[part][half] for part in PARTS} for half in (0, 1))
    micro, resolved = layouts.micro_batches, layouts.resolved
    seconds, rest = _seconds(resolved, layer, layer["update"], micro), _seconds(resolved, ends, layer["update"], micro)
    mean = micro * (layouts.layers * seconds + np.maximum(rest, 0.0)) / layouts.stages
    whole = np.maximum(mean, _bubbled(layouts, seconds)) if layouts.alike else mean
    return (whole + _update(layouts, layer["update"])) * _SLACK


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


def _bubbled(layouts: Layouts, seconds: Array) -> Array:
    """Return what a pipeline takes at least, layers dealt out as they are."""
    stages, micro, depth = layouts.stages, layouts.micro_batches, layouts.layers
    _, loss = layouts.counted
    fewer, left = layouts.dealt()
    way = np.where(layouts.splits_backward() > 0.0, 0.0, 1.0 / layouts.chunks)
    last = np.maximum(fewer - loss, 0.0)
    through = micro * last + np.maximum(depth - last, 0.0) * way
    before = np.maximum(np.minimum(left, stages - 2.0) * fewer - sum(layouts.counted), 0.0)
    fuller = micro * (fewer + 1.0) + before * way
    most = np.where((left > 0.0) & (left <= stages - 2.0), np.maximum(through, fuller), through)
    return np.where(stages > 1.0, most * seconds, 0.0)


def _update(layouts: Layouts, update: Array) -> Array:
    """Return what the update of a layer's share of the first stage takes at least."""
    if places(layouts.words.offload):
        return np.zeros_like(update)
    shards = layouts.data * layouts.context if layouts.words.sharding not in (None, "none") else 1.0
    fewer, _ = layouts.dealt()
    return np.maximum(update, 0.0) * np.maximum(fewer - sum(layouts.counted), 0.0) / shards


# -- bytes ----------------------------------------------------------------------------------------------------------------


def least_memory(layouts: Layouts, costs: Costs) -> Array:
    """Return the bytes that the fullest rank of each layout holds at least, when the forward pass of a micro batch has ended."""
    resolved = layouts.resolved
    fixed = float(np.min(np.asarray(resolved.architecture.context + resolved.engine.memory.runtime_memory)))
    layer = {name: np.maximum(costs[name][0], 0.0) for name in MEMORY}
    if not isinstance(resolved.workload.recompute, str):  # of some layers: how many save less is not known here
        layer |= {name: np.zeros_like(layer[name]) for name in ("saved", "copies")}
    state = _states(layouts, layer)
    if not layouts.alike:
        return (fixed + state * layouts.layers / layouts.stages) * _SLACK
    fewer, left = layouts.dealt()
    first = np.maximum(fewer - sum(layouts.counted), 0.0)
    least = _held(layouts, layer, state, first, 0.0)
    second = _held(layouts, layer, state, fewer + 1.0, 1.0)
    least = np.where((left >= 1.0) & (layouts.stages > 2.0), np.maximum(least, second), least)
    return (fixed + least) * _SLACK


def _states(layouts: Layouts, layer: dict[str, Array]) -> Array:
    """Return the bytes of a layer's parameters, gradients and optimizer states on each rank."""
    sharding, parallel = layouts.words.sharding, layouts.words
    if places(parallel.offload):
        return np.zeros_like(layouts.stages)
    replicas = layouts.data * layouts.context
    level: str | None = sharding.level if isinstance(sharding, ShardedOver) else sharding
    if layouts.resolved.model.traits().experts:  # ranks of tensor parallelism may be replicas of experts
        shards = layouts.tensor * replicas
    else:
        shards = np.minimum(float(sharding.ranks), replicas) if isinstance(sharding, ShardedOver) else replicas
    parts = {None: (), "none": (), "optimizer": ("optimizer_state",), "gradients": ("optimizer_state", "gradients")}
    shared = parts.get(level, ("optimizer_state", "gradients", "parameters"))
    total = np.zeros_like(layouts.stages)
    for name in ("parameters", "gradients", "optimizer_state"):
        total = total + (layer[name] / shards if name in shared else layer[name])
    return total


def _held(layouts: Layouts, layer: dict[str, Array], state: Array, layers: Array, index: float) -> Array:
    """Return what a stage of so many layers holds: states, and what it saved of micro batches under way.

    A stage may hand on what its last layer made instead of saving it.
    """
    if places(layouts.words.offload):
        return state * layers
    saving = np.maximum(layers - 1.0, 0.0)
    waiting = np.maximum(layer["saved"] - layer["copies"], 0.0)
    return state * layers + saving * (layer["saved"] + (layouts.in_flight(index) - 1.0) * waiting)
