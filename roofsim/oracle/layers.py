"""Sum the kernels of one layer of a priced scenario, whose sizes may be arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.cost.links.communication import FREE
from roofsim.cost.scales import Scales
from roofsim.evaluate import mean_over_contexts, messages_of
from roofsim.graph.base import Kind, Phase
from roofsim.graph.ops import Collective

if TYPE_CHECKING:
    from roofsim.evaluate import Evaluation


def seconds_of_layers(evaluation: Evaluation) -> dict[str, Any]:
    """Return the seconds of one iteration of each block of a scenario, by phase (``layers.forward``), and of its messages.

    What is computed again belongs to the backward pass. Kernels take what they do at the clock that the step's power allows.
    Messages (``layers.communication``) are added up as if none were hidden. Of pipelines it is the first stage that has a block.
    """
    seconds: dict[str, Any] = {}
    several = evaluation.resolved.gpus
    messages = None
    for place, stage in enumerate(evaluation.program.stages):
        stretch = evaluation.own_step(place).stretch
        own: dict[str, Any] = {}
        for cost in evaluation.priced[place].per_op():
            op = cost.op
            if op.block is None or op.kind is Kind.VIEW or op.phase is Phase.OPTIMIZER:
                continue
            block = (op.block.mirror or op.block).name
            if isinstance(op, Collective):
                if op.function in FREE or not several > 1:
                    continue
                messages = messages_of(evaluation.resolved) if messages is None else messages
                key, value = f"{block}.communication", messages.time_of(op, Scales()).seconds * op.share
            else:
                phase = Phase.BACKWARD if op.phase is Phase.RECOMPUTE else op.phase
                key, value = f"{block}.{phase}", cost.lasting(stretch) * op.share
            own[key] = own.get(key, 0.0) + (mean_over_contexts(value) if stage.averaged else value)
        seconds = own | seconds
    return seconds
