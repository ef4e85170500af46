"""Put numbers of many kernels into one array with a leading axis of kernels, and take them apart again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.points import Points, like
from roofsim.traced.points import TracedPoints, as_array, stacked

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from roofsim.numeric import Array

#: What is no array, and neither text nor nothing.
PLAIN: Final = frozenset({float, bool})


def column(values: Sequence[Any], rank: int) -> Array:
    """Return numbers of kernels with a leading axis of kernels, and so many axes behind it."""
    plain = PLAIN.issuperset(map(type, values))
    arrays = [] if plain else [value for value in values if isinstance(value, np.ndarray)]
    if not arrays:
        column: Array = np.array(values)
        return column.reshape(len(values), *(1,) * rank) if rank else column
    own = [as_array(value) for value in values]
    if any(isinstance(array, TracedPoints) for array in arrays):  # take note of that
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
        whole = np.stack([np.broadcast_to(each, shape) for each in own])
    else:
        whole = stacked(0, *own)
    return whole.reshape(len(values), *(1,) * (rank - whole.ndim + 1), *whole.shape[1:])


def is_of_points(values: Iterable[Any]) -> bool:
    """Tell whether any of some numbers are those of several points."""
    return any(issubclass(kind, Points) for kind in set(map(type, values)))


def settled(value: Any, *, of_points: bool) -> Any:
    """Return a sum as a float, or as an array of the kind that its parts were."""
    if np.ndim(value) == 0:
        return float(value)
    return like(value, np.zeros(1).view(Points)) if of_points else value


def rows_of(values: Any, count: int, shape: tuple[int, ...], *, of_points: bool) -> list[Any]:
    """Return the numbers of each kernel of a stack on its own."""
    given = as_array(values)
    if given.ndim == 0 or given.shape[1:] == (1,) * len(shape):  # a number of each kernel, whatever the sizes
        rows: list[Any] = np.broadcast_to(given.reshape(-1), count).tolist()
        return rows
    array = np.broadcast_to(given, (count, *shape))
    return [settled(row, of_points=of_points) for row in array]
