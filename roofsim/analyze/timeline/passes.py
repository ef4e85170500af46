"""Write out the ops of one rank in the order in which they run, blocks as often as they repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.timeline.spans import COMPUTE, FROM_HOST, HOST, TO_HOST, Span
from roofsim.cost.communication import FREE
from roofsim.cost.host import host_path
from roofsim.cost.pricing import Scales
from roofsim.evaluate import messages_of
from roofsim.graph.base import Kind, Phase
from roofsim.graph.ops import Collective, HostCompute, HostTransfer, HostUpdate
from roofsim.spec.layout import layout_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roofsim.analyze.timeline.exposure import GroupTime
    from roofsim.cost.pricing import OpCost
    from roofsim.evaluate import Evaluation
    from roofsim.schedule.host import HostShown

#: Ops that are written out at most; of what is longer, passes stand as one piece each.
MOST_OPS: Final = 200_000
#: Micro batches (or runs of a pass) whose ops are written out; the others are one piece a phase.
WRITTEN: Final = 1


class Writer:
    """Puts passes one after the other on one lane.

    Ops run on the compute stream in program order. Kernels stand apart by as much as the pass takes longer than all of
    them: while the device waits for launches, or its clock for power. A collective begins when its turn comes and its
    stream is free; compute waits for the share of it that shows.
    """

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation
        self.spans: list[Span] = []
        self.notes: list[str] = []
        self.now = 0.0
        self.updating = 0.0
        self.free: dict[str, float] = {}
        resolved = evaluation.resolved
        self.messages = messages_of(resolved) if resolved.gpus > 1 else None
        self.path = host_path(resolved.system, resolved.gpu, layout_of(resolved.parallel).ranks)

    def run(self, place: int, each: float, update: float, groups: list[GroupTime], host: HostShown | None) -> None:
        """Write one program stage: `each` are the seconds of a micro batch, `update` those of the optimizer."""
        stage, costs = self.evaluation.program.stages[place], self.evaluation.priced[place].per_op()
        times = float(stage.times) if stage.averaged or stage.times != 1.0 else 1.0
        micro_batches = int(self.evaluation.program.num_micro_batches)
        runs = max(round(times), 1) * micro_batches
        body = [cost for cost in costs if cost.op.phase is not Phase.OPTIMIZER]
        shares = {(one.phase, one.group): one for one in groups}
        hidden = _copies_shown(host, self._copies(body), self._computed(body))
        written = _length(body) <= MOST_OPS
        if not written:
            self.notes.append(f"{stage.name}: too many ops to show")
        for index in range(min(runs, WRITTEN) if written else 0):
            self._ops(body, each, shares, hidden, index)
        rest = runs - min(runs, WRITTEN) if written else runs
        self._whole(stage.name, body, each, range(runs - rest, runs), groups)
        self._once(groups)
        tail = [cost for cost in costs if cost.op.phase is Phase.OPTIMIZER]
        if tail:
            self._ops(tail, update, shares, 0.0, runs - 1)
        self.now += 0.0 if host is None else _number(host.step.pace)

    # -- ops --------------------------------------------------------------------------------------------------------

    def _ops(
        self, costs: list[OpCost], lasts: float, shares: dict[tuple[str, str], GroupTime], copies: float, index: int
    ) -> None:
        """Write the ops of a pass that takes so many seconds."""
        begin = self.now
        spans: list[Span] = []
        for name, cost in _written(costs):
            spans += self._op(name, cost, shares, copies, index)
        took = self.now - begin
        pace = lasts / took if took > 0.0 else 1.0
        for span in spans:  # starts move apart; what a kernel takes stays
            start = begin + (span.start - begin) * pace
            seconds = span.seconds * min(pace, 1.0)
            self.spans.append(Span(span.lane, span.stream, span.name, span.kind, start, seconds, span.facts))
        self.now = begin + lasts
        self.free = {stream: min(at, self.now) for stream, at in self.free.items()}

    def _op(
        self, name: str, cost: OpCost, shares: dict[tuple[str, str], GroupTime], copies: float, index: int
    ) -> Iterator[Span]:
        op = cost.op
        phase = str(op.phase)
        if isinstance(op, Collective):
            one = shares.get((phase, op.group_of))
            if one is None or one.once or op.function in FREE or self.messages is None:
                return
            seconds = _number(self.messages.time_of(op, Scales()).seconds * op.share)
            facts: dict[str, Any] = {
                "micro_batch": index,
                "bytes": _number(op.message() * op.steps),
                "exposed": seconds * one.share,
            }
            yield self._beside(op.group_of, f"{op.function} {name}", "communication", seconds, one.share, facts)
        elif isinstance(op, HostTransfer):
            seconds = _number(self.path.transfer(op).pace) * _number(op.share)
            stream = TO_HOST if op.direction == "to_host" else FROM_HOST
            # What the host has updated travels while it goes on with the next parameters.
            begin = self.updating if op.phase is Phase.OPTIMIZER else self.now
            yield self._beside(stream, name, "copy", seconds, copies, {"micro_batch": index}, begin)
        elif isinstance(op, HostUpdate):
            self.updating = self.now
            yield self._beside(HOST, name, "host", _number(self.path.update(op).pace), 1.0, {})
        elif isinstance(op, HostCompute):
            seconds = _number(self.path.compute(op).pace) * _number(op.share)
            yield self._beside(HOST, name, "host", seconds, 1.0, {"micro_batch": index})
        elif op.kind is not Kind.VIEW:
            seconds = _number(cost.time) * _number(op.share)
            facts = {"micro_batch": index, "class": str(op.group), "layer": op.layer}
            yield Span(0, COMPUTE, name, phase, self.now, seconds, facts)
            self.now += seconds

    def _beside(
        self,
        stream: str,
        name: str,
        kind: str,
        seconds: float,
        share: float,
        facts: dict[str, Any],
        begin: float | None = None,
    ) -> Span:
        start = max(self.now if begin is None else begin, self.free.get(stream, 0.0))
        self.free[stream] = start + seconds
        self.now += seconds * share
        return Span(0, stream, name, kind, start, seconds, facts)

    def _copies(self, costs: list[OpCost]) -> float:
        """Return the seconds of all copies to and from the host in one pass."""
        return sum(
            _number(self.path.transfer(cost.op).pace) * _number(cost.op.count)
            for cost in costs
            if isinstance(cost.op, HostTransfer)
        )

    def _computed(self, costs: list[OpCost]) -> float:
        """Return the seconds of what the host computes in one pass of inference."""
        return sum(
            _number(self.path.compute(cost.op).pace) * _number(cost.op.count)
            for cost in costs
            if isinstance(cost.op, HostCompute)
        )

    # -- whole passes -----------------------------------------------------------------------------------------------

    def _whole(self, name: str, costs: list[OpCost], each: float, indices: range, groups: list[GroupTime]) -> None:
        """Write further passes as one piece a phase; of very many, all of them as one."""
        if len(indices) > MOST_OPS // 100:
            lasts = each * len(indices)
            self.spans.append(Span(0, COMPUTE, f"{name}, {len(indices)} times", "forward", self.now, lasts))
            self.now += lasts
            return
        phases: dict[str, float] = {}
        for cost in costs:
            seconds = _number(cost.time) * _number(cost.op.count)
            phases[_way(str(cost.op.phase))] = phases.get(_way(str(cost.op.phase)), 0.0) + seconds
        total = sum(phases.values()) or 1.0
        for index in indices:
            for phase, seconds in phases.items():
                facts, lasts = {"micro_batch": index}, each * seconds / total
                self.spans.append(Span(0, COMPUTE, f"{phase} {index}", phase, self.now, lasts, facts))
                self._all_collectives(groups, phase, lasts, facts)
                self.now += lasts

    def _all_collectives(self, groups: list[GroupTime], phase: str, lasts: float, facts: dict[str, Any]) -> None:
        """Write the collectives of a pass as one piece a group."""
        sums: dict[str, float] = {}
        for one in groups:
            if not one.once and _way(one.phase) == phase:
                sums[one.group] = sums.get(one.group, 0.0) + one.seconds
        for group, seconds in sums.items():
            name = f"{group} collectives"
            self.spans.append(Span(0, group, name, "communication", self.now, min(seconds, lasts), facts))

    def _once(self, groups: list[GroupTime]) -> None:
        """Write collectives that run once a step: the part that hides ends with the last backward pass."""
        for one in groups:
            if one.once and one.seconds:
                gathers = one.phase == "optimizer"
                start = self.now if gathers else max(self.now - (one.seconds - one.exposed), 0.0)
                name = "parameters" if gathers else "gradients"
                facts = {"exposed": one.exposed}
                self.spans.append(Span(0, one.group, name, "communication", start, one.seconds, facts))
                self.now += one.exposed


def _way(phase: str) -> str:
    """Return the phase that a piece of a pass is shown as: what is computed again belongs to the backward pass."""
    return str(Phase.BACKWARD) if phase == Phase.RECOMPUTE else phase


def _written(costs: list[OpCost]) -> Iterator[tuple[str, OpCost]]:
    """Iterate over ops in program order, each block as often as it repeats."""
    start = 0
    while start < len(costs):
        block = costs[start].op.block
        stop = start + 1
        while stop < len(costs) and costs[stop].op.block is block:
            stop += 1
        times = 1 if block is None else max(round(_number(block.repeat)), 1)
        for index in range(times):
            suffix = "" if block is None else f"[{index}]"
            for cost in costs[start:stop]:
                yield f"{cost.op.name}{suffix}", cost
        start = stop


def _length(costs: list[OpCost]) -> float:
    return sum(_number(cost.op.repeats) for cost in costs)


def _copies_shown(host: HostShown | None, seconds: float, computed: float) -> float:
    """Return which share of the copies of a micro batch shows, beside the seconds of what the host computes."""
    if host is None or not seconds:
        return 0.0
    waits = host.micro_batch
    shown = _number(waits.pace)
    if computed:
        shown = _number(waits.host_link + waits.host_memory + waits.storage) - computed
    return min(max(shown, 0.0) / seconds, 1.0)


def _number(value: Any) -> float:
    """Return a number; of the contexts of a decode, their mean."""
    return float(value) if isinstance(value, float) else float(np.mean(value))
