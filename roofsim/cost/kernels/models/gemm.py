"""Matrix products, single and batched: tiles, waves, split-k, cache residency.

A product ``C[m, n] = A[m, k] B[k, n]`` is cut into tiles, one per thread block; blocks run in waves over the compute
units. The library picks the best of several tile sizes and may split ``k`` over blocks. The wave staircase is sharp
on Volta, Ampere and Ada and nearly gone on Hopper, whose kernels are persistent: `Tiling.wave` says how sharp.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from roofsim.cost.kernels.models.silicon import Silicon, corner
from roofsim.numeric import Array, Real, is_scalar, on_distinct
from roofsim.records import dataclass, fields, replace
from roofsim.traced.points import as_array

#: Tile heights and widths (rows of A, columns of B) that the common libraries ship.
TILES: Final = np.array([(256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (32, 64), (64, 16)], float)
#: Ways over which k may be split.
SPLITS: Final = np.array([1, 2, 4, 8, 16], float)

_HEIGHT, _WIDTH, _SPLIT = (
    axis.ravel() for axis in np.broadcast_arrays(TILES[:, 0][:, None], TILES[:, 1][:, None], SPLITS[None, :])
)
#: Sum of the reciprocals of a tile's sides, over that of a 128 x 128 tile: operand bytes loaded per FLOP.
_THINNESS: Final = 64.0 * (1.0 / _HEIGHT + 1.0 / _WIDTH)
#: k is processed in steps of this many elements.
K_STEP: Final = 32.0
#: Bytes of a partial sum, which is kept in fp32.
PARTIAL_BYTES: Final = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """How the kernels of one generation cut a product.

    Attributes
    ----------
    thinness
        Slowdown of a tile per unit of operand traffic: rate falls as ``1 / (1 + thinness * 64 (1/height + 1/width))``,
        stated against an infinite tile.
    ramp
        Prologue and epilogue of a tile, in elements of k.
    wave
        Share of the last, partly filled wave that is wasted: 1 for one tile per block, 0 for perfectly balanced
        persistent kernels.
    reduction
        Extra cost of a tile when k is split, in elements of k.
    """

    thinness: Real
    ramp: Real
    wave: Real
    reduction: Real


def tile_efficiency(m: Real, n: Real, k: Real, batch: Real, compute_units: Real, tiling: Tiling) -> Real:
    """Return the share of the compute rate that is left after tile, wave and k quantisation, in (0, 1].

    Parameters
    ----------
    m, n, k, batch
        Sizes of the products; floats or arrays that broadcast.
    compute_units
        Streaming multiprocessors of the card.
    tiling
        Constants of the generation.

    Returns
    -------
    Real
        1 for an infinitely large product. A float when all sizes are floats.

    Examples
    --------
    One row more than eight waves hold starts a ninth:

    >>> tiling = Tiling(thinness=0.15, ramp=64.0, wave=1.0, reduction=64.0)
    >>> round(tile_efficiency(4608.0, 6144.0, 4096.0, 1.0, 108.0, tiling), 2)
    0.98
    >>> round(tile_efficiency(4609.0, 6144.0, 4096.0, 1.0, 108.0, tiling), 2)
    0.9
    """
    ideal = as_array(m) * n * k * batch / compute_units
    best = np.minimum(1.0, ideal / product_cost(m, n, k, batch, compute_units, tiling))
    return float(best) if is_scalar(m, n, k, batch, compute_units) else as_array(best)


def product_cost(m: Real, n: Real, k: Real, batch: Real, compute_units: Real, tiling: Tiling) -> Array:
    """Return the multiply-adds that the busiest compute unit has the time for, with the best tile and split."""
    names = [field.name for field in fields(Tiling)]
    constants = [getattr(tiling, name) for name in names]

    def least(m: Real, n: Real, k: Real, batch: Real, units: Real, *constants: Any) -> Array:
        cost, _, _ = _candidates(m, n, k, batch, units, Tiling(**dict(zip(names, constants, strict=True))))
        return as_array(cost.min(axis=-1))

    return as_array(on_distinct(least, [m, n, k, batch, compute_units, *constants]) / _reference(tiling))


def _reference(tiling: Tiling) -> Real:
    """Return the slowdown of the thickest tile, so that efficiency is 1 in the limit of large products."""
    return 1.0 + tiling.thinness * float(_THINNESS.min())


def _column(value: Real) -> Array:
    return as_array(value, dtype=np.float64)[..., None]


def _candidates(m: Real, n: Real, k: Real, batch: Real, units: Real, tiling: Tiling) -> tuple[Array, Array, Array]:
    """Return what each tile and split (last axis) would cost.

    Multiply-adds on the busiest compute unit, number of blocks, and partial sums moved, in fp32 images of C.
    """
    m_, n_, k_, batch_, units_ = (_column(size) for size in (m, n, k, batch, units))
    blocks = batch_ * np.ceil(m_ / _HEIGHT) * np.ceil(n_ / _WIDTH) * _SPLIT
    depth = np.ceil(k_ / (_SPLIT * K_STEP)) * K_STEP + _column(tiling.ramp)
    depth = depth + np.where(_SPLIT > 1.0, _column(tiling.reduction), 0.0)
    load = blocks / units_
    waves = np.maximum(load, 1.0) + _column(tiling.wave) * (np.ceil(load) - np.maximum(load, 1.0))
    cost = waves * (_HEIGHT * _WIDTH) * depth * (1.0 + _column(tiling.thinness) * _THINNESS)
    return cost, blocks, np.where(_SPLIT > 1.0, 2.0 * _SPLIT, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmConstants:
    """What the kernels of one (card, format, engine) achieve; every field may be an array.

    Attributes
    ----------
    floor
        Seconds of the smallest kernel, launch cost of the measuring engine included.
    compute
        Achieved share of the compute peak for large products.
    bandwidth
        Achieved share of the memory bandwidth.
    cache_speedup
        Bandwidth out of the last-level cache over that of device memory.
    cache_reach
        Working set that still stays resident, as a share of the cache.
    fill
        Bandwidth drawn by one block per compute unit, as a share of the whole.
    sharpness
        Exponent of the corner between compute and memory time; 1 adds them.
    quantise
        Bandwidth share of the pass that converts activations to a narrow format; infinite without such a pass.
    """

    floor: Real
    compute: Real
    bandwidth: Real
    cache_speedup: Real
    cache_reach: Real
    fill: Real
    sharpness: Real
    quantise: Real
    tiling: Tiling


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmShape:
    """Sizes of products and the bytes of one element of each operand."""

    m: Array
    n: Array
    k: Array
    batch: Array
    itemsize_a: Array
    itemsize_b: Array
    itemsize_c: Array

    def traffic(self) -> Array:
        """Return the bytes that must move when every operand is read or written once."""
        a = self.m * self.k * self.itemsize_a
        b = self.k * self.n * self.itemsize_b
        return self.batch * (a + b + self.m * self.n * self.itemsize_c)


def resident_bandwidth(traffic: Array, silicon: Silicon, speedup: Real, reach: Real) -> Array:
    """Return the bandwidth of a working set over that of device memory: 1 when large, `speedup` when it fits.

    The change is smooth around `reach` times the cache, since part of a slightly larger set still hits.
    """
    limit = np.maximum(as_array(reach) * silicon.cache, 1.0)
    hit = 1.0 / (1.0 + (traffic / limit) ** silicon.physics["residence_corner"])
    return as_array(1.0 / (hit / speedup + (1.0 - hit)))


def gemm_limits(shape: GemmShape, silicon: Silicon, constants: GemmConstants) -> tuple[Array, Array]:
    """Return the seconds of arithmetic and of traffic of each product, with the tile and split that are best together."""
    units = np.broadcast_to(as_array(silicon.compute_units, dtype=np.float64), shape.m.shape)
    cost, blocks, partial = _candidates(shape.m, shape.n, shape.k, shape.batch, units, constants.tiling)
    rate = as_array(silicon.peak * constants.compute * _reference(constants.tiling)) / (2.0 * units)
    compute = cost / _column(rate)
    memory = _moving(shape, silicon, constants, blocks / np.ceil(_column(shape.m) / _HEIGHT), partial)
    together = corner(compute, memory, _column(constants.sharpness))
    compute, memory = np.broadcast_arrays(compute, memory)
    best = together.argmin(axis=-1)[..., None]
    chosen = (np.take_along_axis(np.broadcast_to(limit, together.shape), best, axis=-1) for limit in (compute, memory))
    first, second = (limit[..., 0] for limit in chosen)
    return first, second


def _moving(shape: GemmShape, silicon: Silicon, constants: GemmConstants, beside: Array, partial: Array) -> Array:
    """Return the seconds of traffic with each tile and split (last axis), of which `beside` blocks lie beside each other.

    Blocks that do not fill the card draw a part of its bandwidth. A row of blocks more draws more, but a product takes no less
    time for a row more: no longer, that is, than one with the next row of blocks, or with so many that they fill the card.
    """
    units = _column(np.broadcast_to(as_array(silicon.compute_units, dtype=np.float64), shape.m.shape))
    m, n, k, batch = (_column(size) for size in (shape.m, shape.n, shape.k, shape.batch))
    drawn = _column(constants.fill) * beside / units
    full = np.maximum(m, (np.ceil(1.0 / drawn) - 1.0) * _HEIGHT + 1.0)
    weights = batch * k * n * _column(shape.itemsize_b)
    a_row = batch * (k * _column(shape.itemsize_a) + n * _column(shape.itemsize_c))
    bandwidth, card = _column(silicon.bandwidth * constants.bandwidth), replace(silicon, cache=_column(silicon.cache))
    fastest = np.inf
    for rows in (m, np.ceil(m / _HEIGHT) * _HEIGHT + 1.0, full):
        filled = np.minimum(1.0, drawn * np.ceil(rows / _HEIGHT))
        traffic = weights + a_row * rows
        held = resident_bandwidth(traffic, card, _column(constants.cache_speedup), _column(constants.cache_reach))
        fastest = np.minimum(
            fastest, (traffic + partial * (batch * rows * n * PARTIAL_BYTES)) / (bandwidth * held * filled)
        )
    return as_array(fastest)


def conversion_time(shape: GemmShape, silicon: Silicon, constants: GemmConstants) -> Array:
    """Return the seconds in which activations are converted to a narrow format; 0 where `quantise` is infinite."""
    image = shape.batch * shape.m * shape.k * (2.0 + shape.itemsize_a)
    return as_array(image / (silicon.bandwidth * as_array(constants.quantise)))


def gemm_time(shape: GemmShape, silicon: Silicon, constants: GemmConstants) -> Array:
    """Return the seconds of each product."""
    compute, memory = gemm_limits(shape, silicon, constants)
    best = corner(compute, memory, constants.sharpness)
    return as_array(constants.floor + best + conversion_time(shape, silicon, constants))
