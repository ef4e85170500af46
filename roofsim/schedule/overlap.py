"""Say which part of the communication a step shows, and which part runs behind arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.cost.links.communication import Traffic
from roofsim.numeric import Real, divide, maximum, minimum, where
from roofsim.records import dataclass
from roofsim.spec.mechanisms import ALL, Mechanisms

if TYPE_CHECKING:
    from roofsim.cost.pricing import PassCost
    from roofsim.schedule.host import HostShown
    from roofsim.spec.engine.ranks import Overlap

TrafficByGroup = dict[tuple[str, str], Traffic]


@dataclass(frozen=True, kw_only=True)
class Contention:
    """What a second of hidden traffic takes from the kernels beside it: while it moves bytes, and while it waits."""

    moving: float
    occupied: float


@dataclass(frozen=True, kw_only=True)
class Exposed:
    """Communication that a step shows: per micro batch, and once per step."""

    micro_batch: Traffic
    step: Traffic
    latency: Real = 0.0
    """Seconds of a message between pipeline stages that hides behind other micro batches: the next stage waits for it."""
    host: HostShown | None = None
    """Waiting for the host and for copies to and from it, where there are any."""


def exposed(
    traffics: TrafficByGroup,
    cost: PassCost,
    overlap: Overlap,
    *,
    sharded: bool,
    virtual: Real,
    num_micro_batches: Real,
    reduces_each: bool = False,
    mechanisms: Mechanisms = ALL,
) -> Exposed:
    """Return what is left of the traffic of one pass after overlapping.

    `traffics` are by phase and group; `sharded`: parameters are gathered for every micro batch; `reduces_each`: gradients are
    reduced behind every micro batch, not behind the last alone; `virtual` stages send as many messages per micro batch.
    """
    micro, step = Traffic(), Traffic()
    latency: Real = 0.0
    physics = cost.physics
    tiled = physics["tiled_communication"] if overlap.tensor and mechanisms.tiled else 1.0
    hides = overlap.data and mechanisms.hidden
    slows = Contention(moving=0.0, occupied=0.0)
    if mechanisms.contention:
        slows = Contention(moving=physics["contention"], occupied=physics["occupied_units"])
    for (phase, group), traffic in traffics.items():
        if group in ("data", "replica"):
            if sharded and phase != "optimizer":
                beside = _compute(cost, phase) + _waits(traffics, phase, tiled, traffic)
                micro = micro.plus(_behind(traffic, beside, slows) if hides else traffic)
            else:
                whole = traffic.times(1.0 if phase == "optimizer" else num_micro_batches)
                during = "forward" if phase == "optimizer" else phase
                beside = _compute(cost, during) + _waits(traffics, during, tiled, traffic)
                beside = beside * num_micro_batches if reduces_each and phase != "optimizer" else beside
                step = step.plus(_buckets(whole, beside, slows) if hides else whole)
        elif group == "workers":
            step = step.plus(traffic)
        elif group == "pipeline":
            hidden = where(virtual > 1.0, 1.0, 0.0) if overlap.pipeline else 0.0
            micro = micro.plus(traffic, virtual * (1.0 - hidden))
            latency = maximum(latency, traffic.seconds * hidden)
        elif group in ("expert", "expert_tensor") and overlap.expert and mechanisms.hidden:
            micro = micro.plus(_behind(traffic, _compute(cost, phase), slows))
        elif group in ("context", "context_ring"):
            micro = micro.plus(_beside_attention(traffic, cost.attention.get(phase, 0.0), slows))
        else:
            micro = micro.plus(traffic, tiled if group == "tensor" else 1.0)
    return Exposed(micro_batch=micro, step=step, latency=latency)


def _waits(traffics: TrafficByGroup, phase: str, tiled: float, beside: Traffic) -> Real:
    """Return the seconds in which a phase waits for its tensor group inside nodes, while traffic between them goes on.

    `tiled` is the share of that group's collectives that remains beside GEMMs.
    """
    seconds: Real = 0.0
    for (during, group), traffic in traffics.items():
        if group == "tensor" and (during == phase or (phase, during) == ("backward", "recompute")):
            seconds = seconds + traffic.intra_node * tiled
    return seconds * divide(beside.inter_node, beside.seconds)


def _compute(cost: PassCost, phase: str) -> Real:
    """Return the device's seconds beside which a phase's communication runs."""
    if phase in ("backward", "recompute"):
        return cost.device_time("backward") + cost.device_time("recompute")
    return cost.device_time(phase)


def _behind(traffic: Traffic, compute: Real, slows: Contention) -> Traffic:
    """Hide traffic behind arithmetic; what moves over the GPU's own links slows that down."""
    beside = slows.moving * traffic.local + slows.occupied * maximum(traffic.seconds - traffic.local, 0.0)
    shown = maximum(traffic.seconds - compute, beside)
    return _scaled(traffic, shown)


def _beside_attention(traffic: Traffic, attention: Real, slows: Contention) -> Traffic:
    """Show what attention waits for, and what takes longer than the blocks of attention beside which it travels."""
    free = traffic.seconds - traffic.waited
    local = traffic.local * divide(free, traffic.seconds)
    beside = slows.moving * local + slows.occupied * maximum(free - local, 0.0)
    return _scaled(traffic, traffic.waited + maximum(free - attention * traffic.beside, beside))


def _buckets(traffic: Traffic, compute: Real, slows: Contention) -> Traffic:
    """Hide bucketed gradient reductions behind backward; the last bucket comes when nothing is left of it."""
    shown = _behind(traffic, compute, slows)
    return _scaled(traffic, maximum(shown.seconds, minimum(traffic.last, traffic.seconds)))


def _scaled(traffic: Traffic, seconds: Real) -> Traffic:
    return traffic.times(divide(seconds, traffic.seconds))
