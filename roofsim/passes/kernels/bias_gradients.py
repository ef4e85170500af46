"""Sum the gradients of biases in kernels that read them anyway: conversions to a narrow type, GEMMs of weight gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.base import Phase
from roofsim.graph.fuse import fused_kernel
from roofsim.graph.ops import Cast, Matmul, Reduction
from roofsim.graph.tensor import Role
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor


@dataclass(frozen=True)
class SumBiasGradients:
    """Put the sum over tokens that is the gradient of a bias into the kernel that converts the same gradient, or multiplies it.

    Runs after autograd, before conversions join the kernels that make what they convert. A kernel that reads the gradient in
    narrow operands' type reads the conversion's result: with a conversion the sum is in that.
    """

    name: ClassVar[str] = "sum_bias_gradients"
    requires: ClassVar[frozenset[str]] = frozenset({"typed", "backward"})
    ensures: ClassVar[frozenset[str]] = frozenset({"bias_gradients"})

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph without kernels that only sum gradients of biases."""
        return graph.replaced(list(_written(graph)), *self.ensures)


def _written(graph: OpGraph) -> Iterator[AbstractOp]:
    """Yield the ops, sums inside the kernels that do them."""
    readers: dict[Tensor, list[AbstractOp]] = {}
    for op in graph:
        for tensor in dict.fromkeys(op.inputs):
            readers.setdefault(tensor, []).append(op)
    sums: dict[AbstractOp, AbstractOp] = {}
    for op in graph:
        if _sums_tokens(op):
            beside = [one for one in readers[op.inputs[0]] if (one.block, one.phase) == (op.block, op.phase)]
            kernel = next(filter(_converts, beside), None) or next(filter(_multiplies, beside), None)
            if kernel is not None and kernel not in sums:
                sums[kernel] = op
    done = set(sums.values())
    for op in graph:
        if op in done:
            continue
        total = sums.get(op)
        if total is None:
            yield op
        elif isinstance(op, Cast):
            yield fused_kernel([op, total], {*op.outputs, *total.outputs}, "quantised", name=op.name)
        else:
            yield replace(op, outputs=(*op.outputs, *total.outputs))


def _sums_tokens(op: AbstractOp) -> bool:
    """Tell whether a kernel of the backward pass sums all but the last axis of what it reads."""
    if not isinstance(op, Reduction) or op.function != "sum" or op.phase is not Phase.BACKWARD:
        return False
    return len(op.outputs[0].shape) < len(op.inputs[0].shape)


def _converts(op: AbstractOp) -> bool:
    """Tell whether a kernel converts its input to a narrow type."""
    return isinstance(op, Cast) and op.outputs[0].dtype.narrow


def _multiplies(op: AbstractOp) -> bool:
    """Tell whether a kernel makes the gradient of a weight."""
    if not isinstance(op, Matmul):
        return False
    made = op.outputs[0]
    return made.root.role is Role.GRADIENT_BUFFER or (made.of is not None and made.of.role is Role.PARAMETER)
