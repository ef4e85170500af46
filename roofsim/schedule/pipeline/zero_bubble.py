"""ZB-H1: 1F1B that puts off gradients of weights and fills the drain with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.numeric import Real, minimum
from roofsim.schedule.pipeline.forms import paced
from roofsim.schedule.pipeline.protocol import BACKWARD, FORWARD, WEIGHTS, Accuracy, PipelineSchedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.schedule.pipeline.protocol import StageTimes, Work


class ZeroBubble(PipelineSchedule):
    """1F1B in which gradients of weights run `stage` micro batches late; each stage holds as many as there are stages."""

    name: ClassVar[str] = "zero-bubble"
    description: ClassVar[str] = "1F1B with delayed gradients of weights, which fill the drain (ZB-H1)"
    source: ClassVar[str] = "arXiv 2401.10241, section 2"
    splits_backward: ClassVar[bool] = True
    drains_in_turn: ClassVar[bool] = False
    accuracy: ClassVar[Accuracy] = Accuracy(whole_rounds=0.15, broken_rounds=0.5)

    def order(self, stage: int, stages: int, micro_batches: int, virtual: int) -> list[Work]:
        """Return what a stage does, in order."""
        del virtual
        warm = min(stages - stage - 1, micro_batches)
        order: list[Work] = [(FORWARD, micro, 0) for micro in range(warm)]
        late = 0
        for micro in range(micro_batches):
            if micro + warm < micro_batches:
                order.append((FORWARD, micro + warm, 0))
            order.append((BACKWARD, micro, 0))
            if micro + warm >= micro_batches or micro + 1 - late > stage:
                order.append((WEIGHTS, late, 0))
                late += 1
        return order + [(WEIGHTS, micro, 0) for micro in range(late, micro_batches)]

    def closed_form(
        self, stages: Sequence[StageTimes], micro_batches: Real, virtual: Real = 1.0, latency: Real = 0.0
    ) -> Real:
        """Return the seconds where every other stage keeps the slowest waiting for F + B - W (arXiv 2401.10241, table 1).

        That is a forward pass where B and W are the halves of a backward pass.
        """
        del virtual, latency
        return paced(stages, micro_batches, [one.forward for one in stages])

    def is_exact(self, stages: Real, micro_batches: Real, virtual: Real) -> bool:
        """Tell that it is exact for equal stages only."""
        del stages, micro_batches, virtual
        return False

    def in_flight(self, index: Real, stages: Real, virtual: Real, micro_batches: Real) -> Real:
        """Return as many as there are stages: gradients of weights, which read activations, come late."""
        del index, virtual
        return minimum(stages, micro_batches)
