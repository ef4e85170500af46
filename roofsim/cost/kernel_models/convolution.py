"""Convolutions: an implicit matrix product, or Winograd's algorithm for 3 x 3 kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from roofsim.cost.kernel_models.gemm import DEFAULT_TILING, Tiling, product_cost, resident_bandwidth
from roofsim.cost.kernel_models.silicon import Silicon, corner
from roofsim.numeric import Array, Real

#: Winograd F(4 x 4, 3 x 3): 36 products of single elements give 16 results of 144 products.
WINOGRAD_OUT: Final = 4.0
WINOGRAD_POINTS: Final = 36.0
#: Tiles of 4 x 4 pixels and output channels that one thread block of the fused kernel takes, all 36 points at once.
WINOGRAD_BLOCKS: Final = ((16.0, 32.0), (32.0, 32.0), (32.0, 64.0))
#: Input channels that such a block takes per step.
WINOGRAD_STEP: Final = 8.0
#: Channels up to which a first layer's kernels are used.
FEW_CHANNELS: Final = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionShape:
    """Sizes of dense two-dimensional convolutions.

    Attributes
    ----------
    height, width, out_height, out_width
        Size of the image before and after.
    kernel_area
        Taps of the kernel.
    square3, strided
        1 for a 3 x 3 kernel of stride 1, and for a stride above 1.
    """

    batch: Array
    in_channels: Array
    out_channels: Array
    height: Array
    width: Array
    out_height: Array
    out_width: Array
    kernel_area: Array
    square3: Array
    strided: Array
    itemsize: Array

    def image_bytes(self) -> Array:
        """Return bytes of the images read and written."""
        before = self.in_channels * self.height * self.width
        after = self.out_channels * self.out_height * self.out_width
        return self.batch * (before + after) * self.itemsize

    def traffic(self) -> Array:
        """Return bytes when images and weights move once."""
        return self.image_bytes() + self.in_channels * self.out_channels * self.kernel_area * self.itemsize

    def flops(self) -> Array:
        """Return FLOPs of the direct algorithm."""
        points = self.batch * self.out_height * self.out_width
        return 2.0 * points * self.out_channels * self.in_channels * self.kernel_area


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionConstants:
    """What convolution kernels achieve; every field may be an array.

    Attributes
    ----------
    floor, compute, bandwidth, cache_speedup, cache_reach, sharpness, tiling
        As in `GemmConstants`.
    winograd
        Rate of Winograd's products against those of the direct algorithm, transforms included; 0 where it is not used.
    winograd_ramp
        Prologue and epilogue of a Winograd block, in input channels.
    transforms
        Further kernels of Winograd's algorithm (weights, images), in floors.
    first_layer
        Factor on the rate when the image has at most four channels.
    stride
        Factor on the rate of strided kernels.
    transpose
        Share of a read and a write of both images spent on changing the layout.
    """

    floor: Real
    compute: Real
    bandwidth: Real
    winograd: Real = 0.8
    winograd_ramp: Real = 8.0
    transforms: Real = 0.5
    first_layer: Real = 0.45
    stride: Real = 0.9
    transpose: Real = 0.0
    cache_speedup: Real = 2.5
    cache_reach: Real = 0.7
    sharpness: Real = 3.0
    tiling: Tiling = DEFAULT_TILING


def convolution_time(shape: ConvolutionShape, silicon: Silicon, constants: ConvolutionConstants) -> Array:
    """Return the seconds of each forward convolution: the faster of the two algorithms."""
    rate = 2.0 / (np.asarray(silicon.peak * constants.compute) / silicon.compute_units)
    units, tiling = silicon.compute_units, constants.tiling
    points = shape.batch * shape.out_height * shape.out_width
    direct = product_cost(points, shape.out_channels, shape.in_channels * shape.kernel_area, 1.0, units, tiling)
    slowed = np.where(shape.in_channels <= FEW_CHANNELS, constants.first_layer, 1.0)
    slowed = slowed * np.where(shape.strided > 0.0, constants.stride, 1.0)
    usable = (shape.square3 > 0.0) & (shape.in_channels > FEW_CHANNELS) & (np.asarray(constants.winograd) > 0.0)
    fast = _winograd_cost(shape, units, constants) / np.maximum(constants.winograd, 1e-3)
    traffic = shape.traffic()
    bandwidth = silicon.bandwidth * constants.bandwidth
    speedup = resident_bandwidth(traffic, silicon.cache, constants.cache_speedup, constants.cache_reach)
    memory = traffic / (bandwidth * speedup)
    layout = 2.0 * constants.transpose * shape.image_bytes() / bandwidth
    plain = constants.floor + corner(direct / slowed * rate, memory, constants.sharpness)
    winograd = constants.floor * (1.0 + constants.transforms) + corner(fast * rate, memory, constants.sharpness)
    return np.asarray(np.where(usable, np.minimum(plain, winograd), plain) + layout)


def _winograd_cost(shape: ConvolutionShape, units: Real, constants: ConvolutionConstants) -> Array:
    """Return the multiply-adds that the busiest compute unit has the time for, in the best blocking."""
    rows, columns = np.ceil(shape.out_height / WINOGRAD_OUT), np.ceil(shape.out_width / WINOGRAD_OUT)
    depth = np.ceil(shape.in_channels / WINOGRAD_STEP) * WINOGRAD_STEP + constants.winograd_ramp
    costs = []
    for tiles, channels in WINOGRAD_BLOCKS:
        blocks = np.ceil(shape.batch * rows * columns / tiles) * np.ceil(shape.out_channels / channels)
        load = blocks / units
        waves = np.maximum(load, 1.0) + constants.tiling.wave * (np.ceil(load) - np.maximum(load, 1.0))
        costs.append(waves * WINOGRAD_POINTS * tiles * channels * depth)
    return np.asarray(np.minimum.reduce(costs))
