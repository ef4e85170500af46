"""Compose the step of many ranks: each pipeline stage with its communication, and the wait for one another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.numeric import Real, divide, maximum, where
from roofsim.points import possibly, surely
from roofsim.records import dataclass, replace
from roofsim.schedule.overlap import Exposed, exposed
from roofsim.schedule.pipeline.makespan import closed_form, makespan
from roofsim.schedule.pipeline.protocol import StageTimes
from roofsim.schedule.step import StepTime, compose, with_bubble
from roofsim.spec.mechanisms import ALL, Mechanisms

if TYPE_CHECKING:
    from roofsim.cost.links.communication import Traffic
    from roofsim.cost.pricing import PassCost
    from roofsim.schedule.pipeline.protocol import PipelineSchedule
    from roofsim.spec.engine.ranks import Overlap


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How passes run on many ranks.

    Attributes
    ----------
    pipeline
        In which order the stages of a pipeline work.
    virtual_stages
        Chunks of layers that a pipeline stage has.
    overlap
        What the engine hides.
    sharded
        Whether parameters are gathered for every micro batch.
    reduces_each
        Whether gradients are reduced behind every micro batch (ZeRO-2).
    mechanisms
        What is taken into account: everything, but in an ablation.
    """

    pipeline: PipelineSchedule
    virtual_stages: Real
    overlap: Overlap
    sharded: bool
    reduces_each: bool = False
    mechanisms: Mechanisms = ALL

    def shown(self, traffics: dict[tuple[str, str], Traffic], cost: PassCost, num_micro_batches: Real) -> Exposed:
        """Return the communication of one pass that is not hidden."""
        return exposed(
            traffics,
            cost,
            self.overlap,
            sharded=self.sharded,
            virtual=self.virtual_stages,
            num_micro_batches=num_micro_batches,
            reduces_each=self.reduces_each,
            mechanisms=self.mechanisms,
        )

    def pipelined(self, stages: list[tuple[PassCost, Exposed, Real]], num_micro_batches: Real) -> tuple[StepTime, Any]:
        """Return the step of a pipeline, and which kind of stage sets its pace: one number, or `Points` where they differ.

        `stages` are (cost of one micro batch, exposed communication, how many stages are alike). The breakdown is that of
        the stage with the most work; what the step takes longer than that is its bubble. What runs once, gradient
        reduction and update, follows each stage's last backward pass; those further on are done a backward pass earlier.
        """
        alone = [compose([(cost, 1.0)], num_micro_batches, [shown]) for cost, shown, _ in stages]
        times = stage_times(stages, alone, num_micro_batches)
        if not self.mechanisms.uneven_stages:
            times = _even(times)
        latency: Real = 0.0
        for _, shown, _ in stages:
            latency = maximum(latency, shown.latency)
        whole = self._makespan(times, num_micro_batches, latency)
        step = self._step(alone, times, whole)
        best: StepTime = alone[0]
        index: Any = 0
        for place, one in enumerate(alone[1:], start=1):
            longer = one.step > best.step
            if surely(longer):
                best, index = one, place
            elif possibly(longer):
                best, index = _elementwise(longer, one, best), where(longer, float(place), index)
        return with_bubble(best, step - best.step), index

    def _makespan(self, times: list[StageTimes], num_micro_batches: Real, latency: Real) -> Real:
        """Return the seconds from the first forward pass to the last backward pass."""
        if not self.mechanisms.bubble:
            slowest = times[0].both
            for one in times[1:]:
                slowest = maximum(slowest, one.both)
            return slowest * num_micro_batches
        if not self.mechanisms.simulation:
            return closed_form(self.pipeline, times, num_micro_batches, self.virtual_stages, latency)
        return makespan(self.pipeline, times, num_micro_batches, self.virtual_stages, latency)

    def _step(self, alone: list[StepTime], times: list[StageTimes], whole: Real) -> Real:
        """Return the seconds after which all stages have updated their parameters."""
        best: Real = whole
        below: Real = 0.0
        for step, one in zip(alone, times, strict=True):
            best = maximum(best, whole - below + step.once + step.breakdown["optimizer"])
            if self.pipeline.drains_in_turn:
                below = below + one.backward * one.positions / self.virtual_stages
        return best


def _even(times: list[StageTimes]) -> list[StageTimes]:
    """Return stages that all take the mean of them."""
    number: Real = 0.0
    forward: Real = 0.0
    backward: Real = 0.0
    for one in times:
        number = number + one.positions
        forward = forward + one.forward * one.positions
        backward = backward + one.backward * one.positions
    return [replace(one, forward=forward / number, backward=backward / number) for one in times]


def stage_times(
    stages: list[tuple[PassCost, Exposed, Real]], alone: list[StepTime], num_micro_batches: Real
) -> list[StageTimes]:
    """Return what one micro batch takes on each kind of stage, from its steps without the others."""
    times = []
    for (cost, _, positions), step in zip(stages, alone, strict=True):
        seconds, share = _per_micro_batch(step, num_micro_batches), _forward_share(cost)
        forward = seconds * share
        times.append(StageTimes(forward=forward, backward=seconds - forward, positions=positions))
    return times


def _per_micro_batch(step: StepTime, num_micro_batches: Real) -> Real:
    """Return the seconds of one micro batch: the step without its update and what else runs once."""
    once = step.breakdown["optimizer"] + step.once
    return (step.step - once) / num_micro_batches


def _forward_share(cost: PassCost) -> Real:
    forward = cost.device_time("forward")
    whole = forward + cost.device_time("backward") + cost.device_time("recompute")
    return divide(forward, whole)


def _elementwise(longer: Any, first: StepTime, second: StepTime) -> StepTime:
    def chosen(a: Real, b: Real) -> Real:
        return where(longer, a, b)

    tables: dict[str, Any] = {
        name: {key: chosen(value, getattr(second, name)[key]) for key, value in getattr(first, name).items()}
        for name in ("breakdown", "resources", "waits")
    }
    values: dict[str, Any] = {
        name: chosen(getattr(first, name), getattr(second, name))
        for name in ("step", "device", "host", "busy", "power", "stretch", "pace", "once")
    }
    return replace(first, **tables, **values)
