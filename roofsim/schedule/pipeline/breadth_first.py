"""Breadth-first: all micro batches through one chunk of a stage's layers before any enters the next chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.numeric import Real, maximum
from roofsim.schedule.pipeline.forms import largest, total
from roofsim.schedule.pipeline.protocol import BACKWARD, FORWARD, PipelineSchedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.schedule.pipeline.protocol import StageTimes, Work


class BreadthFirst(PipelineSchedule):
    """Looped breadth-first (PyTorch's LoopedBFS): GPipe over several chunks per stage; each stage holds every micro batch.

    Its bubble is that of interleaved 1F1B, with any number of micro batches.
    """

    name: ClassVar[str] = "breadth-first"
    description: ClassVar[str] = (
        "all micro batches through a chunk of layers, then through the next; then all the way back"
    )
    source: ClassVar[str] = "arXiv 2211.05953, section 4; torch.distributed.pipelining.ScheduleLoopedBFS"
    virtual_stages: ClassVar[tuple[int, int | None]] = (1, None)

    def order(self, stage: int, stages: int, micro_batches: int, virtual: int) -> list[Work]:
        """Return what a stage does, in order; backward passes begin with the last micro batch, as PyTorch's do.

        >>> BreadthFirst().order(0, 2, 1, 2)
        [(0, 0, 0), (0, 0, 1), (1, 0, 1), (1, 0, 0)]
        """
        del stage, stages
        forward: list[Work] = [(FORWARD, micro, chunk) for chunk in range(virtual) for micro in range(micro_batches)]
        return forward + [(BACKWARD, micro, chunk) for _, micro, chunk in reversed(forward)]

    def closed_form(
        self, stages: Sequence[StageTimes], micro_batches: Real, virtual: Real = 1.0, latency: Real = 0.0
    ) -> Real:
        """Return the longest path through the forward work and back, which is exact whatever each stage takes.

        With `x_k` the seconds of one chunk on stage `k`, each way takes ``sum_k x_k + (m - 1) max x``, and each chunk after
        the first ``max(m max x, sum_k x_k)`` more: the slowest stage works through its micro batches without a pause, or
        the first of them returns from the last stage too late for that. A message delays each step to another stage.
        """
        number = total([1.0 for _ in stages], stages)
        whole: Real = 0.0
        for times in ([one.forward for one in stages], [one.backward for one in stages]):
            chunk = [time / virtual for time in times]
            around, slowest = total(chunk, stages) + number * latency, largest(chunk)
            once = around - latency + (micro_batches - 1.0) * slowest
            whole = whole + once + (virtual - 1.0) * maximum(micro_batches * slowest, around)
        return whole

    def is_exact(self, stages: Real, micro_batches: Real, virtual: Real) -> bool:
        """Tell that it always is."""
        del stages, micro_batches, virtual
        return True

    def in_flight(self, index: Real, stages: Real, virtual: Real, micro_batches: Real) -> Real:
        """Return all micro batches."""
        del index, stages, virtual
        return micro_batches
