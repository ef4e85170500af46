"""Mixture-of-experts layers: two grouped products over the experts that a batch wakes, and moving tokens around."""

from __future__ import annotations

from typing import Final

import numpy as np

from roofsim.cost.kernels.models.gemm import resident_bandwidth
from roofsim.cost.kernels.models.silicon import Silicon, corner
from roofsim.numeric import Array, Real
from roofsim.records import dataclass
from roofsim.traced.points import as_array

#: Bytes per element of tokens on their way to experts and back.
PERMUTE_BYTES: Final = 2.0


def active_experts(tokens: Real, experts: Real, chosen: Real, local: Real) -> Array:
    """Return how many of `local` experts (of `experts` in all) get at least one token, expected over even routing.

    >>> float(active_experts(1.0, 128.0, 8.0, 128.0))
    8.0
    """
    missed = np.exp(as_array(tokens) * np.log1p(-np.minimum(chosen / as_array(experts), 1.0 - 1e-12)))
    return as_array(local * (1.0 - missed))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertShape:
    """Sizes of expert layers.

    Attributes
    ----------
    tokens
        Tokens of the batch, before routing.
    hidden, intermediate
        Width of the model, and of one expert on this card.
    experts, chosen, local
        Experts in all, per token, and on this card.
    up, down
        Products of ``hidden x intermediate`` that lead up (2 with a gate) and down.
    skew
        0 for balanced routing; else the exponent of a power law of loads.
    whole
        1 for a whole layer with permutations, 0 for bare grouped products.
    itemsize_a, itemsize_b
        Bytes per element of activations in the products, and of weights.
    """

    tokens: Array
    hidden: Array
    intermediate: Array
    experts: Array
    chosen: Array
    local: Array
    up: Array
    down: Array
    skew: Array
    whole: Array
    itemsize_a: Array
    itemsize_b: Array

    def routed(self) -> Array:
        """Return (token, expert) pairs that land on this card."""
        return self.tokens * self.chosen * self.local / self.experts

    def products(self) -> tuple[tuple[Array, Array], ...]:
        """Return columns and depth of the products that lead up and down; no columns where there is none."""
        return (self.up * self.intermediate, self.hidden), (self.down * self.hidden, self.intermediate)

    def weights(self) -> Array:
        """Return the weights of an expert."""
        return self.hidden * self.intermediate * (self.up + self.down)

    def flops(self) -> Array:
        """Return FLOPs without padding."""
        return 2.0 * self.routed() * self.weights()

    def weight_bytes(self, active: Array) -> Array:
        """Return bytes of the weights of `active` experts."""
        return active * self.weights() * self.itemsize_b


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertConstants:
    """What expert layers achieve; every field may be an array.

    Attributes
    ----------
    floor
        Seconds of the smallest layer: routing, permutations and two products.
    compute, bandwidth
        Shares of matrix peak and memory bandwidth.
    tile
        Rows to which the tokens of each expert are padded.
    width
        Columns of one tile: with the number of experts it decides how many compute units work.
    fill
        Bandwidth that one block per compute unit draws, as a share of the whole.
    expert
        Seconds per active expert and compute unit: scheduling of a group.
    permute
        Passes over the routed tokens, in and out of expert order, in 16 bits.
    imbalance
        Load of the busiest card over the mean, against a Gaussian estimate; with skewed routing only.
    asleep
        Share of the experts asleep by chance that a power law adds.
    cache_speedup, cache_reach, sharpness
        As in `GemmConstants`.
    """

    floor: Real
    compute: Real
    bandwidth: Real
    tile: Real
    width: Real
    fill: Real
    expert: Real
    permute: Real
    imbalance: Real
    asleep: Real
    cache_speedup: Real
    cache_reach: Real
    sharpness: Real


def expert_time(shape: ExpertShape, silicon: Silicon, constants: ExpertConstants) -> Array:
    """Return the seconds of each layer, on the card with most work where routing is skewed."""
    compute, memory, moved = expert_limits(shape, silicon, constants)
    return as_array(constants.floor + corner(compute, memory, constants.sharpness) + moved)


def expert_limits(shape: ExpertShape, silicon: Silicon, constants: ExpertConstants) -> tuple[Array, Array, Array]:
    """Return the seconds of arithmetic, of reading weights and rows, and of permutations and scheduling."""
    skewed = shape.skew > 0.0
    routed = shape.routed() * np.where(
        skewed, 1.0 + constants.imbalance * busiest(shape, silicon.physics["expert_load_variance"]), 1.0
    )
    even = active_experts(shape.tokens, shape.experts, shape.chosen, shape.local)
    # Balanced routing wakes as many experts as it can, a power law fewer than chance.
    asleep = constants.asleep * even * (1.0 - even / shape.local)
    active = np.where(skewed, even - asleep, np.minimum(shape.routed(), shape.local))
    # A token takes so many different experts, however skewed its choice.
    active = np.maximum(active, np.minimum(shape.routed(), shape.chosen * shape.local / shape.experts))
    active = np.maximum(active, np.minimum(1.0, shape.routed()))
    routed = np.maximum(routed, active)
    # A partly filled tile costs a whole one: half a tile per expert when loads vary, none extra below one tile.
    each = routed / active / constants.tile
    padded = active * constants.tile * np.where(skewed, np.maximum(each + 0.5, 1.0), np.ceil(each))
    compute, memory = np.zeros(()), np.zeros(())
    for columns, depth in shape.products():
        own = _product_limits(shape, columns, depth, (active, padded, routed), silicon, constants)
        compute, memory = compute + own[0], memory + own[1]
    bandwidth = silicon.bandwidth * constants.bandwidth
    moved = shape.whole * constants.permute * routed * shape.hidden * PERMUTE_BYTES / bandwidth
    return as_array(compute), as_array(memory), as_array(moved + constants.expert * active)


def _product_limits(
    shape: ExpertShape,
    columns: Array,
    depth: Array,
    woken: tuple[Array, Array, Array],
    silicon: Silicon,
    constants: ExpertConstants,
) -> tuple[Array, Array]:
    """Return the seconds of arithmetic and of traffic of one product of all experts, which has a grid of its own.

    `woken` are experts with tokens, and rows of all of them with and without padding. A block draws what it keeps in flight over
    the latency, which a cache shortens by less than it speeds up a full card.
    """
    (active, padded, routed), grid = woken, silicon.physics["expert_grid_corner"]
    tiles = padded / constants.tile * np.maximum(columns / constants.width, 1.0)
    busy = 1.0 / corner(1.0, silicon.compute_units / tiles, grid)
    compute = 2.0 * padded * columns * depth / (silicon.peak * constants.compute * busy)
    speedup = resident_bandwidth(shape.weight_bytes(active), silicon, constants.cache_speedup, constants.cache_reach)
    near = np.minimum(speedup, silicon.physics["cached_latency"])
    drawn = as_array(constants.fill) * tiles / silicon.compute_units
    rows = routed * (shape.hidden + 2.0 * shape.intermediate) * shape.itemsize_a * columns * depth / shape.weights()
    cached = active * columns * depth * shape.itemsize_b * corner(1.0 / speedup, 1.0 / (drawn * near), grid)
    memory = (cached + rows * corner(1.0, 1.0 / drawn, grid)) / (silicon.bandwidth * constants.bandwidth)
    return as_array(compute), as_array(memory)


def busiest(shape: ExpertShape, least: float) -> Array:
    """Return how far the most loaded card lies above the mean under a power law of expert loads near exponent 1.

    Loads are then uniform in their logarithm up to about the number of tokens: their variance over the squared mean is
    ``ln(tokens) / 2 - 1``, and `least` at least. A card averages over its experts; the largest of R such means lies
    ``sqrt(2 ln R)`` deviations up. 0 when every expert is on this card.
    """
    spread = np.sqrt(np.maximum(np.log(np.maximum(shape.tokens, 2.0)) / 2.0 - 1.0, least) / shape.local)
    return as_array(spread * np.sqrt(2.0 * np.log(np.maximum(shape.experts / shape.local, 1.0))))
