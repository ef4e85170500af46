"""What a card draws on average over a step: the one figure that energy is counted with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.analyze.work import beside_the_slowest
from roofsim.cost.host.copies import RESOURCES
from roofsim.evaluate import mean_over_contexts
from roofsim.graph.base import Phase
from roofsim.numeric import Real, maximum, minimum, real
from roofsim.schedule.step import LINKS

if TYPE_CHECKING:
    from roofsim.evaluate import Evaluation


def drawn_watts(evaluation: Evaluation) -> Real | None:
    """Return the watts that each GPU draws on average over the step, at most its limit; None where that is not known."""
    watts = average_watts(evaluation)
    return None if watts is None else minimum(watts, real(evaluation.resolved.gpu.tdp or 0.0))


def average_watts(evaluation: Evaluation) -> Real | None:
    """Return the watts of `drawn_watts` without the limit.

    What the limit counts: the energy of kernels, static power included. Beside it the traffic of kernels that the limit does not
    count (weights and caches that are streamed: their rates were measured at the power that they draw), and in the rest of the time
    what a card draws that waits.
    """
    least = unheld_watts(evaluation)
    if least is None:
        return None
    kernels = _kernel_watts(evaluation)
    return least + kernels * (1.0 - evaluation.resolved.constants.physics["waiting_power"])


def unheld_watts(evaluation: Evaluation) -> Real | None:
    """Return the watts that no limit takes away: of traffic that it does not count and of waiting; None where that is not known."""
    gpu = evaluation.resolved.gpu
    if gpu.tdp is None:
        return None
    own = real(gpu.tdp) / gpu.power_held
    return evaluation.resolved.constants.physics["waiting_power"] * own + streaming_watts(evaluation)


def _kernel_watts(evaluation: Evaluation) -> Real:
    """Return the watts of kernels over the step, as far as the limit counts them."""
    counted = minimum(_kernel_seconds(evaluation) / evaluation.step.step, 1.0)
    return real(evaluation.resolved.gpu.tdp or 0.0) * counted


def streaming_watts(evaluation: Evaluation) -> Real:
    """Return the watts of traffic that the power limit does not count, over the step: of a pipeline, of its slowest stage."""
    traffic: Real = 0.0
    micro, beside = evaluation.program.num_micro_batches, beside_the_slowest(evaluation)
    for place, (stage, priced) in enumerate(zip(evaluation.program.stages, evaluation.priced, strict=True)):
        for index, work in () if place in beside else priced.works:
            if type(work.streamed) is float and work.streamed == 0.0:
                continue
            moved = work.streamed * priced.counts[index]
            times = stage.times * (1.0 if priced.graph.ops[index].phase is Phase.OPTIMIZER else micro)
            traffic = traffic + (mean_over_contexts(moved) if stage.averaged else moved) * times
    return evaluation.device.streaming_energy(traffic) / evaluation.step.step


def _kernel_seconds(evaluation: Evaluation) -> Real:
    """Return the seconds in which the card may draw the energy of its kernels, as far as the limit counts it."""
    waits, seconds = evaluation.step.waits, evaluation.step.power
    for name in (*LINKS, *RESOURCES, "host_update"):
        seconds = seconds - waits.get(name, 0.0)
    return maximum(seconds, 0.0)
