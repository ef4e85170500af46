"""Make the ops of recorded calls that work on lists of tensors, or on whatever a compiler put together."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from roofsim.graph.ops import Elementwise, OptimizerUpdate, Reduction
from roofsim.lower.recorded.tensors import tensors_of
from roofsim.records import replace

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.tensor import DType
    from roofsim.lower.recorded.call import RecordedCall

#: Fused updates -> the method of the table of optimizers, and how many lists, from the first on, they are made of.
_FUSED: Final = {
    "_fused_adamw": ("adamw", 4),
    "_fused_adam": ("adamw", 4),
    "_fused_sgd": ("sgd-momentum", 3),
    "_fused_adagrad": ("adagrad", 3),
}
#: Calls over lists that do not read what they write.
_ONLY_WRITTEN: Final = ("_foreach_copy", "_foreach_zero")
#: Calls over lists that make a number of each tensor.
_TO_NUMBERS: Final = ("_foreach_norm", "_foreach_max")
#: Kernels that PyTorch's compiler names after what it put together: pointwise, reductions over rows, and over columns.
_COMPILED: Final = re.compile(r"^triton_(?P<sort>poi|per|red)_")


def update(call: RecordedCall, dtype: DType, kernels: float) -> AbstractOp | None:
    """Return the op of a call over lists of tensors: an elementary step of an optimizer, or a fused update.

    Parameters
    ----------
    dtype
        Type of the elements, which profilers do not say of lists.
    kernels
        How many it launched.
    """
    name = call.short
    if not (name.startswith(("_foreach_", "_amp_foreach_")) or name in _FUSED):
        return None
    sizes = [float(sum(map(math.prod, shapes))) for shapes in call.lists()]
    sizes = [size for size in sizes if size > 0.0]
    if not sizes:
        return None
    method, many = _FUSED.get(name, (name, len(sizes)))
    sizes = sizes[:many]
    read, written = sum(sizes), sizes[0]
    if name in _FUSED:  # all but the gradients is written again
        written = read - sizes[1] if len(sizes) > 1 else read
    elif name in _ONLY_WRITTEN:
        read -= sizes[0]
    elif name in _TO_NUMBERS:
        written = 0.0
    made = OptimizerUpdate(
        name=name,
        method=method,
        implementation="fused" if name in _FUSED else "foreach",
        elements=sizes[0],
        read=read * dtype.itemsize,
        written=written * dtype.itemsize,
        launches=kernels,
    )
    return made if name in _FUSED else replace(made, flops_per_element=float(len(sizes)))


def compiled(call: RecordedCall) -> AbstractOp | None:
    """Return the op of a kernel that PyTorch's compiler made: each of its tensors moves once, the last as its result."""
    sort = _COMPILED.match(call.operator)
    given = tuple(tensors_of(call).values())
    if sort is None or not given:
        return None
    result = replace(given[-1], name="result")
    if sort["sort"] == "poi":
        return Elementwise(name=sort[0].rstrip("_"), function="compiled", inputs=given[:-1], outputs=(result,))
    return Reduction(name=sort[0].rstrip("_"), inputs=given[:-1], outputs=(result,))
