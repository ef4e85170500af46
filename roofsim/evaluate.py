"""Price a resolved scenario: programs, kernels, schedule, memory; the numbers of a result on floats or arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from roofsim.cost.communication import Messages
from roofsim.cost.device import Device, device_of
from roofsim.cost.feed import feed
from roofsim.cost.host import HostPath, host_flows, host_path
from roofsim.cost.pricing import PassCost, PricedGraph, Scales
from roofsim.cost.quantised import QuantisedProducts
from roofsim.cost.serving import Serving
from roofsim.cost.work import Pricing
from roofsim.graph.base import Phase
from roofsim.graph.tensor import DTYPES
from roofsim.numeric import is_scalar, maximum, real, without_axis
from roofsim.program import Program, Stage, build
from roofsim.schedule.host import HostShown, host_shown
from roofsim.schedule.in_flight import with_micro_batches
from roofsim.schedule.memory import MemoryProfile, profile
from roofsim.schedule.networks import beside_networks
from roofsim.schedule.ranks import Schedule
from roofsim.schedule.step import StepTime, compose
from roofsim.schedule.surroundings import with_feed, with_stragglers
from roofsim.spec.layout import layout_of
from roofsim.spec.mesh import with_trailing_axis
from roofsim.spec.offload import places
from roofsim.spec.workload import ShardedOver

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Array, Real
    from roofsim.schedule.overlap import Exposed
    from roofsim.spec.hardware import Gpu
    from roofsim.spec.resolve import Resolved


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Everything that was computed for one scenario; `reprice` gives its step on scaled hardware."""

    resolved: Resolved
    program: Program
    device: Device
    priced: tuple[PricedGraph, ...]
    step: StepTime
    profiles: tuple[MemoryProfile, ...]
    pace: int = 0
    """Of a pipeline: which kind of stage sets the pace."""

    def reprice(self, scales: Scales) -> StepTime:
        """Return the step on hardware whose rates are scaled."""
        return step_of(self.resolved, self.program, self.priced, scales)[0]

    def stage_time(self, name: str) -> Real:
        """Return the seconds of one run of a stage, of a prefill those of all its pieces, the slower of device and host."""
        for stage, priced in zip(self.program.stages, self.priced, strict=True):
            if stage.name == name:
                cost = _scheduled(_averaged(priced.totals(), averaged=stage.averaged), stage, Scales())
                shown = _shown(self.resolved, self.program, [(stage, priced)], [cost], Scales())
                pieces = stage.times if name == "prefill" else 1.0
                return compose([(cost, pieces)], self.program.num_micro_batches, shown).step
        return 0.0


def evaluate(resolved: Resolved, *, with_curve: bool = False) -> Evaluation:
    """Lower, transform and price a resolved scenario whose sizes and hardware numbers may be arrays."""
    program = build(resolved)
    priced = tuple(_priced(resolved, stage) for stage in program.stages)
    profiles = tuple(
        with_micro_batches(profile(stage.graph, with_curve=with_curve), stage.in_flight) for stage in program.stages
    )
    if program.networks:
        profiles = beside_networks(profiles, idle_bytes(resolved))
    step, pace = step_of(resolved, program, priced, Scales())
    return Evaluation(
        resolved=resolved,
        program=program,
        device=_device(resolved, resolved.gpu, _issue_times(resolved)),
        priced=priced,
        step=step,
        profiles=profiles,
        pace=pace,
    )


def idle_bytes(resolved: Resolved) -> Real:
    """Return the bytes of parameters that are loaded and never run."""
    idle = real(getattr(resolved.model, "idle_parameters", 0))
    return idle * DTYPES[resolved.precision.parameters].itemsize


def _priced(resolved: Resolved, stage: Stage) -> PricedGraph:
    """Price one stage; a decode may be launched in another way than the rest."""
    engine = resolved.engine
    launch = engine.decode_launch if stage.name == "decode" and engine.decode_launch is not None else engine.launch
    gpu = (with_trailing_axis(resolved) if stage.averaged else resolved).gpu
    issue = (0.0, 0.0) if launch == "graphs" else _issue_times(resolved)
    device = _device(resolved, gpu, issue)
    serving = _serving(resolved, stage)
    if serving is not None:
        device = _with_engine_floor(device, resolved)
    narrow = engine.weight_only.bytes_per_clock
    context = Pricing(
        device,
        channels_last=engine.memory_format == "channels_last",
        half_accumulation=engine.matmul_accumulation == "fp16",
        quantised=QuantisedProducts(
            kernels=engine.weight_only.kernels,
            compute=engine.weight_only.compute,
            bandwidth=engine.weight_only.bandwidth,
            stream_limit=None if narrow is None else _stream_limit(resolved, narrow),
            integer=engine.weight_only.integer,
            expand_from=_expands_from(resolved, device),
        ),
        stream_limit=_stream_limit(resolved, engine.stream_bytes_per_clock),
        serving=serving,
    )
    return PricedGraph(stage.graph, context)


def _serving(resolved: Resolved, stage: Stage) -> Serving | None:
    """Return which kernels run in a pass of inference of a language model, or of an engine that does nothing else."""
    engine, decodes = resolved.engine, stage.name == "decode"
    generates = stage.name in ("prefill", "decode") or (stage.name == "forward" and resolved.model.family == "decoder")
    if not generates and "train" in engine.phases:
        return None
    return Serving(
        decodes=decodes,
        attention=engine.attention_on(resolved.architecture.name, decodes=decodes),
        merged=frozenset(engine.fusion),
        cache_write_kernels=engine.decode_cache_write_kernels if decodes else engine.cache_write_kernels,
        expert_kernels=engine.expert_kernels,
        extra_kernels=engine.extra_kernels_per_layer,
        stream_share=engine.stream_share,
        vector_rows=float(engine.vector_rows),
        cache_share=engine.cache_read_share,
        softmax_on_chip=engine.attention == "fused_softmax",
        narrow_products=engine.narrow_products,
        narrow_launches=engine.narrow_product_launches,
        packs_heads=engine.packs_heads,
        bias_kernels="biases" in engine.plain_kernels,
        mask_kernels="masks" in engine.plain_kernels,
        convolution_biases="convolution_biases" in engine.plain_kernels,
        convolution_share=engine.convolution_share,
        split_reductions="reductions" in engine.plain_kernels,
    )


def _with_engine_floor(device: Device, resolved: Resolved) -> Device:
    """Return the device with the floor of the engine's own kernels, where that is stated in cycles."""
    cycles, clock = resolved.engine.kernel_cycles, resolved.gpu.clock
    if cycles is None or clock is None:
        return device
    # Where the smallest kernel of the architecture takes longer, so do the engine's.
    floor = {"kernel_floor": maximum(cycles / clock.boost, device.architecture.kernel_floor)}
    return replace(device, architecture=device.architecture.model_copy(update=floor))


def _expands_from(resolved: Resolved, device: Device) -> int | None:
    """Return the rows from which weights are expanded; never where integer kernels are all that the card has."""
    engine = resolved.engine
    wide = device.has("fp16") and device.rate("fp16")[1]
    return engine.expand_weights_from if engine.weight_only.integer is None or wide else None


def _stream_limit(resolved: Resolved, each: float | None) -> float:
    """Return the bytes per second that products of few rows draw at most, from those of a unit and clock."""
    gpu = resolved.gpu
    if each is None or gpu.compute_units is None or gpu.clock is None:
        return math.inf
    return each * gpu.compute_units * gpu.clock.boost


def _device(resolved: Resolved, gpu: Gpu, issue: tuple[float, float]) -> Device:
    engine = resolved.engine
    return device_of(
        gpu,
        resolved.architecture,
        resolved.constants,
        issue,
        library=engine.library_released,
        attention=engine.attention_on(resolved.architecture.name),
    )


def _issue_times(resolved: Resolved) -> tuple[float, float]:
    """Return the host's seconds per kernel, in backward and update, and in a forward pass."""
    engine, factor = resolved.engine, resolved.system.host.issue_factor
    return engine.host_issue_time * factor, engine.host_call_time * factor


def step_of(
    resolved: Resolved, program: Program, priced: tuple[PricedGraph, ...], scales: Scales
) -> tuple[StepTime, int]:
    """Compose the step of a program on scaled hardware; with the stage that sets a pipeline's pace."""
    costs, shown = stage_costs(resolved, program, priced, scales)
    if program.pipelined:
        stages = [(cost, one, stage.positions) for cost, one, stage in zip(costs, shown, program.stages, strict=True)]
        step, pace = schedule_of(resolved).pipelined(stages, program.num_micro_batches)
        return _surrounded(resolved, step, scales), pace
    weighted = [(cost, stage.times) for cost, stage in zip(costs, program.stages, strict=True)]
    return _surrounded(resolved, compose(weighted, program.num_micro_batches, shown), scales), 0


def _surrounded(resolved: Resolved, step: StepTime, scales: Scales) -> StepTime:
    """Add the wait for ranks that are slower by chance, and for samples."""
    layout, workload = layout_of(resolved.parallel), resolved.workload
    step = with_stragglers(step, layout.ranks, resolved.reliability.jitter)
    if workload.input is None:
        return step
    samples = (
        real(workload.global_batch_size) if workload.phase == "train" else real(workload.micro_batch_size) * layout.data
    )
    return with_feed(step, feed(workload.input, samples, resolved.system, resolved.gpu, layout, scales, without_axis))


def stage_costs(
    resolved: Resolved, program: Program, priced: tuple[PricedGraph, ...], scales: Scales
) -> tuple[list[PassCost], list[Exposed]]:
    """Return what one run of each stage takes, and what it shows of communication (nothing where there is none)."""
    costs = [
        _scheduled(_averaged(graph.totals(scales), averaged=stage.averaged), stage, scales)
        for stage, graph in zip(program.stages, priced, strict=True)
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
    if resolved.gpus == 1 and not offloads:
        return []
    messages = messages_of(resolved) if resolved.gpus > 1 else None
    found = [{} if messages is None else messages.traffic(graph.graph, scales) for _, graph in stages]
    schedule = schedule_of(resolved)
    shown = [schedule.shown(one, cost, program.num_micro_batches) for one, cost in zip(found, costs, strict=True)]
    if not offloads:
        return shown
    return [
        replace(one, host=_host_shown(resolved, stage, graph.graph, cost, scales))
        for one, (stage, graph), cost in zip(shown, stages, costs, strict=True)
    ]


def _host_shown(resolved: Resolved, stage: Stage, graph: OpGraph, cost: PassCost, scales: Scales) -> HostShown:
    """Return what a stage shows of copies to and from its host, and of the host's work."""
    change: Callable[[Real], Real] = _with_axis if stage.averaged else without_axis
    flows = host_flows(graph, host_path_of(resolved, averaged=stage.averaged).scaled(scales, change))
    if stage.averaged:
        flows = {key: flow.mapped(mean_over_contexts) for key, flow in flows.items()}
    kernels = graph.total(lambda op: op.kernels() if op.phase in (Phase.BACKWARD, Phase.RECOMPUTE) else 0.0)
    return host_shown(flows, cost, resolved.engine.overlap, kernels)


def host_path_of(resolved: Resolved, *, averaged: bool = False) -> HostPath:
    """Return what one GPU has of its host; `averaged`: behind its numbers' axes one more for the contexts of a decode."""
    gpu = (with_trailing_axis(resolved) if averaged else resolved).gpu
    return host_path(resolved.system, gpu, layout_of(resolved.parallel).ranks)


def _with_axis(scale: Real) -> Real:
    return scale


def messages_of(resolved: Resolved) -> Messages:
    """Return how the layout's messages travel over the system's links."""
    from roofsim.cost.collectives import fabric_of  # one device needs no links

    return Messages(
        fabric=fabric_of(resolved.system, resolved.gpu, resolved.architecture.name),
        layout=layout_of(resolved.parallel),
        split_messages=resolved.engine.pipeline_message == "split",
    )


def schedule_of(resolved: Resolved) -> Schedule:
    """Return how the passes run on the ranks of the layout."""
    parallel = resolved.parallel
    return Schedule(
        name=parallel.schedule,
        virtual_stages=layout_of(parallel).virtual_stages,
        overlap=resolved.engine.overlap,
        sharded=parallel.sharding == "full" or isinstance(parallel.sharding, ShardedOver),
    )


def _scheduled(cost: PassCost, stage: Stage, scales: Scales) -> PassCost:
    """Add what a server does between decode steps, while the device waits: schedule, sample, detokenise."""
    if is_scalar(stage.overhead) and stage.overhead == 0.0:
        return cost
    forward = dict(cost.device["forward"])
    # Scales carry an axis of ops behind their own, of which the sums over ops are rid.
    forward["launch"] = forward["launch"] + stage.overhead / without_axis(scales.host_issue_rate)
    return replace(cost, device=cost.device | {"forward": forward})


def _averaged(cost: PassCost, *, averaged: bool) -> PassCost:
    """Average a price over its last axis, the contexts of a decode."""
    if not averaged:
        return cost
    device = {
        phase: {part: mean_over_contexts(value) for part, value in parts.items()}
        for phase, parts in cost.device.items()
    }
    host, power = (
        {phase: mean_over_contexts(value) for phase, value in part.items()} for part in (cost.host, cost.power)
    )
    return PassCost(device=device, host=host, power=power)  # served: nothing is held apart


def mean_over_contexts(value: Real) -> Real:
    """Average over the last axis by the trapezoid rule: evenly spaced contexts, end points for half an interval."""
    if isinstance(value, float):
        return value
    if value.shape[-1] == 1:
        only: Real = value[..., 0]
        return only
    weights = np.ones(value.shape[-1])
    weights[[0, -1]] = 0.5
    mean: Array = (value * weights).sum(axis=-1) / weights.sum()
    return float(mean) if np.ndim(mean) == 0 else mean
