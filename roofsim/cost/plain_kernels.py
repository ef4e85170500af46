"""Add what plain frameworks run beside products: biases, masks and reductions as kernels of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.graph.ops import Convolution, Fused, Matmul, Normalization, Softmax
from roofsim.records import replace

if TYPE_CHECKING:
    from roofsim.cost.kernels.work import KernelWork, Pricing
    from roofsim.cost.serving import Serving
    from roofsim.graph.base import AbstractOp

#: Kernels of a softmax or a norm whose two reductions and last pass run one by one, each reading its input.
PARTS: Final = 3.0


def plain_kernels(
    ops: dict[int, AbstractOp], works: dict[int, KernelWork], context: Pricing, serving: Serving
) -> list[tuple[int, KernelWork]]:
    """Return the kernels that follow others, each with the place of the one it follows; split reductions in place."""
    apart = serving.engine.fusion.plain_kernels
    found: list[tuple[int, KernelWork]] = []
    for place, op in ops.items():
        out = op.outputs[0] if op.outputs else None
        if "biases" in apart and isinstance(op, Matmul) and len(op.inputs) > 2 and out is not None:
            found.append((place, context.light(out.numel, 2.0 * out.bytes, "elementwise")))
        if "convolution_biases" in apart and isinstance(op, Convolution) and len(op.inputs) > 2 and out is not None:
            found.append((place, context.light(out.numel, 2.0 * out.bytes, "elementwise")))
        if "masks" in apart and _softmax(op) and out is not None:
            found.append((place, context.light(out.numel, 2.0 * out.bytes, "elementwise")))
        if "reductions" in apart and _reduces(op):
            again = (PARTS - 1.0) * op.inputs[0].bytes
            works[place] = replace(
                works[place], traffic=works[place].traffic + again, launches=works[place].launches * PARTS
            )
    return found


def _parts(op: AbstractOp) -> tuple[AbstractOp, ...]:
    return op.parts if isinstance(op, Fused) else (op,)


def _softmax(op: AbstractOp) -> bool:
    return any(isinstance(part, Softmax) for part in _parts(op))


def _reduces(op: AbstractOp) -> bool:
    return any(isinstance(part, Softmax | Normalization) for part in _parts(op))
