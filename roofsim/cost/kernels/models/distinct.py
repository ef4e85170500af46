"""Work out once what many points have in common: the choice of a tile depends on sizes, not on each rate of a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

#: Points from which on it is looked whether some are alike.
MANY: Final = 256


def on_distinct(function: Callable[..., NDArray[np.float64]], numbers: Sequence[Any]) -> NDArray[np.float64]:
    """Return what a function gives for points, worked out once for those that agree in all its numbers.

    Parameters
    ----------
    function
        Takes each number or array of `numbers`; its result for a point (last axis) depends on that point's numbers alone.

    Examples
    --------
    >>> sizes = np.repeat([2.0, 3.0], MANY)
    >>> seen = []
    >>> def squared(size, factor):
    ...     seen.append(size.size)
    ...     return size * size * factor
    >>> squares = on_distinct(squared, [sizes, 10.0])
    >>> squares[[0, -1]].tolist(), squares.size, seen
    ([40.0, 90.0], 512, [2])
    """
    points = max((np.shape(each)[-1] for each in numbers if np.ndim(each)), default=1)
    varying = [at for at, each in enumerate(numbers) if np.ndim(each) and np.shape(each)[-1] == points]
    alike = _alike([np.asarray(numbers[at]).reshape(-1, points) for at in varying]) if points >= MANY else None
    if alike is None:
        return function(*numbers)
    first, where = alike
    few = [np.asarray(each)[..., first] if at in varying else each for at, each in enumerate(numbers)]
    return np.take(function(*few), where, axis=-1)


def _alike(columns: Sequence[NDArray[Any]]) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
    """Return the points that differ, and which of them each is like; None where most of them do."""
    rows = [row for column in columns for row in column]
    weighted: Any = 0.0
    for weight, row in zip(np.sqrt(np.arange(2.0, len(rows) + 2.0)), rows, strict=True):
        weighted = weighted + weight * row
    _, first, where = np.unique(weighted, return_index=True, return_inverse=True)
    if 2 * len(first) > len(where) or not all((row[first][where] == row).all() for row in rows):
        return None
    return first, where
