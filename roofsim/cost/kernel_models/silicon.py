"""What the kernel models ask of a card, and the corner between two limits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from roofsim.numeric import Array, Real


@dataclass(frozen=True, slots=True, kw_only=True)
class Silicon:
    """Datasheet facts of one card, or of many as arrays.

    Attributes
    ----------
    compute_units
        Streaming multiprocessors or compute units.
    peak
        Dense FLOP/s in the arithmetic of the kernel.
    vector_peak
        FLOP/s of the ordinary units in fp32.
    bandwidth
        Bytes per second of device memory.
    cache
        Bytes of the last-level cache; 0 when unknown.
    power_limit
        FLOP/s that the board's power allows in this arithmetic; infinite when it does not bind.
    """

    compute_units: Real
    peak: Real
    bandwidth: Real
    cache: Real
    vector_peak: Real = np.inf
    power_limit: Real = np.inf


def corner(a: Real, b: Real, p: Real) -> Array:
    """Combine two limits: ``p`` = 1 adds their times, infinity takes the larger.

    >>> float(corner(3.0, 4.0, 2.0))
    5.0
    """
    large = np.maximum(np.maximum(a, b), np.finfo(np.float64).tiny)
    ratio = np.minimum(a, b) / large
    return np.asarray(large * np.exp(np.log1p(ratio**p) / p))
