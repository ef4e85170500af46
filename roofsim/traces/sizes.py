"""Work out FLOPs of recorded operators from the dimensions of their inputs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

Dims = tuple[tuple[int, ...], ...]


def _product(left: tuple[int, ...], right: tuple[int, ...]) -> float | None:
    """Return FLOPs of ``[..., m, k] @ [..., k, n]``."""
    if len(left) < 2 or len(right) < 2 or left[-1] != right[-2]:
        return None
    return 2.0 * math.prod(left) * right[-1]


def _linear(left: tuple[int, ...], weight: tuple[int, ...]) -> float | None:
    """Return FLOPs of ``[..., k]`` by a weight of ``[n, k]``."""
    if not left or len(weight) != 2 or left[-1] != weight[1]:
        return None
    return 2.0 * math.prod(left) * weight[0]


#: Operator, without namespace -> FLOPs of its inputs' dimensions.
_RULES: Final[dict[str, Callable[[Dims], float | None]]] = {
    "mm": lambda dims: _product(dims[0], dims[1]),
    "bmm": lambda dims: _product(dims[0], dims[1]),
    "_scaled_mm": lambda dims: _product(dims[0], dims[1]),
    "_int_mm": lambda dims: _product(dims[0], dims[1]),
    "addmm": lambda dims: _product(dims[1], dims[2]),
    "_addmm_activation": lambda dims: _product(dims[1], dims[2]),
    "baddbmm": lambda dims: _product(dims[1], dims[2]),
    "linear": lambda dims: _linear(dims[0], dims[1]),
}


def flops_of(operator: str, dims: Dims) -> float | None:
    """Return the FLOPs of an operator; None where its dimensions do not say.

    >>> flops_of("aten::addmm", ((128,), (32, 64), (64, 128), (), ()))
    524288.0
    >>> flops_of("aten::linear", ((8, 32, 64), (128, 64), (128,)))
    4194304.0
    >>> flops_of("aten::relu", ((32, 64),)) is None
    True
    """
    rule = _RULES.get(operator.rpartition("::")[2])
    if rule is None:
        return None
    try:
        return rule(dims)
    except IndexError:
        return None
