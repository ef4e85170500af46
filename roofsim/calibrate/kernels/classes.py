"""Bind the kernel models to tables of measurements: which constants there are, who shares them, what a row means."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Final

from roofsim.calibrate.kernels.least_squares import Columns, FittedConstant
from roofsim.calibrate.kernels.table import Group, KernelTable, card
from roofsim.cost.device import Device, HostTimes, device_of
from roofsim.cost.kernels.models.silicon import Silicon, power_share
from roofsim.errors import NoDataError
from roofsim.records import dataclass, field
from roofsim.spec import catalog
from roofsim.spec.constants.kernels import shipped
from roofsim.spec.constants.physics import shipped_physics
from roofsim.spec.hardware.architecture import Architecture
from roofsim.spec.reading.validate import validate
from roofsim.units import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np

    from roofsim.numeric import Array

MICROSECOND: Final = parse("1 us", "s")

#: Number format of a table -> formats of the catalog whose peak counts, first match.
PEAKS: Final = {
    "tf32": ("tf32",),
    "fp8": ("fp8", "int8", "bf16"),
    "fp8_block": ("fp8", "int8", "bf16"),
    "nvfp4": ("fp4",),
    "sq": ("int8",),
    "w4a8_mxfp4_mxfp8": ("fp8",),
}
EIGHT_BITS: Final = ("fp8", "fp8_block", "sq", "w4a8_mxfp4_mxfp8")
SIXTEEN_BITS: Final = ("bf16", "fp16")
#: Peaks of matrix units in 16 bits; GeForce cards accumulate in fp16 at twice the rate.
FULL_RATE: Final = ("bf16", "fp16", "fp16_fp16")
#: Format -> bytes of one element of activations, weights and results. Scales of blocks of 16 (nvfp4) and 32 or 128 count.
ITEMSIZES: Final = {
    "fp32": (4.0, 4.0, 4.0),
    "tf32": (4.0, 4.0, 4.0),
    "fp16": (2.0, 2.0, 2.0),
    "bf16": (2.0, 2.0, 2.0),
    "fp8": (1.0, 1.0, 2.0),
    "fp8_block": (1.0, 1.0, 2.0),
    "nvfp4": (0.5625, 0.5625, 2.0),
    "sq": (1.0, 1.0, 2.0),
    "int8_wo": (2.0, 1.0, 2.0),
    "int4_wo": (2.0, 0.53, 2.0),
    "w4a16_mxfp4": (2.0, 0.53, 2.0),
    "w4a8_mxfp4_mxfp8": (1.0, 0.53, 2.0),
}
#: Formats whose activations are converted by a pass before the product.
CONVERTED: Final = ("fp8", "fp8_block", "nvfp4", "sq", "w4a8_mxfp4_mxfp8")
#: Formats whose products engines multiply with kernels of their own, cut into tiles of their own; others with the vendor's library.
OWN_KERNELS: Final = ("fp8", "nvfp4")

FLOOR: Final = FittedConstant("floor", 5.0 * MICROSECOND, 0.5, 0.2 * MICROSECOND, 5000.0 * MICROSECOND)
COMPUTE: Final = FittedConstant("compute", 0.7, 0.4, 0.02, 1.6)
BANDWIDTH: Final = FittedConstant("bandwidth", 0.7, 0.3, 0.02, 1.3)


@dataclass(frozen=True)
class KernelClass:
    """A family of operations with one model.

    Attributes
    ----------
    own
        Constants of one (card, operation, format, engine).
    shared
        Constants that all such groups of a `family` have in common: properties of the kernels of a generation.
    bind
        Table -> function from constants (columns) to seconds.
    work
        Table -> ideal seconds at datasheet rates: orders rows by size.
    starts
        Points to start the search of shared constants from; the model has corners.
    sustained
        Exponent with which lent compute shares follow what power sustains: 1 for kernels that run long and alone, less for
        calls of a few milliseconds with pauses between them, which end before a board lowers its clock.
    untold
        Table -> shared constants that its sizes cannot tell from others, which therefore keep what is believed without data.
    """

    name: str
    ops: tuple[str, ...]
    own: tuple[FittedConstant, ...]
    shared: tuple[FittedConstant, ...]
    bind: Callable[[KernelTable], Callable[[Columns], Array]]
    work: Callable[[KernelTable], Array]
    family: Callable[[Group], tuple[str, ...]]
    starts: tuple[dict[str, float], ...] = field(default=({},))
    sustained: float = 1.0
    untold: Callable[[KernelTable], frozenset[str]] = lambda _: frozenset()


def generation(group: Group) -> str:
    """Return the architecture of a group's card."""
    return card(group.gpu).architecture


def attends(op: str) -> bool:
    """Return whether an operation is attention, with heads of its own or a latent cache."""
    return op.startswith("attention") or op == "mla_decode"


def arithmetic(group: Group) -> str:
    """Return the format without what does not change kernels: both 16-bit formats are one."""
    return "16-bit" if group.dtype in SIXTEEN_BITS else group.dtype


def family_of(group: Group) -> tuple[str, ...]:
    """Return what shares the shape of kernels: generation, operation, arithmetic, and the engine where each brings its own."""
    family = generation(group), group.op, arithmetic(group)
    return (*family, group.engine) if group.dtype in OWN_KERNELS else family


def peak(group: Group) -> float:
    """Return the dense FLOP/s that a group's kernels could reach; fp32 counts on matrix units where these take it."""
    gpu, names = card(group.gpu), _peak_names(group)
    for peaks in (gpu.peak, gpu.vector_peak):
        for name in names:
            if name in peaks:
                return peaks[name]
    raise NoDataError(f"{gpu.name} has no peak for {group.dtype} arithmetic; its file in hardware/gpus may state one.")


def on_matrix_units(group: Group) -> bool:
    """Return whether matrix units of the card take a group's format."""
    return any(name in card(group.gpu).peak for name in _peak_names(group))


def _peak_names(group: Group) -> tuple[str, ...]:
    return ("fp32",) if group.dtype == "fp32" else PEAKS.get(group.dtype.removesuffix("_kvfp8"), SIXTEEN_BITS)


def compute_units(group: Group) -> float:
    """Return the compute units of a group's card."""
    gpu = card(group.gpu)
    if gpu.compute_units is None:
        raise NoDataError(f"{gpu.name} states no compute_units; the kernel models need them.")
    return float(gpu.compute_units)


def architecture_of(group: Group) -> Architecture:
    """Return the architecture of a group's card."""
    return _architecture(generation(group))


@cache
def _architecture(name: str) -> Architecture:
    return validate(Architecture, catalog.load("architecture", name))


def wide_units() -> float:
    """Return the FLOP per clock and unit from which matrix units are those of data-centre cards."""
    return shipped_physics()["wide_units"]


def matrix_energy(group: Group, fitted: Mapping[str, float] | None = None) -> float:
    """Return the joules of a FLOP of a group's arithmetic at full clock.

    `fitted` are energies of the architecture's matrix units, by width; None: those that its file states.
    """
    gpu, bits = card(group.gpu), _energy_name(group)
    matrix = bits != "fp32" or "fp32" in gpu.peak
    return float(_device(group, fitted).energy(1.0, bits, 0.0, on_tensor=matrix))


def _device(group: Group, fitted: Mapping[str, float] | None = None) -> Device:
    architecture = architecture_of(group)
    if fitted is not None:
        architecture = architecture.model_copy(update={"matrix_energy": dict(fitted)})
    return device_of(card(group.gpu), architecture, shipped(), HostTimes())


def _energy_name(group: Group) -> str:
    """Return the format whose energy a group's arithmetic takes."""
    wide = {"fp32": "fp32", "tf32": "tf32", "nvfp4": "fp4", "sq": "int8"}
    return wide.get(group.dtype, "fp8" if group.dtype in EIGHT_BITS else "fp16")


def held_energy(group: Group) -> float:
    """Return the joules of a FLOP of a long product of a group, at the clock that it can hold; 0 where nobody states it."""
    return float(_device(group).heat(1.0, _energy_name(group)))


def watts(group: Group) -> float:
    """Return what a group's card may draw; infinitely much where nobody states it."""
    tdp = card(group.gpu).tdp
    return math.inf if tdp is None else float(tdp)


def power_cap(group: Group) -> float:
    """Return the share of a group's peak that the board's power sustains; 1 when its power is unknown."""
    gpu, energy = card(group.gpu), matrix_energy(group)
    corner = shipped_physics()["sustained_corner"]
    return 1.0 if gpu.tdp is None else power_share(peak(group) * energy / gpu.tdp, corner)


def per_clock(group: Group) -> float:
    """Return the FLOP that a compute unit of a group's card does per clock in the group's arithmetic."""
    clock = card(group.gpu).clock
    return usual_rate() if clock is None else peak(group) / (compute_units(group) * clock.boost)


def usual_rate() -> float:
    """Return the FLOP per clock and unit of matrix units of which nobody states it."""
    return shipped_physics()["usual_flops_per_clock"]


def matrix_rate(group: Group) -> float:
    """Return the FLOP that a compute unit of a group's card does per clock in 16 bits, however wide it accumulates.

    On one card and the next it says whether kernels feed data-centre units or those of workstation and consumer cards.
    """
    gpu = card(group.gpu)
    peaks = [gpu.peak[name] for name in FULL_RATE if name in gpu.peak]
    peaks = peaks or [gpu.vector_peak[name] for name in (*SIXTEEN_BITS, "fp32") if name in gpu.vector_peak]
    if gpu.clock is None or gpu.compute_units is None or not peaks:
        return usual_rate()
    return max(peaks) / (gpu.compute_units * gpu.clock.boost)


def units_per_bandwidth(group: Group) -> float | None:
    """Return compute units times clock over memory bandwidth: how much faster than memory units can ask caches."""
    gpu = card(group.gpu)
    if gpu.clock is None or gpu.compute_units is None:
        return None
    return gpu.compute_units * gpu.clock.boost / gpu.memory.bandwidth


def silicon(table: KernelTable) -> Silicon:
    """Return the card facts of every row."""

    def cache(group: Group) -> float:
        level = card(group.gpu).l2
        return 0.0 if level is None else level.capacity

    return Silicon(
        compute_units=table.per_row(compute_units),
        peak=table.per_row(peak),
        bandwidth=table.per_row(lambda group: card(group.gpu).memory.bandwidth),
        cache=table.per_row(cache),
        per_clock=table.per_row(per_clock),
        physics=shipped_physics(),
    )


def is_format(table: KernelTable, formats: tuple[str, ...]) -> np.ndarray:
    """Return which rows are in one of some formats."""
    return table.per_row(lambda group: float(group.dtype in formats)) > 0.0


def itemsize(table: KernelTable, operand: int) -> Array:
    """Return bytes per element of activations (0), weights (1) or results (2)."""
    return table.per_row(lambda group: ITEMSIZES[group.dtype][operand])
