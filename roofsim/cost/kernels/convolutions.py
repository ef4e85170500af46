"""Price convolutions as the products that they are, in every phase alike; their images pass memory once, not once a tap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.cost.kernels.model import Limits
from roofsim.cost.kernels.models.gemm import Tiling
from roofsim.cost.kernels.products import product_limits
from roofsim.cost.kernels.rated import rated
from roofsim.cost.kernels.table import TILING, arithmetic_of, constants_for
from roofsim.graph.ops import Convolution
from roofsim.numeric import divide
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
    """The product that one pass of a convolution is: m, n, k and number, the bytes of an element, and of all that moves.

    `share` is that of the peak which searched kernels reach on it.
    """

    product: tuple[Real, Real, Real, Real]
    itemsize: Real
    traffic: Real
    share: Real
    peak: Real


class ConvolutionModel:
    """Dense convolutions: implicit products, by kernels that a library searches for each shape."""

    def limits(self, shape: Implicit, math: str, device: Device, library: KernelLibrary) -> Limits:
        """Return what bounds one pass, as `KernelModel.limits`."""
        _, numbers = constants_for(device, "gemm", None, arithmetic_of(math))
        numbers = {name: value for name, value in numbers.items() if name not in ("compute", "floor")}
        tiling = Tiling(**{name: numbers.pop(name) for name in TILING})
        size = shape.itemsize
        share = shape.share * library.engine.convolution.share
        [(compute, _)] = product_limits(
            [(*shape.product, size, size, size)], [share], shape.peak, device, numbers, tiling
        )
        memory = divide(shape.traffic, device.bandwidth * (device.bandwidth_share(CLASS) / device.pace))
        return Limits(
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
            itemsize=op.inputs[0].dtype.itemsize,
            traffic=work.traffic,
            share=work.compute_share / context.device.pace,
            peak=work.flop_peak,
        )
        math = work.compute_keys[0].removesuffix("_matrix")
        works[place] = rated(work, context, CONVOLUTIONS.limits(shape, math, context.device, context.library))
