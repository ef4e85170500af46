"""Eager 1F1B (arXiv 2211.05322, section 4): twice the warm-up, so that messages between stages hide behind other work."""

from typing import ClassVar

from roofsim.numeric import Real, minimum
from roofsim.schedule.pipeline.forms import alternating
from roofsim.schedule.pipeline.one_forward_one_backward import OneForwardOneBackward
from roofsim.schedule.pipeline.protocol import Work


class Eager(OneForwardOneBackward):
    name: ClassVar[str] = "eager-1f1b"
    description: ClassVar[str] = "1F1B with two forward passes of warm-up per stage that follows"
    source: ClassVar[str] = "arXiv 2211.05322, section 4"
    virtual_stages: ClassVar[tuple[int, int | None]] = (1, 1)

    def order(self, stage: int, stages: int, micro_batches: int, virtual: int) -> list[Work]:
        passes = [(micro, 0) for micro in range(micro_batches)]
        return alternating(passes, passes, min(2 * (stages - stage - 1), micro_batches))

    def is_exact(self, stages: Real, micro_batches: Real, virtual: Real) -> bool:
        return False  # it is run event by event

    def in_flight(self, index: Real, stages: Real, virtual: Real, micro_batches: Real) -> Real:
        return minimum(2.0 * (stages - index - 1.0) + 1.0, micro_batches)
