"""Compose the step of many ranks: each pipeline stage with its communication, and the wait for one another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from roofsim.numeric import Real, divide, is_scalar, where
from roofsim.schedule.overlap import Exposed, exposed
from roofsim.schedule.pipeline import bubble
from roofsim.schedule.step import StepTime, compose, with_bubble

if TYPE_CHECKING:
    from roofsim.cost.communication import Traffic
    from roofsim.cost.pricing import PassCost
    from roofsim.spec.engine import Overlap


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How passes run on many ranks.

    Attributes
    ----------
    name
        ``gpipe``, ``1f1b``, ``interleaved`` or ``zero-bubble``.
    virtual_stages
        Chunks of layers that a pipeline stage has.
    overlap
        What the engine hides.
    sharded
        Whether parameters are gathered for every micro batch.
    """

    name: str
    virtual_stages: Real
    overlap: Overlap
    sharded: bool

    def shown(self, found: dict[tuple[str, str], Traffic], cost: PassCost, num_micro_batches: Real) -> Exposed:
        """Return the communication of one pass that is not hidden."""
        return exposed(
            found, cost, self.overlap, sharded=self.sharded, virtual=self.virtual_stages,
            num_micro_batches=num_micro_batches,
        )  # fmt: skip

    def pipelined(self, stages: list[tuple[PassCost, Exposed, Real]], num_micro_batches: Real) -> tuple[StepTime, int]:
        """Return the step of a pipeline, and which kind of stage sets its pace (of the first element, for arrays).

        `stages` are (cost of one micro batch, exposed communication, how many stages are alike). A stage that is the
        slowest for each micro batch need not be the last to finish: each one's own step, with its wait for the others,
        is a lower bound, and the largest of them is the step.
        """
        alone = [compose([(cost, 1.0)], num_micro_batches, [shown]) for cost, shown, _ in stages]
        each = [_per_micro_batch(step, num_micro_batches) for step in alone]
        times = [(seconds, positions) for seconds, (_, _, positions) in zip(each, stages, strict=True)]
        whole = []
        for step, seconds, (cost, _, _) in zip(alone, each, stages, strict=True):
            idle = bubble(self.name, times, self.virtual_stages, _forward_share(cost), own=seconds)
            whole.append(with_bubble(step, idle))
        best, index = whole[0], 0
        for place, step in enumerate(whole[1:], start=1):
            longer = step.step > best.step
            if is_scalar(step.step, best.step):
                best, index = (step, place) if longer else (best, index)
            else:
                best = _elementwise(longer, step, best)
        return best, index


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
        for name in ("breakdown", "resources")
    }
    values: dict[str, Any] = {
        name: chosen(getattr(first, name), getattr(second, name))
        for name in ("step", "device", "host", "power", "once")
    }
    return replace(first, **tables, **values)
