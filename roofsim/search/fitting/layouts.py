"""Search the smallest number of GPUs on which some layout fits, and rank the layouts that do."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from roofsim.records import dataclass
from roofsim.search.fitting.bench import beyond_reach, reach

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from roofsim.search.fitting.bench import Attempt, Bench, Changes

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


def fewest_gpus(bench: Bench, tokens_per_step: float | None = None) -> Fewest:
    """Search the smallest number of GPUs: 1, 2, 4, 8, then multiples of a node.

    What the scenario states stays; degrees of tensor and pipeline parallelism, sharding and recomputation that it
    leaves out are tried.

    Parameters
    ----------
    tokens_per_step
        What a step should handle, where the scenario states no global batch.
    """
    return _Search(Space(bench, tokens_per_step)).run()


class Space:
    """The layouts of a number of GPUs."""

    def __init__(self, bench: Bench, tokens_per_step: float | None) -> None:
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
        return changes | {"parallel.sharding": "none"}

    def number(self, index: int) -> int:
        """Return the number of GPUs at a place of the list 1, 2, 4 ... node, 2 nodes, 3 nodes ...

        Only numbers that the stated degrees divide stand in it.
        """
        node = max(self.node, _SMALLEST_NODE)
        unit = math.prod(self._stated(name) or 1 for name in ("tensor", "pipeline", "context"))
        small = [2**power for power in range(node.bit_length()) if 2**power < node and 2**power % unit == 0]
        return small[index] if index < len(small) else math.lcm(node, unit) * (index - len(small) + 1)

    def degrees(self, gpus: int) -> Iterator[tuple[int, int, int]]:
        """Return (tensor, pipeline, data) that multiply to the GPUs, with as stated context; wide tensor first."""
        context = self._stated("context") or 1
        tensors = [n for n in range(self.node, 0, -1) if n == 1 or (self.splits and self.node % n == 0)]
        pipelines = range(1, min(self.layers, gpus) + 1) if self.trains or self.stacked else range(1, 2)
        for tensor in _only(self._stated("tensor"), tensors):
            for pipeline in _only(self._stated("pipeline"), pipelines):
                inner = tensor * pipeline * context
                if gpus % inner == 0:
                    yield tensor, pipeline, gpus // inner

    def _stated(self, key: str) -> int | None:
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


def _only(stated: int | None, otherwise: Iterable[int]) -> Iterable[int]:
    return otherwise if stated is None else (stated,)


def _beyond(attempt: Attempt) -> bool:
    """Tell whether tensors alone exceed the memory, without what only sharding itself takes: whole units it gathers."""
    besides = ("communication_buffers", "context", "fragmentation")
    return sum(amount for name, amount in attempt.components.items() if name not in besides) > attempt.capacity


class _Search:
    def __init__(self, space: Space) -> None:
        self.space = space
        self.bench = space.bench

    def run(self) -> Fewest:
        index, failed = self._gallop()
        if index is None:
            last = self.space.number(failed)
            return Fewest(
                gpus=None, layouts=(), before=last, closest=self._closest(last), tried_before=self._tried(last),
                limit=last, reason=self._reason(last),
            )  # fmt: skip
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
        """Return the place of the first number over which parameters and optimizer state alone could be dealt out."""
        first = self.bench.attempted(self.space.alone())
        if first is None:
            return 0
        held = first.components["parameters"] + first.components["optimizer_state"]
        index = 0
        while self.space.number(index + 1) <= self.space.limit and self.space.number(index) * first.capacity < held:
            index += 1
        return index

    def _lean(self, gpus: int) -> Iterator[tuple[Attempt, int]]:
        """Return the layouts with the leanest recomputation, and how many each stands for: itself and what it rules out."""
        space = self.space
        for degrees in space.degrees(gpus):
            levels = space.shardings(degrees[2])
            for at, sharding in enumerate(levels):
                attempt = self.bench.attempted(space.changes(gpus, degrees, sharding, space.recomputes()[0]))
                if attempt is None:
                    continue
                hopeless = _beyond(attempt)  # with less sharding a rank holds more
                yield attempt, len(levels) - at if hopeless else 1
                if hopeless:
                    break

    def _fits(self, gpus: int) -> bool:
        return any(attempt.fits for attempt, _ in self._lean(gpus))

    def _closest(self, gpus: int) -> Attempt | None:
        return min((attempt for attempt, _ in self._lean(gpus)), key=lambda attempt: attempt.memory, default=None)

    def _tried(self, gpus: int) -> int:
        return sum(layouts for _, layouts in self._lean(gpus))

    def _ranked(self, gpus: int) -> tuple[Attempt, ...]:
        """Return the layouts that fit, by time per sample.

        What does not fit with more recomputation is not tried with less.
        """
        space = self.space
        ranked: dict[str, Attempt] = {}
        for degrees in space.degrees(gpus):
            shardings = tuple(level for level in space.shardings(degrees[2]) if level in _RANKED or degrees[2] == 1)
            for recompute in space.recomputes():
                tried = {
                    level: self.bench.attempted(space.changes(gpus, degrees, level, recompute)) for level in shardings
                }
                fitting = {level: one for level, one in tried.items() if one is not None and one.fits}
                for one in fitting.values():  # recomputation that changes nothing is no layout of its own
                    ranked[repr((degrees, one.layout["sharding"], one.memory, one.step_time))] = one
                shardings = tuple(fitting)
        return tuple(sorted(ranked.values(), key=lambda attempt: attempt.seconds_per_sample))
