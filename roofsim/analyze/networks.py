"""Say of each network of a diffusion pipeline what it takes and what binds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.analyze.bottleneck import bound_of
from roofsim.cost.scales import Scales
from roofsim.evaluate import stage_costs, step_of
from roofsim.graph.base import HEAVY_KINDS
from roofsim.records import replace
from roofsim.schedule.step import waited

if TYPE_CHECKING:
    from roofsim.evaluate import Evaluation
    from roofsim.numeric import Real
    from roofsim.program import Stage
    from roofsim.schedule.step import StepTime


def networks_of(evaluation: Evaluation) -> tuple[dict[str, Any], ...]:
    """Return one row a network, in their order: runs, seconds and FLOPs of all of them, parameters, what binds it.

    Empty for other programs.
    """
    if not evaluation.program.networks:
        return ()
    seconds = _seconds(evaluation)
    return tuple(
        _row(evaluation, place, stage, seconds[place]) for place, stage in enumerate(evaluation.program.stages)
    )


def _seconds(evaluation: Evaluation) -> list[Real]:
    """Return the seconds of each network in the step; the step's waits for slower ranks and for samples are of no network."""
    program, step = evaluation.program, evaluation.step
    costs, shown = stage_costs(evaluation.resolved, program, evaluation.priced, Scales())
    seconds = []
    for place, (stage, cost) in enumerate(zip(program.stages, costs, strict=True)):
        once = cost.lasting(step.stretch) + (waited(shown[place]) if shown else 0.0)
        seconds.append(once * stage.times / stage.parts * program.num_micro_batches * step.pace)
    return seconds


def _row(evaluation: Evaluation, place: int, stage: Stage, seconds: Real) -> dict[str, Any]:
    alone, priced = replace(evaluation.program, stages=(stage,)), (evaluation.priced[place],)

    def reprice(scales: Scales) -> StepTime:
        return step_of(evaluation.resolved, alone, priced, scales)[0]

    step = reprice(Scales())
    heavy = [op for op in stage.graph if op.group in HEAVY_KINDS]
    return {
        "name": stage.name,
        "runs": stage.times,
        "time": seconds,
        "flops": sum((op.flops() * op.count for op in heavy), 0.0) * stage.times,
        "parameters": sum((tensor.numel * copies for tensor, copies in stage.graph.parameters().items()), 0.0),
        "bound": bound_of(step, reprice),
    }
