"""Choose what to keep where sizes are numbers of several points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roofsim.numeric import is_scalar
from roofsim.passes.partition.keep import kept
from roofsim.points import Points, agreed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roofsim.passes.partition.joint import Joint, Value


def chosen(joint: Joint) -> frozenset[Value]:
    """Return the values that are kept: those on the cut.

    Points of a sweep that keep different values are parted (`Diverged`); of other arrays the largest sizes decide.
    """
    sizes = [value.size for value in joint]
    if is_scalar(*sizes):
        return frozenset(kept(joint, [float(size) for size in sizes]))
    table = np.stack([np.ravel(row) for row in np.broadcast_arrays(*sizes)])
    shape = np.broadcast_shapes(*(np.shape(size) for size in sizes))
    several = any(isinstance(size, Points) for size in sizes)
    rows = np.arange(table.shape[1]).reshape(shape[0] if several else 1, -1)
    largest = table.sum(axis=0)
    columns = [row[np.argmax(largest[row])] for row in rows]
    return _of_points(joint, table[:, columns])


def _of_points(joint: Joint, table: NDArray[np.float64]) -> frozenset[Value]:
    """Return what all columns of sizes keep."""
    distinct, place = np.unique(table, axis=1, return_inverse=True)
    cuts = [frozenset(kept(joint, column.tolist())) for column in distinct.T]
    number = {cut: at for at, cut in enumerate(dict.fromkeys(cuts))}
    labels = np.array([number[cuts[at]] for at in np.ravel(place)], dtype=np.float64)
    agreed(labels)
    return cuts[0]
