"""Compose a step from its passes: how often each runs, what the device and the host take, who is slower."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from roofsim.cost.host.copies import RESOURCES
from roofsim.cost.kernels.sustained import Sustained
from roofsim.numeric import Real, divide, exactly, maximum, raised, smooth_shares
from roofsim.records import dataclass, field, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.cost.pricing import PassCost
    from roofsim.schedule.overlap import Exposed
    from roofsim.spec.constants.physics import Physics

#: Keys of the time breakdown, in the order of the result.
TIME_KEYS: Final = (
    "compute", "memory_bandwidth", "exposed_communication", "launch", "bubble", "optimizer", "host_transfer", "input",
)  # fmt: skip


#: What a step waits for beside its kernels, in the order of tables: launches by a host that is slower than the device, what a
#: server does between two passes, communication that shows, copies and other work of the host that show, its update of
#: parameters, other stages of a pipeline, ranks that are slower by chance, samples.
WAITS: Final = (
    "launches", "between_passes", "intra_node_link", "inter_node_link", *RESOURCES, "host_update", "bubble", "stragglers",
    "input",
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
    waits
        Seconds in which no kernel runs, keys of `WAITS`: with the kernels' own, `OpCost.lasting(stretch)`, they are the step.
    device, host
        Busy seconds of each, the device's at full clock.
    busy
        Busy seconds of the device at the clock that its power allows.
    power
        Seconds in which the card may draw the energy of the step; 0 where its power is unknown.
    stretch
        Seconds that the power limit adds to a kernel for each second of `OpCost.drawn`.
    pace
        Seconds from one kernel's launch to the next's against those of the kernel: more than 1 where the host is slower.
    """

    step: Real
    breakdown: dict[str, Real]
    resources: dict[str, Real]
    waits: dict[str, Real]
    device: Real
    host: Real
    busy: Real
    power: Real
    stretch: Real = 0.0
    pace: Real = 1.0
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
    body, update = _Kernels(), _Kernels()
    host: Real = 0.0
    overhead: Real = 0.0
    serial: Real = 0.0
    for cost, weight in passes:
        overhead = overhead + cost.overhead * weight * num_micro_batches
        serial = serial + cost.serial * weight * num_micro_batches
        for phase in cost.device:
            target, times = (update, weight) if phase == "optimizer" else (body, weight * num_micro_batches)
            target.add(cost, phase, times)
            host = host + cost.host[phase] * times
    weights = [weight for _, weight in passes]
    waits = _waits(weights, num_micro_batches, communication) if communication else {}
    settled = _settled(body, update, waits, host, (overhead, serial), passes[0][0].physics)
    alone: Real = 0.0
    for weight, shown in zip(weights, communication or (), strict=bool(communication)):
        alone = alone + (shown.step.seconds + (0.0 if shown.host is None else shown.host.step.pace)) * weight
    return replace(settled, once=alone)


@dataclass(kw_only=True)
class _Kernels:
    """Sums over the kernels of some passes: seconds at full clock by what takes them, long products apart, and energy."""

    parts: dict[str, Real] = field(
        default_factory=lambda: dict.fromkeys(("compute", "memory_bandwidth", "launch"), 0.0)
    )
    apart: Sustained = field(default_factory=Sustained)
    power: Real = 0.0

    def add(self, cost: PassCost, phase: str, times: Real) -> None:
        """Add the kernels of one phase of a pass that runs so many times."""
        for name, value in cost.device[phase].items():
            self.parts[name] = self.parts[name] + value * times
        self.apart = self.apart.plus(cost.sustained_in(phase), times)
        self.power = self.power + cost.power[phase] * times

    @property
    def seconds(self) -> Real:
        """Seconds at full clock."""
        return self.parts["compute"] + self.parts["memory_bandwidth"] + self.parts["launch"]

    @property
    def short(self) -> Real:
        """Seconds at full clock of what is held to the power limit together."""
        return self.seconds - self.apart.alone

    @property
    def drawn(self) -> Real:
        """Seconds in which the card may draw the energy of what is held to the power limit together."""
        return maximum(self.power - self.apart.power, 0.0)

    def lasting(self, stretch: Real) -> Real:
        """Return the seconds at the clock that power allows, as `OpCost.lasting` does for one kernel."""
        return self.short + self.apart.held + self.drawn * stretch


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


def waited(shown: Exposed) -> Real:
    """Return the seconds in which the device waits in one micro batch for communication and copies."""
    copies = (
        _sum({name: getattr(shown.host.micro_batch, name) for name in RESOURCES}) if shown.host is not None else 0.0
    )
    total: Real = shown.micro_batch.seconds + copies
    return total


def throttled(device: Real, power: Real, clock_power: float) -> Real:
    """Return the seconds of a step at the clock that the card's power allows.

    Parameters
    ----------
    device
        Seconds at full clock.
    power
        Seconds in which the card may draw the energy that the step takes at full clock.
    clock_power
        Exponent with which the power of a busy card goes with its clock.

    Returns
    -------
    Real
        ``device (power / device)^(1 / clock_power)``: a slower clock takes less energy per operation.

    >>> round(throttled(1.0, 1.5, 1.5), 2)
    1.31
    """
    return raised(device, 1.0 - 1.0 / clock_power) * raised(power, 1.0 / clock_power)


def _settled(
    body: _Kernels,
    update: _Kernels,
    waits: dict[str, dict[str, Real]],
    host: Real,
    between: tuple[Real, Real],
    physics: Physics,
) -> StepTime:
    """Give device, power and host the shares of the step that their partial derivatives say.

    The host's share is launches. What the power limit adds belongs to the kernels that draw the power, in proportion to
    their energy; the breakdown has no line of its own for it. While communication shows, or copies of its host, the card
    computes nothing and draws little; while the host updates, it issues nothing. `between` are the seconds
    between passes: in which the device waits, and those (the second) in which the host issues nothing either.

    Long products, `apart`, are held to the power limit one by one, all else together.
    """
    links, copies, work = (
        _sum(waits.get(line, {})) for line in ("exposed_communication", "host_transfer", "optimizer")
    )
    short, drawn, apart = body.short + update.short, body.drawn + update.drawn, body.apart.plus(update.apart)
    norm, clock_power = physics["busy_corner"], physics["clock_power"]
    limited, busy = smooth_shares(short, throttled(short, drawn, clock_power), norm)
    stretch = divide(limited - short, drawn)
    busy = limited * (busy + (1.0 - busy) * (1.0 - 1.0 / clock_power)) + apart.held - apart.drawn
    limited = limited + apart.held
    busy = divide(busy, limited)
    together = limited + links + copies
    whole, card = smooth_shares(together, host, norm)
    overhead, serial = between
    step, pace = whole + work + serial, divide(whole, together)
    each = pace * card
    device = body.seconds + update.seconds
    own = each * divide(limited, device)  # nothing, where the host computes everything
    breakdown = dict.fromkeys(TIME_KEYS, 0.0 * step) | _lines(body, update, stretch, each)
    resources = {name: (value + update.parts[name]) * own * busy for name, value in body.parts.items()}
    for line, names in waits.items():
        share = 1.0 if line == "optimizer" else each
        for name, seconds in names.items():
            breakdown[line] = breakdown[line] + seconds * share
            resources[name] = resources.get(name, 0.0) + seconds * share
    for table in (breakdown, resources):
        table["launch"] = table["launch"] + whole * (1.0 - card) + serial
    resources["power"] = each * limited * (1.0 - busy)
    beside = dict.fromkeys(WAITS, 0.0 * step) | waits.get("exposed_communication", {}) | waits.get("host_transfer", {})
    beside |= {"launches": whole - together, "between_passes": overhead + serial, "host_update": work}
    return StepTime(
        step=step,
        breakdown=breakdown,
        resources=resources,
        waits=beside,
        device=device + links + copies + work + serial,
        busy=together + work + serial,
        host=host + work + serial,
        power=body.power + update.power + links + copies + work + serial,
        stretch=stretch,
        pace=pace,
    )


def _lines(body: _Kernels, update: _Kernels, stretch: Real, each: Real) -> dict[str, Real]:
    """Return the lines of the breakdown that kernels take; launches are as long at any clock."""
    launch, working = body.parts["launch"], body.parts["compute"] + body.parts["memory_bandwidth"]
    slowed = divide(body.lasting(stretch) - launch, working) * each
    return {
        "compute": body.parts["compute"] * slowed,
        "memory_bandwidth": body.parts["memory_bandwidth"] * slowed,
        "launch": launch * each,
        "optimizer": update.lasting(stretch) * each,
    }


def _sum(seconds: dict[str, Real]) -> Real:
    total: Real = 0.0
    for value in seconds.values():
        total = total + value
    return total


def repeated(step: StepTime, times: Real) -> StepTime:
    """Return what a step takes that is run so often, each time when the last has ended."""
    if exactly(times, 1.0):
        return step
    breakdown, resources, waits = (
        {name: value * times for name, value in table.items()} for table in (step.breakdown, step.resources, step.waits)
    )
    return replace(
        step,
        step=step.step * times,
        breakdown=breakdown,
        resources=resources,
        waits=waits,
        device=step.device * times,
        busy=step.busy * times,
        host=step.host * times,
        power=step.power * times,
        once=step.once * times,
    )


def one_after_another(steps: Sequence[StepTime]) -> StepTime:
    """Return the sum of steps that run one after another; its `stretch` and `pace` are those of none of them."""
    return reduce(_added, steps)


def _added(first: StepTime, second: StepTime) -> StepTime:
    tables = [
        {name: a.get(name, 0.0) + b.get(name, 0.0) for name in (*a, *(name for name in b if name not in a))}
        for a, b in (
            (first.breakdown, second.breakdown),
            (first.resources, second.resources),
            (first.waits, second.waits),
        )
    ]
    return StepTime(
        step=first.step + second.step,
        breakdown=tables[0],
        resources=tables[1],
        waits=tables[2],
        device=first.device + second.device,
        host=first.host + second.host,
        busy=first.busy + second.busy,
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
        waits=step.waits | {"bubble": idle},
    )
