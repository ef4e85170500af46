"""Fused attention: prefill as tiles of query rows over compute units, decode as a read of the cache."""

from __future__ import annotations

from typing import Final

import numpy as np

from roofsim.cost.kernels.models.gemm import resident_bandwidth
from roofsim.cost.kernels.models.silicon import Silicon, corner
from roofsim.numeric import Array, Real
from roofsim.records import dataclass
from roofsim.traced.points import as_array

#: Query rows of one tile, in all common kernels.
QUERY_TILE: Final = 128.0
#: Rows to which the heads that share one key head are padded in decode: the height of a matrix instruction.
GROUP_TILE: Final = 16.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionShape:
    """Sizes of attention calls, one per entry.

    Attributes
    ----------
    query, context
        New tokens, and keys including those cached before.
    head_dim, value_dim
        Width of a key and of a value head. With one latent cache for both (`latent`) values are a part of the keys.
    window
        Keys that a query sees at most; infinite without a window.
    causal
        1 where a query sees no later keys, else 0.
    itemsize, cache_itemsize
        Bytes per element of queries and of the key-value cache.
    seen
        Mean number of keys that a query sees, where that is not what mask and window say (queries of one of several ranks).
    """

    batch: Array
    heads: Array
    key_heads: Array
    query: Array
    context: Array
    head_dim: Array
    value_dim: Array
    window: Array
    causal: Array
    latent: Array
    itemsize: Array
    cache_itemsize: Array
    seen: Array | None = None

    def cached_bytes(self) -> Array:
        """Return bytes of keys and values that a call reads once; a window cuts them."""
        seen = np.minimum(self.context, np.minimum(self.window, self.context) + self.query)
        width = self.head_dim + np.where(self.latent > 0.0, 0.0, self.value_dim)
        return self.batch * self.key_heads * seen * width * self.cache_itemsize

    def query_bytes(self) -> Array:
        """Return bytes of queries read and results written."""
        return self.batch * self.heads * self.query * (self.head_dim + self.value_dim) * self.itemsize

    def mean_keys(self) -> Array:
        """Return the mean number of keys that a query sees, causal mask and window applied.

        With a mask the i-th of q queries sees ``context - q + i`` keys, at most `window` of them.
        """
        if self.seen is not None:
            return self.seen
        first = self.context - self.query
        capped = np.clip(self.window, first, self.context)
        masked = ((capped**2 - first**2) / 2.0 + np.minimum(self.window, capped) * (self.context - capped)) / self.query
        masked = np.where(self.window <= first, np.minimum(self.window, self.context), masked)
        return np.where(self.causal > 0.0, masked, np.minimum(self.window, self.context))


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillConstants:
    """What fused prefill kernels achieve; every field may be an array.

    Attributes
    ----------
    floor
        Seconds of the smallest call.
    compute
        Share of the matrix peak in the limit of long rows and wide heads.
    bandwidth
        Share of the memory bandwidth.
    softmax
        Clocks that a compute unit's ordinary units need per score; those that matrix units do not wait for do not count.
    ramp
        Prologue and epilogue of a tile, in keys.
    balance
        Exponent of the corner between the mean load of a compute unit and the longest tile: large when tiles are
        scheduled longest first.
    sharpness
        Exponent of the corner between compute and memory time.
    """

    floor: Real
    compute: Real
    bandwidth: Real
    softmax: Real
    ramp: Real
    balance: Real
    sharpness: Real


def prefill_time(shape: AttentionShape, silicon: Silicon, constants: PrefillConstants) -> Array:
    """Return the seconds of each call."""
    compute, memory = prefill_limits(shape, silicon, constants)
    return as_array(constants.floor + corner(compute, memory, constants.sharpness))


def prefill_limits(shape: AttentionShape, silicon: Silicon, constants: PrefillConstants) -> tuple[Array, Array]:
    """Return the seconds of arithmetic and of traffic of each call.

    Tiles of 128 query rows go to compute units. A causal tile reads its keys up to the diagonal, half a tile more than
    the mean row sees.
    """
    tiles = shape.batch * shape.heads * np.ceil(shape.query / QUERY_TILE)
    reach = np.minimum(np.minimum(shape.window, shape.context) + QUERY_TILE, shape.context)
    mean = np.minimum(shape.mean_keys() + np.where(shape.causal > 0.0, QUERY_TILE / 2.0, 0.0), reach)
    per_key = QUERY_TILE * (2.0 * (shape.head_dim + shape.value_dim) + constants.softmax * silicon.per_clock)
    rate = silicon.peak * constants.compute / silicon.compute_units
    load = tiles * (mean + constants.ramp) / silicon.compute_units
    compute = corner(load, reach + constants.ramp, constants.balance) * per_key / rate
    memory = (shape.cached_bytes() + shape.query_bytes()) / (silicon.bandwidth * constants.bandwidth)
    return as_array(compute), as_array(memory)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeConstants:
    """What decode kernels achieve; every field may be an array.

    Attributes
    ----------
    floor
        Seconds of the smallest call, wrapper kernels included.
    bandwidth
        Share of the memory bandwidth that a full grid draws.
    compute
        Share of the matrix peak, of work padded to 16 heads per key head.
    chunk
        Keys that one block reads before the cache is split over more blocks.
    fill
        Bandwidth that one block per compute unit draws, as a share of the whole.
    block
        Seconds that a compute unit spends on starting and ending one sequence and key head.
    cache_speedup, cache_reach
        As in `GemmConstants`.
    sharpness
        Exponent of the corner between compute and memory time.
    """

    floor: Real
    bandwidth: Real
    compute: Real
    chunk: Real
    fill: Real
    block: Real
    cache_speedup: Real
    cache_reach: Real
    sharpness: Real


def decode_time(shape: AttentionShape, silicon: Silicon, constants: DecodeConstants) -> Array:
    """Return the seconds of each call."""
    compute, memory = decode_limits(shape, silicon, constants)
    return as_array(constants.floor + corner(compute, memory, constants.sharpness))


def decode_limits(shape: AttentionShape, silicon: Silicon, constants: DecodeConstants) -> tuple[Array, Array]:
    """Return the seconds of arithmetic and of traffic of each call: a read of the cache by blocks that split contexts."""
    traffic, physics = shape.cached_bytes(), silicon.physics
    keys = np.minimum(shape.context, shape.window)
    streams = shape.batch * shape.key_heads
    blocks = streams * np.maximum(1.0, keys / constants.chunk)
    drawn = silicon.compute_units / (as_array(constants.fill) * blocks)
    filled = 1.0 / corner(1.0, drawn, physics["decode_grid_corner"])
    speedup = resident_bandwidth(traffic, silicon, constants.cache_speedup, constants.cache_reach)
    memory = (traffic / speedup + shape.query_bytes()) / (silicon.bandwidth * constants.bandwidth * filled)
    # Blocks that share a unit start and end behind each other's loads, so that the larger of both decides.
    memory = corner(memory, constants.block * streams / silicon.compute_units, physics["decode_start_corner"])
    group = np.ceil(shape.query * shape.heads / shape.key_heads / GROUP_TILE) * GROUP_TILE
    flops = 2.0 * streams * group * keys * (shape.head_dim + shape.value_dim)
    compute = flops / (silicon.peak * constants.compute * filled)
    return as_array(compute), as_array(memory)
