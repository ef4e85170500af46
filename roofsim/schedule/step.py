"""Compose a step from its passes: how often each runs, what the device and the host take, who is slower."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Final

from roofsim.cost.host import RESOURCES
from roofsim.cost.sustained import Sustained
from roofsim.numeric import Real, divide, maximum, smooth_shares

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.cost.pricing import PassCost
    from roofsim.schedule.overlap import Exposed

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
        Seconds by what limits them: compute, memory_bandwidth, launch, power, intra_node_link, inter_node_link, bubble; the
        optimizer's share included; with offload host_link, host_memory, storage. Sums to `step`.
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
    update: dict[str, Real] = dict(parts)
    host: Real = 0.0
    power: Real = 0.0
    apart = Sustained()
    for cost, weight in passes:
        for phase, seconds in cost.device.items():
            target, times = (update, weight) if phase == "optimizer" else (parts, weight * num_micro_batches)
            for name, value in seconds.items():
                target[name] = target[name] + value * times
            host = host + cost.host[phase] * times
            power = power + cost.power[phase] * times
            apart = apart.plus(cost.sustained_in(phase), times)
    weights = [weight for _, weight in passes]
    waits = _waits(weights, num_micro_batches, communication) if communication else {}
    optimizer = update["compute"] + update["memory_bandwidth"] + update["launch"]
    device = parts["compute"] + parts["memory_bandwidth"] + parts["launch"] + optimizer
    settled = _settled(parts, update, waits, device, apart, host, power)
    alone: Real = 0.0
    for weight, shown in zip(weights, communication or (), strict=bool(communication)):
        alone = alone + (shown.step.seconds + (0.0 if shown.host is None else shown.host.step.pace)) * weight
    return replace(settled, once=alone)


def _waits(weights: list[Real], num_micro_batches: Real, communication: list[Exposed]) -> dict[str, dict[str, Real]]:
    """Return the seconds in which the device waits, by the line of the breakdown and by resource."""
    links: dict[str, Real] = dict.fromkeys(LINKS, 0.0)
    copies: dict[str, Real] = dict.fromkeys(RESOURCES, 0.0)
    update: dict[str, Real] = dict.fromkeys(RESOURCES, 0.0)
    for weight, shown in zip(weights, communication, strict=True):
        for name, link in zip(LINKS, ("intra_node", "inter_node"), strict=True):
            micro, once = getattr(shown.micro_batch, link), getattr(shown.step, link)
            links[name] = links[name] + (micro * num_micro_batches + once) * weight
        if shown.host is not None:
            for name in RESOURCES:
                micro, once = getattr(shown.host.micro_batch, name), getattr(shown.host.step, name)
                copies[name] = copies[name] + (micro * num_micro_batches + once) * weight
                update[name] = update[name] + getattr(shown.host.update, name) * weight
    waits = {"exposed_communication": links}
    if any(shown.host is not None for shown in communication):
        waits |= {"host_transfer": copies, "optimizer": update}
    return waits


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
    parts: dict[str, Real],
    update: dict[str, Real],
    waits: dict[str, dict[str, Real]],
    device: Real,
    apart: Sustained,
    host: Real,
    power: Real,
) -> StepTime:
    """Give device, power and host the shares of the step that their partial derivatives say.

    The host's share is launches; the card's is divided as its busy time is, for the breakdown also where its power
    limits: that has no line of its own there. While communication shows, or copies of its host, the card computes nothing
    and draws little; while the host updates, it issues nothing.

    Long products, `apart`, are held to the power limit one by one, all else together.
    """
    links, copies, work = (
        _sum(waits.get(line, {})) for line in ("exposed_communication", "host_transfer", "optimizer")
    )
    short = device - apart.alone
    limited, busy = smooth_shares(short, throttled(short, maximum(power - apart.power, 0.0)), NORM)
    busy = limited * (busy + (1.0 - busy) * (1.0 - 1.0 / CLOCK_POWER)) + apart.held - apart.drawn
    limited = limited + apart.held
    busy = divide(busy, limited)
    body, card = smooth_shares(limited + links + copies, host, NORM)
    step = body + work
    each = body * card / (limited + links + copies)
    own = each * divide(limited, device)  # nothing, where the host computes everything
    breakdown: dict[str, Real] = dict.fromkeys(TIME_KEYS, 0.0 * step)
    resources: dict[str, Real] = {}
    for name, value in parts.items():
        breakdown[name] = value * own
        resources[name] = (value + update[name]) * own * busy
    breakdown["optimizer"] = (update["compute"] + update["memory_bandwidth"] + update["launch"]) * own
    for line, names in waits.items():
        share = 1.0 if line == "optimizer" else each
        for name, seconds in names.items():
            breakdown[line] = breakdown[line] + seconds * share
            resources[name] = resources.get(name, 0.0) + seconds * share
    for table in (breakdown, resources):
        table["launch"] = table["launch"] + body * (1.0 - card)
    resources["power"] = each * limited * (1.0 - busy)
    busy_device, drawing = device + links + copies + work, power + links + copies + work
    return StepTime(
        step=step, breakdown=breakdown, resources=resources, device=busy_device, host=host + work, power=drawing
    )


def _sum(seconds: dict[str, Real]) -> Real:
    total: Real = 0.0
    for value in seconds.values():
        total = total + value
    return total


def repeated(step: StepTime, times: Real) -> StepTime:
    """Return what a step takes that is run so often, each time when the last has ended."""
    if isinstance(times, float) and times == 1.0:
        return step
    tables = ({name: value * times for name, value in table.items()} for table in (step.breakdown, step.resources))
    breakdown, resources = tables
    return StepTime(
        step=step.step * times,
        breakdown=breakdown,
        resources=resources,
        device=step.device * times,
        host=step.host * times,
        power=step.power * times,
        once=step.once * times,
    )


def one_after_another(steps: Sequence[StepTime]) -> StepTime:
    """Return what steps take of which each waits for the one before: every part is the sum of theirs."""
    return reduce(_added, steps)


def _added(first: StepTime, second: StepTime) -> StepTime:
    tables = [
        {name: a.get(name, 0.0) + b.get(name, 0.0) for name in (*a, *(name for name in b if name not in a))}
        for a, b in ((first.breakdown, second.breakdown), (first.resources, second.resources))
    ]
    return StepTime(
        step=first.step + second.step,
        breakdown=tables[0],
        resources=tables[1],
        device=first.device + second.device,
        host=first.host + second.host,
        power=first.power + second.power,
        once=first.once + second.once,
    )


def with_bubble(step: StepTime, idle: Real) -> StepTime:
    """Return the step with the seconds in which it waits for other pipeline stages."""
    return replace(
        step,
        step=step.step + idle,
        breakdown=step.breakdown | {"bubble": step.breakdown["bubble"] + idle},
        resources=step.resources | {"bubble": idle},
    )
