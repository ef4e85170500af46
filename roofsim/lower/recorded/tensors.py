"""Make the tensors of recorded calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.tensor import DType, Role, Tensor
from roofsim.lower.captured.context import TYPES

if TYPE_CHECKING:
    from roofsim.lower.recorded.call import RecordedCall
    from roofsim.numeric import Real


def tensor_of(name: str, shape: tuple[Real, ...], dtype: DType) -> Tensor:
    """Return what a recorded call makes."""
    return Tensor(name, shape, dtype, Role.TEMPORARY)


def tensors_of(call: RecordedCall) -> dict[int, Tensor]:
    """Return the inputs of a call that are tensors, by their places among its arguments."""
    return {
        place: Tensor(f"input {place}", tuple(map(float, shape)), TYPES[str(call.dtype(place))], Role.INPUT)
        for place, shape in call.tensors()
        if call.dtype(place) in TYPES
    }
