"""GPipe: all forward passes, then all backward passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.schedule.pipeline.forms import one_way_and_back
from roofsim.schedule.pipeline.protocol import BACKWARD, FORWARD, PipelineSchedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.numeric import Real
    from roofsim.schedule.pipeline.protocol import StageTimes, Work


class GPipe(PipelineSchedule):
    """All micro batches forward, then all backward; each stage holds every micro batch."""

    name: ClassVar[str] = "gpipe"
    description: ClassVar[str] = "all forward passes, then all backward passes"
    source: ClassVar[str] = "arXiv 1811.06965"

    def order(self, stage: int, stages: int, micro_batches: int, virtual: int) -> list[Work]:
        """Return what a stage does, in order."""
        del stage, stages, virtual
        return [(kind, micro, 0) for kind in (FORWARD, BACKWARD) for micro in range(micro_batches)]

    def closed_form(
        self, stages: Sequence[StageTimes], micro_batches: Real, virtual: Real = 1.0, latency: Real = 0.0
    ) -> Real:
        """Return the seconds of the slowest stage each way, and once those of all others."""
        del virtual, latency
        return one_way_and_back(stages, micro_batches)

    def is_exact(self, stages: Real, micro_batches: Real, virtual: Real) -> bool:
        """Tell that it always is."""
        del stages, micro_batches, virtual
        return True

    def in_flight(self, index: Real, stages: Real, virtual: Real, micro_batches: Real) -> Real:
        """Return all micro batches."""
        del index, stages, virtual
        return micro_batches
