"""Write out the ops of one rank in the order in which they run, blocks as often as they repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.shares import NEGLIGIBLE, WAIT_NAMES
from roofsim.analyze.timeline.spans import COMPUTE, FROM_HOST, HOST, TO_HOST, WAITS, Span
from roofsim.cost.host.copies import RESOURCES, host_path
from roofsim.cost.kernels.roofline import BOUNDS
from roofsim.cost.links.communication import FREE
from roofsim.cost.scales import Scales
from roofsim.evaluate import messages_of
from roofsim.graph.base import Kind, Phase
from roofsim.graph.ops import Collective, HostCompute, HostTransfer, HostUpdate
from roofsim.records import dataclass
from roofsim.spec.scenario.layout import layout_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roofsim.analyze.shares import Made, Part
    from roofsim.analyze.timeline.exposure import GroupTime
    from roofsim.cost.host.copies import Flow
    from roofsim.cost.pricing import OpCost, PassCost
    from roofsim.evaluate import Evaluation
    from roofsim.schedule.overlap import Exposed

#: Ops that are written out at most; of what is longer, passes stand as one piece each.
MOST_OPS: Final = 200_000
#: Micro batches (or runs of a pass) whose ops are written out; the others are one piece a phase.
WRITTEN: Final = 1


#: Waits of all ranks that come after what each of them does.
AFTERWARDS: Final = ("stragglers", "input")


@dataclass(frozen=True, kw_only=True)
class Run:
    """How long the passes of one graph take on one rank, waits for the host included.

    Attributes
    ----------
    each
        Seconds of one micro batch; of them its kernels take `kernels`, and the host's work behind it `overhead`.
    shown, copies
        Of `each`: communication that shows, and what the pass waits for copies and the host's work.
    once, copies_once
        The same of what runs once for all micro batches.
    update, host_update
        Seconds of the optimizer, on the device and on the host.
    """

    part: Part
    each: float
    kernels: float
    overhead: float
    shown: float
    copies: float
    once: float
    copies_once: float
    update: float
    host_update: float


def run_of(part: Part, cost: PassCost, shown: Exposed | None, pace: float) -> Run:
    """Return how long the passes of a graph take; `pace` is what a host that launches slowly makes of a second."""
    seconds = {True: 0.0, False: 0.0}
    for one, _, _ in part.kernels():
        updates = one.op.phase is Phase.OPTIMIZER
        seconds[updates] += part.over(one.lasting(part.stretch) * one.op.count)
    links, once = (0.0, 0.0) if shown is None else (float(shown.micro_batch.seconds), float(shown.step.seconds))
    host = None if shown is None else shown.host
    copies, copies_once, work = (
        (0.0, 0.0, 0.0) if host is None else (_all(host.micro_batch), _all(host.step), _all(host.update))
    )
    overhead, serial = float(cost.overhead), float(cost.serial)
    return Run(
        part=part,
        each=(seconds[False] + overhead + links + copies) * pace + serial,
        kernels=seconds[False],
        overhead=overhead * pace + serial,
        shown=links,
        copies=copies,
        once=once * pace,
        copies_once=copies_once * pace,
        update=seconds[True] * pace,
        host_update=work,
    )


def _all(flow: Flow) -> float:
    return sum(float(getattr(flow, name)) for name in RESOURCES)


def waits_after(lane: int, at: float, step: float, name: str, after: dict[str, float]) -> list[Span]:
    """Return what fills a step from `at` on: what is called `name`, then what all ranks wait for."""
    spans, end = [], step - sum(after.values())
    if end - at > NEGLIGIBLE * step:
        spans.append(Span(lane, WAITS, name, "wait", at, end - at))
    for wait, seconds in after.items():
        if seconds > NEGLIGIBLE * step:
            spans.append(Span(lane, WAITS, WAIT_NAMES[wait][0], "wait", end, seconds))
        end += seconds
    return spans


class Writer:
    """Puts passes one after the other on one lane.

    Ops run on the compute stream in program order, each as long as it takes at the clock that the card's power allows.
    Kernels stand apart where the device waits for their launch. A collective begins when its turn comes and its stream is
    free; compute waits for the share of it that shows.
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
        self.path = host_path(
            resolved.system, resolved.gpu, layout_of(resolved.parallel).ranks, physics=resolved.constants.physics
        )

    def run(self, run: Run, groups: list[GroupTime]) -> None:
        """Write all passes of one graph: its micro batches, what runs once for all of them, its update."""
        part = run.part
        body = [cost for cost in part.costs if cost.op.phase is not Phase.OPTIMIZER]
        shares = self._shares(run, body, groups)
        left = part.runs * part.micro_batches
        written = _length(body) <= MOST_OPS
        if not written:
            self.notes.append(f"{part.stage.name}: too many ops to show")
        for index in range(min(int(left), WRITTEN) if written else 0):
            self._ops(part, body, run.each - run.overhead, shares, index)
            self._wait("between_passes", run.overhead)
            left -= 1.0
        self._whole(run, body, left, groups)
        self._once(groups, run.once)
        tail = [cost for cost in part.costs if cost.op.phase is Phase.OPTIMIZER]
        if tail:
            self._ops(part, tail, run.update + run.host_update, shares, int(part.micro_batches) - 1)
        self._wait("host_link", run.copies_once)

    def one_pass(self, run: Run, groups: list[GroupTime]) -> None:
        """Write the ops of one micro batch, without what runs once; nothing where there are too many."""
        body = [cost for cost in run.part.costs if cost.op.phase is not Phase.OPTIMIZER]
        if _length(body) <= MOST_OPS:
            self._ops(run.part, body, run.each - run.overhead, self._shares(run, body, groups), 0)

    def finish(self, made: Made) -> None:
        """Fill what is left of the step."""
        after = {name: made.waits[name] for name in AFTERWARDS}
        end = max((span.start + span.seconds for span in self.spans), default=0.0)
        self.spans += waits_after(0, end, made.step, WAIT_NAMES["launches"][0], after)

    def _wait(self, name: str, seconds: float) -> None:
        if seconds > 0.0:
            self.spans.append(Span(0, WAITS, WAIT_NAMES[name][0], "wait", self.now, seconds))
            self.now += seconds

    # -- ops --------------------------------------------------------------------------------------------------------

    def _shares(self, run: Run, body: list[OpCost], groups: list[GroupTime]) -> _Shares:
        """Return which share of each collective and copy of a pass shows, so that they show as long as the step says."""
        shares = {(one.phase, one.group): one.share for one in groups if not one.once}
        links = sum(
            seconds * shares.get((str(cost.op.phase), cost.op.group_of), 0.0) * run.part.over(cost.op.repeats)
            for cost in body
            if isinstance(cost.op, Collective) and (seconds := self._collective(run.part, cost.op))
        )
        shares = {key: share * (run.shown / links if links else 0.0) for key, share in shares.items()}
        copies, computed = self._copies(run.part, body), self._computed(run.part, body)
        hidden = min(max(run.copies - computed, 0.0) / copies, 1.0) if copies else 0.0
        return _Shares(collectives=shares, copies=hidden)

    def _ops(self, part: Part, costs: list[OpCost], lasts: float, shares: _Shares, index: int) -> None:
        """Write the ops of a pass that takes so many seconds."""
        begin = self.now
        spans: list[Span] = []
        for repeat, cost in in_program_order(costs):
            spans += self._op(part, repeat, cost, shares, index)
        took = self.now - begin
        pace = lasts / took if took > 0.0 else 1.0
        for span in spans:  # ends move apart, a kernel waits for its launch; what it takes stays
            seconds = span.seconds * min(pace, 1.0)
            start = begin + (span.start + (span.seconds if span.stream == COMPUTE else 0.0) - begin) * pace
            start -= seconds if span.stream == COMPUTE else 0.0
            self.spans.append(Span(span.lane, span.stream, span.name, span.kind, start, seconds, span.facts))
        self.now = begin + lasts
        self.free = {stream: min(at, self.now) for stream, at in self.free.items()}

    def _op(self, part: Part, repeat: int | None, cost: OpCost, shares: _Shares, index: int) -> Iterator[Span]:
        op = cost.op
        name = op.name if repeat is None else f"{op.name}[{repeat}]"
        phase = str(op.phase)
        if isinstance(op, Collective):
            share, seconds = shares.collectives.get((phase, op.group_of)), self._collective(part, op)
            if share is None or not seconds:
                return
            facts: dict[str, Any] = {
                "micro_batch": index,
                "bytes": part.over(op.message() * op.steps),
                "exposed": seconds * share,
            }
            yield self._beside(op.group_of, f"{op.function} {name}", "communication", seconds, share, facts)
        elif isinstance(op, HostTransfer):
            seconds = part.over(self.path.transfer(op).pace * op.share)
            stream = TO_HOST if op.direction == "to_host" else FROM_HOST
            # What the host has updated travels while it goes on with the next parameters.
            begin = self.updating if op.phase is Phase.OPTIMIZER else self.now
            yield self._beside(stream, name, "copy", seconds, shares.copies, {"micro_batch": index}, begin)
        elif isinstance(op, HostUpdate):
            self.updating = self.now
            yield self._beside(HOST, name, "host", part.over(self.path.update(op).pace), 1.0, {})
        elif isinstance(op, HostCompute):
            seconds = part.over(self.path.compute(op).pace * op.share)
            yield self._beside(HOST, name, "host", seconds, 1.0, {"micro_batch": index})
        elif op.kind is not Kind.VIEW:
            seconds = part.over(cost.lasting(part.stretch) * op.share)
            facts = {
                "micro_batch": index,
                "class": str(op.group),
                "layer": op.layer,
                "op": op.name,
                "repeat": repeat,
                **self._amounts(part, cost, seconds),
            }
            yield Span(0, COMPUTE, name, phase, self.now, seconds, facts)
            self.now += seconds

    def _amounts(self, part: Part, cost: OpCost, seconds: float) -> dict[str, Any]:
        """Return what one run of an op computes and moves, what bounds it, and the watts that it draws by its own energy.

        Kernels draw what streaming their traffic takes at least, beside what a card draws that waits.
        """
        op, device = cost.op, self.evaluation.device
        power = device.power
        flops = part.over(op.executed_flops() * op.share)
        moved = part.over((op.bytes_read() + op.bytes_written()) * op.share)
        facts: dict[str, Any] = {"flops": flops, "bytes": moved, "intensity": flops / moved if moved else None}
        facts["bound"] = max(BOUNDS, key=lambda name: part.over(getattr(cost, name)))
        if power is not None and seconds > 0.0:
            held = part.over(cost.held) > 0.0  # by its own power: it draws all that the card may
            waiting = device.constants.physics["waiting_power"] * seconds
            traffic = float(device.streaming_energy(moved)) / float(power) + waiting
            drawn = max(part.over(cost.drawn * op.share), traffic)
            facts["watts"] = float(power) * (1.0 if held else min(drawn / seconds, 1.0))
        return facts

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

    def _collective(self, part: Part, op: Collective) -> float:
        """Return the seconds of a collective."""
        if op.function in FREE or self.messages is None:
            return 0.0
        return part.over(self.messages.time_of(op, Scales()).seconds * op.share)

    def _copies(self, part: Part, costs: list[OpCost]) -> float:
        """Return the seconds of all copies to and from the host in one pass."""
        return sum(
            part.over(self.path.transfer(cost.op).pace * cost.op.count)
            for cost in costs
            if isinstance(cost.op, HostTransfer)
        )

    def _computed(self, part: Part, costs: list[OpCost]) -> float:
        """Return the seconds of what the host computes in one pass of inference."""
        return sum(
            part.over(self.path.compute(cost.op).pace * cost.op.count)
            for cost in costs
            if isinstance(cost.op, HostCompute)
        )

    # -- whole passes -----------------------------------------------------------------------------------------------

    def _whole(self, run: Run, costs: list[OpCost], count: float, groups: list[GroupTime]) -> None:
        """Write further passes as one piece a phase; of very many, all of them as one."""
        if count > MOST_OPS // 100:
            lasts = run.each * count
            self.spans.append(Span(0, COMPUTE, f"{run.part.stage.name}, {count:g} times", "forward", self.now, lasts))
            self.now += lasts
            return
        phases: dict[str, float] = {}
        for cost in costs:
            seconds, way = run.part.over(cost.lasting(run.part.stretch) * cost.op.count), _way(str(cost.op.phase))
            phases[way] = phases.get(way, 0.0) + seconds
        total, first = sum(phases.values()) or 1.0, round(run.part.runs * run.part.micro_batches - count)
        while count > NEGLIGIBLE:
            part = min(count, 1.0)
            for phase, seconds in phases.items():
                facts, lasts = {"micro_batch": first}, (run.each - run.overhead) * part * seconds / total
                self.spans.append(Span(0, COMPUTE, f"{phase} {first}", phase, self.now, lasts, facts))
                self._all_collectives(groups, phase, lasts, facts)
                self.now += lasts
            self._wait("between_passes", run.overhead * part)
            first, count = first + 1, count - 1.0

    def _all_collectives(self, groups: list[GroupTime], phase: str, lasts: float, facts: dict[str, Any]) -> None:
        """Write the collectives of a pass as one piece a group."""
        sums: dict[str, float] = {}
        for one in groups:
            if not one.once and _way(one.phase) == phase:
                sums[one.group] = sums.get(one.group, 0.0) + one.seconds
        for group, seconds in sums.items():
            name = f"{group} collectives"
            self.spans.append(Span(0, group, name, "communication", self.now, min(seconds, lasts), facts))

    def _once(self, groups: list[GroupTime], lasts: float) -> None:
        """Write collectives that run once a step: the part that hides ends with the last backward pass."""
        end, shows = self.now + lasts, sum(one.exposed for one in groups if one.once)
        for one in groups:
            if one.once and one.seconds:
                exposed = one.exposed * (lasts / shows if shows else 0.0)
                start = self.now if one.phase == "optimizer" else max(self.now + exposed - one.seconds, 0.0)
                name = "parameters" if one.phase == "optimizer" else "gradients"
                seconds = self.now + exposed - start
                self.spans.append(Span(0, one.group, name, "communication", start, seconds, {"exposed": exposed}))
                self.now += exposed
        self.now = end


@dataclass(frozen=True, kw_only=True)
class _Shares:
    """Which share of what runs beside the kernels of a pass shows: of collectives by phase and group, of copies."""

    collectives: dict[tuple[str, str], float]
    copies: float


def _way(phase: str) -> str:
    """Return the phase that a piece of a pass is shown as: what is computed again belongs to the backward pass."""
    return str(Phase.BACKWARD) if phase == Phase.RECOMPUTE else phase


def in_program_order(costs: list[OpCost]) -> Iterator[tuple[int | None, OpCost]]:
    """Iterate over ops in program order, each block as often as it repeats, with the number of the repetition."""
    start = 0
    while start < len(costs):
        block = costs[start].op.block
        stop = start + 1
        while stop < len(costs) and costs[stop].op.block is block:
            stop += 1
        times = 1 if block is None else max(round(float(np.mean(block.repeat))), 1)
        for index in range(times):
            for cost in costs[start:stop]:
                yield None if block is None else index, cost
        start = stop


def _length(costs: list[OpCost]) -> float:
    return sum(float(np.mean(cost.op.repeats)) for cost in costs)
