"""Compose a step from its passes: how often each runs, what the device and the host take, who is slower."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from roofsim.numeric import Real, smooth_shares

if TYPE_CHECKING:
    from roofsim.cost.pricing import PassCost
    from roofsim.schedule.overlap import Exposed

#: Exponent of the soft maximum of device, power and host: they overlap in a step, but not perfectly.
NORM: Final = 8.0

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
        Seconds by what limits them: compute, memory_bandwidth, launch, power, intra_node_link, inter_node_link, bubble; the
        optimizer's share included. Sums to `step`.
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
    once: Real = 0.0
    """Seconds of communication that run once per step, not for every micro batch."""


LINKS: Final = ("intra_node_link", "inter_node_link")


def compose(
    passes: list[tuple[PassCost, Real]], num_micro_batches: Real, communication: list[Exposed] | None = None
) -> StepTime:
    """Add up passes and compare device with host.

    Each pass runs as often as its weight says, its forward and backward phases once per micro batch, its optimizer phase
    once. A training or serving loop issues kernels ahead of the device without waiting, so that in the long run a
    step takes as long as the busier of the two.
    """
    parts: dict[str, Real] = dict.fromkeys(("compute", "memory_bandwidth", "launch"), 0.0)
    links: dict[str, Real] = dict.fromkeys(LINKS, 0.0)
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
    for (_, weight), shown in zip(passes, communication or (), strict=bool(communication)):
        for name, link in zip(LINKS, ("intra_node", "inter_node"), strict=True):
            micro, once = getattr(shown.micro_batch, link), getattr(shown.step, link)
            links[name] = links[name] + (micro * num_micro_batches + once) * weight
    optimizer = update["compute"] + update["memory_bandwidth"] + update["launch"]
    device = parts["compute"] + parts["memory_bandwidth"] + parts["launch"] + optimizer
    settled = _settled(parts, update, links if communication else {}, device, host, power)
    alone: Real = 0.0
    for (_, weight), shown in zip(passes, communication or (), strict=bool(communication)):
        alone = alone + shown.step.seconds * weight
    return replace(settled, once=alone)


def _settled(
    parts: dict[str, Real], update: dict[str, Real], links: dict[str, Real], device: Real, host: Real, power: Real
) -> StepTime:
    """Give device, power and host the shares of the step that their partial derivatives say.

    The host's share is launches; the card's is divided as its busy time is, for the breakdown also where its power
    limits: that has no line of its own there. While communication shows, the card draws little and computes nothing.
    """
    waiting: Real = 0.0
    for seconds in links.values():
        waiting = waiting + seconds
    device, power = device + waiting, power + waiting
    limited, busy = smooth_shares(device, power, NORM)
    step, card = smooth_shares(limited, host, NORM)
    breakdown: dict[str, Real] = dict.fromkeys(TIME_KEYS, 0.0 * step)
    resources: dict[str, Real] = {}
    each = step * card / device
    for name, value in parts.items():
        breakdown[name] = value * each
        resources[name] = (value + update[name]) * each * busy
    breakdown["optimizer"] = (update["compute"] + update["memory_bandwidth"] + update["launch"]) * each
    breakdown["exposed_communication"] = waiting * each
    for name, seconds in links.items():
        resources[name] = seconds * each * busy
    for table in (breakdown, resources):
        table["launch"] = table["launch"] + step * (1.0 - card)
    resources["power"] = step * card * (1.0 - busy)
    return StepTime(step=step, breakdown=breakdown, resources=resources, device=device, host=host, power=power)


def with_bubble(step: StepTime, idle: Real) -> StepTime:
    """Return the step with the seconds in which it waits for other pipeline stages."""
    return replace(
        step,
        step=step.step + idle,
        breakdown=step.breakdown | {"bubble": step.breakdown["bubble"] + idle},
        resources=step.resources | {"bubble": idle},
    )
