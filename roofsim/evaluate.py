"""Price a resolved scenario: programs, kernels, schedule, memory; the numbers of a result on floats or arrays."""

from __future__ import annotations

from functools import cached_property, reduce
from typing import TYPE_CHECKING

import numpy as np

from roofsim.cost.host.copies import HostPath, host_flows, host_path
from roofsim.cost.host.feed import feed
from roofsim.cost.kernels.engine import device_for, host_times, pricing_of
from roofsim.cost.links.communication import Messages, Traffic
from roofsim.cost.pricing import totals_of
from roofsim.cost.scales import Scales
from roofsim.graph.base import Phase
from roofsim.graph.tensor import DTYPES
from roofsim.lower.shares import one
from roofsim.memory.in_flight import with_micro_batches
from roofsim.memory.networks import beside_networks
from roofsim.memory.profile import MemoryProfile, profile
from roofsim.numeric import any_above, is_scalar, largest_of, maximum, real
from roofsim.program import Program, Stage
from roofsim.records import dataclass, field, replace
from roofsim.schedule.host import HostShown, host_shown
from roofsim.schedule.pipeline.registry import schedule_named
from roofsim.schedule.ranks import Schedule
from roofsim.schedule.staged import Issue, slowest_place, visits
from roofsim.schedule.step import StepTime, compose, one_after_another, repeated
from roofsim.schedule.surroundings import meetings_of, with_feed, with_stragglers
from roofsim.spec.contexts import with_context_axis
from roofsim.spec.scenario.layout import layout_of
from roofsim.spec.settle.offload import beside_copies, places
from roofsim.structures import priced_of, profile_of, program_of

if TYPE_CHECKING:
    from roofsim.cost.device import Device
    from roofsim.cost.pricing import PassCost, PricedGraph
    from roofsim.graph.opgraph import OpGraph
    from roofsim.memory.profile import MemoryProfile
    from roofsim.numeric import Array, Real
    from roofsim.program import Program, Stage
    from roofsim.schedule.overlap import Exposed
    from roofsim.spec.resolve import Resolved

    #: By whether messages have an axis of contexts: how they travel, and those that were priced.
    Links = dict[bool, tuple[Messages, dict[tuple[object, ...], Traffic]]]


@dataclass(frozen=True, kw_only=True)
class Unpriced:
    """What a scenario runs, before any kernel is priced; what is alive when, is followed when somebody asks.

    Attributes
    ----------
    with_curve
        Whether profiles hold what is alive after each allocation.
    followed
        Profiles that are known already, one for each stage of the program.
    """

    resolved: Resolved
    program: Program
    with_curve: bool = False
    followed: tuple[MemoryProfile, ...] | None = None

    @cached_property
    def device(self) -> Device:
        """What kernels run on."""
        return device_for(self.resolved, self.resolved.gpu, host_times(self.resolved))

    @cached_property
    def profiles(self) -> tuple[MemoryProfile, ...]:
        """The memory of each stage, with all micro batches that it holds."""
        if self.followed is not None:
            return self.followed
        profiles = tuple(
            with_micro_batches(
                profile(stage.graph, with_curve=True) if self.with_curve else profile_of(stage.graph), stage.in_flight
            )
            for stage in self.program.stages
        )
        return beside_networks(profiles, idle_bytes(self.resolved)) if self.program.networks else profiles


@dataclass(frozen=True, kw_only=True)
class Evaluation(Unpriced):
    """Everything that was computed for one scenario; `reprice` gives its step on scaled hardware."""

    priced: tuple[PricedGraph, ...]
    step: StepTime
    phases: dict[str, StepTime] = field(default_factory=dict)
    """One run of each of `Program.phases`, of which the whole consists; none of a training pipeline."""
    paces: tuple[int, ...] = ()
    """Of pipelines: the places of the kinds of stages that set their pace."""

    @property
    def pace(self) -> int:
        """Place of the kind of stage that sets the pace of a training pipeline."""
        return int(self.paces[0]) if self.paces else 0

    def own_step(self, place: int) -> StepTime:
        """Return the step whose clock and host the kernels of a stage share: that of its phase."""
        return self.phases.get(self.program.stages[place].phase, self.step)

    def reprice(self, scales: Scales) -> StepTime:
        """Return the step on hardware whose rates are scaled."""
        return step_of(self.resolved, self.program, self.priced, scales)[0]

    def stage_time(self, name: str) -> Real:
        """Return the seconds of one run of a phase, of a prefill those of all its pieces: what `step` holds of it."""
        costs, shown = stage_costs(self.resolved, self.program, self.priced, Scales())
        times = phases_of(self.resolved, self.program, self.priced, costs, shown).get(name)
        return 0.0 if times is None else _surrounded(self.resolved, times, Scales()).step


def evaluate(resolved: Resolved, *, with_curve: bool = False, program: Program | None = None) -> Evaluation:
    """Lower, transform and price a resolved scenario whose sizes and hardware numbers may be arrays.

    `program` takes the place of the scenario's own. Returns seconds; raises `NoDataError` where a rate is not stated.
    """
    program = program_of(resolved) if program is None else program
    priced = priced_stages(resolved, program.stages)
    step, paces, phases = _steps_of(resolved, program, priced, Scales())
    return Evaluation(
        resolved=resolved,
        program=program,
        with_curve=with_curve,
        priced=priced,
        step=step,
        phases=phases,
        paces=paces,
    )


def unpriced_of(resolved: Resolved, *, program: Program | None = None) -> Unpriced:
    """Lower and transform a resolved scenario: all that its memory asks."""
    return Unpriced(resolved=resolved, program=program_of(resolved) if program is None else program)


def idle_bytes(resolved: Resolved) -> Real:
    """Return the bytes of parameters that are loaded and never run."""
    idle = real(resolved.model.traits().idle_parameters)
    return idle * DTYPES[resolved.precision.parameters].itemsize


def priced_stages(resolved: Resolved, stages: tuple[Stage, ...]) -> tuple[PricedGraph, ...]:
    """Price stages, those of a phase together; a decode may be launched in another way than the rest."""
    priced: dict[int, PricedGraph] = {}
    for phase, averaged in dict.fromkeys((stage.phase, stage.averaged) for stage in stages):
        places = [place for place, one in enumerate(stages) if (one.phase, one.averaged) == (phase, averaged)]
        own = with_context_axis(resolved) if averaged else resolved
        graphs = [stages[place].graph for place in places]
        priced |= zip(places, priced_of(graphs, pricing_of(own, own.gpu, phase)), strict=True)
    return tuple(priced[place] for place in range(len(stages)))


def step_of(
    resolved: Resolved, program: Program, priced: tuple[PricedGraph, ...], scales: Scales
) -> tuple[StepTime, tuple[int, ...]]:
    """Compose the step of a program on scaled hardware; with the stages that set the pace of pipelines."""
    return _steps_of(resolved, program, priced, scales)[:2]


def _steps_of(
    resolved: Resolved, program: Program, priced: tuple[PricedGraph, ...], scales: Scales
) -> tuple[StepTime, tuple[int, ...], dict[str, StepTime]]:
    """Return what `step_of` does, and one run of each phase."""
    costs, shown = stage_costs(resolved, program, priced, scales)
    if program.pipelined:
        stages = [(cost, one, stage.positions) for cost, one, stage in zip(costs, shown, program.stages, strict=True)]
        step, pace = schedule_of(resolved).pipelined(stages, program.num_micro_batches)
        return _surrounded(resolved, step, scales), (pace,), {}
    phases = phases_of(resolved, program, priced, costs, shown)
    repeats = [program.stages[places[0]].repeats for places in program.phases().values()]
    step = one_after_another([repeated(one, often) for one, often in zip(phases.values(), repeats, strict=True)])
    return _surrounded(resolved, step, scales), slowest_places(program, costs, shown), phases


def phases_of(
    resolved: Resolved, program: Program, priced: tuple[PricedGraph, ...], costs: list[PassCost], shown: list[Exposed]
) -> dict[str, StepTime]:
    """Return one run of each phase: all pieces of a prefill, one step of a decode.

    The first token is sampled before the next one's kernels can be issued: a host that is ahead in one phase gains nothing
    in the next.
    """
    ways, stages = ways_of(resolved, program, priced, costs, shown), program.stages
    return {
        phase: compose(
            [(costs[place], stages[place].pieces * ways[place]) for place in places],
            program.num_micro_batches,
            [shown[place] for place in places] if shown else [],
        )
        for phase, places in program.phases().items()
    }


def ways_of(
    resolved: Resolved, program: Program, priced: tuple[PricedGraph, ...], costs: list[PassCost], shown: list[Exposed]
) -> list[Real]:
    """Return how often each stage stands on the longest way of one pass: once, but for pipelines of inference."""
    ways: list[Real] = [1.0] * len(costs)
    for chain in program.chains():
        stages = [program.stages[place] for place in chain]
        seconds, positions = _seconds(chain, costs, shown), [stage.positions for stage in stages]
        often = visits(
            seconds,
            positions,
            stages[0].parts,
            steady=stages[0].steady,
            issue=_issue(resolved, [(program.stages[place], priced[place]) for place in chain]),
        )
        for place, number in zip(chain, often, strict=True):
            ways[place] = number
    return ways


def _issue(resolved: Resolved, stages: list[tuple[Stage, PricedGraph]]) -> Issue:
    """Return what keeps the engine's host from issuing micro batches to the stages of a pipeline."""
    facts, ahead = resolved.engine.schedule.pipeline, None
    if facts.run_ahead is not None:
        kernels = [graph.kernels() for _, graph in stages]
        most = reduce(maximum, [mean_over_contexts(one) if stages[0][0].averaged else one for one in kernels])
        ahead = facts.run_ahead / most
    copies = None if facts.copies is None else float(facts.copies)
    return Issue(stages=layout_of(resolved.parallel).pipeline, ahead=ahead, copies=copies)


def slowest_places(program: Program, costs: list[PassCost], shown: list[Exposed]) -> tuple[int, ...]:
    """Return the slowest stage of each pipeline of inference."""
    return tuple(chain[slowest_place(_seconds(chain, costs, shown))] for chain in program.chains())


def _seconds(places: list[int], costs: list[PassCost], shown: list[Exposed]) -> list[Real]:
    """Return what one micro batch takes on each of some stages."""
    return [compose([(costs[place], 1.0)], 1.0, shown[place : place + 1]).step for place in places]


def _surrounded(resolved: Resolved, step: StepTime, scales: Scales) -> StepTime:
    """Add the wait for ranks that are slower by chance, and for samples."""
    layout, workload = layout_of(resolved.parallel), resolved.workload
    jitter, physics = resolved.reliability.jitter, resolved.constants.physics
    if workload.phase == "train":
        chips = physics["chip_spread"] if resolved.mechanisms.chips else 0.0
        step = with_stragglers(step, layout.ranks, jitter, chips, meetings_of(resolved, layout))
    else:  # replicas serve on their own; what else ranks wait for is a fact of the engine
        step = with_stragglers(step, layout.ranks / layout.data, jitter, 0.0)
    if workload.input is None:
        return step
    samples = (
        real(workload.global_batch_size) if workload.phase == "train" else real(workload.micro_batch_size) * layout.data
    )
    fed = feed(workload.input, samples, resolved.system, resolved.gpu, layout, scales)
    return with_feed(step, fed, physics["busy_corner"])


def stage_costs(
    resolved: Resolved, program: Program, priced: tuple[PricedGraph, ...], scales: Scales
) -> tuple[list[PassCost], list[Exposed]]:
    """Return what one run of each stage takes, and what it shows of communication (nothing where there is none)."""
    totals = totals_of(priced, [scales.with_context_axis() if stage.averaged else scales for stage in program.stages])
    costs = [
        _scheduled(cost.mapped(mean_over_contexts) if stage.averaged else cost, stage, scales)
        for stage, cost in zip(program.stages, totals, strict=True)
    ]
    return costs, _shown(resolved, program, list(zip(program.stages, priced, strict=True)), costs, scales)


def _shown(
    resolved: Resolved,
    program: Program,
    stages: list[tuple[Stage, PricedGraph]],
    costs: list[PassCost],
    scales: Scales,
) -> list[Exposed]:
    """Return what each stage shows of communication and of offload; nothing on one GPU that keeps all it has."""
    offloads = bool(places(resolved.parallel.offload))
    several = any_above(resolved.gpus, 1.0)
    if not several and not offloads:
        return []
    schedule, shown = schedule_of(resolved), []
    links: Links = {}
    for (stage, graph), cost in zip(stages, costs, strict=True):
        traffic = _traffic(resolved, stage, graph.graph, scales, links) if several else {}
        shown.append(schedule.shown(_with_scatter(resolved, traffic, stage, cost), cost, program.num_micro_batches))
    if not offloads:
        return shown
    return [
        replace(one, host=_host_shown(resolved, stage, graph.graph, cost, scales))
        for one, (stage, graph), cost in zip(shown, stages, costs, strict=True)
    ]


def _traffic(
    resolved: Resolved, stage: Stage, graph: OpGraph, scales: Scales, links: Links
) -> dict[tuple[str, str], Traffic]:
    """Return the traffic of one run of a stage; the mean over its contexts. What stages have in common is priced once."""
    messages, seen = links.setdefault(stage.averaged, (messages_of(resolved, averaged=stage.averaged), {}))
    totals = messages.traffic(graph, scales.with_context_axis() if stage.averaged else scales, seen)
    return {key: traffic.mapped(mean_over_contexts) for key, traffic in totals.items()} if stage.averaged else totals


def _with_scatter(
    resolved: Resolved, traffic: dict[tuple[str, str], Traffic], stage: Stage, cost: PassCost
) -> dict[tuple[str, str], Traffic]:
    """Add what collectives of tensor ranks wait for the slowest of them, where the engine's ranks are not alike."""
    scatter, key = resolved.engine.communication.rank_wait.scatter, ("forward", "tensor")
    if scatter == 0.0 or stage.phase == "step" or key not in traffic:
        return traffic
    waits = scatter * largest_of(layout_of(resolved.parallel).tensor) * (cost.device_time("forward") - stage.overhead)
    return traffic | {key: traffic[key].plus(Traffic(intra_node=waits))}


def _host_shown(resolved: Resolved, stage: Stage, graph: OpGraph, cost: PassCost, scales: Scales) -> HostShown:
    """Return what a stage shows of copies to and from its host, and of the host's work."""
    path = host_path_of(resolved, averaged=stage.averaged)
    flows = host_flows(graph, path.scaled(scales.with_context_axis() if stage.averaged else scales))
    if stage.averaged:
        flows = {key: flow.mapped(mean_over_contexts) for key, flow in flows.items()}
    kernels = graph.total(lambda op: op.kernels() if op.phase in (Phase.BACKWARD, Phase.RECOMPUTE) else 0.0)
    depth = real(resolved.model.traits().depth)
    beside = beside_copies(resolved.parallel.offload, resolved.workload.phase, resolved.engine, depth)
    return host_shown(flows, cost, resolved.engine.communication.overlap, kernels, beside)


def host_path_of(resolved: Resolved, *, averaged: bool = False) -> HostPath:
    """Return what one GPU has of its host; `averaged`: behind its numbers' axes one more for the contexts of a decode."""
    resolved = with_context_axis(resolved) if averaged else resolved
    layout = layout_of(resolved.parallel)
    return host_path(resolved.system, resolved.gpu, layout.ranks, layout.pipeline, resolved.constants.physics)


def messages_of(resolved: Resolved, *, averaged: bool = False) -> Messages:
    """Return how the layout's messages travel over the system's links; `averaged`: with one more axis for contexts."""
    from roofsim.cost.links.collectives import fabric_of  # one device needs no links

    resolved = with_context_axis(resolved) if averaged else resolved
    engine, serves = resolved.engine, resolved.workload.phase != "train"
    waits = engine.communication.rank_wait
    mechanisms = resolved.mechanisms
    fabric = fabric_of(resolved.system, resolved.gpu, resolved.architecture.name, physics=resolved.constants.physics)
    if not mechanisms.protocols:
        fabric = fabric.at_datasheet_rates()
    if not mechanisms.shared_nics:
        fabric = replace(fabric, shares_nics=False)
    if not mechanisms.hashed_flows:
        fabric = replace(fabric, hashes_flows=False)
    return Messages(
        fabric=fabric,
        silent=mechanisms.silent,
        layout=layout_of(resolved.parallel),
        split_messages=engine.communication.pipeline_message == "split",
        bucket=engine.data_parallel.bucket(layout_of(resolved.parallel).replicas),
        in_buckets=not resolved.parallel.shards_fully,
        own_kernels=engine.name if serves and engine.communication.all_reduce == "custom" else None,
        waits=(waits.collective, waits.between_nodes) if serves else (0.0, 0.0),
    )


def schedule_of(resolved: Resolved) -> Schedule:
    """Return how the passes run on the ranks of the layout."""
    parallel, engine = resolved.parallel, resolved.engine
    layout = layout_of(parallel)
    # Shards that are kept whole from the first micro batch of a pipeline to the last travel once a step.
    kept = engine.data_parallel.pipelined_shards == "kept" and not one(layout.pipeline)
    full = parallel.shards_fully
    return Schedule(
        pipeline=schedule_named(parallel.schedule, layout.virtual_stages),
        virtual_stages=layout.virtual_stages,
        overlap=engine.communication.hides(sequence=parallel.sequence, math=resolved.precision.math),
        sharded=full and not kept,
        reduces_each=parallel.sharding == "gradients",
        mechanisms=resolved.mechanisms,
    )


def _scheduled(cost: PassCost, stage: Stage, scales: Scales) -> PassCost:
    """Add what a server does between decode steps, while the device waits: schedule, sample, detokenise; and masks."""
    if is_scalar(stage.overhead, stage.masks) and stage.overhead == stage.masks == 0.0:
        return cost
    overhead, masks = stage.overhead / scales.host_issue_rate, stage.masks / scales.host_issue_rate
    if stage.hides_masks:  # the host's other threads go on while kernels run and are launched
        masks = maximum(masks - maximum(cost.device_time("forward"), cost.host["forward"]), 0.0)
    forward = dict(cost.device["forward"])
    forward["launch"] = forward["launch"] + overhead
    return replace(cost, device=cost.device | {"forward": forward}, overhead=overhead, serial=masks)


def mean_over_contexts(value: Real) -> Real:
    """Average over the last axis by the trapezoid rule: evenly spaced contexts, end points for half an interval."""
    if isinstance(value, float):
        return value
    weights = np.ones(value.shape[-1])
    weights[[0, -1]] = 0.5
    alone = value.shape[-1] == 1
    mean: Array = value[..., 0] if alone else (value * weights).sum(axis=-1) / weights.sum()
    return float(mean) if np.ndim(mean) == 0 else mean
