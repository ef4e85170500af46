"""Kernels limited by memory: element-wise, normalization, softmax, table look-up."""

from __future__ import annotations

import numpy as np

from roofsim.cost.kernels.models.gemm import resident_bandwidth
from roofsim.cost.kernels.models.silicon import Silicon, corner
from roofsim.numeric import Array, Real
from roofsim.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamShape:
    """Sizes of memory-bound calls.

    Attributes
    ----------
    rows, width
        The tensor: a normalization or softmax works along `width`.
    passes
        Tensors of that size read or written when each is touched once.
    itemsize
        Bytes per element.
    """

    rows: Array
    width: Array
    passes: Array
    itemsize: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConstants:
    """What memory-bound kernels achieve; every field may be an array.

    Attributes
    ----------
    floor
        Seconds of the smallest call.
    bandwidth
        Share of the memory bandwidth for large tensors.
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
    cache_speedup: Real = 2.5
    cache_reach: Real = 0.7
    row: Real = 0.0
    walk: Real = 0.0
    again: Real = 0.0
    on_chip: Real = 4096.0
    sharpness: Real = 1.5


def stream_time(shape: StreamShape, silicon: Silicon, constants: StreamConstants) -> Array:
    """Return the seconds of each call."""
    tensor = shape.rows * shape.width * shape.itemsize
    traffic = tensor * shape.passes
    spills = 1.0 / (1.0 + (np.asarray(constants.on_chip) / (shape.width * shape.itemsize)) ** 8)
    moved = traffic + tensor * constants.again * spills
    speedup = resident_bandwidth(traffic, silicon, constants.cache_speedup, constants.cache_reach)
    stream = moved / (silicon.bandwidth * constants.bandwidth * speedup)
    short = shape.rows * constants.row / silicon.compute_units
    floor = constants.floor + shape.width * shape.itemsize * constants.walk
    return corner(floor, corner(stream, short, 3.0), constants.sharpness)
