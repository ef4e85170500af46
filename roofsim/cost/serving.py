"""Say which kernels an engine runs in inference, and give kernels the rates that their models find."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.cost.kernel_models.silicon import USUAL_RATE, Silicon, sustained_share
from roofsim.numeric import divide, maximum, minimum, where
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.cost.work import KernelWork, Pricing
    from roofsim.graph.base import AbstractOp
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


@dataclass(frozen=True, kw_only=True)
class Serving:
    """What an engine's kernels of one pass of inference are.

    Attributes
    ----------
    decodes
        Whether the pass adds one token per sequence.
    attention
        Generation of its fused attention kernel; None: not stated.
    merged
        Engine facts of merged kernels.
    cache_write_kernels
        Launches per layer that rotate queries and keys and write the cache; None: one an op of the graph.
    expert_kernels
        Launches per layer that bring tokens into the order of experts and back; None: one an op of the graph.
    expert_rows
        How tokens come into the order of experts: ``modules``, ``copied`` or ``gathered`` by the products.
    measured_as
        Engine in which its kernels of experts and of latent attention were measured; None: medians over all.
    router_kernels
        Launches per layer that choose experts from their scores; None: one an op of the graph.
    extra_kernels
        Launches per layer beyond those of the graph.
    stream_share
        What products draw of the memory bandwidth; None: as measured library kernels do.
    vector_rows
        Rows up to which products run in kernels for vectors, which use all units however small the product is.
    cache_share
        Share of the memory bandwidth with which unfused attention reads the cache in decode steps; None: as products.
    softmax_on_chip
        Whether the softmax kernel keeps long rows on chip instead of reading them again.
    narrow_products
        What products of 8-bit operands write: ``wide`` (16 bits), ``int32`` or ``narrow`` (8 bits).
    narrow_launches
        Launches of each of them.
    packs_heads
        Whether a kernel before fused attention copies queries, keys and values.
    convolution_share
        Share of the rate of searched convolutions.
    bias_kernels, convolution_biases, mask_kernels, split_reductions
        Whether biases of products and of convolutions, masks of unfused attention, and the reductions of softmax and norms
        are kernels of their own.
    """

    decodes: bool = False
    attention: str | None = None
    merged: frozenset[str] = frozenset()
    cache_write_kernels: float | None = None
    expert_kernels: float | None = None
    expert_rows: str = "modules"
    measured_as: str | None = None
    router_kernels: float | None = None
    extra_kernels: float = 0.0
    stream_share: float | None = None
    vector_rows: float = 0.0
    cache_share: float | None = None
    softmax_on_chip: bool = False
    narrow_products: str = "wide"
    narrow_launches: float = 1.0
    packs_heads: bool = False
    bias_kernels: bool = False
    mask_kernels: bool = False
    split_reductions: bool = False
    convolution_biases: bool = False
    convolution_share: float = 1.0


def card(context: Pricing, peak: Real) -> Silicon:
    """Return what the kernel models ask of a card; 1 unit and no cache where they are unknown."""
    device = context.device
    units = 1.0 if device.compute_units is None else float(device.compute_units)
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


def rated(
    work: KernelWork, context: Pricing, limits: tuple[Real, Real], floor: Real, sharpness: float, part: Real = 1.0
) -> KernelWork:
    """Give a kernel the rates at which its limits come out as the model says; `part` is its share of a merged one."""
    device = context.device
    compute, memory = (plain(limit * part) for limit in limits)
    computing = divide(work.flops, work.flop_peak)
    moving = divide(work.traffic, device.bandwidth)
    beyond = maximum(floor - device.architecture.kernel_floor, 0.0) / device.pace
    return replace(
        work,
        # No unit multiplies faster than at the clock that boards hold, whatever share was measured on another card.
        compute_share=minimum(divide(computing, compute) * device.pace, device.architecture.clock_headroom),
        bandwidth_share=divide(moving, memory) * device.pace,
        floor=plain(beyond * part),
        norm=sharpness,
        launches=work.launches * part,
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


def share_launches(ops: dict[int, AbstractOp], works: dict[int, KernelWork], number: float | None) -> None:
    """Let ops of a layer have a number of launches together; None: their own."""
    if number is None:
        return
    layers: dict[str, list[int]] = {}
    for place, op in ops.items():
        layers.setdefault(op.layer, []).append(place)
    for places in layers.values():
        total: Real = 0.0
        for place in places:
            total = total + works[place].launches
        for place in places:
            works[place] = replace(works[place], launches=works[place].launches * (number / total))
