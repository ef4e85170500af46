"""Say of each group's collectives how long a step spends in them, and how much of that shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofsim.cost.pricing import Scales
from roofsim.evaluate import mean_over_contexts, messages_of, schedule_of

if TYPE_CHECKING:
    from roofsim.cost.pricing import PassCost, PricedGraph
    from roofsim.evaluate import Evaluation
    from roofsim.numeric import Real
    from roofsim.program import Stage


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
    found = []
    for key, traffic in messages_of(resolved).traffic(priced.graph, Scales()).items():
        phase, group = key
        shown = schedule.shown({key: traffic}, cost, micro_batches)
        once = group in ("data", "replica") and not (schedule.sharded and phase != "optimizer")
        times = schedule.virtual_stages if group == "pipeline" else 1.0
        if once and phase != "optimizer":
            times = micro_batches
        part = shown.step if once else shown.micro_batch
        seconds = _number(traffic.seconds, averaged=stage.averaged) * _number(times)
        exposed = _number(part.seconds, averaged=stage.averaged)
        found.append(GroupTime(phase=phase, group=group, seconds=seconds, exposed=exposed, once=once))
    return found


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
