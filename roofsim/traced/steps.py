"""Do noted operations one after the other, on arrays of any number of points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.records import replace
from roofsim.traced.notes import LENGTH, Record, Ref

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from roofsim.traced.notes import Node


def worked(
    steps: Sequence[tuple[Callable[..., Any], Any, int, tuple[int, ...]]], at: dict[int, Any], rows: int
) -> None:
    """Work out operations one after the other."""
    with np.errstate(all="ignore"):
        for function, arguments, result, free in steps:
            kind = type(arguments)
            if kind is tuple:
                first, second = arguments
                at[result] = function(at[first], at[second])
            elif kind is int:
                at[result] = function(at[arguments])
            else:
                at[result] = arguments(function, at, rows)
            for ref in free:
                del at[ref]


#: Functions that return a view of what they are given.
VIEWS: Final = frozenset({np.ndarray.reshape, np.ndarray.__getitem__, np.broadcast_to})


def prepared(node: Node) -> Any:
    """Return the arguments of an operation: a slot, two slots, or what calls its function with what is in the slots."""
    arguments, options = node.arguments, node.options
    if not options and all(type(argument) is Ref for argument in arguments):
        if len(arguments) == 1:
            return arguments[0].node
        if len(arguments) == 2:
            return arguments[0].node, arguments[1].node
    if not options and len(arguments) == 2:
        first, second = arguments
        if type(first) is Ref and isinstance(second, float | int | bool):
            slot = first.node
            return lambda function, at, _: function(at[slot], second)
        if type(second) is Ref and isinstance(first, float | int | bool):
            slot = second.node
            return lambda function, at, _: function(first, at[slot])

    def call(function: Callable[..., Any], at: dict[int, Any], rows: int) -> Any:
        return function(*_filled(arguments, at, rows), **_filled(options, at, rows))

    return call


def _filled(kept: Any, at: dict[int, Any], rows: int) -> Any:
    kind = type(kept)
    if kind is Ref:
        return at[kept.node]
    if kind is tuple or kind is list:
        return kind(_filled(part, at, rows) for part in kept)
    if kind is dict:
        return {name: _filled(part, at, rows) for name, part in kept.items()}
    if kind is Record:
        return replace(kept.value, **{name: _filled(part, at, rows) for name, part in kept.changed.items()})
    return rows if kept is LENGTH else kept


def broken_by(values: Any, value: Any, axis: int) -> NDArray[np.bool_]:
    """Tell which points say something else than a guard asks of a node whose points are along an axis."""
    broken: Any = np.asarray(values) != value
    points = broken if broken.ndim == 1 else np.moveaxis(broken, axis, 0)  # the latter takes longer than the comparison
    each: NDArray[np.bool_] = points if points.ndim == 1 else points.reshape(len(points), -1).any(axis=1)
    return each
