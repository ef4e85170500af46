"""Matrix products, single and batched: tiles, waves, split-k, cache residency.

A product ``C[m, n] = A[m, k] B[k, n]`` is cut into tiles, one per thread block; blocks run in waves over the compute
units. The library picks the best of several tile sizes and may split ``k`` over blocks. The wave staircase is sharp
on Volta, Ampere and Ada and nearly gone on Hopper, whose kernels are persistent: `Tiling.wave` says how sharp.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from roofsim.cost.kernels.models.silicon import Silicon, corner
from roofsim.numeric import Array, Real, is_scalar, on_distinct
from roofsim.records import dataclass, fields, replace
from roofsim.traced.points import as_array, noted, widest

#: Tile heights and widths (rows of A, columns of B) that the common libraries ship.
TILES: Final = np.array([(256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (32, 64), (64, 16)], float)
#: Ways over which k may be split.
SPLITS: Final = np.array([1, 2, 4, 8, 16], float)

_HEIGHT, _WIDTH, _SPLIT = (
    axis.ravel() for axis in np.broadcast_arrays(TILES[:, 0][:, None], TILES[:, 1][:, None], SPLITS[None, :])
)
#: Images of C, of partial sums, that are moved.
_PARTIAL: Final = np.where(_SPLIT > 1.0, 2.0 * _SPLIT, 0.0)
#: Sum of the reciprocals of a tile's sides, over that of a 128 x 128 tile: operand bytes loaded per FLOP.
_THINNESS: Final = 64.0 * (1.0 / _HEIGHT + 1.0 / _WIDTH)
#: k is processed in steps of this many elements.
K_STEP: Final = 32.0
#: Candidates that are seldom exceeded by those that none beats in both arithmetic and traffic.
_FEW: Final = 8
#: Products of which all candidates are worked out at once.
_AT_ONCE: Final = 4096
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

    def least(*numbers: Any) -> Array:
        shape = np.broadcast_shapes(*map(np.shape, numbers))
        if len(shape) < 2 or math.prod(shape) < _AT_ONCE:
            return least_of(*numbers)
        # One row after the other: all candidates of all of them would leave the processor's cache.
        rows = zip(*(np.broadcast_to(each, shape) for each in numbers), strict=True)
        return np.stack([least_of(*each) for each in rows])

    def least_of(m: Real, n: Real, k: Real, batch: Real, units: Real, *constants: Any) -> Array:
        cost = _costs(m, n, k, batch, units, Tiling(**dict(zip(names, constants, strict=True))))
        return as_array(cost.min(axis=-1))

    return as_array(on_distinct(least, [m, n, k, batch, compute_units, *constants]) / _reference(tiling))


def _reference(tiling: Tiling) -> Real:
    """Return the slowdown of the thickest tile, so that efficiency is 1 in the limit of large products."""
    return 1.0 + tiling.thinness * float(_THINNESS.min())


def _column(value: Real) -> Array:
    return as_array(value, dtype=np.float64)[..., None]


@noted
def _costs(m: Real, n: Real, k: Real, batch: Real, units: Real, tiling: Tiling) -> Array:
    """Return the multiply-adds on the busiest compute unit with each tile and split (last axis)."""
    k_ = _column(k)
    depth = np.ceil(k_ / (_SPLIT * K_STEP)) * K_STEP + _column(tiling.ramp)
    depth = depth + np.where(_SPLIT > 1.0, _column(tiling.reduction), 0.0)
    load = _blocks(m, n, batch) / _column(units)
    waves = np.maximum(load, 1.0) + _column(tiling.wave) * (np.ceil(load) - np.maximum(load, 1.0))
    return as_array(waves * (_HEIGHT * _WIDTH) * depth * (1.0 + _column(tiling.thinness) * _THINNESS))


def _blocks(m: Real, n: Real, batch: Real) -> Array:
    """Return the number of blocks with each tile and split (last axis)."""
    return as_array(_column(batch) * np.ceil(_column(m) / _HEIGHT) * np.ceil(_column(n) / _WIDTH) * _SPLIT)


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
    units = as_array(silicon.compute_units, dtype=np.float64)
    cost = _costs(shape.m, shape.n, shape.k, shape.batch, units, constants.tiling)
    # What the rates of a card change is left out of it: what depends on sizes alone is worked out once for all rates.
    card = replace(silicon, peak=1.0, bandwidth=1.0, per_clock=1.0)
    moved = _moving(shape, card, constants.fill, constants.cache_speedup, constants.cache_reach)
    few, left = _unbeaten(cost, moved, _FEW)
    if (most := widest(left)) > _FEW:
        few, _ = _unbeaten(cost, moved, len(_SPLIT))
    rate = as_array(silicon.peak * constants.compute * _reference(constants.tiling)) / (2.0 * units)
    compute, memory = few[0, :most] / rate, few[1, :most] / (silicon.bandwidth * constants.bandwidth)
    together = corner(compute, memory, constants.sharpness)
    best, first, second = together[0], compute[0], memory[0]
    for place in range(1, most):
        better = together[place] < best
        best, first = np.where(better, together[place], best), np.where(better, compute[place], first)
        second = np.where(better, memory[place], second)
    return first, second


@noted
def _unbeaten(cost: Array, moved: Array, most: int) -> tuple[Array, Array]:
    """Return what so many candidates compute and move, those first that none beats in both, and how many these are.

    Candidates are on the last axis, and on the second of the result, behind what they compute and what they move. Rates change what
    both take, and not which is beaten: the fastest at any rates is among the others.
    """
    cost, moved = np.broadcast_arrays(cost, moved)
    if cost.ndim > 2 and cost.size > len(_SPLIT) * _AT_ONCE:  # as in `product_cost`
        rows = [_unbeaten(*each, most) for each in zip(cost, moved, strict=True)]
        return np.stack([few for few, _ in rows], axis=2), np.stack([left for _, left in rows])
    order = np.lexsort((cost, moved))
    both = np.stack([np.take_along_axis(cost, order, axis=-1), np.take_along_axis(moved, order, axis=-1)])
    beaten = np.zeros(cost.shape, dtype=bool)
    beaten[..., 1:] = both[0][..., 1:] >= np.minimum.accumulate(both[0], axis=-1)[..., :-1]
    order = np.argsort(beaten, axis=-1, kind="stable")[..., :most]
    few = np.take_along_axis(both, order[None], axis=-1)
    return np.ascontiguousarray(np.moveaxis(few, -1, 1)), np.asarray((~beaten).sum(axis=-1))


@noted
def _moving(shape: GemmShape, silicon: Silicon, fill: Real, speedup: Real, reach: Real) -> Array:
    """Return the traffic with each tile and split (last axis): what would move in the same time at the bandwidth of products.

    Blocks that do not fill the card draw a part of its bandwidth. A row of blocks more draws more, but a product takes no less
    time for a row more: no longer, that is, than one with the next row of blocks, or with so many that they fill the card.
    """
    units = _column(silicon.compute_units)
    m, n, k, batch = (_column(size) for size in (shape.m, shape.n, shape.k, shape.batch))
    drawn = _column(fill) * (_blocks(shape.m, shape.n, shape.batch) / np.ceil(m / _HEIGHT)) / units
    full = np.maximum(m, (np.ceil(1.0 / drawn) - 1.0) * _HEIGHT + 1.0)
    weights = batch * k * n * _column(shape.itemsize_b)
    a_row = batch * (k * _column(shape.itemsize_a) + n * _column(shape.itemsize_c))
    card = replace(silicon, cache=_column(silicon.cache))
    fastest = np.inf
    for rows in (m, np.ceil(m / _HEIGHT) * _HEIGHT + 1.0, full):
        filled = np.minimum(1.0, drawn * np.ceil(rows / _HEIGHT))
        traffic = weights + a_row * rows
        held = resident_bandwidth(traffic, card, _column(speedup), _column(reach))
        fastest = np.minimum(fastest, (traffic + _PARTIAL * (batch * rows * n * PARTIAL_BYTES)) / (held * filled))
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
