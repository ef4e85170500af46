"""Add to a step what ranks wait for one another when they are not alike, and for samples that are not there yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.numeric import (
    Real,
    ceil,
    exactly,
    is_none,
    is_scalar,
    largest_of,
    maximum,
    minimum,
    real,
    smooth_shares,
    where,
)
from roofsim.records import replace

if TYPE_CHECKING:
    from roofsim.cost.host.feed import Feed
    from roofsim.schedule.step import StepTime
    from roofsim.spec.resolve import Resolved
    from roofsim.spec.scenario.layout import Layout


def meeting_share(noise: float, nodes: Real, meetings: Real, intervals: Real) -> Real:
    """Return what nodes that meet wait for the slowest of them, as a share of a step (docs/mechanisms/stragglers.md).

    Each of `intervals` equal parts of a step scatters by `noise` on every node, independently. Where nodes meet behind each
    part, the waits add up; where they meet less often, slow and fast parts level out in between.

    >>> meeting_share(0.02, 1.0, 1.0, 1.0), round(meeting_share(0.02, 16.0, 100.0, 100.0), 4)
    (0.0, 0.0353)
    >>> round(meeting_share(0.02, 16.0, 1.0, 100.0), 4)
    0.0035
    """
    share: Real = noise * largest_of(nodes) * minimum(meetings / intervals, 1.0) ** 0.5
    return share


def meetings_of(resolved: Resolved, layout: Layout) -> Real:
    """Return what nodes that meet wait for the slowest of them in a training step, as a share of it.

    All nodes meet once per step, under sharded gradients behind each micro batch; under full sharding those that share the
    shards meet in every pass over a layer.
    """
    parallel, workload, gpus = resolved.parallel, resolved.workload, real(resolved.system.gpus_per_node)
    nodes = ceil(layout.ranks / gpus)
    if not resolved.mechanisms.noise or (is_scalar(nodes) and is_none(nodes - 1.0)):
        return 0.0
    from roofsim.spec.constants.links import shipped_links  # one node needs no network

    noise = shipped_links().network(resolved.system.network).noise
    micro_batches = real(workload.global_batch_size) / (real(workload.micro_batch_size) * layout.data)
    # Layers run forward and backward.
    intervals = 2.0 * real(resolved.model.traits().depth) * micro_batches / layout.pipeline
    waits = meeting_share(noise, nodes, micro_batches if parallel.sharding == "gradients" else 1.0, intervals)
    kept = resolved.engine.data_parallel.pipelined_shards == "kept" and not exactly(layout.pipeline, 1.0)
    if parallel.shards_fully and not kept:
        sharing = ceil(layout.tensor * layout.shards / gpus)
        waits = maximum(waits, meeting_share(noise, sharing, intervals, intervals))
    return waits


def with_stragglers(step: StepTime, ranks: Real, jitter: float, chips: float, meetings: Real = 0.0) -> StepTime:
    """Return the step that waits for the slowest of ranks that run in step.

    Three things scatter, independent and normal: the time of a whole step, by `jitter` (a share of it), the speed of chips at
    arithmetic, by `chips` (0: they count as alike), and what nodes take between two meetings, for which `meetings` is the wait
    as a share of the step. The wait of the first two is ``largest_of(ranks)`` times their deviation.
    It counts as bubble: no link and no kernel that is faster shortens it.
    """
    if is_none(ranks - 1.0) or (jitter == chips == 0.0 and is_scalar(meetings) and is_none(meetings)):
        return step
    spread = ((step.step * jitter) ** 2 + (step.breakdown["compute"] * chips) ** 2) * largest_of(ranks) ** 2
    waits = (spread + (step.step * meetings) ** 2) ** 0.5
    bubble = step.breakdown["bubble"] + waits
    resources = step.resources | {"bubble": step.resources.get("bubble", 0.0) + waits}
    return replace(
        step,
        step=step.step + waits,
        breakdown=step.breakdown | {"bubble": bubble},
        resources=resources,
        waits=step.waits | {"stragglers": waits},
    )


def with_feed(step: StepTime, feed: Feed, corner: float) -> StepTime:
    """Return the step that waits for its samples: as long as the slower of the two, with a soft corner of an exponent.

    Samples are prepared while earlier ones are computed on, so that only what takes longer than the step shows.
    """
    pace = feed.pace
    total, share = smooth_shares(step.step, pace, corner)
    waits = total - step.step
    own = total * share / step.step
    resources = {name: value * own for name, value in step.resources.items()}
    left = total * (1.0 - share)
    storage = where(feed.storage >= pace, 1.0, 0.0)
    compute = where(feed.host_compute >= pace, 1.0, 0.0) * (1.0 - storage)
    parts = {"storage": storage, "host_compute": compute, "host_link": 1.0 - storage - compute}
    for name, part in parts.items():
        resources[name] = resources.get(name, 0.0) + left * part
    breakdown = step.breakdown | {"input": step.breakdown["input"] + maximum(waits, 0.0)}
    return replace(
        step, step=total, breakdown=breakdown, resources=resources, waits=step.waits | {"input": maximum(waits, 0.0)}
    )
