"""Price a kernel: the one formula of roofsim, on floats or arrays, with what bound it computed in the same breath."""

from __future__ import annotations

from typing import Any, Final

from roofsim.numeric import Real, divide, maximum, smooth_shares, where
from roofsim.records import dataclass

#: Codes of what bounds a kernel, as `Price.bound` holds them.
COMPUTE: Final = 0
MEMORY_BANDWIDTH: Final = 1
LAUNCH: Final = 2
BOUNDS: Final = ("compute", "memory_bandwidth", "launch")


@dataclass(frozen=True, slots=True)
class KernelCost:
    """Seconds of one kernel and their parts, which sum to `time`."""

    time: Real
    compute: Real
    memory_bandwidth: Real
    launch: Real
    bound: Any


def price(
    flops: Real, flop_rate: Real, traffic: Real, byte_rate: Real, floor: Real, norm: float, drawn: Real = 0.0
) -> KernelCost:
    """Return ``((flops / flop_rate)^p + (traffic / byte_rate)^p)^(1/p) + floor`` with p = `norm`.

    The floor is the device time of a kernel that does nothing; rates are what kernels of this class achieve, not the
    datasheet's. Each term's share of the time is its partial derivative; the largest is what bounds. Of the traffic's, the
    part `drawn` counts as compute: there the loads that compute units keep in flight set the rate, not the memory.

    >>> price(4e9, 1e12, 0.0, 1e12, 0.0, 6.0).time
    0.004
    """
    computing = divide(flops, flop_rate)
    moving = divide(traffic, byte_rate)
    longest, share = smooth_shares(computing, moving, norm)
    share = share + (1.0 - share) * drawn
    compute, memory = longest * share, longest * (1.0 - share)
    by_compute: Any = compute >= memory
    bound = where(
        maximum(compute, memory) >= floor,
        where(by_compute, float(COMPUTE), float(MEMORY_BANDWIDTH)),
        float(LAUNCH),
    )
    return KernelCost(
        time=longest + floor,
        compute=compute,
        memory_bandwidth=memory,
        launch=floor,
        bound=bound,
    )
