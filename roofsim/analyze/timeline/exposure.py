"""Say of each group's collectives how long a step spends in them, and how much of that shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.cost.scales import Scales
from roofsim.evaluate import mean_over_contexts, messages_of, schedule_of
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.cost.pricing import PassCost, PricedGraph
    from roofsim.evaluate import Evaluation
    from roofsim.numeric import Real
    from roofsim.program import Stage
    from roofsim.schedule.overlap import TrafficByGroup


@dataclass(frozen=True, kw_only=True)
class GroupTime:
    """Collectives of one group in one phase, on one rank.

    Attributes
    ----------
    seconds, exposed
        Of each micro batch, or of the step where they run `once`.
    """

    phase: str
    group: str
    seconds: float
    exposed: float
    once: bool

    @property
    def share(self) -> float:
        """Which part of it shows."""
        return self.exposed / self.seconds if self.seconds else 0.0


def group_times(evaluation: Evaluation, stage: Stage, priced: PricedGraph, cost: PassCost) -> list[GroupTime]:
    """Return the collectives of a stage by phase and group."""
    resolved, micro_batches = evaluation.resolved, evaluation.program.num_micro_batches
    if resolved.gpus == 1:
        return []
    schedule = schedule_of(resolved)
    groups = []
    every = messages_of(resolved).traffic(priced.graph, Scales())
    for (phase, group), traffic in every.items():
        shown, others = (schedule.shown(part, cost, micro_batches) for part in _with_and_without(every, phase, group))
        once = group in ("data", "replica", "workers") and not (schedule.sharded and phase != "optimizer")
        times = schedule.virtual_stages if group == "pipeline" else 1.0
        if once and phase != "optimizer":
            times = micro_batches
        parts = (shown.step, others.step) if once else (shown.micro_batch, others.micro_batch)
        seconds = _number(traffic.seconds, averaged=stage.averaged) * _number(times)
        exposed = max(_number(parts[0].seconds - parts[1].seconds, averaged=stage.averaged), 0.0)
        groups.append(GroupTime(phase=phase, group=group, seconds=seconds, exposed=exposed, once=once))
    return groups


def _with_and_without(every: TrafficByGroup, phase: str, group: str) -> tuple[TrafficByGroup, TrafficByGroup]:
    """Return a group's traffic, of replicas' with that of tensor groups, beside which it goes on; and the latter alone."""
    own = {(phase, group): every[phase, group]}
    if group not in ("data", "replica"):
        return own, {}
    others = {key: traffic for key, traffic in every.items() if key[1] == "tensor"}
    return own | others, others


def rows(name: str, groups: list[GroupTime], runs: float) -> list[dict[str, Any]]:
    """Return one row a phase and group: seconds of a step; contention may show more than the transfer itself."""
    return [
        {
            "stage": name,
            "phase": one.phase,
            "group": one.group,
            "time": one.seconds * times,
            "exposed": one.exposed * times,
            "hidden": max(one.seconds - one.exposed, 0.0) * times,
        }
        for one in groups
        for times in (1.0 if one.once else runs,)
    ]


def _number(value: Real, *, averaged: bool = False) -> float:
    """Return a scalar; of the contexts of a decode, their mean."""
    return float(mean_over_contexts(value) if averaged else value)
