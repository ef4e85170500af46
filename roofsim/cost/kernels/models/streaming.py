"""Kernels limited by memory: element-wise, normalization, softmax, table look-up."""

from __future__ import annotations

import numpy as np

from roofsim.cost.kernels.models.gemm import resident_bandwidth
from roofsim.cost.kernels.models.silicon import Silicon, corner
from roofsim.numeric import Array, Real
from roofsim.records import dataclass
from roofsim.traced.points import as_array


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamShape:
    """Sizes of memory-bound calls.

    Attributes
    ----------
    rows, width
        Rows, one after the other along which the kernel works, and bytes of each; 0 where it does not go by rows.
    tensor
        Bytes of the tensor that it works on.
    traffic
        Bytes that move when each tensor is touched once.
    """

    rows: Array
    width: Array
    tensor: Array
    traffic: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConstants:
    """What memory-bound kernels achieve; every field may be an array.

    Attributes
    ----------
    floor
        Seconds of the smallest call.
    bandwidth
        Share of the memory bandwidth for large tensors, where compute units can ask for all of it.
    unit_bandwidth
        Bytes per second that a compute unit asks for (`unit_load`).
    cache_speedup, cache_reach
        As in `GemmConstants`.
    row
        Seconds that a compute unit spends on a row, however short.
    walk
        Seconds per byte in which one block walks along its row: what a tensor of few, long rows waits for.
    again
        Further reads of a row that does not fit on chip, in passes.
    on_chip
        Bytes of the longest row that stays on chip.
    sharpness
        Exponent of the corner between floor and streaming: 1 adds them, large hides the smaller.
    """

    floor: Real
    bandwidth: Real
    unit_bandwidth: Real
    cache_speedup: Real
    cache_reach: Real
    row: Real
    walk: Real
    again: Real
    on_chip: Real
    sharpness: Real


def unit_load(bandwidth: Real, compute_units: Real, unit_bandwidth: Real) -> Real:
    """Return the memory bandwidth per compute unit against what a unit asks for in simple kernels.

    By Little's law that is the bytes that a unit has in flight over the latency of memory.
    """
    load: Real = bandwidth / (compute_units * unit_bandwidth)
    return load


def unit_reach(load: Real) -> Real:
    """Return the share of the bandwidth that simple kernels draw at a load per unit: ``1 / sqrt(1 + load^2)``."""
    share: Real = (1.0 + load * load) ** -0.5
    return share


def stream_limits(
    shape: StreamShape, silicon: Silicon, constants: StreamConstants, load: Real | None = None
) -> tuple[Array, Array]:
    """Return the seconds in which each call moves its bytes, and those beyond the smallest call in which a block walks its row.

    `load` is that of `unit_load`; None: as the card says.
    """
    if load is None:
        load = unit_load(silicon.bandwidth, silicon.compute_units, constants.unit_bandwidth)
    width, physics = np.maximum(shape.width, 1.0), silicon.physics
    spills = 1.0 / (1.0 + (as_array(constants.on_chip) / width) ** physics["spill_corner"])
    moved = shape.traffic + shape.tensor * constants.again * spills
    speedup = resident_bandwidth(shape.traffic, silicon, constants.cache_speedup, constants.cache_reach)
    drawn = constants.bandwidth * unit_reach(load)
    stream = moved / (silicon.bandwidth * drawn * speedup)
    short = shape.rows * constants.row / silicon.compute_units
    return corner(stream, short, physics["short_row_corner"]), as_array(shape.width * constants.walk)


def stream_time(shape: StreamShape, silicon: Silicon, constants: StreamConstants) -> Array:
    """Return the seconds of each call."""
    moving, walking = stream_limits(shape, silicon, constants)
    return corner(constants.floor + walking, moving, constants.sharpness)
