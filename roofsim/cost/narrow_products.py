"""Let the kernels between 8-bit products read what these write and write what the next ones read, without conversions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.graph.ops import Attention, Cast, Matmul
from roofsim.records import replace

if TYPE_CHECKING:
    from roofsim.cost.kernels.work import KernelWork
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.tensor import Tensor
    from roofsim.numeric import Real

#: Bytes of an element of a product's result, by what it writes.
WRITTEN: Final = {"int32": 4.0, "narrow": 1.0}
#: Bytes of an element that the next product reads.
READ: Final = 1.0


def narrow_passes(ops: dict[int, AbstractOp], works: dict[int, KernelWork], written: str, launches: float) -> None:
    """Change the traffic of products and of what lies between, and drop the kernels that convert.

    With ``narrow`` all that lies between products is kept in 8 bits, the residual sums included; with ``int32`` these stay in
    16 bits, and only what products write and read changes.
    """
    if not any(_narrow(op) for op in ops.values()):
        return
    converted: set[Tensor] = set()
    results: set[Tensor] = set()
    for place, op in ops.items():
        if isinstance(op, Cast) and op.outputs[0].dtype.itemsize == READ:
            converted.add(op.inputs[0])
            works[place] = replace(works[place], launches=0.0, traffic=0.0 * works[place].traffic, flops=0.0)
        elif _narrow(op):
            results.add(op.outputs[0])
    for place, op in ops.items():
        if isinstance(op, Cast) and op.outputs[0].dtype.itemsize == READ:
            continue
        if _narrow(op):
            change = (WRITTEN[written] - op.outputs[0].dtype.itemsize) * op.outputs[0].numel
            works[place] = replace(works[place], launches=works[place].launches * launches)
        elif written == "narrow" and op.block is not None and not isinstance(op, Matmul):
            change = -0.5 * works[place].traffic
        elif isinstance(op, Attention):
            change = 0.0
        else:
            change = _between(op, results, converted, WRITTEN[written])
        works[place] = replace(works[place], traffic=works[place].traffic + change)


def _narrow(op: AbstractOp) -> bool:
    return isinstance(op, Matmul) and op.inputs[0].dtype.itemsize == READ


def _between(op: AbstractOp, results: set[Tensor], converted: set[Tensor], written: float) -> Real:
    """Return by how much the traffic of a kernel changes that reads results of products, or feeds the next."""
    change: Real = 0.0
    for tensor in op.inputs:
        if tensor in results:
            change = change + (written - tensor.dtype.itemsize) * tensor.numel
    for tensor in op.outputs:
        if tensor in converted:
            change = change + (READ - tensor.dtype.itemsize) * tensor.numel
    return change
