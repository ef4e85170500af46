"""Price convolutions as the products that they are, in every phase alike; their images pass memory once, not once a tap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.cost.kernels.model import KernelLimits
from roofsim.cost.kernels.models.gemm import tile_efficiency
from roofsim.cost.kernels.products import tiling_for
from roofsim.cost.kernels.rated import rated
from roofsim.graph.ops import Convolution
from roofsim.numeric import divide, real
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.cost.device import Device
    from roofsim.cost.kernels.library import KernelLibrary
    from roofsim.cost.kernels.work import KernelWork, Pricing
    from roofsim.graph.base import AbstractOp
    from roofsim.numeric import Real

#: The class of kernels by which images move.
CLASS: Final = "convolution"


@dataclass(frozen=True)
class Implicit:
    """The product that one pass of a convolution is: m, n, k and number, and the bytes that move.

    `share` is that of the peak which searched kernels reach on it.
    """

    product: tuple[Real, Real, Real, Real]
    traffic: Real
    share: Real
    peak: Real


class ConvolutionModel:
    """Dense convolutions: implicit products, by kernels that a library searches for each shape."""

    def limits(self, shape: Implicit, math: str, device: Device, library: KernelLibrary) -> KernelLimits:
        """Return what bounds one pass, as `KernelModel.limits`."""
        m, n, k, batch = shape.product
        units: Real = 1.0 if device.compute_units is None else real(device.compute_units)
        left = tile_efficiency(m, n, k, batch, units, tiling_for(device, math, shape.peak))
        rate = shape.peak * shape.share * library.engine.convolution.share * left
        compute = divide(2.0 * m * n * k * batch, rate)
        memory = divide(shape.traffic, device.bandwidth * (device.bandwidth_share(CLASS) / device.pace))
        return KernelLimits(
            compute=compute, memory=memory, floor=device.architecture.kernel_floor, sharpness=device.constants.norm
        )


CONVOLUTIONS: Final = ConvolutionModel()


def price_convolutions(ops: dict[int, AbstractOp], works: dict[int, KernelWork], context: Pricing) -> None:
    """Give convolutions the rates of their model."""
    for place, op in ops.items():
        work = works[place]
        if not isinstance(op, Convolution) or work.product is None:
            continue
        shape = Implicit(
            product=work.product,
            traffic=work.traffic,
            share=work.compute_share / context.device.pace,
            peak=work.flop_peak,
        )
        math = work.compute_keys[0].removesuffix("_matrix")
        works[place] = rated(work, context, CONVOLUTIONS.limits(shape, math, context.device, context.library))
