"""Compose a step from its passes: how often each runs, what the device and the host take, who is slower."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from roofsim.numeric import Real, smooth_shares

if TYPE_CHECKING:
    from roofsim.cost.pricing import PassCost

#: Exponent of the soft maximum of device, power and host: they overlap in a step, but not perfectly.
NORM: Final = 8.0
#: Power that a busy card draws goes with its clock to this power: more than 1, for the voltage follows the clock; less than the
#: 3 of voltage in proportion, for a third of the power is static or flat (1.3-1.6 at 0.7 of the clock).
CLOCK_POWER: Final = 1.5

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
        The slowest of device, power and host, with a soft corner.
    breakdown
        Keys of `TIME_KEYS`; sums to `step`.
    resources
        Seconds by what limits them: compute, memory_bandwidth, launch, power; the optimizer's share included. Sums to
        `step`.
    device, host
        Busy seconds of each.
    power
        Seconds in which the card may draw the energy of the step; 0 where its power is unknown.
    """

    step: Real
    breakdown: dict[str, Real]
    resources: dict[str, Real]
    device: Real
    host: Real
    power: Real


def compose(passes: list[tuple[PassCost, Real]], num_micro_batches: Real) -> StepTime:
    """Add up passes and compare device with host.

    Each pass runs as often as its weight says, its forward and backward phases once per micro batch, its optimizer phase
    once. A training or serving loop issues kernels ahead of the device without waiting, so that in the long run a
    step takes as long as the busier of the two.
    """
    parts: dict[str, Real] = dict.fromkeys(("compute", "memory_bandwidth", "launch"), 0.0)
    update: dict[str, Real] = dict(parts)
    host: Real = 0.0
    power: Real = 0.0
    for cost, weight in passes:
        for phase, seconds in cost.device.items():
            target, times = (update, weight) if phase == "optimizer" else (parts, weight * num_micro_batches)
            for name, value in seconds.items():
                target[name] = target[name] + value * times
            host = host + cost.host[phase] * times
            power = power + cost.power[phase] * times
    optimizer = update["compute"] + update["memory_bandwidth"] + update["launch"]
    device = parts["compute"] + parts["memory_bandwidth"] + parts["launch"] + optimizer
    return _settled(parts, update, optimizer, device, host, power)


def throttled(device: Real, power: Real) -> Real:
    """Return the seconds of a step at the clock that the card's power allows.

    Parameters
    ----------
    device
        Seconds at full clock.
    power
        Seconds in which the card may draw the energy that the step takes at full clock.

    Returns
    -------
    Real
        ``device (power / device)^(1 / CLOCK_POWER)``: a slower clock takes less energy per operation.

    >>> round(throttled(1.0, 1.5), 2)
    1.31
    """
    slowed: Real = device ** (1.0 - 1.0 / CLOCK_POWER) * power ** (1.0 / CLOCK_POWER)
    return slowed


def _settled(
    parts: dict[str, Real], update: dict[str, Real], optimizer: Real, device: Real, host: Real, power: Real
) -> StepTime:
    """Give device, power and host the shares of the step that their partial derivatives say.

    The host's share is launches; the card's is divided as its busy time is, for the breakdown also where its power
    limits: that has no line of its own there.
    """
    limited, busy = smooth_shares(device, throttled(device, power), NORM)
    busy = busy + (1.0 - busy) * (1.0 - 1.0 / CLOCK_POWER)
    step, card = smooth_shares(limited, host, NORM)
    breakdown: dict[str, Real] = dict.fromkeys(TIME_KEYS, 0.0 * step)
    resources: dict[str, Real] = {}
    each = step * card / device
    for name, value in parts.items():
        breakdown[name] = value * each
        resources[name] = (value + update[name]) * each * busy
    breakdown["optimizer"] = optimizer * each
    for table in (breakdown, resources):
        table["launch"] = table["launch"] + step * (1.0 - card)
    resources["power"] = step * card * (1.0 - busy)
    return StepTime(step=step, breakdown=breakdown, resources=resources, device=device, host=host, power=power)
