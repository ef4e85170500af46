"""Say which part of the copies between device and host, and of the host's own work, a step shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.cost.host.copies import Flow, Flows
from roofsim.numeric import Real, divide, maximum, minimum
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.cost.pricing import PassCost
    from roofsim.spec.engine.ranks import Overlap


@dataclass(frozen=True, kw_only=True)
class HostShown:
    """Seconds that a step waits, by resource: for copies per micro batch and once a step, and for the host's update."""

    micro_batch: Flow
    step: Flow
    update: Flow


def host_shown(flows: Flows, cost: PassCost, overlap: Overlap, backward_kernels: Real, beside: Real = 1.0) -> HostShown:
    """Return what is left of copies and updates after overlapping.

    Units are fetched ahead, saved activations and gradients leave as they come, all behind the arithmetic of the phase.
    Updated parameters travel while the host goes on with the next ones (arXiv 2101.06840, section 4.2). The update waits
    for the backward pass, unless the engine begins it with the first gradients. Of a forward pass copies run behind the share
    `beside` of the arithmetic; the device waits for layers that the host computes.
    """
    forward = _after(_of(flows, "forward"), cost.device_time("forward") * beside)
    forward = forward.plus(flows.get(("forward", "compute"), Flow()))
    compute = cost.device_time("backward") + cost.device_time("recompute")
    each = _of(flows, "backward")
    backward = _after(each, compute)
    last = _after(_of(flows, "backward", "last"), compute)
    more = maximum(last.pace - backward.pace, 0.0)
    work = flows.get(("optimizer", "work"), Flow())
    hidden: Real = 0.0
    if overlap.update:
        hidden = compute * minimum(divide(cost.physics["launch_queue"], maximum(backward_kernels, 1.0)), 1.0)
    back = flows.get(("optimizer", "from_host"), Flow())
    returned = _after(back, work.pace)
    return HostShown(
        micro_batch=forward.plus(backward), step=last.lasting(more).plus(returned), update=_after(work, hidden)
    )


def _of(flows: Flows, phase: str, *more: str) -> Flow:
    """Return how long a phase's copies keep each resource: the link carries both directions at once, others do not."""
    out, back, work = (flows.get((phase, kind), Flow()) for kind in ("to_host", "from_host", "work"))
    for kind in more:
        out = out.plus(flows.get((phase, kind), Flow()))
    return Flow(
        host_link=maximum(out.host_link, back.host_link),
        host_memory=out.host_memory + back.host_memory + work.host_memory,
        storage=out.storage + back.storage + work.storage,
    )


def _after(flow: Flow, beside: Real) -> Flow:
    """Return what is left of a flow that runs beside so many seconds of something else."""
    return flow.lasting(maximum(flow.pace - beside, 0.0))
