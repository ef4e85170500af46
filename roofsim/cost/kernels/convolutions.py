"""Price convolutions by the fastest of the algorithms that libraries have, in every phase alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.cost.kernels.model import KernelLimits
from roofsim.cost.kernels.models.convolution import (
    FLAT,
    SQUARE,
    ConvolutionConstants,
    ConvolutionShape,
    convolution_limits,
)
from roofsim.cost.kernels.models.gemm import tile_efficiency
from roofsim.cost.kernels.products import tiling_for
from roofsim.cost.kernels.rated import card, rated
from roofsim.cost.kernels.table import arithmetic_of, constants_for
from roofsim.graph.ops import Convolution
from roofsim.numeric import divide, product, real, same
from roofsim.points import like
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.cost.device import Device
    from roofsim.cost.kernels.library import KernelLibrary
    from roofsim.cost.kernels.models.gemm import Tiling
    from roofsim.cost.kernels.work import KernelWork, Pricing
    from roofsim.graph.base import AbstractOp
    from roofsim.numeric import Array, Real

#: The class of kernels by which images move, and the operation under which they were measured.
CLASS: Final = "convolution"
OPERATION: Final = "conv2d"
#: Arithmetic that convolutions were measured in; others take after 16 bits.
MEASURED: Final = ("fp32", "16-bit")
WIDE: Final = "16-bit"
#: Constants of how traffic goes: where a library cuts convolutions as products, they are those of products.
TRAFFIC: Final = ("cache_speedup", "cache_reach", "sharpness")
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
        return self.limits_spared(shape, math, device, library)[0]

    def limits_spared(
        self, shape: ConvolutionPass, math: str, device: Device, library: KernelLibrary
    ) -> tuple[KernelLimits, Real]:
        """Return what bounds one pass, and the FLOPs of the direct algorithm against those that it does."""
        share = shape.share * library.engine.convolution.share
        bandwidth = device.bandwidth_share(CLASS) / device.pace
        constants, products = _constants(device, math, shape.peak, share, bandwidth)
        sizes = _shape(shape, matrix=device.rate(math)[1])
        limits = convolution_limits(sizes, card(device, shape.peak), constants, products, winograd=shape.winograd)
        compute, memory, spared = limits.compute, limits.memory, limits.spared
        if shape.direction == "weight":
            compute, memory = (
                _weight_gradient(shape, math, device, share, spared),
                shape.traffic / (device.bandwidth * bandwidth),
            )
        given = (*shape.product, shape.traffic, shape.peak)
        return KernelLimits(
            compute=like(compute, *given),
            memory=like(memory, *given),
            floor=device.architecture.kernel_floor,
            sharpness=float(real(constants.sharpness)),
        ), like(spared, *given)


CONVOLUTIONS: Final = ConvolutionModel()


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


def _weight_gradient(shape: ConvolutionPass, math: str, device: Device, share: Real, spared: Real) -> Real:
    """Return the seconds of a weight gradient's arithmetic: products whose depth is split, as no forward kernel's is.

    Where Winograd's algorithm serves the forward pass, it spares the weight gradient as much.
    """
    m, n, k, batch = shape.product
    units: Real = 1.0 if device.compute_units is None else real(device.compute_units)
    left = tile_efficiency(m, n, k, batch, units, tiling_for(device, math, shape.peak))
    return divide(2.0 * m * n * k * batch, shape.peak * share * left * spared)


def _shape(shape: ConvolutionPass, *, matrix: bool) -> ConvolutionShape:
    """Return the sizes of a pass as the model takes them: a data gradient is a convolution of the gradient's images."""
    op, taps = shape.op, product(*shape.op.kernel_size)
    reads, writes, size = op.in_channels, op.out_channels, op.out_size
    if shape.direction == "data":
        reads, writes, size = writes, reads, op.in_size
        # Of the taps, those that meet an element of the strided gradient.
        taps = taps * divide(product(*op.out_size), product(*op.in_size))
    square = len(op.kernel_size) == FLAT and all(same(side, SQUARE) for side in op.kernel_size)
    square = square and same(op.stride, 1.0) and same(op.groups, 1.0)
    weight = op.inputs[2 if op.backward else 1]
    return ConvolutionShape(
        batch=_plain(op.batch),
        in_channels=_plain(reads),
        out_channels=_plain(writes),
        out_height=_plain(product(*size[:-1])),
        out_width=_plain(size[-1]),
        taps=_plain(taps),
        square=np.asarray(float(square)),
        strided=np.where(_plain(op.stride) > 1.0, 1.0, 0.0),
        groups=_plain(op.groups),
        image_bytes=_plain(shape.traffic - weight.bytes),
        weight_bytes=_plain(weight.bytes),
        itemsize=np.asarray(op.inputs[0].dtype.itemsize),
        matrix=np.asarray(float(matrix)),
        planned=np.zeros(()),
    )


def _plain(value: Real) -> Array:
    return np.asarray(value, dtype=np.float64)


def price_convolutions(ops: dict[int, AbstractOp], works: dict[int, KernelWork], context: Pricing) -> None:
    """Give convolutions the rates of their model."""
    for place, op in ops.items():
        work = works[place]
        if not isinstance(op, Convolution) or work.product is None:
            continue
        math = work.compute_keys[0].removesuffix("_matrix")
        shape = ConvolutionPass(
            op=op,
            direction=work.part,
            product=work.product,
            traffic=work.traffic,
            share=work.compute_share / context.device.pace,
            peak=work.flop_peak,
            winograd=context.mechanisms.winograd,
        )
        limits, spared = CONVOLUTIONS.limits_spared(shape, math, context.device, context.library)
        left_out = work.flops - divide(work.flops, spared)
        energy = work.energy - context.device.energy(left_out, math, 0.0, on_tensor=work.on_tensor)
        works[place] = rated(replace(work, spared=spared, energy=energy), context, limits)
