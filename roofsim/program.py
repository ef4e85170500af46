"""Build the programs of a resolved scenario: which graphs run, how often, through which passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roofsim.graphs import NetworkGraphs, TrainingGraphs, library_passes, num_micro_batches
from roofsim.lower.dispatch import lower
from roofsim.lower.of_images import lowered
from roofsim.lower.of_scenario import call_of
from roofsim.lower.shares import Shares, one
from roofsim.numeric import Array, Real, any_above, ceil, floor, is_none, is_scalar, maximum, real, where
from roofsim.passes.host.placement import streamed
from roofsim.passes.manager import inference_passes, run_passes
from roofsim.passes.narrow_layers import check_converted_layers, check_narrow_layers
from roofsim.passes.plugged import with_plugged
from roofsim.passes.ranks.stage import TakeStage
from roofsim.records import dataclass, replace
from roofsim.schedule.pipeline.registry import schedule_named
from roofsim.schedule.pipeline.stages import StagePlan, stage_plans
from roofsim.schedule.staged import micro_batches
from roofsim.spec.contexts import with_context_axis
from roofsim.spec.scenario.guided import guided_of
from roofsim.spec.scenario.layout import layout_of
from roofsim.traced.points import keyed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.graph.opgraph import OpGraph
    from roofsim.lower.call import Call
    from roofsim.passes.manager import Pass
    from roofsim.spec.resolve import Resolved
    from roofsim.templates import Templates

#: Decode steps are priced at this many contexts; between them time is linear but for the corner of a roofline.
CONTEXT_POINTS = 33
#: The same for the pieces of a prefill, whose length is the same.
PIECE_POINTS = 5


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One graph of a program.

    Attributes
    ----------
    phase
        ``step`` (training), ``forward``, ``prefill`` or ``decode``.
    times
        How often it runs per step (decode: once per token and micro batch).
    averaged
        Whether its sizes have a last axis of contexts over which the price is averaged.
    overhead
        Seconds that the device waits for the host between two runs.
    masks, hides_masks
        Seconds that the host works on masks for the tokens of a run, and whether it does so while the run goes on.
    positions
        Of a pipeline: how many of its stages are like this one.
    in_flight
        Micro batches whose activations it holds at once.
    parts
        Of a pipeline of inference: micro batches that a pass is cut into.
    steady
        Whether these run one behind the other for ever, instead of starting with empty stages in each pass.
    grows
        Whether its maps grow, so that what it frees is of no use to what comes next (the decoder of an image).
    """

    name: str
    graph: OpGraph
    phase: str = "step"
    times: Real = 1.0
    averaged: bool = False
    overhead: Real = 0.0
    masks: Real = 0.0
    hides_masks: bool = False
    positions: Real = 1.0
    in_flight: Real = 1.0
    parts: Real = 1.0
    steady: bool = False
    upsamples: bool = False

    @property
    def repeats(self) -> Real:
        """How often its phase comes in a step, each time behind the last: once, a decode once a token."""
        return self.times / self.parts if self.phase == "decode" else 1.0

    @property
    def pieces(self) -> Real:
        """How often it runs in its phase, for each micro batch."""
        return 1.0 if self.phase == "decode" else self.times / self.parts


@dataclass(frozen=True, kw_only=True)
class Program:
    """The graphs of a scenario, and how many micro batches make a step.

    Stages run one after the other on each rank, or, `pipelined`, beside one another on different ranks. Inference that is
    spread over a pipeline has several stages of one phase, which a token visits one after the other (`chains`).
    """

    stages: tuple[Stage, ...]
    num_micro_batches: Real = 1.0
    pipelined: bool = False
    networks: bool = False
    """Whether the stages are networks of their own, all loaded at once (a diffusion pipeline)."""

    def chains(self) -> list[list[int]]:
        """Return the places of the stages of each pipeline of inference; none where there is no pipeline."""
        return (
            [] if self.pipelined or self.networks else [places for places in self.phases().values() if len(places) > 1]
        )

    def phases(self) -> dict[str, list[int]]:
        """Return the places of the stages of each phase; a phase begins when the one before it has ended."""
        phases: dict[str, list[int]] = {}
        for place, stage in enumerate(self.stages):
            phases.setdefault(stage.phase, []).append(place)
        return phases


def build(
    resolved: Resolved,
    *,
    first_only: bool = False,
    first: Stage | None = None,
    templates: Templates | None = None,
) -> Program:
    """Lower the model and run the passes of its phase.

    Parameters
    ----------
    first_only
        Of a training pipeline: build its first stage alone.
    first
        That stage, if it was built before.
    templates
        Of which graphs are made, if one of their structure is there; None: all code runs.
    """
    program = _built(resolved, first_only, first, templates)
    check_narrow_layers((stage.graph for stage in program.stages), resolved.precision)
    check_converted_layers((stage.graph for stage in program.stages), resolved.precision, resolved.architecture)
    return program


def _built(resolved: Resolved, first_only: bool, first: Stage | None, templates: Templates | None) -> Program:
    workload = resolved.workload
    if workload.phase == "train":
        return _training(resolved, first_only, first, templates)
    if workload.phase == "forward":
        if resolved.model.networks:
            return _networks(resolved, templates)
        return Program(stages=tuple(_forward(resolved)))
    stages: list[Stage] = []
    output = real(workload.output_length)
    if workload.phase in ("prefill", "generate"):
        stages += _prefill(resolved)
    if workload.phase in ("decode", "generate"):
        # The prefill gives the first token; a decode on its own is one step, averaged over its output.
        times = output - 1.0 if workload.phase == "generate" else 1.0
        stages += _decode(resolved, times)
    return Program(stages=tuple(stage for stage in stages if not is_none(stage.times)))


def _networks(resolved: Resolved, templates: Templates | None) -> Program:
    """Build a model of several networks, such as a diffusion pipeline: each runs once or several times per step."""
    stages = tuple(
        Stage(name=network.name, graph=network.graph, times=network.times, upsamples=network.upsamples)
        for network in NetworkGraphs(resolved, templates).networks()
    )
    return Program(stages=stages, networks=True)


def whole_model(resolved: Resolved) -> OpGraph:
    """Return the forward graph as one device would run it, before any pass: to count what no rank holds alone."""
    phase = resolved.workload.phase
    call = call_of(resolved, {"generate": "prefill"}.get(phase, phase), 1.0)
    return lower(resolved.model, replace(call, shares=Shares()))


def _training(resolved: Resolved, first_only: bool, first: Stage | None, templates: Templates | None) -> Program:
    graphs, number = TrainingGraphs(resolved, templates), num_micro_batches(resolved)
    if one(layout_of(resolved.parallel).pipeline):
        return Program(stages=(Stage(name="step", graph=graphs.step()),), num_micro_batches=number)
    plans = _stage_plans(resolved, graphs.layers(), trains=True)[: 1 if first_only else None]
    built = () if first is None else (first,)
    others = (_stage(resolved, graphs, plan, number) for plan in plans[len(built) :])
    return Program(stages=(*built, *others), num_micro_batches=number, pipelined=True)


def _stage_plans(resolved: Resolved, layers: Sequence[Real], *, trains: bool = False) -> list[StagePlan]:
    parallel, layout = resolved.parallel, layout_of(resolved.parallel)
    # Inference has no virtual stages, whatever the schedule of training.
    head_on_first = trains and schedule_named(parallel.schedule, layout.virtual_stages).head_on_first(
        layout.virtual_stages
    )
    return stage_plans(
        layers,
        layout.pipeline,
        parallel.stage_layers,
        embedding=parallel.account_for_embedding,
        loss=parallel.account_for_loss,
        head_on_first=head_on_first,
    )


def _stage(resolved: Resolved, graphs: TrainingGraphs, plan: StagePlan, number: Real) -> Stage:
    """Return one kind of pipeline stage with its own passes; `number`: of micro batches."""
    layout = layout_of(resolved.parallel)
    schedule, virtual = schedule_named(resolved.parallel.schedule, layout.virtual_stages), layout.virtual_stages
    held = keyed(schedule.in_flight(plan.index, layout.pipeline, virtual, number))
    return Stage(name=plan.name, graph=graphs.stage(plan), positions=plan.positions, in_flight=held)


def _served(
    resolved: Resolved, call: Call, waits: Real = 0.0, adapters: Pass | None = None, masks: Real = 0.0, **more: Any
) -> list[Stage]:
    """Return a pass of inference as one stage with these settings, or as the stages of a pipeline.

    `resolved` and `call` have a trailing axis where the stage is averaged; `waits` are seconds behind the last stage, `masks`
    seconds of the host for its tokens, `adapters` puts these in.
    """
    engine, layout = resolved.engine, layout_of(resolved.parallel)
    passes = inference_passes(resolved.precision, engine, decodes=call.phase == "decode")
    graph = lowered(resolved, call)
    offload, rows = resolved.parallel.offload, call.batch * (1.0 if call.length is None else call.length)
    depth = real(resolved.model.traits().depth)
    passes = streamed(passes, offload, engine, rows, depth, leading=one(layout.pipeline))
    passes = [*passes, *([] if adapters is None else [adapters]), *library_passes(resolved, resolved.precision)]
    passes = with_plugged(passes, resolved, call.phase)
    settings: dict[str, Any] = {"name": call.phase, "phase": call.phase} | more
    if one(layout.pipeline):
        return [Stage(graph=run_passes(graph, passes), overhead=waits, masks=masks, **settings)]
    stages = []
    for plan in _stage_plans(resolved, [block.repeat for block in graph.blocks]):
        take = TakeStage(counts=plan.counts, first=plan.first, last=plan.last, ranks=layout.pipeline)
        hop = 0.0 if plan.last else engine.schedule.pipeline.hop * resolved.system.host.issue_factor
        here = settings | {
            "name": f"{call.phase}, {plan.name}",
            "positions": _without_contexts(plan.positions) if settings.get("averaged") else plan.positions,
            "overhead": (_without_contexts(hop) if settings.get("averaged") else hop) + (waits if plan.last else 0.0),
            "masks": masks if plan.last else 0.0,
        }
        stages.append(Stage(graph=run_passes(graph, [take, *passes]), **here))
    return stages


def _parts(resolved: Resolved, rule: str, length: Real) -> Real:
    """Return the micro batches of a pass of inference."""
    pipeline = layout_of(resolved.parallel).pipeline
    if one(pipeline):
        return 1.0
    most = resolved.engine.schedule.pipeline.micro_batch
    batch = real(resolved.workload.micro_batch_size)
    return micro_batches(rule, batch, length, pipeline, None if most is None else float(most))


def _part_of(call: Call, parts: Real) -> Call:
    return replace(call, batch=call.batch / parts, cached_batches=parts)


def _forward(resolved: Resolved) -> list[Stage]:
    call = call_of(resolved, "forward")
    length = 1.0 if call.length is None or resolved.model.sample_unit == "images" else call.length
    parts = _parts(resolved, resolved.engine.schedule.pipeline.prefill, length)
    waits = resolved.engine.launch.host_time_per_pass
    return _served(resolved, _part_of(call, parts), waits, times=parts, parts=parts)


def _prefill(resolved: Resolved) -> list[Stage]:
    """Build the pass over the prompts, or the mean of several where the engine cuts them into pieces, and the last, shorter one.

    All sequences of a batch advance together; what a piece's attention sees grows from piece to piece. In a pipeline, which the
    pieces fill behind each other, they count as equal ones.
    """
    chunk, workload, rule = (
        resolved.engine.schedule.prefill_chunk,
        resolved.workload,
        resolved.engine.schedule.pipeline.prefill,
    )
    tokens = real(workload.prompt_length) * real(workload.micro_batch_size)
    if chunk is None or not resolved.model.decoder_only() or not any_above(tokens, float(chunk)):
        parts = _parts(resolved, rule, real(workload.prompt_length))
        return _served(resolved, _part_of(call_of(resolved, "prefill"), parts), times=parts, parts=parts)
    if not one(layout_of(resolved.parallel).pipeline):
        passes = maximum(ceil(tokens / chunk), 1.0)
        return _pieces(resolved, passes, 1.0, parts=passes if rule == "chunks" else 1.0)
    whole = maximum(floor(tokens / chunk), 1.0)
    rest = tokens - whole * chunk
    stages = _pieces(resolved, whole, 1.0 - rest / tokens)
    if any_above(rest, 0.0):
        length = where(rest > 0.0, rest, tokens) / real(workload.micro_batch_size)
        call = replace(call_of(resolved, "prefill", real(workload.prompt_length)), length=length, chunked=True)
        stages += _served(resolved, call, times=where(rest > 0.0, 1.0, 0.0 * rest), name="last of prefill")
    return stages


def _pieces(resolved: Resolved, passes: Real, share: Real, parts: Real = 1.0) -> list[Stage]:
    """Build the mean of so many equal passes over a share of the prompts, their first tokens."""
    lifted = with_context_axis(resolved)
    number, part = (value if is_scalar(value) else value[..., np.newaxis] for value in (passes, share))  # type: ignore[index]
    prompt = real(lifted.workload.prompt_length) * part
    piece = prompt / number
    call = replace(call_of(lifted, "prefill", _contexts(piece, prompt, PIECE_POINTS)), length=piece, chunked=True)
    return _served(lifted, call, times=passes, averaged=True, parts=parts)


def _decode(resolved: Resolved, times: Real) -> list[Stage]:
    """Build the step that adds one token; its context is an axis of its own, the last, unless it is one number."""
    rule = resolved.engine.schedule.pipeline.decode
    lifted = with_context_axis(resolved)
    workload = lifted.workload
    start = real(workload.context_length) + real(workload.prompt_length)
    first = start + (2.0 if workload.phase == "generate" else 1.0)
    contexts = _contexts(first, start + real(workload.output_length))
    averaged = not isinstance(contexts, float)
    lifted = lifted if averaged else resolved
    call = _part_of(call_of(lifted, "decode", contexts), _parts(lifted, rule, 1.0))
    parts = _parts(resolved, rule, 1.0)
    engine, factor = resolved.engine, resolved.system.host.issue_factor
    rows = real(resolved.workload.micro_batch_size) * real(resolved.workload.num_return_sequences or 1) / parts
    waiting = engine.launch.host_time_per_step + engine.launch.host_time_per_sequence * rows
    guided = guided_of(resolved.workload.guided_decoding)
    masks = 0.0 if guided is None else guided.seconds * rows * real(resolved.workload.beam_width or 1)
    return _served(
        lifted,
        call,
        waiting * factor,
        masks=masks * factor,
        hides_masks=engine.launch.masks == "beside",
        times=times * parts,
        averaged=averaged,
        parts=parts,
        steady=rule == "split",
    )


def serving_pass(
    resolved: Resolved,
    phase: str,
    *,
    batch: Real,
    length: Real,
    context: Real,
    adapters: Pass | None = None,
    in_flight: Real = 1.0,
) -> Program:
    """Build one pass of a running server on its own.

    Parameters
    ----------
    phase
        ``decode``: a step of `batch` sequences. ``prefill``: `batch` pieces of prompts, of `length` tokens each.
    context
        Tokens that attention sees, those of the pass included.
    adapters
        Puts the adapters of requests beside the layers.
    in_flight
        Of a pipeline: batches on its stages at once, each with a pass like this. Its seconds are those until the batch may run
        its next one: all stages, or the slowest for each batch.
    """
    call = replace(call_of(resolved, phase, context, batch), length=length, chunked=phase == "prefill")
    stages = _served(resolved, call, adapters=adapters, times=in_flight, parts=in_flight, steady=True)
    return Program(stages=tuple(stages))


def _without_contexts(value: Any) -> Real:
    """Return a size without the trailing axis of contexts that a decode gives it."""
    size = real(value)
    return size if isinstance(size, float) else size[..., 0]


def _contexts(first: Real, last: Real, points: int = CONTEXT_POINTS) -> Real:
    """Return evenly spaced context lengths from the first to the last step; one number where they are the same."""
    if is_scalar(first, last) and first == last:
        return first
    spread: Array = first + (last - first) * np.linspace(0.0, 1.0, points)
    return spread
