"""Steps of replicas that wait for one another: the largest of several independent numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from roofsim.numeric import Array
    from roofsim.spec.scenario.workload import Parallel


def replicas_in_step(parallel: Parallel, replicas: float) -> float:
    """Return how many replicas wait for one another: those whose ranks share experts, for each layer exchanges tokens."""
    sharing = float(parallel.expert or 1) / float(parallel.tensor or 1)
    return max(min(sharing, replicas), 1.0)


def chances_of_largest(chances: Array, replicas: float) -> Array:
    """Return the chances of the largest of so many independent numbers, each with these chances, from the smallest up.

    >>> chances_of_largest(np.array([0.5, 0.5]), 2.0).tolist()
    [0.25, 0.75]
    """
    if replicas <= 1.0:
        return chances
    most: Array = np.minimum(np.cumsum(chances), 1.0) ** replicas
    most /= most[-1]
    return np.diff(most, prepend=0.0)


def seconds_in_step(seconds: Array, chances: Array, replicas: float) -> Array:
    """Return the seconds of steps, from the shortest up, of one of several replicas whose steps wait for one another.

    `chances` are those of the steps of each of the others.
    """
    if replicas <= 1.0:
        return seconds
    others = chances_of_largest(chances, replicas - 1.0)
    return np.maximum(seconds[:, np.newaxis], seconds[np.newaxis, :]) @ others
