"""Say how an engine's kernels are priced: device, floors, limits and models of one pass, from its facts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from roofsim.cost.device import Device, device_of
from roofsim.cost.kernels.library import KernelLibrary
from roofsim.cost.kernels.quantised import QuantisedProducts
from roofsim.cost.kernels.work import Pricing
from roofsim.cost.serving import InferencePass
from roofsim.numeric import any_above, maximum
from roofsim.records import replace
from roofsim.spec.engine.phase import in_phase
from roofsim.spec.scenario.layout import layout_of

if TYPE_CHECKING:
    from roofsim.numeric import Real
    from roofsim.spec.hardware.schema import Gpu
    from roofsim.spec.resolve import Resolved


def pricing_of(resolved: Resolved, gpu: Gpu, phase: str) -> Pricing:
    """Return what pricing one pass needs to know; `gpu` may have a trailing axis of contexts."""
    engine = resolved.engine
    launch = engine.launch_on(resolved.architecture.name, decodes=phase == "decode")
    issue = (0.0, 0.0) if launch == "graphs" else issue_times(resolved)
    device = device_for(resolved, gpu, issue)
    serving = _serving(resolved, phase)
    if serving is not None:
        device = _with_engine_floor(device, resolved, phase)
    return Pricing(
        device,
        channels_last=engine.convolution.memory_format == "channels_last",
        library=_library(resolved),
        quantised=_quantised(resolved, device),
        stream_limit=_stream_limit(resolved, engine.matmul.stream_bytes_per_clock),
        serving=serving,
        mechanisms=resolved.mechanisms,
    )


def _quantised(resolved: Resolved, device: Device) -> QuantisedProducts:
    """Return how the engine multiplies with narrow weights on a card."""
    facts = resolved.engine.matmul.weight_only
    return QuantisedProducts(
        facts=facts,
        data_share=_data_share(resolved),
        stream_limit=None if facts.bytes_per_clock is None else _stream_limit(resolved, facts.bytes_per_clock),
        expand_from=_expands_from(resolved, device),
        slot_rate=_slot_rate(resolved),
    )


def _library(resolved: Resolved) -> KernelLibrary:
    """Return whose kernels an engine runs on a card, in whatever phase."""
    return KernelLibrary(
        engine=resolved.engine, architecture=resolved.architecture.name, data_share=_data_share(resolved)
    )


def _serving(resolved: Resolved, phase: str) -> InferencePass | None:
    """Return which kernels run in a pass of inference of a language model, or of an engine that does nothing else."""
    engine = resolved.engine
    generates = phase in ("prefill", "decode") or (phase == "forward" and resolved.model.decoder_only())
    if not generates and "train" in engine.phases:
        return None
    return InferencePass(
        engine=in_phase(engine, phase, resolved.architecture.name),
        decodes=phase == "decode",
    )


def _with_engine_floor(device: Device, resolved: Resolved, phase: str) -> Device:
    """Return the device with the floor of the engine's own kernels, where that is stated in cycles, or grows in pipelines."""
    cycles, clock = resolved.engine.kernels.floor_cycles, resolved.gpu.clock
    floor: Real = device.architecture.kernel_floor
    if cycles is not None and clock is not None:
        # Where the smallest kernel of the architecture takes longer, so do the engine's.
        floor = maximum(cycles / clock.boost, floor)
    if phase == "decode" and any_above(layout_of(resolved.parallel).pipeline, 1.0):
        floor = floor + resolved.engine.schedule.pipeline.decode_gap
    return replace(device, architecture=device.architecture.model_copy(update={"kernel_floor": floor}))


def _expands_from(resolved: Resolved, device: Device) -> int | None:
    """Return the rows from which weights are expanded; never where integer kernels are all that the card has, or enough."""
    engine = resolved.engine
    if resolved.architecture.name in engine.matmul.never_expands_on:
        return None
    wide = device.has("fp16") and device.rate("fp16")[1]
    return engine.matmul.expand_weights_from if engine.matmul.weight_only.integer is None or wide else None


def _stream_limit(resolved: Resolved, each: float | None) -> float:
    """Return the bytes per second that products of few rows draw at most, from those of a unit and clock."""
    gpu = resolved.gpu
    if each is None or gpu.compute_units is None or gpu.clock is None:
        return math.inf
    return each * gpu.compute_units * gpu.clock.boost


def _data_share(resolved: Resolved) -> float:
    """Return the share of what is read from memory that is data: less than all where check bits lie in the same memory.

    Shares of measured library kernels hold it already.
    """
    return resolved.constants.physics["data_share"] if resolved.gpu.memory.error_correction == "inline" else 1.0


def _slot_rate(resolved: Resolved) -> Real | None:
    """Return the instructions per second that the lanes of a card can issue, or None where its clock is not known."""
    gpu, lanes = resolved.gpu, resolved.constants.physics["issue_lanes"]
    return None if gpu.compute_units is None or gpu.clock is None else lanes * gpu.compute_units * gpu.clock.boost


def device_for(resolved: Resolved, gpu: Gpu, issue: tuple[float, float]) -> Device:
    """Return a card with the kernels that the engine runs on it; `issue` as `issue_times`."""
    engine = resolved.engine
    return device_of(
        gpu,
        resolved.architecture,
        resolved.constants,
        issue,
        library=engine.kernels.library_released,
        attention=engine.attention_on(resolved.architecture.name),
    )


def issue_times(resolved: Resolved) -> tuple[float, float]:
    """Return the host's seconds per kernel, in backward and update, and in a forward pass."""
    engine, factor = resolved.engine, resolved.system.host.issue_factor
    return engine.launch.host_issue_time * factor, engine.launch.host_call_time * factor
