"""Price a resolved scenario: programs, kernels, schedule, memory; the numbers of a result on floats or arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from roofsim.cost.device import Device, device_of
from roofsim.cost.kernels import Pricing
from roofsim.cost.pricing import PassCost, PricedGraph, Scales
from roofsim.program import Program, build
from roofsim.schedule.memory import MemoryProfile, profile
from roofsim.schedule.step import StepTime, compose
from roofsim.spec.mesh import with_trailing_axis

if TYPE_CHECKING:
    from roofsim.numeric import Array, Real
    from roofsim.spec.resolve import Resolved


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Everything that was computed for one scenario; `reprice` gives its step on scaled hardware."""

    resolved: Resolved
    program: Program
    device: Device
    priced: tuple[PricedGraph, ...]
    step: StepTime
    profiles: tuple[MemoryProfile, ...]

    def reprice(self, scales: Scales) -> StepTime:
        """Return the step on hardware whose rates are scaled."""
        return step_of(self.program, self.priced, scales)

    def stage_time(self, name: str) -> Real:
        """Return the seconds of one run of a stage, the slower of device and host."""
        for stage, priced in zip(self.program.stages, self.priced, strict=True):
            if stage.name == name:
                cost = _averaged(priced.totals(), averaged=stage.averaged)
                return compose([(cost, 1.0)], self.program.num_micro_batches).step
        return 0.0


def evaluate(resolved: Resolved, *, with_curve: bool = False) -> Evaluation:
    """Lower, transform and price a resolved scenario whose sizes and hardware numbers may be arrays."""
    device = device_of(resolved.gpu, resolved.architecture, _issue_time(resolved))
    program = build(resolved)
    channels_last = resolved.engine.memory_format == "channels_last"
    lifted = device_of(with_trailing_axis(resolved).gpu, resolved.architecture, _issue_time(resolved))
    priced = tuple(
        PricedGraph(stage.graph, Pricing(lifted if stage.averaged else device, channels_last=channels_last))
        for stage in program.stages
    )
    profiles = tuple(profile(stage.graph, with_curve=with_curve) for stage in program.stages)
    return Evaluation(
        resolved=resolved,
        program=program,
        device=device,
        priced=priced,
        step=step_of(program, priced, Scales()),
        profiles=profiles,
    )


def _issue_time(resolved: Resolved) -> float:
    if resolved.engine.launch == "graphs":
        return 0.0
    return resolved.engine.host_issue_time * resolved.system.host.issue_factor


def step_of(program: Program, priced: tuple[PricedGraph, ...], scales: Scales) -> StepTime:
    """Compose the step of a program on scaled hardware."""
    passes = [
        (_averaged(graph.totals(scales), averaged=stage.averaged), stage.times)
        for stage, graph in zip(program.stages, priced, strict=True)
    ]
    return compose(passes, program.num_micro_batches)


def _averaged(cost: PassCost, *, averaged: bool) -> PassCost:
    """Average a price over its last axis, the contexts of a decode."""
    if not averaged:
        return cost
    device = {
        phase: {part: mean_over_contexts(value) for part, value in parts.items()}
        for phase, parts in cost.device.items()
    }
    return PassCost(device=device, host={phase: mean_over_contexts(value) for phase, value in cost.host.items()})


def mean_over_contexts(value: Real) -> Real:
    """Average over the last axis by the trapezoid rule: evenly spaced contexts, end points for half an interval."""
    if isinstance(value, float):
        return value
    if value.shape[-1] == 1:
        only: Real = value[..., 0]
        return only
    weights = np.ones(value.shape[-1])
    weights[[0, -1]] = 0.5
    mean: Array = (value * weights).sum(axis=-1) / weights.sum()
    return float(mean) if np.ndim(mean) == 0 else mean
