"""Search the smallest number of GPUs on which some layout fits, and rank the layouts that do."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from roofsim.records import dataclass
from roofsim.search.fitting.bench import beyond_reach, beyond_sharding, reach
from roofsim.templates import TEMPLATES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from roofsim.search.fitting.bench import Attempt, Changes, Workbench

#: Where the search ends.
MOST_GPUS: Final = 2**16
#: A stated batch left out, each GPU has so many micro batches a step: pipelines of any depth then have four a stage.
MICRO_BATCHES: Final = 4
#: From the least memory to the most; only meaningful with data-parallel ranks.
SHARDINGS: Final = ("full", "gradients", "optimizer", "none")
RECOMPUTES: Final = ("full", "selective", "none")
#: Ranked are these: what shards gradients beside the optimizer's state, or nothing, sends as much as the latter.
_RANKED: Final = ("full", "optimizer", None)
#: A node is taken to be at least so large when numbers of GPUs are listed: 1, 2, 4, 8, then nodes.
_SMALLEST_NODE: Final = 8
#: What each level of sharding divides among the data-parallel ranks.
_SHARED: Final[dict[str | None, Collection[str]]] = {
    "none": (),
    "optimizer": ("optimizer_state",),
    "gradients": ("optimizer_state", "gradients"),
}
#: More GPUs are given up on when this many doublings gain less than a hundredth.
_PATIENCE: Final = 2
_GAIN: Final = 0.01


@dataclass(frozen=True, kw_only=True)
class Fewest:
    """The smallest number of GPUs that fits, with the layouts on it, and what the next smaller number lacks.

    Attributes
    ----------
    layouts
        The layouts that fit, by time per sample.
    before
        The next smaller number of GPUs; None: a single GPU does.
    closest
        The attempt with the least memory on it; on `limit`, where no number fits.
    tried_before
        How many layouts were tried on the smaller number.
    """

    gpus: int | None
    layouts: tuple[Attempt, ...]
    before: int | None
    closest: Attempt | None
    tried_before: int
    limit: int
    reason: str = ""
    """Why the search ended where no number fits."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "value": self.gpus,
            "layouts": [attempt.to_dict() for attempt in self.layouts],
            "before": self.before,
            "closest_before": None if self.closest is None else self.closest.to_dict(),
            "layouts_tried_before": self.tried_before,
            "limit": self.limit,
            "reason": self.reason,
        }


def fewest_gpus(
    bench: Workbench, roles: Mapping[str, float] | None = None, tokens_per_step: float | None = None
) -> Fewest:
    """Search the smallest number of GPUs: 1, 2, 4, 8, then multiples of a node.

    What the scenario states stays; degrees of tensor and pipeline parallelism, sharding and recomputation that it
    leaves out are tried.

    Parameters
    ----------
    roles
        Bytes that the whole model holds, by role (`State.roles`): layouts whose shares of it exceed a card are ruled out by that.
    tokens_per_step
        What a step should handle, where the scenario states no global batch.
    """
    with TEMPLATES.expecting_others():
        return _LayoutSearch(LayoutSpace(bench, tokens_per_step), roles or {}).run()


class LayoutSpace:
    """The layouts of a number of GPUs."""

    def __init__(self, bench: Workbench, tokens_per_step: float | None) -> None:
        self.bench = bench
        resolved = bench.resolved(self.alone())
        self.resolved = resolved
        self.limit = reach(resolved) or MOST_GPUS
        self.trains = resolved.workload.phase == "train"
        self.splits = resolved.model.splits_tensor
        self.stacked = resolved.model.stacked
        self.node = max(resolved.places, 1)
        self.layers = resolved.model.traits().depth
        self.micro = int(resolved.workload.micro_batch_size or 1)
        length = resolved.workload.sequence_length or 1
        self.wanted = None if tokens_per_step is None else tokens_per_step / length

    def alone(self) -> Changes:
        """Return the changes that put the whole scenario on one GPU."""
        changes: Changes = {"hardware.gpus": None, "parallel.data": None}
        changes |= {f"parallel.{name}": 1 for name in ("tensor", "pipeline", "context", "expert", "virtual_stages")}
        changes |= {"parallel.stage_layers": None, "parallel.expert_tensor": None, "parallel.expert_imbalance": 1.0}
        changes |= {"parallel.redundant_experts": 0}
        return changes | {"parallel.sharding": "none"}

    def number(self, index: int) -> int:
        """Return the number of GPUs at a place of the list 1, 2, 4 ... node, 2 nodes, 3 nodes ...

        Only numbers that the stated degrees divide stand in it.
        """
        node = max(self.node, _SMALLEST_NODE)
        unit = math.prod(self.stated(name) or 1 for name in ("tensor", "pipeline", "context"))
        small = [2**power for power in range(node.bit_length()) if 2**power < node and 2**power % unit == 0]
        return small[index] if index < len(small) else math.lcm(node, unit) * (index - len(small) + 1)

    def degrees(self, gpus: int) -> Iterator[tuple[int, int, int]]:
        """Return (tensor, pipeline, data) that multiply to the GPUs, with as stated context; wide tensor first."""
        context = self.stated("context") or 1
        tensors = [n for n in range(self.node, 0, -1) if n == 1 or (self.splits and self.node % n == 0)]
        pipelines = range(1, min(self.layers, gpus) + 1) if self.trains or self.stacked else range(1, 2)
        for tensor in _only(self.stated("tensor"), tensors):
            for pipeline in _only(self.stated("pipeline"), pipelines):
                inner = tensor * pipeline * context
                if gpus % inner == 0:
                    yield tensor, pipeline, gpus // inner

    def stated(self, key: str) -> int | None:
        """Return a degree of parallelism that the scenario states; None where it leaves it open."""
        given = (self.bench.document.data.get("parallel") or {}).get(key)
        return given if isinstance(given, int) else None

    def shardings(self, data: int) -> tuple[str | None, ...]:
        """Return the levels of sharding to try; None leaves it as it is."""
        if self.bench.stated("parallel.sharding") or not self.trains:
            return (None,)
        return SHARDINGS if data > 1 else ("none",)

    def recomputes(self) -> tuple[str | None, ...]:
        """Return the kinds of recomputation to try, the leanest first; None leaves it as it is."""
        if self.bench.stated("workload.recompute") or not self.trains:
            return (None,)
        return RECOMPUTES

    def changes(self, gpus: int, degrees: tuple[int, int, int], sharding: str | None, recompute: str | None) -> Changes:
        """Return a layout as changes of the scenario."""
        tensor, pipeline, _ = degrees
        changes: Changes = {"hardware.gpus": gpus, "parallel.tensor": tensor, "parallel.pipeline": pipeline}
        along = self.resolved.model.splits_sequence
        if tensor > 1 and self.trains and along and not self.bench.stated("parallel.sequence"):
            changes["parallel.sequence"] = True
        if sharding is not None:
            changes["parallel.sharding"] = sharding
        if recompute is not None:
            changes["workload.recompute"] = recompute
        if self.trains and not self.bench.stated("workload.global_batch_size"):
            changes["workload.global_batch_size"] = self.batch(gpus)
        return changes

    def batch(self, gpus: int) -> int:
        """Return the global batch where none is stated: the same for all layouts of so many GPUs, and divisible."""
        unit = self.micro * gpus
        if self.wanted is None:
            return MICRO_BATCHES * unit
        return max(1, round(self.wanted / unit)) * unit


def floor_of(roles: Mapping[str, float], gpus: int, degrees: tuple[int, int, int], sharding: str | None) -> float:
    """Return bytes that some rank holds at least when the update runs: the mean over the ranks that share each part of the state.

    What is not divided (norms, tables, experts dealt out unevenly) only adds to it. A level of sharding that is not known divides
    everything among all.
    """
    tensor, pipeline, _ = degrees
    together = _SHARED.get(sharding, roles.keys())
    return sum(amount / (gpus if role in together else tensor * pipeline) for role, amount in roles.items())


def _only(stated: int | None, otherwise: Iterable[int]) -> Iterable[int]:
    return otherwise if stated is None else (stated,)


@dataclass(frozen=True)
class _Layout:
    """A layout with the leanest recomputation.

    Attributes
    ----------
    floor
        Bytes that it takes at least.
    attempt
        What it takes; None where the floor alone is beyond the card.
    counts
        How many layouts it stands for: itself and what it rules out.
    hopeless
        Whether it rules out less sharding: a rank then holds more.
    """

    changes: Changes
    floor: float
    attempt: Attempt | None
    counts: int
    hopeless: bool


class _LayoutSearch:
    def __init__(self, space: LayoutSpace, roles: Mapping[str, float]) -> None:
        self.space = space
        self.bench = space.bench
        self.roles = roles
        self.largest = float(space.resolved.gpu.memory.capacity)

    def run(self) -> Fewest:
        index, failed = self._gallop()
        if index is None:
            last = self.space.number(failed)
            return Fewest(
                gpus=None,
                layouts=(),
                before=last,
                closest=self._closest(last),
                tried_before=self._tried(last),
                limit=last,
                reason=self._reason(last),
            )
        while index - failed > 1:
            middle = (index + failed) // 2
            index, failed = (middle, failed) if self._fits(self.space.number(middle)) else (index, middle)
        while index > 0 and self._fits(
            self.space.number(index - 1)
        ):  # a number whose divisors suit better may lie below
            index -= 1
        gpus = self.space.number(index)
        before = self.space.number(index - 1) if index else None
        closest = None if before is None else self._closest(before)
        tried = 0 if before is None else self._tried(before)
        return Fewest(
            gpus=gpus,
            layouts=self._ranked(gpus),
            before=before,
            closest=closest,
            tried_before=tried,
            limit=self.space.limit,
        )

    def _reason(self, last: int) -> str:
        if self.space.limit < MOST_GPUS:
            return beyond_reach(self.space.resolved)
        if last >= MOST_GPUS:
            return ""
        if not self.space.splits:
            return "more GPUs no longer help"
        untried = "tensor beyond a node" + (", context and expert" if self.space.trains else "")
        return f"more GPUs no longer help with the layouts tried; {untried} parallelism is only tried as stated"

    def _gallop(self) -> tuple[int | None, int]:
        """Return the place of a number that fits (None: none does), and of one below it that does not (-1: none is)."""
        index, growth, stuck = self._start(), 1, 0
        failed = index - 1  # what the state alone rules out
        least: float | None = None
        while self.space.number(index) <= self.space.limit:
            gpus = self.space.number(index)
            if self._fits(gpus):
                return index, failed
            closest = self._closest(gpus)
            memory = None if closest is None else closest.memory
            if memory is not None:  # a number that what is stated does not divide says nothing
                gained = least is None or memory < (1.0 - _GAIN) * least
                stuck, least = (0, memory) if gained else (stuck + 1, least)
            failed = index
            if stuck > _PATIENCE:
                break
            index, growth = index + growth, 2 * growth
        return None, failed

    def _start(self) -> int:
        """Return the place of the first number over which the state alone could be dealt out."""
        held = sum(self.roles.values())
        index = 0
        while self.space.number(index + 1) <= self.space.limit and self.space.number(index) * self.largest < held:
            index += 1
        return index

    def _floor(self, gpus: int, degrees: tuple[int, int, int], sharding: str | None) -> float:
        """Return the bytes that a layout takes at least; stated experts are dealt out over ranks of all kinds."""
        dealt = None if (self.space.stated("expert") or 1) > 1 else sharding
        return floor_of(self.roles, gpus, degrees, dealt)

    def _lean(self, gpus: int) -> Iterator[_Layout]:
        """Return the layouts with the leanest recomputation; those that less sharding makes hopeless are only counted."""
        space = self.space
        for degrees in space.degrees(gpus):
            levels = space.shardings(degrees[2])
            for at, sharding in enumerate(levels):
                changes = space.changes(gpus, degrees, sharding, space.recomputes()[0])
                if not self.bench.possible(changes):
                    continue
                one = self._judged(changes, self._floor(gpus, degrees, sharding), len(levels) - at)
                yield one
                if one.hopeless:
                    break

    def _judged(self, changes: Changes, floor: float, levels: int) -> _Layout:
        """Return a layout, followed as far as it takes to rule it out, or whole; `levels` of sharding are at least as full."""
        if floor > self.largest:
            return _Layout(changes, floor, None, levels, hopeless=True)
        stage = self.bench.floor(changes)
        if stage is not None and stage.memory > self.largest:
            hopeless = stage.tensors > self.largest
            return _Layout(changes, stage.memory, None, levels if hopeless else 1, hopeless)
        attempt = self.bench.attempted(changes)
        hopeless = attempt is None or beyond_sharding(attempt.components) > attempt.capacity
        return _Layout(changes, floor, attempt, levels if hopeless else 1, hopeless)

    def _fits(self, gpus: int) -> bool:
        return any(one.attempt is not None and one.attempt.runs for one in self._lean(gpus))

    def _closest(self, gpus: int) -> Attempt | None:
        """Return the attempt with the least memory; one that its floor rules out is only tried where it may be that."""
        best: Attempt | None = None
        for one in sorted(self._lean(gpus), key=lambda one: (one.attempt is None, one.floor)):
            if best is not None and one.floor >= best.memory:
                continue
            attempt = self.bench.attempted(one.changes)
            if attempt is not None and (best is None or attempt.memory < best.memory) and attempt.refusal is None:
                best = attempt
        return best

    def _tried(self, gpus: int) -> int:
        return sum(one.counts for one in self._lean(gpus))

    def _fitting(
        self, gpus: int, degrees: tuple[int, int, int], sharding: str | None, recompute: str | None
    ) -> Attempt | None:
        """Return a layout that fits; None where it does not, or is refused."""
        changes = self.space.changes(gpus, degrees, sharding, recompute)
        if self._floor(gpus, degrees, sharding) > self.largest or not self.bench.possible(changes):
            return None
        stage = self.bench.floor(changes)
        if stage is not None and stage.memory > self.largest:
            return None
        attempt = self.bench.attempted(changes)
        return attempt if attempt is not None and attempt.runs else None

    def _ranked(self, gpus: int) -> tuple[Attempt, ...]:
        """Return the layouts that fit, by time per sample.

        What does not fit with more recomputation is not tried with less.
        """
        space = self.space
        ranked: dict[str, Attempt] = {}
        for degrees in space.degrees(gpus):
            shardings = tuple(level for level in space.shardings(degrees[2]) if level in _RANKED or degrees[2] == 1)
            for recompute in space.recomputes():
                tried = {level: self._fitting(gpus, degrees, level, recompute) for level in shardings}
                fitting = {level: one for level, one in tried.items() if one is not None}
                for one in fitting.values():  # recomputation that changes nothing is no layout of its own
                    ranked[repr((degrees, one.layout["sharding"], one.memory, one.step_time))] = one
                shardings = tuple(fitting)
        return tuple(sorted(ranked.values(), key=lambda attempt: attempt.seconds_per_sample))
