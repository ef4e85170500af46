"""Price convolutions by the fastest of the algorithms that libraries have, in every phase alike."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.cost.columns import column, is_of_points, rows_of
from roofsim.cost.kernels.model import KernelLimits
from roofsim.cost.kernels.models.convolution import (
    FLAT,
    SQUARE,
    ConvolutionConstants,
    ConvolutionShape,
    convolution_limits,
)
from roofsim.cost.kernels.models.gemm import resident_bandwidth, tile_efficiency
from roofsim.cost.kernels.products import tiling_for
from roofsim.cost.kernels.rated import card, rated
from roofsim.cost.kernels.table import arithmetic_of, constants_for
from roofsim.graph.ops import Convolution
from roofsim.numeric import axes_of, divide, product, real, same, where
from roofsim.records import dataclass, fields, replace
from roofsim.traced.points import as_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.cost.device import Device
    from roofsim.cost.kernels.library import KernelLibrary
    from roofsim.cost.kernels.models.gemm import Tiling
    from roofsim.cost.kernels.models.silicon import Silicon
    from roofsim.cost.kernels.work import KernelWork, Pricing
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.tensor import Tensor
    from roofsim.numeric import Array, Real

#: The class of kernels by which images move, and the operation under which they were measured.
CLASS: Final = "convolution"
OPERATION: Final = "conv2d"
#: Arithmetic that convolutions were measured in; others take after 16 bits.
MEASURED: Final = ("fp32", "16-bit")
WIDE: Final = "16-bit"
#: The operation under which streams were measured.
STREAM: Final = "elementwise"
#: Constants of how traffic goes: where a library cuts convolutions as products, they are those of products.
TRAFFIC: Final = ("cache_speedup", "cache_reach", "sharpness")
#: Where an engine allocates the results of kernels whose buffers the next ones use again.
PLANNED: Final = "planned"
#: The passes of a convolution: forward, data gradient, weight gradient.
PASSES: Final = ("forward", "data", "weight")


@dataclass(frozen=True)
class ConvolutionPass:
    """One pass of a convolution: which one, the bytes that move, and what bounds its rate.

    Attributes
    ----------
    op
        The convolution.
    direction
        One of `PASSES`.
    product
        m, n, k and number of the implicit products.
    traffic
        Bytes that move.
    share
        Share of `peak` that kernels reach on large shapes.
    winograd
        Whether libraries may take Winograd's algorithm.
    """

    op: Convolution
    direction: str
    product: tuple[Real, Real, Real, Real]
    traffic: Real
    share: Real
    peak: Real
    winograd: bool = True


class ConvolutionModel:
    """Dense and grouped convolutions: the fastest algorithm, by kernels that a library searches for each shape."""

    def limits(self, shape: ConvolutionPass, math: str, device: Device, library: KernelLibrary) -> KernelLimits:
        """Return what bounds one pass, as `KernelModel.limits`."""
        return self.all_limits([shape], math, device, library)[0][0]

    def all_limits(
        self, shapes: Sequence[ConvolutionPass], math: str, device: Device, library: KernelLibrary
    ) -> list[tuple[KernelLimits, Real]]:
        """Return what bounds passes of one format and peak, and the FLOPs of the direct algorithm against those that each does.

        Passes whose numbers have the same axes are compared in one expression.
        """
        peak, matrix = shapes[0].peak, device.rate(math)[1]
        chip = card(device, peak)
        chips = (peak, chip.bandwidth, chip.cache, chip.compute_units)
        rows = [(*_sizes(shape), *shape.product, shape.share, shape.traffic) for shape in shapes]
        groups: dict[tuple[Any, ...], list[int]] = {}
        for place, (shape, row) in enumerate(zip(shapes, rows, strict=True)):
            kind = (shape.direction == "weight", shape.winograd, axes_of(*row, *chips))
            groups.setdefault(kind, []).append(place)
        limits: dict[int, tuple[KernelLimits, Real]] = {}
        for (weight, winograd, axes), places in groups.items():
            own = [rows[place] for place in places]
            numbers = [column(values, len(axes)) for values in zip(*own, strict=True)]
            bounds = _limits(numbers, math, device, library, chip, weight=weight, winograd=winograd, matrix=matrix)
            of_points = is_of_points([*chips, *itertools.chain.from_iterable(own)])
            each = (rows_of(values, len(places), axes, of_points=of_points) for values in bounds[:3])
            for place, (compute, memory, spared) in zip(places, zip(*each, strict=True), strict=True):
                floor = device.architecture.kernel_floor
                limits[place] = KernelLimits(compute=compute, memory=memory, floor=floor, sharpness=bounds[3]), spared
        return [limits[place] for place in range(len(shapes))]


CONVOLUTIONS: Final = ConvolutionModel()


def _limits(
    numbers: Sequence[Array],
    math: str,
    device: Device,
    library: KernelLibrary,
    chip: Silicon,
    *,
    weight: bool,
    winograd: bool,
    matrix: bool,
) -> tuple[Array, Array, Array, float]:
    """Return seconds of arithmetic and of traffic, what is spared, and the corner's sharpness, of passes with a leading axis."""
    *sizes, m, n, k, batch, share, traffic = numbers
    share = share * library.engine.convolution.share
    bandwidth = device.bandwidth_share(CLASS) / device.pace
    constants, products = _constants(device, math, chip.peak, share, bandwidth)
    names = (field.name for field in fields(ConvolutionShape) if field.name not in ("matrix", "planned"))
    shape = ConvolutionShape(
        **dict(zip(names, sizes, strict=True)), matrix=as_array(float(matrix)), planned=np.zeros(())
    )
    limits = convolution_limits(shape, chip, constants, products, winograd=winograd)
    compute, memory, spared = as_array(limits.compute), as_array(limits.memory), as_array(limits.spared)
    if _plans(library):
        memory = _with_images_near(memory, shape, chip, device, bandwidth)
    if weight:
        compute = _weight_gradient((m, n, k, batch), math, device, chip.peak * share * spared, chip.peak)
        memory = traffic / (device.bandwidth * bandwidth)
    return compute, memory, spared, float(real(constants.sharpness))


def _plans(library: KernelLibrary) -> bool:
    """Tell whether results lie in few buffers that the next ones use again, so that caches hold them."""
    return library.engine.memory.allocator == PLANNED


def _residence(images: Array, chip: Silicon, device: Device) -> Array:
    """Return the bandwidth of images over that of device memory: as what streaming kernels read and write stays in the cache."""
    _, numbers = constants_for(device, STREAM, None, WIDE)
    return resident_bandwidth(images, chip, numbers["cache_speedup"], numbers["cache_reach"])


def _with_images_near(memory: Array, shape: ConvolutionShape, chip: Silicon, device: Device, bandwidth: Real) -> Array:
    """Return the seconds of traffic whose images the cache holds as far as they fit; weights come from where they came."""
    images, rate = shape.image_bytes, chip.bandwidth * bandwidth
    near = images / (rate * _residence(images, chip, device))
    return np.minimum(memory, memory * shape.weight_bytes / (images + shape.weight_bytes) + near)


def _constants(
    device: Device, math: str, peak: Real, share: Real, bandwidth: Real
) -> tuple[ConvolutionConstants, Tiling | None]:
    """Return what convolution kernels achieve, and how they are cut where they are cut as products.

    Shares of the peak and of the bandwidth are those of whole steps.
    """
    kind, matrix = arithmetic_of(math), device.rate(math)[1]
    _, numbers = constants_for(device, OPERATION, None, kind if kind in MEASURED else WIDE)
    products = None
    if matrix and not device.old_tiles:
        products = tiling_for(device, math, peak)
        _, of_products = constants_for(device, "gemm", None, kind)
        numbers = numbers | {name: of_products[name] for name in TRAFFIC}
    floor = device.architecture.kernel_floor
    return ConvolutionConstants(floor=floor, compute=share, bandwidth=bandwidth, launch=1.0, **numbers), products


def _weight_gradient(
    sizes: tuple[Array, Array, Array, Array], math: str, device: Device, rate: Array, peak: Real
) -> Array:
    """Return the seconds of weight gradients' arithmetic: products whose depth is split, as no forward kernel's is.

    Where Winograd's algorithm serves the forward pass, it spares the weight gradient as much.
    """
    units: Real = 1.0 if device.compute_units is None else real(device.compute_units)
    left = tile_efficiency(*sizes, units, tiling_for(device, math, peak))
    m, n, k, batch = sizes
    return as_array(divide(2.0 * m * n * k * batch, rate * left))


def _sizes(shape: ConvolutionPass) -> tuple[Real, ...]:
    """Return the sizes of a pass in the order of `ConvolutionShape`: a data gradient is a convolution of the gradient's images."""
    op, taps = shape.op, product(*shape.op.kernel_size)
    reads, writes, size = op.in_channels, op.out_channels, op.out_size
    if shape.direction == "data":
        reads, writes, size = writes, reads, op.in_size
        # Of the taps, those that meet an element of the strided gradient.
        taps = taps * divide(product(*op.out_size), product(*op.in_size))
    square = len(op.kernel_size) == FLAT and all(same(side, SQUARE) for side in op.kernel_size)
    square = square and same(op.stride, 1.0) and same(op.groups, 1.0)
    weight, strided = _weight(op).bytes, where(op.stride > 1.0, 1.0, 0.0)
    images = op.batch, reads, writes, product(*size[:-1]), size[-1]
    return (
        *images,
        taps,
        float(square),
        strided,
        op.groups,
        shape.traffic - weight,
        weight,
        op.inputs[0].dtype.itemsize,
    )


def price_convolutions(ops: dict[int, AbstractOp], works: dict[int, KernelWork], context: Pricing) -> None:
    """Give convolutions the rates of their model, all of a format at once."""
    groups: dict[str, list[int]] = {}
    for place, op in ops.items():
        if isinstance(op, Convolution) and works[place].product is not None:
            groups.setdefault(works[place].compute_keys[0], []).append(place)
    for key, places in groups.items():
        math = key.removesuffix("_matrix")
        shapes = [_pass(ops[place], works[place], context) for place in places]
        limits = CONVOLUTIONS.all_limits(shapes, math, context.device, context.library)
        for place, shape, (own, spared) in zip(places, shapes, limits, strict=True):
            work = works[place]
            left_out = work.flops - divide(work.flops, spared)
            energy = work.energy - context.device.energy(left_out, math, 0.0, on_tensor=work.on_tensor)
            energy = energy - _spared_by_cache(work.traffic - _weight(shape.op).bytes, math, context)
            works[place] = rated(replace(work, spared=spared, energy=energy), context, own)


def _weight(op: Convolution) -> Tensor:
    return op.inputs[2 if op.backward else 1]


def _spared_by_cache(images: Real, math: str, context: Pricing) -> Real:
    """Return the joules that images in the cache do not take: a byte takes the card's power for as long as it moves."""
    if not _plans(context.library):
        return 0.0
    device = context.device
    faster = _residence(as_array(images), card(device, 1.0), device)
    return device.energy(0.0, math, images, on_tensor=True) * real(1.0 - 1.0 / faster)


def _pass(op: AbstractOp, work: KernelWork, context: Pricing) -> ConvolutionPass:
    """Return the pass of a convolution that a kernel does."""
    assert isinstance(op, Convolution)
    assert work.product is not None
    return ConvolutionPass(
        op=op,
        direction=work.part,
        product=work.product,
        traffic=work.traffic,
        share=work.compute_share / context.device.pace,
        peak=work.flop_peak,
        winograd=context.mechanisms.winograd,
    )
