"""Say yes, no, or that the interval does not tell: whether bytes fit, and which of two figures is larger."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from roofsim.numeric import is_scalar
from roofsim.units import binary_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roofsim.numeric import Real

    Ends = tuple[Any, Any]
    RoomVerdict = Literal["fits", "tight", "does_not_fit"]
    PaceVerdict = Literal["faster", "about_equal", "slower"]

FITS: Final = "fits"
TIGHT: Final = "tight"
DOES_NOT_FIT: Final = "does_not_fit"
FASTER: Final = "faster"
ABOUT_EQUAL: Final = "about_equal"
SLOWER: Final = "slower"

#: Standard deviations from the middle of a normal distribution to the end of its 80 % interval.
_END: Final = 1.2815515655446004


def room_verdict(interval: Ends | None, peak: Real, capacity: Real, *missing: Real) -> Any:
    """Say whether bytes fit: ``fits``, ``tight`` where the capacity lies inside the interval, ``does_not_fit``.

    Parameters
    ----------
    interval
        Ends of the 80 % interval of the peak, in bytes; None: the peak alone decides.
    peak, capacity
        Bytes; numbers or arrays.
    missing
        Bytes that places beyond the device lack: any, and it does not fit.

    Returns
    -------
    str or array
        One code, or an array of codes.
    """
    low, high = (peak, peak) if interval is None else interval
    if is_scalar(low, high, capacity, *missing):
        if any(float(one) > 0.0 for one in missing):
            return DOES_NOT_FIT
        return FITS if high <= capacity else DOES_NOT_FIT if low > capacity else TIGHT
    codes = np.where(np.asarray(low) > capacity, DOES_NOT_FIT, TIGHT)
    codes = np.where(np.asarray(high) <= capacity, FITS, codes)
    for one in missing:
        codes = np.where(np.asarray(one) > 0.0, DOES_NOT_FIT, codes)
    return codes.astype(object)


def missing_there(missing: Mapping[str, Real]) -> str:
    """Say what places beyond the device lack, place -> bytes of a node; nothing where they hold what goes there."""
    from roofsim.spec.scenario.offload import TIERS  # nothing is offloaded in most answers

    short = [
        f"{binary_bytes(float(amount))} missing {TIERS[place].words}"
        for place, amount in missing.items()
        if float(amount) > 0.0
    ]
    return f"{' and '.join(short)} of each node" if short else ""


def chance_below(limit: Real, middle: Real, interval: Ends) -> Any:
    """Return the probability that a figure stays at or below a limit; an array where any of them is.

    Its logarithm is taken as two halves of normal distributions that meet at the middle, each as wide as its end of the 80 %
    interval says.

    >>> chance_below(80.0, 80.0, (70.0, 90.0))
    0.5
    >>> round(chance_below(90.0, 80.0, (70.0, 90.0)), 3)
    0.9
    """
    low, high = interval
    if not is_scalar(limit, middle, low, high):
        chances: Any = np.frompyfunc(_chance, 4, 1)(limit, middle, low, high)
        return chances.astype(np.float64)
    return _chance(limit, middle, low, high)


def _chance(limit: Any, middle: Any, low: Any, high: Any) -> float:
    if limit <= 0.0 or middle <= 0.0:
        return 1.0 if limit >= middle else 0.0
    distance = math.log(limit / middle)
    width = math.log(high / middle) if distance > 0.0 else math.log(middle / low)
    if width <= 0.0:
        return float(distance >= 0.0)
    return 0.5 * math.erfc(-_END * distance / width / math.sqrt(2.0))


def ratio_interval(first: tuple[float, Ends], second: tuple[float, Ends]) -> tuple[float, float]:
    """Return the 80 % interval of a ratio of two figures, each given as its value and the ends of its interval.

    Their errors are taken as independent, so that distances on a logarithmic scale add in quadrature. Errors that both have in
    common cancel in truth, so the interval is on the safe side: of 283 pairs of one published run on two cards it holds 90 %,
    and all 195 pairs whose interval leaves out 1 are in the order that was measured.

    >>> low, high = ratio_interval((2.0, (1.8, 2.4)), (1.0, (1.0, 1.0)))
    >>> round(low, 6), round(high, 6)
    (1.8, 2.4)
    """
    (above, (above_low, above_high)), (below, (below_low, below_high)) = first, second
    down = math.hypot(math.log(above / above_low), math.log(below_high / below))
    up = math.hypot(math.log(above_high / above), math.log(below / below_low))
    return above / below * math.exp(-down), above / below * math.exp(up)


def pace_verdict(ratio: tuple[float, float] | None, relative: float) -> PaceVerdict:
    """Say how a rate compares with another: ``faster``, ``about_equal`` where 1 lies inside the interval, ``slower``.

    Parameters
    ----------
    ratio
        80 % interval of the rate over the other; None: the ratio alone decides.
    relative
        The ratio itself.
    """
    low, high = (relative, relative) if ratio is None else ratio
    return FASTER if low > 1.0 else SLOWER if high < 1.0 else ABOUT_EQUAL
