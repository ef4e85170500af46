"""Say what layouts take at least, before any program of theirs is built: what their layers take alone, and the bubble.

A layer's kernels, and what it shows of communication inside its replica, depend on the ranks of the replica and the micro batch
alone (`roofsim.search.planning.layer_costs`). The rest only adds to it: ends of the model, gradients, shards, stragglers, messages
between stages. So of ``m`` micro batches, a pipeline of ``p`` stages with ``v`` chunks each, stages of ``n_i`` layers, and ``w``
seconds that a layer takes at least::

    step >= m (L w + ends) / p                   the slowest stage does no less than the mean
    step >= m n_i w + sum_{k < i} n_k w / v      the first micro batch comes, and the last returns, through the stages before

and the update of the first stage follows. Schedules that put gradients of weights off have no such way back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.numeric import smooth_maximum
from roofsim.points import Diverged
from roofsim.schedule.pipeline.registry import schedule_named
from roofsim.schedule.step import throttled
from roofsim.search.planning.layer_costs import PARTS, priced_layers
from roofsim.search.stacking import alike, taken, varying
from roofsim.spec.scenario.layout import expert_tensor_of
from roofsim.spec.scenario.point import Point
from roofsim.spec.settle.offload import places

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from roofsim.search.planning.objectives import Goal
    from roofsim.spec.resolve import Resolved

    Array = NDArray[np.float64]

#: Parts of a scenario whose numbers a layer's cost depends on by way of `_KEYS` alone.
_BY_KEYS: Final = frozenset({"parallel", "workload", "gpus"})
#: Rounding.
_SLACK: Final = 1.0 - 1e-9
#: An update may be slowed by power by at most this factor of its seconds at full clock.
_SLOWED: Final = 2.0


class Bounds:
    """Bound the objective of layouts from below.

    Layers are priced once for each of their numbers; `kept` has those that were priced before, by the words that decide them.
    """

    def __init__(self, goal: Goal, kept: dict[Hashable, dict[str, tuple[float, float]] | None]) -> None:
        self.goal = goal
        self.kept = kept

    def of(self, resolved: Resolved, words: Hashable) -> Array:
        """Return what the objective of each layout is at least; zero where nothing is known of its layers."""
        count = resolved.points
        if resolved.workload.phase != "train" or resolved.model.layers_alike() is None:
            return np.zeros(count)
        costs = self._costs(resolved, words)
        if costs is None:
            return np.zeros(count)
        scale = self._scale(resolved)
        bound = np.nan_to_num(scale * least_step(resolved, costs), nan=0.0)
        return np.maximum(bound, 0.0)

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

    def _costs(self, resolved: Resolved, words: Hashable) -> dict[str, tuple[Array, ...]] | None:
        """Return what a layer, and the ends of the model, take of each layout; None where some cannot be priced alone."""
        count, parallel = resolved.points, resolved.parallel
        numbers = [
            np.broadcast_to(np.asarray(value, dtype=np.float64), (count,))
            for value in (
                parallel.tensor,
                parallel.context,
                parallel.expert,
                expert_tensor_of(parallel),
                resolved.workload.micro_batch_size,
            )
        ]
        if not {*varying(resolved)} <= _BY_KEYS:
            numbers.append(np.arange(count, dtype=np.float64))
            words = (words, object())  # of these layouts alone
        keys, first, index = np.unique(np.column_stack(numbers), axis=0, return_index=True, return_inverse=True)
        names = [(words, *key) for key in keys.tolist()]
        unknown = [at for at, name in enumerate(names) if name not in self.kept]
        if unknown:
            priced = priced_layers(resolved, first[unknown])
            self.kept |= {names[at]: priced.get(int(first[at])) for at in unknown}
        known = [self.kept[name] for name in names]
        if any(one is None for one in known):
            return None
        index = index.ravel()
        return {
            part: tuple(np.array([one[part][half] for one in known if one is not None])[index] for half in (0, 1))
            for part in PARTS
        }


def least_step(resolved: Resolved, costs: dict[str, tuple[Any, ...]]) -> Array:
    """Return the seconds that a step of each layout takes at least."""
    point = Point.of(resolved.parallel, resolved.workload, resolved.gpus)
    stages, chunks = (np.asarray(value, dtype=np.float64) for value in (point.pipeline, point.virtual_stages))
    micro = np.asarray(point.micro_batches, dtype=np.float64)
    layers = float(resolved.model.layers_alike() or 0)
    depth = float(resolved.model.traits().depth)
    layer, ends = ({part: each[half] for part, each in costs.items()} for half in (0, 1))
    seconds, rest = _seconds(resolved, layer, layer["update"], micro), _seconds(resolved, ends, layer["update"], micro)
    mean = micro * (layers * seconds + np.maximum(rest, 0.0)) / stages
    whole = np.maximum(mean, _bubbled(resolved, seconds, stages, chunks, micro) if layers == depth else 0.0)
    return (whole + _update(resolved, layer["update"], stages)) * _SLACK


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


def _bubbled(resolved: Resolved, seconds: Array, stages: Array, chunks: Array, micro: Array) -> Array:
    """Return what a pipeline takes at least, layers dealt out as they are."""
    parallel, depth = resolved.parallel, float(resolved.model.traits().depth)
    if parallel.stage_layers is not None:
        return np.zeros_like(seconds)
    counted = float(parallel.account_for_embedding) + float(parallel.account_for_loss)
    fewer = np.floor((depth + counted) / stages)
    left = depth + counted - fewer * stages
    schedule = schedule_named(parallel.schedule, np.asarray(chunks).ravel()[0])
    way = 0.0 if schedule.splits_backward else 1.0 / chunks
    last = np.maximum(fewer - float(parallel.account_for_loss), 0.0)
    through = micro * last + np.maximum(depth - last, 0.0) * way
    before = np.maximum(np.minimum(left, stages - 2.0) * fewer - counted, 0.0)
    fuller = micro * (fewer + 1.0) + before * way
    most = np.where((left > 0.0) & (left <= stages - 2.0), np.maximum(through, fuller), through)
    return np.where(stages > 1.0, most * seconds, 0.0)


def _update(resolved: Resolved, update: Array, stages: Array) -> Array:
    """Return what the update of a layer's share of the first stage takes at least."""
    parallel = resolved.parallel
    if places(parallel.offload):
        return np.zeros_like(update)
    replicas = np.asarray(parallel.data, dtype=np.float64) * np.asarray(parallel.context, dtype=np.float64)
    shards = np.ones_like(replicas) if parallel.sharding in (None, "none") else replicas
    counted = float(parallel.account_for_embedding) + float(parallel.account_for_loss)
    layers = np.maximum(np.floor((float(resolved.model.layers_alike() or 0) + counted) / stages) - counted, 0.0)
    return np.maximum(update, 0.0) * layers / shards
