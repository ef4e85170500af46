"""The matrix products of one optimizer step, and the state that they need beside one number per parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.tensor import FP32, DType
from roofsim.numeric import Real, maximum, minimum, product
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor

#: Axes of a convolution's weight, which is seen as [out_channels, rest].
_CONVOLUTION = 4


@dataclass(frozen=True, kw_only=True)
class Products:
    """FLOPs, bytes read and written, the most elements alive at once, and elements of state, over all matrices.

    Attributes
    ----------
    live_type, state_type
        Types of what is alive at once, and of the state; None: that of the other states.
    """

    flops: Real = 0.0
    read: Real = 0.0
    written: Real = 0.0
    live: Real = 0.0
    live_type: DType | None = None
    states: Real = 0.0
    state_type: DType | None = FP32


NOTHING = Products()


def whole(tensor: Tensor) -> Tensor:
    """Return the parameter that a shard is a part of; a parameter that is not sharded itself."""
    return tensor if tensor.of is None else tensor.of


def sides(tensor: Tensor) -> tuple[Real, Real, Real]:
    """Return the shorter and the longer side of a matrix, and how many of them a tensor stacks (experts)."""
    shape = whole(tensor).shape
    split = 1 if len(shape) == _CONVOLUTION else len(shape) - 1
    stacked = 0 if len(shape) == _CONVOLUTION else len(shape) - 2
    rows, columns = product(*shape[stacked:split]), product(*shape[split:])
    return minimum(rows, columns), maximum(rows, columns), product(*shape[:stacked])


def share(tensor: Tensor) -> Real:
    """Return the share of a parameter's work that one rank does: each matrix is one rank's, and all have as many."""
    return tensor.numel / whole(tensor).numel
