"""Compose a step from its passes: how often each runs, what the device and the host take, who is slower."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from roofsim.numeric import Real, maximum, where

if TYPE_CHECKING:
    from roofsim.cost.pricing import PassCost

#: Keys of the time breakdown, in the order of the result.
TIME_KEYS: Final = (
    "compute", "memory_bandwidth", "exposed_communication", "launch", "bubble", "optimizer", "host_transfer", "input",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """Seconds of one step.

    Attributes
    ----------
    step
        The slower of device and host.
    breakdown
        Keys of `TIME_KEYS`; sums to `step`.
    resources
        Seconds by what limits them: compute, memory_bandwidth, launch; the optimizer's share included. Sums to `step`.
    device, host
        Busy seconds of each.
    """

    step: Real
    breakdown: dict[str, Real]
    resources: dict[str, Real]
    device: Real
    host: Real


def compose(passes: list[tuple[PassCost, Real]], num_micro_batches: Real) -> StepTime:
    """Add up passes and compare device with host.

    Each pass runs as often as its weight says, its forward and backward phases once per micro batch, its optimizer phase
    once. A training or serving loop issues kernels ahead of the device without waiting, so that in the long run a
    step takes as long as the busier of the two.
    """
    parts: dict[str, Real] = dict.fromkeys(("compute", "memory_bandwidth", "launch"), 0.0)
    update: dict[str, Real] = dict(parts)
    host: Real = 0.0
    for cost, weight in passes:
        for phase, seconds in cost.device.items():
            target, times = (update, weight) if phase == "optimizer" else (parts, weight * num_micro_batches)
            for name, value in seconds.items():
                target[name] = target[name] + value * times
            host = host + cost.host[phase] * times
    optimizer = update["compute"] + update["memory_bandwidth"] + update["launch"]
    device = parts["compute"] + parts["memory_bandwidth"] + parts["launch"] + optimizer
    step = maximum(device, host)
    return _settled(parts, update, optimizer, device, host, step)


def _settled(
    parts: dict[str, Real], update: dict[str, Real], optimizer: Real, device: Real, host: Real, step: Real
) -> StepTime:
    """Give the device its parts where it is the slower, and everything to launches where the host is."""
    host_bound: Any = host > device
    zero = 0.0 * step
    breakdown: dict[str, Real] = dict.fromkeys(TIME_KEYS, zero)
    resources: dict[str, Real] = {}
    for name, value in parts.items():
        whole = step if name == "launch" else zero
        breakdown[name] = where(host_bound, whole, value + zero)
        resources[name] = where(host_bound, whole, value + update[name] + zero)
    breakdown["optimizer"] = where(host_bound, zero, optimizer + zero)
    return StepTime(step=step, breakdown=breakdown, resources=resources, device=device, host=host)
