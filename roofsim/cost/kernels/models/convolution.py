"""Forward convolutions: the fastest of an implicit product, two kinds of Winograd's algorithm, and Fourier transforms.

What each algorithm launches and how its blocks cut the work follows cuDNN's kernels, whose names and grids NeuSight
(github.com/sitar-lab/NeuSight, ``data``) published with their times. Frameworks time the algorithms and keep the fastest.

- implicit product: tiles over pixels x output channels, depth input channels x taps, never split; a small kernel before it
  computes offsets.
- fused Winograd, F(2 x 2, 3 x 3): a block takes 32 patches of 2 x 2 pixels and 32 output channels through all 16 points.
- staged Winograd, F(4 x 4, 3 x 3): kernels that transform images and weights, one product for each of 36 points, a kernel
  that transforms back.
- Fourier: the same stages, over tiles of 16 x 16 or 32 x 32 pixels, with complex products for each frequency.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from roofsim.cost.kernels.models.gemm import resident_bandwidth
from roofsim.cost.kernels.models.silicon import Silicon, corner
from roofsim.numeric import Array, Real
from roofsim.records import dataclass

#: Pixels and output channels of a block: of implicit products, of the products of Winograd points, of Fourier products.
TILES: Final = np.array([(128, 128), (128, 64), (128, 32), (32, 32)], float)
POINT_TILES: Final = np.array([(128, 128), (128, 64), (64, 64), (32, 128)], float)
COMPLEX_TILES: Final = np.array([(64, 64), (64, 32), (32, 64)], float)
#: Narrowest tile of matrix units.
MATRIX_WIDTH: Final = 64.0
#: Images, rows and columns of pixels that a block of the fused Winograd kernels covers, with 32 output channels.
PATCHES: Final = np.array([(1, 8, 16), (2, 8, 8), (2, 4, 16), (4, 8, 4), (4, 4, 8)], float)
FUSED_CHANNELS: Final = 32.0
#: Products per input and output channel of such a block: 32 patches x 32 channels x 16 points.
FUSED_AREA: Final = 16384.0
FUSED_POINTS: Final = 16.0
#: Pixels a side that a patch of staged Winograd gives, and its points.
STAGED_SIDE: Final = 4.0
STAGED_POINTS: Final = 36.0
#: Sides of the tiles of Fourier transforms; real input leaves side / 2 + 1 frequencies of a row.
FOURIER_SIDES: Final = (16.0, 32.0)
#: Real multiply-adds of a complex one, and bytes of a complex number of fp32.
COMPLEX: Final = 4.0
COMPLEX_BYTES: Final = 8.0
#: Depth is processed in steps of this many elements.
STEP: Final = 8.0
#: Multiply-adds of a 128 x 128 tile per element of depth: the block that `latency` is stated against.
FULL_BLOCK: Final = 16384.0
#: Input channels are padded to this many bytes for matrix units.
ALIGNMENT: Final = 16.0
#: Channels up to which a first layer's kernels are used.
FEW_CHANNELS: Final = 4.0
#: Kernels that staged algorithms launch beyond those of the others.
STAGED_LAUNCHES: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionShape:
    """Sizes of dense two-dimensional convolutions.

    Attributes
    ----------
    height, width, out_height, out_width
        Size of the image before and after.
    kernel_height, kernel_width, stride
        Taps and step of the kernel.
    matrix
        1 where matrix units do the products: these want channels in blocks of 16 bytes, and have neither fused Winograd nor
        Fourier kernels.
    planned
        Other shapes for which the same process had chosen and kept an algorithm before.
    """

    batch: Array
    in_channels: Array
    out_channels: Array
    height: Array
    width: Array
    out_height: Array
    out_width: Array
    kernel_height: Array
    kernel_width: Array
    stride: Array
    itemsize: Array
    matrix: Array
    planned: Array

    def taps(self) -> Array:
        """Return the taps of the kernel."""
        return self.kernel_height * self.kernel_width

    def pixels(self) -> Array:
        """Return pixels of all images after."""
        return self.batch * self.out_height * self.out_width

    def image_bytes(self) -> Array:
        """Return bytes of the images read and written; rows that the stride skips are not read."""
        rows = np.minimum(self.height, self.out_height * self.kernel_height)
        before = self.in_channels * rows * self.width
        after = self.out_channels * self.out_height * self.out_width
        return self.batch * (before + after) * self.itemsize

    def weight_bytes(self) -> Array:
        """Return bytes of the weights."""
        return self.in_channels * self.out_channels * self.taps() * self.itemsize

    def traffic(self) -> Array:
        """Return bytes when images and weights move once."""
        return self.image_bytes() + self.weight_bytes()

    def flops(self) -> Array:
        """Return FLOPs of the direct algorithm."""
        return 2.0 * self.pixels() * self.out_channels * self.in_channels * self.taps()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionConstants:
    """What convolution kernels achieve; every field may be an array.

    Attributes
    ----------
    floor
        Seconds of the smallest call in a process without other shapes, launch cost of the measuring engine included.
    compute, bandwidth
        Achieved share of the compute peak by large implicit products, and of the memory bandwidth.
    doubling, growth
        Shapes planned in one process at which the host's time of a call has doubled, and the exponent of that growth (seen
        in NeuSight's sweep; likely the plans that PyTorch keeps).
    launch
        One more kernel within a call, in floors.
    thinness, ramp, wave
        As in `Tiling`, but thinness is stated against a tile of 128 x 128.
    latency
        Time of a step of depth on a compute unit with a single small block, against that of a 128 x 128 tile at full rate.
    winograd
        Rate of the fused Winograd products, transforms of images included, against that of implicit products.
    weights, images
        Share of `bandwidth` that the kernels transforming weights, and images, achieve.
    first_layer
        Factor on the rate when the image has at most four channels.
    stride
        Factor on the rate of strided kernels.
    transpose
        Share of a read and a write of both images spent on changing the layout.
    cache_speedup, cache_reach, sharpness
        As in `GemmConstants`.
    """

    floor: Real
    compute: Real
    bandwidth: Real
    doubling: Real = 1300.0
    growth: Real = 1.45
    launch: Real = 0.1
    thinness: Real = 0.35
    ramp: Real = 14.0
    wave: Real = 0.55
    latency: Real = 0.7
    winograd: Real = 0.82
    weights: Real = 0.4
    images: Real = 0.65
    first_layer: Real = 0.6
    stride: Real = 0.9
    transpose: Real = 0.05
    cache_speedup: Real = 2.5
    cache_reach: Real = 0.7
    sharpness: Real = 4.0


def convolution_time(shape: ConvolutionShape, silicon: Silicon, constants: ConvolutionConstants) -> Array:
    """Return the seconds of each forward convolution by the fastest algorithm."""
    host = constants.floor * (1.0 + (shape.planned / constants.doubling) ** constants.growth)
    layout = 2.0 * constants.transpose * shape.image_bytes() / (silicon.bandwidth * constants.bandwidth)
    return np.asarray(host + algorithm_times(shape, silicon, constants).min(axis=0) + layout)


def algorithm_times(shape: ConvolutionShape, silicon: Silicon, constants: ConvolutionConstants) -> Array:
    """Return the seconds of each algorithm on the device (first axis), infinite where it does not apply.

    In order: implicit product, fused Winograd, staged Winograd, Fourier over tiles of 16 and of 32 pixels.
    """
    call = _Call(shape, silicon, constants)
    vector = (shape.matrix == 0.0) & (shape.stride == 1.0)
    square = (shape.kernel_height == 3.0) & (shape.kernel_width == 3.0) & (shape.stride == 1.0)
    times = [
        call.implicit(),
        np.where(square & vector, call.fused_winograd(), np.inf),
        np.where(square, call.staged_winograd(), np.inf),
    ]
    for side in FOURIER_SIDES:
        usable = vector & (shape.taps() > 1.0) & (np.maximum(shape.kernel_height, shape.kernel_width) < side)
        times.append(np.where(usable, call.fourier(side), np.inf))
    return np.stack(times)


class _Call:
    """Convolutions on cards: what each algorithm takes."""

    def __init__(self, shape: ConvolutionShape, silicon: Silicon, constants: ConvolutionConstants) -> None:
        self.shape, self.constants = shape, constants
        self.units = np.broadcast_to(np.asarray(silicon.compute_units, dtype=np.float64), shape.batch.shape)
        #: Seconds of a multiply-add on one compute unit.
        self.beat = 2.0 * self.units / np.asarray(silicon.peak * constants.compute)
        self.bandwidth = silicon.bandwidth * constants.bandwidth
        self.silicon = silicon

    def implicit(self) -> Array:
        """Return the seconds of the implicit product."""
        shape, constants = self.shape, self.constants
        matrix = shape.matrix > 0.0
        aligned = np.ceil(shape.in_channels * shape.itemsize / ALIGNMENT) * ALIGNMENT / shape.itemsize
        depth = np.where(matrix, aligned, shape.in_channels) * shape.taps()
        costs = self._products(shape.pixels(), shape.out_channels, depth, 1.0, TILES)
        costs = np.where(matrix[..., None] & (TILES[:, 1] < MATRIX_WIDTH), np.inf, costs)
        slowed = np.where(shape.in_channels <= FEW_CHANNELS, constants.first_layer, 1.0)
        slowed = slowed * np.where(shape.stride > 1.0, constants.stride, 1.0)
        return corner(costs.min(axis=-1) / slowed * self.beat, self._moved(shape.traffic()), constants.sharpness)

    def fused_winograd(self) -> Array:
        """Return the seconds of the kernel that transforms weights and of the one that does the rest."""
        shape, constants = self.shape, self.constants
        images, rows, columns = PATCHES.T
        blocks = np.ceil(_column(shape.batch) / images) * np.ceil(_column(shape.out_height) / rows)
        blocks = blocks * np.ceil(_column(shape.out_width) / columns)
        blocks = blocks * np.ceil(_column(shape.out_channels) / FUSED_CHANNELS)
        cost = self._busiest(blocks, np.full(len(PATCHES), FUSED_AREA), shape.in_channels).min(axis=-1)
        single = shape.weight_bytes() / shape.taps()
        memory = self._moved(shape.image_bytes() + FUSED_POINTS * single)
        product = corner(cost / constants.winograd * self.beat, memory, constants.sharpness)
        return np.asarray(product + self._weights_transformed(FUSED_POINTS * single))

    def staged_winograd(self) -> Array:
        """Return the seconds of Winograd's algorithm with transformed images in memory."""
        shape = self.shape
        patches = shape.batch * np.ceil(shape.out_height / STAGED_SIDE) * np.ceil(shape.out_width / STAGED_SIDE)
        return self._staged(patches, STAGED_POINTS, shape.itemsize, 1.0, POINT_TILES)

    def fourier(self, side: float) -> Array:
        """Return the seconds of convolutions by Fourier transforms over tiles of some side."""
        shape = self.shape
        rows = np.maximum(side + 1.0 - shape.kernel_height, 1.0)
        columns = np.maximum(side + 1.0 - shape.kernel_width, 1.0)
        tiles = shape.batch * np.ceil(shape.out_height / rows) * np.ceil(shape.out_width / columns)
        frequencies = side * (side / 2.0 + 1.0)
        return self._staged(tiles, frequencies, COMPLEX_BYTES, COMPLEX, COMPLEX_TILES)

    def _staged(self, patches: Array, points: float, itemsize: Real, products: float, tiles: Array) -> Array:
        """Return the seconds of transforms to `points` numbers a patch, a product for each point, and the way back."""
        shape, constants = self.shape, self.constants
        before = points * patches * shape.in_channels * itemsize
        after = points * patches * shape.out_channels * itemsize
        weights = points * shape.in_channels * shape.out_channels * itemsize
        cost = self._products(patches, shape.out_channels, shape.in_channels, points, tiles).min(axis=-1)
        product = corner(products * cost * self.beat, self._moved(before + weights + after), constants.sharpness)
        images = (before + after + shape.image_bytes()) / (self.bandwidth * constants.images)
        launches = STAGED_LAUNCHES * constants.launch * constants.floor
        return np.asarray(product + images + self._weights_transformed(weights) + launches)

    def _weights_transformed(self, transformed: Array) -> Array:
        return (self.shape.weight_bytes() + transformed) / (self.bandwidth * self.constants.weights)

    def _moved(self, traffic: Array) -> Array:
        constants = self.constants
        speedup = resident_bandwidth(traffic, self.silicon, constants.cache_speedup, constants.cache_reach)
        return np.asarray(traffic / (self.bandwidth * speedup))

    def _products(self, rows: Array, columns: Array, depth: Array, batch: float, tiles: Array) -> Array:
        """Return the multiply-adds that the busiest compute unit has the time for, by tile (last axis)."""
        height, width = tiles.T
        blocks = batch * np.ceil(_column(rows) / height) * np.ceil(_column(columns) / width)
        thinness = _column(self.constants.thinness)
        slower = (1.0 + thinness * 64.0 * (1.0 / height + 1.0 / width)) / (1.0 + thinness)
        return self._busiest(blocks, height * width * slower, depth)

    def _busiest(self, blocks: Array, area: Array, depth: Array) -> Array:
        """Return the multiply-adds of the busiest unit: waves of blocks, at least one small block's latency a step."""
        constants = self.constants
        load = blocks / _column(self.units)
        waves = np.maximum(load, 1.0) + _column(constants.wave) * (np.ceil(load) - np.maximum(load, 1.0))
        steps = np.ceil(_column(depth) / STEP) * STEP + _column(constants.ramp)
        return np.asarray(np.maximum(waves * area, _column(constants.latency) * FULL_BLOCK) * steps)


def _column(value: Real) -> Array:
    return np.asarray(value, dtype=np.float64)[..., None]
