"""Say what takes memory at the fullest moment: tensors, what the allocator reserves, what the device shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.analyze.host import last_of, missing_off_device, off_device_of, ways_of
from roofsim.analyze.intervals import memory_intervals
from roofsim.analyze.loading import loading
from roofsim.analyze.result import Memory
from roofsim.graph.tensor import DTYPES
from roofsim.memory.reserved import apart, stranded
from roofsim.numeric import Real, any_above, is_scalar, maximum, minimum, real, where
from roofsim.points import everywhere, of_first, surely
from roofsim.records import replace
from roofsim.spec.scenario.layout import layout_of
from roofsim.spec.settle.offload import places

if TYPE_CHECKING:
    from roofsim.evaluate import Unpriced
    from roofsim.graph.opgraph import OpGraph
    from roofsim.memory.profile import MemoryProfile
    from roofsim.memory.upsampling import Cached
    from roofsim.program import Stage
    from roofsim.spec.resolve import Resolved


def memory_of(evaluation: Unpriced) -> Memory:
    """Return the memory of the fullest moment: what tensors take, what the allocator reserves, what the device shows."""
    resolved = evaluation.resolved
    stages = evaluation.program.stages
    graph = stages[0].graph
    fullest = _of_ranks(stages[0], evaluation.profiles[0])
    left_behind: Real | None = None
    for stage, other in zip(stages[1:], evaluation.profiles[1:], strict=True):
        later = _of_ranks(stage, other)
        fuller: Any = later.peak >= fullest.peak
        if getattr(fuller, "sampled", False) and not _asks_for_graph(evaluation):
            before = graph.once("stranded", stranded) if left_behind is None else left_behind
            left_behind = where(fuller, stage.graph.once("stranded", stranded), before)
        else:
            graph = stage.graph if everywhere(fuller) else graph
        fullest = _fuller(fullest, later, fuller)
    if left_behind is None:
        left_behind = graph.once("stranded", stranded)
    fullest = _or_loading(fullest, loading(evaluation, graph))
    decoder = _decoder(evaluation)
    if decoder is not None:
        fullest = _or_decoder(fullest, decoder, stages[-1].name)
    components: dict[str, Real] = dict(fullest.components)
    transient = components["activations"] + components["temporary"] + components["gradients"]
    components["context"] = real(resolved.architecture.context) + resolved.engine.memory.runtime_memory
    components["communication_buffers"] = components["communication_buffers"] + communicators(resolved)
    components["temporary"] = components["temporary"] + _workspace(evaluation)
    own = resolved.engine.memory.reserved_overhead
    overhead = resolved.constants.physics["reserved_overhead"] if own is None else own
    components["fragmentation"] = transient * overhead + _unusable(evaluation, fullest, graph, left_behind)
    allocated = fullest.peak + _workspace(evaluation)
    if decoder is not None:
        room = evaluation.device.capacity - components["context"] - allocated - components["fragmentation"]
        # Where it is short, the allocator gives back what is cached before it gives up.
        left = minimum(decoder.reserved + components["parameters"] - allocated - components["fragmentation"], room)
        components["fragmentation"] = components["fragmentation"] + maximum(left, 0.0)
    reserved = allocated + components["fragmentation"]
    memory = Memory(
        allocated_peak=allocated,
        reserved=reserved,
        device_total=reserved + components["context"] + communicators(resolved),
        saved_activations=fullest.saved_activations,
        capacity=evaluation.device.capacity,
        components=components,
        peak_op=fullest.peak_op,
        peak_phase=fullest.peak_phase,
    )
    if places(resolved.parallel.offload):
        there = off_device_of(evaluation)
        memory = replace(
            memory,
            off_device=there,
            ways=ways_of(evaluation, there),
            missing_off_device=missing_off_device(evaluation, there),
        )
    return replace(memory, interval=memory_intervals(memory, resolved)["device_total"])


def _or_loading(profile: MemoryProfile, load: tuple[Real, Real] | None) -> MemoryProfile:
    """Return the profile, or what loading the model took where that is more (told by the first element, for arrays)."""
    if load is None:
        return profile
    weights, parts = load
    higher: Any = weights + parts > profile.peak
    components = {name: where(higher, 0.0, amount) for name, amount in profile.components.items()}
    components["parameters"] = where(higher, weights, profile.components["parameters"])
    components["temporary"] = where(higher, parts, profile.components["temporary"])
    loading = replace(profile, peak=maximum(profile.peak, weights + parts), components=components)
    return replace(loading, peak_op="loading", peak_phase="loading") if of_first(higher) else loading


def _decoder(evaluation: Unpriced) -> Cached | None:
    """Return what the image decoder of a diffusion pipeline takes from a caching allocator; None where there is none."""
    engine, stage = evaluation.resolved.engine, evaluation.program.stages[-1]
    if not stage.upsamples or engine.memory.allocator == "planned":
        return None
    from roofsim.memory.upsampling import cached  # no other model decodes images

    return cached(stage.graph, transposes=engine.convolution.workspace == "transposed")


def _or_decoder(profile: MemoryProfile, decoder: Cached, name: str) -> MemoryProfile:
    """Return the profile, or what the decoder allocates with its workspaces where that is more."""
    more: Any = maximum(profile.components["parameters"] + decoder.allocated - profile.peak, 0.0)
    components = dict(profile.components)
    components["temporary"] = components["temporary"] + more
    with_decoder = replace(profile, peak=profile.peak + more, components=components)
    return replace(with_decoder, peak_op=f"{name}, a convolution's workspace") if surely(more > 0.0) else with_decoder


def communicators(resolved: Resolved) -> Real:
    """Return the bytes that the communication library holds for the groups that a rank belongs to, outside the allocator."""
    layout = layout_of(resolved.parallel)
    groups: Real = 0.0
    for ranks in (layout.tensor, layout.context, layout.replicas, layout.pipeline, layout.expert):
        groups = groups + where(ranks > 1.0, 1.0, 0.0)
    if resolved.parallel.expert_tensor is not None:
        groups = groups + where(layout.expert_tensor > 1.0, 1.0, 0.0)
    return groups * resolved.constants.physics["communicator"]


def _workspace(evaluation: Unpriced) -> Real:
    """Return the bytes that an engine sets aside for the activations of its prompts."""
    resolved = evaluation.resolved
    values = resolved.engine.memory.workspace_per_token
    if values == 0.0 or not evaluation.resolved.model.generates:
        return 0.0
    workload, width = resolved.workload, resolved.model.traits().hidden_size
    length = workload.sequence_length if resolved.model.encodes else workload.prompt_length
    tokens = real(workload.micro_batch_size) * real(length or 1)
    return values * real(width) * tokens * DTYPES[resolved.precision.compute].itemsize


def _asks_for_graph(evaluation: Unpriced) -> bool:
    """Tell whether more of the fullest stage's graph counts than what its loss leaves behind."""
    memory = evaluation.resolved.engine.memory
    return memory.communication_pools or memory.merged_weights == "beside_parts"


def _unusable(evaluation: Unpriced, profile: MemoryProfile, graph: OpGraph, left_behind: Real) -> Real:
    """Return the bytes of freed blocks that what comes next cannot use, beside the usual share.

    `left_behind` are those of the loss.
    """
    # At the fullest moment of the loss the block is of no use; at a fuller one elsewhere it may be.
    unusable = maximum(profile.loss_peak + left_behind - profile.peak, 0.0)
    if evaluation.resolved.engine.memory.communication_pools and any_above(evaluation.resolved.gpus, 1.0):
        unusable = unusable + graph.once("apart", apart)
    return unusable


def _of_ranks(stage: Stage, profile: MemoryProfile) -> MemoryProfile:
    """Return the profile of a stage, of a decode at its last context; no bytes where no rank has such a stage."""
    at_end = at_last_context(profile) if stage.averaged else profile
    if is_scalar(stage.positions):
        return at_end
    return replace(at_end, peak=where(stage.positions > 0.0, at_end.peak, 0.0))


def _fuller(first: MemoryProfile, later: MemoryProfile, fuller: Any) -> MemoryProfile:
    """Return the later profile where it is the fuller one; names are those of the one that is for all elements."""
    if is_scalar(first.peak, later.peak):
        return later if fuller else first
    best = later if surely(fuller) else first
    return replace(
        best,
        peak=where(fuller, later.peak, first.peak),
        components={name: where(fuller, later.components[name], amount) for name, amount in first.components.items()},
        saved_activations=where(fuller, later.saved_activations, first.saved_activations),
        loss_peak=where(fuller, later.loss_peak, first.loss_peak),
    )


def at_last_context(given: MemoryProfile) -> MemoryProfile:
    """Return the profile of the last, longest context of a decode."""
    return replace(
        given,
        peak=last_of(given.peak),
        components={name: last_of(amount) for name, amount in given.components.items()},
        saved_activations=last_of(given.saved_activations),
        phase_peaks={name: last_of(amount) for name, amount in given.phase_peaks.items()},
    )
