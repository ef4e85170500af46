"""Say how an engine's kernels are priced: device, floors, limits and models of one pass, from its facts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from roofsim.cost.device import Device, HostTimes, device_of
from roofsim.cost.kernels.library import KernelLibrary
from roofsim.cost.kernels.work import Pricing
from roofsim.numeric import any_above, maximum
from roofsim.records import replace
from roofsim.spec.scenario.layout import layout_of

if TYPE_CHECKING:
    from roofsim.numeric import Real
    from roofsim.spec.hardware.schema import Gpu
    from roofsim.spec.resolve import Resolved


def pricing_of(resolved: Resolved, gpu: Gpu, phase: str) -> Pricing:
    """Return what pricing one pass needs to know; `gpu` may have a trailing axis of contexts."""
    engine = resolved.engine
    launch = engine.launch_on(resolved.architecture.name, decodes=phase == "decode")
    host = HostTimes() if launch == "graphs" else host_times(resolved)
    device = device_for(resolved, gpu, host)
    if _serves(resolved, phase):
        device = _with_engine_floor(device, resolved, phase)
    return Pricing(
        device,
        channels_last=engine.convolution.memory_format == "channels_last",
        library=_library(resolved),
        stream_limit=_stream_limit(resolved, engine.matmul.stream_bytes_per_clock),
        mechanisms=resolved.mechanisms,
    )


def _library(resolved: Resolved) -> KernelLibrary:
    """Return whose kernels an engine runs on a card, in whatever phase."""
    narrow = resolved.engine.matmul.weight_only.bytes_per_clock
    return KernelLibrary(
        engine=resolved.engine,
        architecture=resolved.architecture.name,
        data_share=_data_share(resolved),
        narrow_stream_limit=None if narrow is None else _stream_limit(resolved, narrow),
        slot_rate=_slot_rate(resolved),
    )


def _serves(resolved: Resolved, phase: str) -> bool:
    """Tell whether a pass is inference of a language model, or of an engine that does nothing else."""
    generates = phase in ("prefill", "decode") or (phase == "forward" and resolved.model.decoder_only())
    return generates or "train" not in resolved.engine.phases


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


def _stream_limit(resolved: Resolved, each: float | None) -> float:
    """Return the bytes per second that products draw at most, from those of a unit and clock; no limit where cores load ahead."""
    gpu = resolved.gpu
    if each is None or gpu.compute_units is None or gpu.clock is None or resolved.architecture.loads_ahead:
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


def device_for(resolved: Resolved, gpu: Gpu, host: HostTimes) -> Device:
    """Return a card with the kernels that the engine runs on it; `host` as `host_times`."""
    engine = resolved.engine
    return device_of(
        gpu,
        resolved.architecture,
        resolved.constants,
        host,
        library=engine.kernels.library_released,
        attention=engine.attention_on(resolved.architecture.name),
    )


def host_times(resolved: Resolved) -> HostTimes:
    """Return what the scenario's host takes to issue the kernels of its engine."""
    launch, factor, physics = resolved.engine.launch, resolved.system.host.issue_factor, resolved.constants.physics
    issue = physics["host_issue_time"] if launch.host_issue_time is None else launch.host_issue_time
    call = physics["host_call_time"] if launch.host_call_time is None else launch.host_call_time
    backward = issue if launch.host_backward_time is None else launch.host_backward_time
    return HostTimes(
        call=call * factor, backward=backward * factor, issue=issue * factor, tensor=launch.host_tensor_time * factor
    )
