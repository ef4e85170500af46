"""Convolutions: the fastest of an implicit product and two kinds of Winograd's algorithm.

What each algorithm launches and how its blocks cut the work follows cuDNN's kernels, whose names and grids NeuSight
(github.com/sitar-lab/NeuSight, ``data``) published with their times. Frameworks time the algorithms and keep the fastest.

- implicit product: tiles over pixels x output channels, depth input channels x taps; a small kernel before it computes offsets.
- fused Winograd, F(2 x 2, 3 x 3): a block takes 32 patches of 2 x 2 pixels and 32 output channels through all 16 points.
- staged Winograd, F(4 x 4, 3 x 3): kernels that transform images and weights, one product for each of 36 points, a kernel
  that transforms back.

Matrix units only do implicit products: they are so fast that transforms take longer than what these save. Their libraries cut
these with few tiles up to 2018 (DeepBench's kernels), and from cuDNN 8 on as they cut any product. Fourier transforms are left
out: measured kernels are predicted as well without.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from roofsim.cost.kernels.models.gemm import Tiling, product_cost, resident_bandwidth
from roofsim.cost.kernels.models.silicon import Silicon, corner
from roofsim.numeric import Array, Real, on_distinct
from roofsim.points import surely
from roofsim.records import dataclass
from roofsim.traced.points import as_array

#: Pixels and output channels of a block: of implicit products, and of the products of Winograd points.
TILES: Final = np.array([(128, 128), (128, 64), (128, 32), (32, 32)], float)
POINT_TILES: Final = np.array([(128, 128), (128, 64), (64, 64), (32, 128)], float)
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
#: FLOPs of the direct algorithm against those of each, in the order of `algorithms`: 4 x 9 products against 16 points, 16 x 9
#: against 36.
SPARED: Final = np.array([1.0, 2.25, 4.0])
#: Depth is processed in steps of this many elements.
STEP: Final = 8.0
#: Multiply-adds of a 128 x 128 tile per element of depth: the block that `latency` is stated against.
FULL_BLOCK: Final = 16384.0
#: Input channels are padded to this many bytes for matrix units.
ALIGNMENT: Final = 16.0
#: Channels up to which a first layer's kernels are used.
FEW_CHANNELS: Final = 4.0
#: Dimensions of the images, and taps a side of the kernels, that Winograd's algorithm takes (arXiv 1509.09308).
FLAT: Final = 2
SQUARE: Final = 3.0
#: Kernels that the staged algorithm launches beyond those of the others.
STAGED_LAUNCHES: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionShape:
    """Sizes of dense or grouped two-dimensional convolutions, or of the data gradients of some, which are convolutions too.

    Attributes
    ----------
    batch, in_channels, out_channels
        Images, and channels of those read and written (all groups together).
    out_height, out_width
        Size of the images written.
    taps
        Products per input channel that a written pixel takes.
    square
        1 where the kernel is 3 x 3, moves by one pixel and has one group: what Winograd's algorithm takes.
    strided
        1 where the kernel moves by more than one pixel.
    groups
        Groups of channels.
    image_bytes, weight_bytes
        Bytes of the images read and written, and of the weights.
    itemsize
        Bytes of an element.
    matrix
        1 where matrix units do the products: these want channels in blocks of 16 bytes, and take no Winograd kernels.
    planned
        Other shapes for which the same process had chosen and kept an algorithm before.
    """

    batch: Array
    in_channels: Array
    out_channels: Array
    out_height: Array
    out_width: Array
    taps: Array
    square: Array
    strided: Array
    groups: Array
    image_bytes: Array
    weight_bytes: Array
    itemsize: Array
    matrix: Array
    planned: Array

    def pixels(self) -> Array:
        """Return pixels of all images written."""
        return self.batch * self.out_height * self.out_width

    def traffic(self) -> Array:
        """Return bytes when images and weights move once."""
        return self.image_bytes + self.weight_bytes

    def flops(self) -> Array:
        """Return FLOPs of the direct algorithm."""
        return 2.0 * self.pixels() * self.out_channels * (self.in_channels / self.groups) * self.taps


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
    launch: Real
    thinness: Real
    ramp: Real
    wave: Real
    latency: Real
    winograd: Real
    weights: Real
    images: Real
    first_layer: Real
    stride: Real
    cache_speedup: Real
    cache_reach: Real
    sharpness: Real
    doubling: Real = np.inf
    growth: Real = 1.0
    transpose: Real = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionLimits:
    """What bounds convolutions by their fastest algorithm, launches apart.

    Attributes
    ----------
    compute, memory
        Seconds of arithmetic, and of traffic as if arithmetic were free: kernels that transform images and weights add to it what
        they add to the whole.
    spared
        FLOPs of the direct algorithm against those done.
    """

    compute: Real
    memory: Real
    spared: Real


def convolution_time(
    shape: ConvolutionShape, silicon: Silicon, constants: ConvolutionConstants, products: Tiling | None = None
) -> Array:
    """Return the seconds of each convolution by the fastest algorithm, with the host's of the measuring engine."""
    host = constants.floor * (1.0 + (shape.planned / constants.doubling) ** constants.growth)
    layout = 2.0 * constants.transpose * shape.image_bytes / (silicon.bandwidth * constants.bandwidth)
    limits = convolution_limits(shape, silicon, constants, products)
    return as_array(host + corner(limits.compute, limits.memory, constants.sharpness) + layout)


def convolution_limits(
    shape: ConvolutionShape,
    silicon: Silicon,
    constants: ConvolutionConstants,
    products: Tiling | None = None,
    *,
    winograd: bool = True,
) -> ConvolutionLimits:
    """Return what bounds each convolution.

    `products` says how the library cuts products, where it cuts implicit ones on matrix units so too (None: it does not yet);
    `winograd` off leaves implicit products only.
    """
    if not winograd or surely(as_array(shape.matrix) > 0.0):
        compute, memory, _ = _Call(shape, silicon, constants).implicit(products)
        return ConvolutionLimits(compute=compute, memory=memory, spared=SPARED[0])
    compute, memory, beside = algorithms(shape, silicon, constants, products)
    together = corner(compute, memory, constants.sharpness) + beside
    best = together.argmin(axis=0)[None]
    chosen = (np.take_along_axis(part, best, axis=0)[0] for part in (compute, memory, beside, together))
    arithmetic, traffic, transforms, total = chosen
    sharp = as_array(constants.sharpness)
    # The traffic with which the corner comes out at the whole.
    left = np.maximum(1.0 - (arithmetic / total) ** sharp, 0.0) ** (1.0 / sharp) * total
    moved = np.where(transforms > 0.0, left, traffic)
    return ConvolutionLimits(compute=arithmetic, memory=moved, spared=SPARED[best[0]])


def algorithms(
    shape: ConvolutionShape, silicon: Silicon, constants: ConvolutionConstants, products: Tiling | None = None
) -> tuple[Array, Array, Array]:
    """Return the seconds of arithmetic, of traffic and of kernels beside them of each algorithm (first axis).

    Infinite where an algorithm does not apply. In order: implicit product, fused Winograd, staged Winograd.
    """
    call = _Call(shape, silicon, constants)
    usable = (shape.square > 0.0) & (shape.matrix == 0.0)
    rows = [call.implicit(products)]
    for compute, memory, beside in (call.fused_winograd(), call.staged_winograd()):
        rows.append((np.where(usable, np.maximum(compute, call.fastest()), np.inf), memory, beside))
    compute, memory, beside = (np.stack(np.broadcast_arrays(*parts)) for parts in zip(*rows, strict=True))
    return compute, memory, beside


class _Call:
    """Convolutions on cards: what each algorithm takes."""

    def __init__(self, shape: ConvolutionShape, silicon: Silicon, constants: ConvolutionConstants) -> None:
        self.shape, self.constants = shape, constants
        self.units = as_array(silicon.compute_units, dtype=np.float64)
        #: Seconds of a multiply-add on one compute unit.
        self.beat = 2.0 * self.units / as_array(silicon.peak * constants.compute)
        self.bandwidth = silicon.bandwidth * constants.bandwidth
        self.silicon = silicon

    def implicit(self, products: Tiling | None) -> tuple[Array, Array, Array]:
        """Return what bounds the implicit product."""
        shape, constants = self.shape, self.constants
        matrix = shape.matrix > 0.0
        channels = shape.in_channels / shape.groups
        aligned = np.ceil(channels * shape.itemsize / ALIGNMENT) * ALIGNMENT / shape.itemsize
        depth = np.where(matrix, aligned, channels) * shape.taps
        sizes = shape.pixels(), shape.out_channels / shape.groups, depth, shape.groups
        cost = self._products(*sizes, as_array(np.where(matrix, MATRIX_WIDTH, 0.0)), TILES)
        slowed = np.where(shape.in_channels <= FEW_CHANNELS, constants.first_layer, 1.0)
        slowed = slowed * np.where(shape.strided > 0.0, constants.stride, 1.0)
        cost = cost / slowed
        if products is not None:
            # A library keeps the kernels of the one before, so that a later one is never slower.
            sizes = shape.pixels(), shape.out_channels / shape.groups, channels * shape.taps, shape.groups
            cost = np.where(matrix, np.minimum(cost, product_cost(*sizes, self.units, products)), cost)
        return cost * self.beat, self._moved(shape.traffic()), np.zeros(())

    def fastest(self) -> Array:
        """Return the seconds in which no kernel that spares arithmetic was seen to be done, whatever rate direct ones reach."""
        shape = self.shape
        multiplied = shape.pixels() * shape.out_channels * shape.in_channels / shape.groups * shape.taps
        return as_array(2.0 * multiplied / (self.silicon.peak * self.silicon.physics["winograd_reach"]))

    def fused_winograd(self) -> tuple[Array, Array, Array]:
        """Return what bounds the kernel that transforms images on the way, and the seconds of the one for weights."""
        shape, constants = self.shape, self.constants
        sizes = shape.batch, shape.out_height, shape.out_width, shape.out_channels, shape.in_channels
        cost = on_distinct(_patches, [*sizes, *self._of_units()])
        transformed = FUSED_POINTS * shape.weight_bytes / shape.taps
        memory = self._moved(shape.image_bytes + transformed)
        return cost / constants.winograd * self.beat, memory, self._weights_transformed(transformed)

    def staged_winograd(self) -> tuple[Array, Array, Array]:
        """Return what bounds Winograd's products of transformed images in memory, and the seconds of the transforms."""
        shape, constants = self.shape, self.constants
        patches = shape.batch * np.ceil(shape.out_height / STAGED_SIDE) * np.ceil(shape.out_width / STAGED_SIDE)
        before = STAGED_POINTS * patches * shape.in_channels * shape.itemsize
        after = STAGED_POINTS * patches * shape.out_channels * shape.itemsize
        weights = STAGED_POINTS * shape.in_channels * shape.out_channels * shape.itemsize
        cost = self._products(patches, shape.out_channels, shape.in_channels, STAGED_POINTS, 0.0, POINT_TILES)
        images = (before + after + shape.image_bytes) / (self.bandwidth * constants.images)
        beside = images + self._weights_transformed(weights) + STAGED_LAUNCHES * constants.launch * constants.floor
        return cost * self.beat, self._moved(before + weights + after), beside

    def _weights_transformed(self, transformed: Array) -> Array:
        return as_array((self.shape.weight_bytes + transformed) / (self.bandwidth * self.constants.weights))

    def _moved(self, traffic: Array) -> Array:
        constants = self.constants
        speedup = resident_bandwidth(traffic, self.silicon, constants.cache_speedup, constants.cache_reach)
        return as_array(traffic / (self.bandwidth * speedup))

    def _products(self, rows: Array, columns: Array, depth: Array, batch: Real, narrowest: Real, tiles: Array) -> Array:
        """Return the multiply-adds that the busiest compute unit has the time for, with the best tile that is wide enough."""

        def least(*numbers: Any) -> Array:
            return _tiles(tiles, *numbers)

        numbers = rows, columns, depth, batch, narrowest, self.constants.thinness
        return on_distinct(least, [*numbers, *self._of_units()])

    def _of_units(self) -> tuple[Real, ...]:
        """Return what `_busiest` asks of the card."""
        constants = self.constants
        return self.units, constants.wave, constants.ramp, constants.latency


def _tiles(
    tiles: Array,
    rows: Array,
    columns: Array,
    depth: Array,
    batch: Real,
    narrowest: Real,
    thinness: Real,
    *of_units: Real,
) -> Array:
    """Return the multiply-adds of the busiest unit with the best of some tiles that are at least `narrowest` wide."""
    height, width = tiles.T
    blocks = _column(batch) * np.ceil(_column(rows) / height) * np.ceil(_column(columns) / width)
    thinness = _column(thinness)
    slower = (1.0 + thinness * 64.0 * (1.0 / height + 1.0 / width)) / (1.0 + thinness)
    busiest = _busiest(blocks, height * width * slower, depth, *of_units)
    return as_array(np.where(width < _column(narrowest), np.inf, busiest).min(axis=-1))


def _patches(batch: Array, height: Array, width: Array, channels: Array, depth: Array, *of_units: Real) -> Array:
    """Return the multiply-adds of the busiest unit with the best patch of fused Winograd products."""
    images, rows, columns = PATCHES.T
    blocks = np.ceil(_column(batch) / images) * np.ceil(_column(height) / rows) * np.ceil(_column(width) / columns)
    blocks = blocks * np.ceil(_column(channels) / FUSED_CHANNELS)
    return as_array(_busiest(blocks, np.full(len(PATCHES), FUSED_AREA), depth, *of_units).min(axis=-1))


def _busiest(blocks: Array, area: Array, depth: Array, units: Real, wave: Real, ramp: Real, latency: Real) -> Array:
    """Return the multiply-adds of the busiest unit: waves of blocks, at least one small block's latency a step."""
    load = blocks / _column(units)
    waves = np.maximum(load, 1.0) + _column(wave) * (np.ceil(load) - np.maximum(load, 1.0))
    steps = np.ceil(_column(depth) / STEP) * STEP + _column(ramp)
    return as_array(np.maximum(waves * area, _column(latency) * FULL_BLOCK) * steps)


def _column(value: Real) -> Array:
    return as_array(value, dtype=np.float64)[..., None]
