"""Give kernels the rates at which their limits come out as the kernel models say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.cost.kernels.models.silicon import Silicon
from roofsim.numeric import divide, maximum, minimum, real, where
from roofsim.records import replace
from roofsim.traced.points import as_array

if TYPE_CHECKING:
    from roofsim.cost.device import Device
    from roofsim.cost.kernels.model import KernelLimits
    from roofsim.cost.kernels.work import KernelWork, Pricing
    from roofsim.numeric import Real


#: Products that the same units do in other formats while they do one of 16 bits.
WIDTHS: Final = {"tf32": 0.5, "fp8": 2.0, "int8": 2.0, "fp6": 2.0, "fp4": 4.0, "int4": 4.0}


def vector_card(device: Device, peak: Real) -> Silicon:
    """Return what models of kernels without products ask of a card: `card`, but for the cores that run them."""
    silicon = card(device, peak)
    return silicon if device.vector_units is None else replace(silicon, compute_units=real(device.vector_units))


def card(device: Device, peak: Real) -> Silicon:
    """Return what the kernel models ask of a card; 1 unit and no cache where they are unknown."""
    units = 1.0 if device.compute_units is None else real(device.compute_units)
    cache = 0.0 if device.cache is None else device.cache
    if device.compute_units is None or device.clock is None:
        rate: Real = device.architecture.flops_per_clock or device.constants.physics["usual_flops_per_clock"]
    else:
        rate = divide(peak, units * device.clock)
    return Silicon(
        compute_units=units,
        peak=peak,
        bandwidth=device.bandwidth,
        cache=cache,
        per_clock=rate,
        physics=device.constants.physics,
    )


def unit_share(share: float, math: str, peak: Real, device: Device) -> Real:
    """Return what a share of the matrix peak becomes on a card whose units were cut down, or whose sums in fp32 are.

    Kernels that stay behind an architecture's units issue no fewer instructions on units that take longer for each (H20, 148 of
    989 TFLOP/s; GeForce cards, half of their rate); they reach the same FLOP a clock, up to what the best kernels make of a
    peak.
    """
    cut = cut_units(math, peak, device)
    best = device.constants.physics["best_of_cut_units"]
    return where(cut > 1.0, np.maximum(np.minimum(share * cut, best), share), share)


def cut_units(math: str, peak: Real, device: Device) -> Real:
    """Return how many times fewer FLOP per clock a card's units do than their architecture's; 1 unless they count as cut."""
    full, physics = device.architecture.flops_per_clock, device.constants.physics
    if full is None or device.compute_units is None or device.clock is None:
        return 1.0
    cut = full * WIDTHS.get(math, 1.0) * device.compute_units * device.clock / peak
    return where(cut > physics["cut_units"], cut, 1.0 + 0.0 * cut)


def rated(work: KernelWork, context: Pricing, limits: KernelLimits, *, streams: Real = 0.0) -> KernelWork:
    """Give a kernel the rates at which its limits come out as the model says.

    Of what `streams` the energy of its traffic does not count: streaming rates were measured at the power that it draws.
    """
    device = context.device
    compute, memory = (plain(limit) for limit in (limits.compute, limits.memory))
    computing = divide(work.flops, work.flop_peak)
    moving = divide(work.traffic, device.bandwidth)
    beyond = maximum(limits.floor - device.architecture.kernel_floor, 0.0) / device.pace
    # No unit multiplies faster than at the clock that boards hold, whatever share was measured on another card; an algorithm that
    # spares arithmetic does fewer FLOPs than count.
    share = minimum(divide(computing, compute) * device.pace, device.architecture.clock_headroom * work.spared)
    return replace(
        work,
        compute_share=share,
        tiling=divide(share * work.tiling, work.compute_share),
        bandwidth_share=divide(moving, memory) * device.pace,
        floor=plain(beyond),
        norm=limits.sharpness,
        energy=_energy(work, context, streams),
        streamed=work.traffic * streams,
        by_units=plain(limits.by_units),
        by_vectors=plain(limits.by_vectors),
        by_memory=plain(limits.by_memory),
        flat=plain(limits.flat),
    )


def _energy(work: KernelWork, context: Pricing, streams: Real) -> Real:
    """Return the joules of a kernel, without those of streamed traffic."""
    if isinstance(streams, float) and streams == 0.0:
        return work.energy
    math = work.compute_keys[0].removesuffix("_matrix")
    return where(
        as_array(streams > 0.0) if not isinstance(streams, float) else True,
        context.device.energy(work.flops, math, 0.0, on_tensor=work.on_tensor),
        work.energy,
    )


def plain(value: Any) -> Real:
    """Return a float for an array of no dimensions."""
    return float(value) if np.ndim(value) == 0 else value
