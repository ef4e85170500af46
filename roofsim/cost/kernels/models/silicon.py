"""What the kernel models ask of a card, the corner between two limits, and what power leaves of a clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roofsim.numeric import Array, Real
from roofsim.records import dataclass
from roofsim.traced.points import as_array

if TYPE_CHECKING:
    from roofsim.spec.constants.physics import Physics


@dataclass(frozen=True, slots=True, kw_only=True)
class Silicon:
    """Datasheet facts of one card, or of many as arrays.

    Attributes
    ----------
    compute_units
        Streaming multiprocessors or compute units.
    peak
        Dense FLOP/s in the arithmetic of the kernel.
    bandwidth
        Bytes per second of device memory.
    cache
        Bytes of the last-level cache; 0 when unknown.
    per_clock
        FLOP of one compute unit per clock in the arithmetic of the kernel: against it counts what other units do meanwhile.
    physics
        Constants that belong to no card: how sharp the corners of the models are.
    """

    compute_units: Real
    peak: Real
    bandwidth: Real
    cache: Real
    per_clock: Real
    physics: Physics


def corner(a: Real, b: Real, p: Real) -> Array:
    """Combine two limits: ``p`` = 1 adds their times, infinity takes the larger.

    >>> float(corner(3.0, 4.0, 2.0))
    5.0
    """
    large = np.maximum(np.maximum(a, b), np.finfo(np.float64).tiny)
    ratio = np.minimum(a, b) / large
    return as_array(large * np.exp(np.log1p(ratio**p) / p))


def power_share(drawn: float, sharpness: float) -> float:
    """Return the share of a peak that a board sustains which would draw so many times its power at that peak.

    A smooth minimum with 1: cards just below the limit lose a little already.

    >>> round(power_share(0.5, 4.0), 2), round(power_share(2.0, 4.0), 2)
    (0.98, 0.49)
    """
    return float(1.0 / corner(1.0, drawn, sharpness))


def full_clock_share(sustained: float, drawn: float, exponent: float) -> float:
    """Return the share of a peak at full clock, from the one that a board sustained in long runs of one kernel.

    Parameters
    ----------
    sustained
        Measured share of the peak.
    drawn
        Power at the peak and at full clock, over what the board may draw.
    exponent
        With which power goes with the clock: time is ``full^(1 - 1/exponent) limit^(1/exponent)``.

    Examples
    --------
    >>> round(full_clock_share(0.57, 2.35, 1.5), 2), full_clock_share(0.7, 1.1, 1.5)
    (1.02, 0.7)
    """
    share: float = (sustained * drawn ** (1.0 / exponent)) ** (exponent / (exponent - 1.0))
    return max(share, sustained)
