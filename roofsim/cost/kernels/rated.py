"""Give kernels the rates at which their limits come out as the kernel models say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.cost.kernels.models.silicon import USUAL_RATE, Silicon, sustained_share
from roofsim.numeric import divide, maximum, minimum, real, where
from roofsim.records import replace

if TYPE_CHECKING:
    from roofsim.cost.kernels.work import KernelWork, Pricing
    from roofsim.graph.ops import GroupedMatmul, Matmul
    from roofsim.numeric import Real

#: Number format of the arithmetic -> the name under which its kernels were measured.
ARITHMETIC: Final = {"fp16": "16-bit", "bf16": "16-bit", "fp8": "fp8", "nvfp4": "nvfp4"}

#: From how many times fewer FLOP a clock a card's units count as cut down, and the share that kernels reach at best.
CUT, BEST = 1.5, 0.9


def arithmetic_of(op: Matmul | GroupedMatmul) -> str | None:
    """Return the name under which products of these operands were measured; None: nobody measured such.

    Units for four bits multiply several formats at one rate, whose kernels differ.
    """
    operand = op.inputs[0].dtype
    return ARITHMETIC.get(str(operand) if str(operand) in ARITHMETIC else str(op.math or operand))


def card(context: Pricing, peak: Real) -> Silicon:
    """Return what the kernel models ask of a card; 1 unit and no cache where they are unknown."""
    device = context.device
    units = 1.0 if device.compute_units is None else real(device.compute_units)
    cache = 0.0 if device.cache is None else device.cache
    if device.compute_units is None or device.clock is None:
        rate: Real = device.architecture.flops_per_clock or USUAL_RATE
    else:
        rate = divide(peak, units * device.clock)
    return Silicon(compute_units=units, peak=peak, bandwidth=device.bandwidth, cache=cache, per_clock=rate)


def sustained(context: Pricing, peak: Real, arithmetic: str) -> Real:
    """Return the share of a peak that compute shares of measured kernels count against (`sustained_share`)."""
    device = context.device
    bits = "8-bit" if arithmetic == "fp8" else "16-bit"
    return sustained_share(peak, device.power, device.architecture.name, bits)


def unit_share(share: float, context: Pricing) -> Real:
    """Return what a share of the matrix peak becomes on a card whose units were cut down (H20, 148 of 989 TFLOP/s).

    Kernels that stay behind an architecture's units issue no fewer instructions on units that take longer for each; they
    reach the same FLOP a clock, up to what the best kernels make of a peak. Sums in fp32 at half of the units' rate (GeForce) are
    no cut.
    """
    device = context.device
    full, peak = device.architecture.flops_per_clock, device.tensor.get("fp16_fp16", device.tensor.get("bf16"))
    if full is None or peak is None or device.compute_units is None or device.clock is None:
        return share
    cut = full * device.compute_units * device.clock / peak
    return where(cut > CUT, np.maximum(np.minimum(share * cut, BEST), share), share)


def rated(work: KernelWork, context: Pricing, limits: tuple[Real, Real], floor: Real, sharpness: float) -> KernelWork:
    """Give a kernel the rates at which its limits come out as the model says."""
    device = context.device
    compute, memory = (plain(limit) for limit in limits)
    computing = divide(work.flops, work.flop_peak)
    moving = divide(work.traffic, device.bandwidth)
    beyond = maximum(floor - device.architecture.kernel_floor, 0.0) / device.pace
    return replace(
        work,
        # No unit multiplies faster than at the clock that boards hold, whatever share was measured on another card.
        compute_share=minimum(divide(computing, compute) * device.pace, device.architecture.clock_headroom),
        bandwidth_share=divide(moving, memory) * device.pace,
        floor=plain(beyond),
        norm=sharpness,
        resident=0.0,
        energy=energy(work, context),
    )


def energy(work: KernelWork, context: Pricing) -> Real:
    """Return the joules of a kernel: in decode steps of its arithmetic alone.

    Streaming rates were measured at the power that streaming draws; the arithmetic of a prefill lasts longer than a
    measurement.
    """
    if context.serving is None or not context.serving.decodes:
        return work.energy
    math = work.compute_keys[0].removesuffix("_matrix")
    return context.device.energy(work.flops, math, 0.0, on_tensor=work.on_tensor)


def plain(value: Any) -> Real:
    """Return a float for an array of no dimensions."""
    return float(value) if np.ndim(value) == 0 else value
