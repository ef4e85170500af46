"""Price 16-bit convolutions of inference as the products that they are, with the rates of measured products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.cost.kernels.models.gemm import Tiling
from roofsim.cost.kernels.products import product_limits
from roofsim.cost.kernels.rated import ARITHMETIC, rated, sustained
from roofsim.cost.kernels.table import constants_for
from roofsim.graph.ops import Convolution
from roofsim.numeric import divide
from roofsim.records import replace

if TYPE_CHECKING:
    from roofsim.cost.kernels.work import KernelWork, Pricing
    from roofsim.cost.serving import Serving
    from roofsim.graph.base import AbstractOp


def price_convolutions(
    ops: dict[int, AbstractOp], works: dict[int, KernelWork], context: Pricing, serving: Serving
) -> None:
    """Hold convolutions to the arithmetic of their implicit product; their images pass memory once, not once a tap."""
    for place, op in ops.items():
        work = works[place]
        if isinstance(op, Convolution) and work.product is not None and serving.engine.convolution.share < 1.0:
            work = works[place] = replace(work, compute_share=work.compute_share * serving.engine.convolution.share)
        kind = ARITHMETIC.get(work.compute_keys[0])
        if not isinstance(op, Convolution) or work.product is None or kind is None or not work.on_tensor:
            continue
        measured, numbers = constants_for(context.device, "gemm", None, kind)
        numbers = {name: value for name, value in numbers.items() if name != "quantise"}
        floor = numbers.pop("floor")
        floor = floor if measured else context.device.architecture.kernel_floor
        share = numbers.pop("compute") * sustained(context, work.flop_peak, kind) * serving.engine.convolution.share
        tiling = Tiling(**{name: numbers.pop(name) for name in ("thinness", "ramp", "wave", "reduction")})
        size = op.inputs[0].dtype.itemsize
        [(compute, _)] = product_limits(
            [(*work.product, size, size, size)], [share], work.flop_peak, context, numbers, tiling
        )
        memory = divide(work.traffic, context.device.bandwidth * numbers["bandwidth"])
        works[place] = rated(work, context, (compute, memory), floor, numbers["sharpness"])
