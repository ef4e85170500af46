"""Price a kernel: the one formula of roofsim, on floats or arrays, with what bound it computed in the same breath."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from roofsim.numeric import Real, divide, maximum, where

#: Codes of what bounds a kernel, as `Price.bound` holds them.
COMPUTE: Final = 0
MEMORY_BANDWIDTH: Final = 1
LAUNCH: Final = 2
BOUNDS: Final = ("compute", "memory_bandwidth", "launch")


@dataclass(frozen=True, slots=True)
class Price:
    """Seconds of one kernel and their parts, which sum to `time`."""

    time: Real
    compute: Real
    memory_bandwidth: Real
    launch: Real
    bound: Any


def price(flops: Real, flop_rate: Real, traffic: Real, byte_rate: Real, floor: Real) -> Price:
    """Return ``max(flops / flop_rate, traffic / byte_rate) + floor``.

    The floor is the device time of a kernel that does nothing; rates are what kernels of this class achieve, not the
    datasheet's. The larger term gets the whole of the maximum; at a tie, compute.

    >>> price(4e9, 1e12, 1e9, 1e12, 0.0).time
    0.004
    """
    computing = divide(flops, flop_rate)
    moving = divide(traffic, byte_rate)
    by_compute: Any = computing >= moving
    longest = maximum(computing, moving)
    bound = where(longest >= floor, where(by_compute, float(COMPUTE), float(MEMORY_BANDWIDTH)), float(LAUNCH))
    return Price(
        time=longest + floor,
        compute=where(by_compute, computing, 0.0 * computing),
        memory_bandwidth=where(by_compute, 0.0 * moving, moving),
        launch=floor,
        bound=bound,
    )
