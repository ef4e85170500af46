"""Lay out a step in time: of pipelines the work of every stage, else the ops of a rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.analyze.ledger import memory_of
from roofsim.analyze.shares import WAIT_NAMES, made_of
from roofsim.analyze.timeline.beside import beside, beside_stages
from roofsim.analyze.timeline.exposure import GroupTime, group_times, rows
from roofsim.analyze.timeline.passes import AFTERWARDS, Writer, run_of, waits_after
from roofsim.analyze.timeline.spans import COMPUTE, Lane, Span, Timeline
from roofsim.analyze.timeline.stage_ops import ops_of_passes
from roofsim.cost.scales import Scales
from roofsim.errors import Problem, SpecError
from roofsim.evaluate import stage_costs
from roofsim.numeric import is_scalar
from roofsim.records import replace
from roofsim.schedule.pipeline.protocol import BACKWARD, FORWARD, KINDS
from roofsim.schedule.pipeline.registry import schedule_named
from roofsim.schedule.pipeline.simulation import Timed, simulate
from roofsim.schedule.ranks import stage_times
from roofsim.schedule.step import StepTime, compose

if TYPE_CHECKING:
    from roofsim.evaluate import Evaluation
    from roofsim.program import Program
    from roofsim.schedule.pipeline.protocol import StageTimes

#: Pieces of work of a pipeline that are written out at most.
MOST_PIECES: Final = 40_000


def timeline(evaluation: Evaluation) -> Timeline:
    """Return when things happen.

    Raises
    ------
    SpecError
        For sizes or hardware that are arrays: one picture shows one step.
    """
    if not is_scalar(evaluation.step.step, evaluation.device.bandwidth, evaluation.program.num_micro_batches):
        raise SpecError(Problem("sizes or hardware are arrays; a timeline needs single numbers"))
    spans_only = _pipelined(evaluation) if evaluation.program.pipelined else _alone(evaluation)
    return replace(spans_only, memory=memory_of(evaluation))


def _title(evaluation: Evaluation) -> str:
    resolved = evaluation.resolved
    return f"{resolved.model.name} · {resolved.workload.phase} · {resolved.gpus} x {resolved.gpu.name}"


# -- one rank -------------------------------------------------------------------------------------------------------


def _alone(evaluation: Evaluation) -> Timeline:
    """Lay out the ops of one rank; all ranks do the same."""
    program, made = evaluation.program, made_of(evaluation)
    costs, shown = stage_costs(evaluation.resolved, program, evaluation.priced, Scales())
    micro_batches = float(program.num_micro_batches)
    writer, table, first = Writer(evaluation), [], 0.0
    for part, priced, cost in zip(made.parts, evaluation.priced, costs, strict=True):
        groups = group_times(evaluation, part.stage, priced, cost)
        table += rows(part.stage.name, groups, micro_batches * float(part.stage.times))
        run = run_of(part, cost, shown[part.place] if shown else None, float(evaluation.own_step(part.place).pace))
        writer.run(run, groups)
        first = first or run.each
    writer.finish(made)
    ranks, step_time = float(evaluation.resolved.gpus), float(evaluation.step.step)
    waits = sum(made.waits[name] for name in AFTERWARDS)
    lane = Lane(
        name="each rank" if ranks > 1.0 else evaluation.resolved.gpu.name,
        ranks=ranks,
        busy=step_time - waits,
        waits=waits,
        micro_batch=first,
    )
    return Timeline(
        title=_title(evaluation),
        step=step_time,
        lanes=[lane],
        spans=writer.spans,
        collectives=table,
        micro_batches=int(micro_batches),
        shown_micro_batches=int(micro_batches),
        notes=[*writer.notes, *_chain_notes(program)],
        beside=beside(evaluation, writer.spans, costs),
    )


def _chain_notes(program: Program) -> list[str]:
    """Say that stages of inference, which work side by side, are written out one behind the other."""
    if not program.chains():
        return []
    return ["the longest path of a pass through the pipeline stages is shown, one stage after another"]


# -- pipelines ------------------------------------------------------------------------------------------------------


def _pipelined(evaluation: Evaluation) -> Timeline:
    program, parallel = evaluation.program, evaluation.resolved.parallel
    costs, shown = stage_costs(evaluation.resolved, program, evaluation.priced, Scales())
    stages = [(cost, one, stage.positions) for cost, one, stage in zip(costs, shown, program.stages, strict=True)]
    micro_batches = program.num_micro_batches
    alone = [compose([(cost, 1.0)], micro_batches, [one]) for cost, one, _ in stages]
    times = stage_times(stages, alone, micro_batches)
    kinds = [kind for kind, one in enumerate(times) for _ in range(int(one.positions))]
    groups = [
        group_times(evaluation, stage, priced, cost)
        for stage, priced, cost in zip(program.stages, evaluation.priced, costs, strict=True)
    ]
    count, shown_count = int(micro_batches), _written_out(len(kinds), parallel.virtual_stages, int(micro_batches))
    latency = max((float(one.latency) for one in shown), default=0.0)
    schedule = schedule_named(parallel.schedule, float(parallel.virtual_stages))
    ran = simulate(schedule, times, shown_count, parallel.virtual_stages, latency)
    pipeline = _Pipeline(ran, times, kinds, groups, alone)
    spans, step_time = pipeline.work(parallel.virtual_stages), float(evaluation.step.step)
    passes = ops_of_passes(evaluation, spans, kinds, groups, costs, shown)
    waits = {name: float(evaluation.step.waits[name]) for name in AFTERWARDS}
    notes = []
    if shown_count == count:
        spans += pipeline.ends()
        spans += pipeline.waits(WAIT_NAMES["bubble"][0], spans, step_time, waits)
    else:
        notes.append(f"only the first {shown_count} of {count} micro batches are shown")
        spans += pipeline.waits("what is not shown", spans, step_time, waits)
    table = [row for stage, one in zip(program.stages, groups, strict=True) for row in rows(stage.name, one, count)]
    return Timeline(
        title=_title(evaluation),
        step=step_time,
        lanes=pipeline.lanes(evaluation, step_time),
        spans=spans,
        collectives=table,
        micro_batches=count,
        shown_micro_batches=shown_count,
        schedule=schedule.name,
        notes=notes,
        beside=beside_stages(spans, len(kinds), passes),
    )


def _written_out(stages: int, virtual: int, micro_batches: int) -> int:
    """Return how many micro batches are written out: all, or whole rounds of them."""
    most = MOST_PIECES // (3 * stages * virtual)
    return micro_batches if micro_batches <= most else max(most // stages * stages, stages)


class _Pipeline:
    """A schedule that has run, with what each stage does beside it."""

    def __init__(
        self,
        ran: Timed,
        times: list[StageTimes],
        kinds: list[int],
        groups: list[list[GroupTime]],
        alone: list[StepTime],
    ) -> None:
        self.ran, self.times, self.kinds, self.groups, self.alone = ran, times, kinds, groups, alone

    def work(self, virtual: int) -> list[Span]:
        """Return every forward and backward pass, with the collectives that run in it."""
        plan, spans = self.ran.plan, []
        columns = (plan.kind, plan.stage, plan.micro, plan.chunk, self.ran.start, self.ran.end)
        for kind, stage, micro, chunk, start, end in zip(*(column.tolist() for column in columns), strict=True):
            facts = {"micro_batch": micro, "chunk": chunk}
            spans.append(Span(stage, COMPUTE, f"{KINDS[kind]} {micro}", KINDS[kind], start, end - start, facts))
            spans += self._beside(kind, stage, start, end, virtual, facts)
        return spans

    def _beside(
        self, kind: int, stage: int, start: float, end: float, virtual: int, facts: dict[str, int]
    ) -> list[Span]:
        phases = {FORWARD: ("forward",), BACKWARD: ("backward", "recompute")}.get(kind, ())
        sums: dict[str, tuple[float, float]] = {}
        for one in self.groups[self.kinds[stage]]:
            if one.phase in phases and not one.once:
                seconds, exposed = sums.get(one.group, (0.0, 0.0))
                sums[one.group] = seconds + one.seconds / virtual, exposed + one.exposed / virtual
        spans = []
        for group, (seconds, exposed) in sums.items():
            own = facts | {"exposed": exposed, "collectives_of": KINDS[kind]}
            if group == "pipeline":  # sent when the pass has run; where it shows, the pass lasts until it is sent
                begin = max(end - exposed, start)
                spans.append(Span(stage, group, "send", "communication", begin, seconds, own))
            else:
                lasts = min(seconds, end - start)
                spans.append(Span(stage, group, f"{group} collectives", "communication", start, lasts, own))
        return spans

    def ends(self) -> list[Span]:
        """Return what each stage does once, after its last backward pass: gradients, update."""
        spans = []
        for stage, kind in enumerate(self.kinds):
            at, alone = self.ran.last_end(stage), self.alone[kind]
            once = [one for one in self.groups[kind] if one.once and one.seconds]
            shows = sum(one.exposed for one in once)
            for one in once:
                gathers = one.phase == "optimizer"
                begin = at if gathers else max(at - (one.seconds - one.exposed), 0.0)
                name = "parameters" if gathers else "gradients"
                exposed = one.exposed * (float(alone.once) / shows if shows else 0.0)
                lasts = max(one.seconds - max(begin + one.seconds - at - exposed, 0.0), 0.0)
                spans.append(Span(stage, one.group, name, "communication", begin, lasts, {"exposed": exposed}))
                at += exposed
            if not shows:
                at += float(alone.once)
            update = float(alone.breakdown["optimizer"])
            if update:
                spans.append(Span(stage, COMPUTE, "optimizer", "optimizer", at, update))
        return spans

    def waits(self, name: str, spans: list[Span], step: float, after: dict[str, float]) -> list[Span]:
        """Return what each stage waits for up to the end of the step: under `name` up to what all of them wait for."""
        waiting = []
        for stage in range(len(self.kinds)):
            at = max((span.start + span.seconds for span in spans if span.lane == stage), default=0.0)
            waiting += waits_after(stage, at, step, name, after)
        return waiting

    def lanes(self, evaluation: Evaluation, step: float) -> list[Lane]:
        """Return the stages, with what each waits for the others."""
        ranks = evaluation.resolved.gpus / len(self.kinds)
        lanes = []
        for stage, kind in enumerate(self.kinds):
            busy = float(self.alone[kind].step)
            each = float(self.times[kind].both)
            lanes.append(
                Lane(name=f"stage {stage}", ranks=ranks, busy=busy, waits=max(step - busy, 0.0), micro_batch=each)
            )
        return lanes


__all__ = ["MOST_PIECES", "timeline"]
