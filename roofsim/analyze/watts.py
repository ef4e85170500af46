"""What a card draws on average over a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.analyze.work import work_of

if TYPE_CHECKING:
    from roofsim.evaluate import Evaluation


def average_watts(evaluation: Evaluation) -> float | None:
    """Return the watts of a GPU's kernels over the step, without a limit; None where the card's power is not known.

    The energy that the power limit counts leaves out the traffic of kernels whose rates were measured at the card's own
    power, as passes of inference are: these draw that of their traffic at least.
    """
    tdp, step = evaluation.resolved.gpu.tdp, evaluation.step
    if tdp is None:
        return None
    return max(float(step.power) * float(tdp) / float(step.step), memory_watts(evaluation))


def memory_watts(evaluation: Evaluation) -> float:
    """Return the watts of a GPU that the traffic of its memory alone takes, on average over the step."""
    moved = sum(
        float(kernels["bytes_read"]) + float(kernels["bytes_written"])
        for classes in work_of(evaluation).values()
        for kernels in classes.values()
    )
    energy = evaluation.device.energy(0.0, evaluation.resolved.precision.math, moved, on_tensor=True)
    return float(energy) / float(evaluation.step.step)
