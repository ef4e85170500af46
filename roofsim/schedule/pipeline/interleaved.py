"""Interleaved 1F1B: each stage has several chunks of layers and works on them in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from roofsim.numeric import Real, any_above, is_scalar, maximum, minimum, where
from roofsim.schedule.pipeline.forms import alternated, as_order, paced, total
from roofsim.schedule.pipeline.one_forward_one_backward import OneForwardOneBackward
from roofsim.schedule.pipeline.protocol import Accuracy, PipelineSchedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from roofsim.schedule.pipeline.protocol import StageTimes, Work

#: What it is with one chunk per stage.
PLAIN: Final = OneForwardOneBackward()


class Interleaved(PipelineSchedule):
    """Megatron's order: groups of as many micro batches as stages, chunk after chunk. One chunk would be 1F1B: refused."""

    name: ClassVar[str] = "interleaved"
    description: ClassVar[str] = "1F1B over several chunks of layers per stage; a smaller bubble, more messages"
    source: ClassVar[str] = "arXiv 2104.04473, section 2.2"
    virtual_stages: ClassVar[tuple[int, int | None]] = (2, None)
    accuracy: ClassVar[Accuracy] = Accuracy(whole_rounds=0.16, broken_rounds=0.7)

    def micro_batch_unit(self, stages: int, virtual: int) -> int:
        """Return a round of the stages, as Megatron asks."""
        return stages if virtual > 1 else 1

    def order(self, stage: int, stages: int, micro_batches: int, virtual: int) -> list[Work]:
        """Return what a stage does, in order.

        The last group may have fewer micro batches (Megatron-LM, core/pipeline_parallel/schedules.py, get_schedule_table).
        """
        return as_order(Interleaved.pieces(self, stage, stages, micro_batches, virtual))

    def pieces(self, stage: int, stages: int, micro_batches: int, virtual: int) -> NDArray[np.intp]:
        """Return `order` as an array."""
        if virtual == 1:
            return PLAIN.pieces(stage, stages, micro_batches, virtual)
        forward, backward = _ways(stages, micro_batches, virtual)
        warm = min((stages - stage - 1) * 2 + (virtual - 1) * stages, len(forward))
        return alternated(forward, backward, warm)

    def closed_form(
        self, stages: Sequence[StageTimes], micro_batches: Real, virtual: Real = 1.0, latency: Real = 0.0
    ) -> Real:
        """Return the seconds where every other stage keeps the slowest waiting for a chunk (arXiv 2104.04473, section 2.2).

        Messages that hide are exposed once on the way through all chunks and once on the way back.
        """
        if is_scalar(virtual) and virtual == 1.0:
            return PLAIN.closed_form(stages, micro_batches)
        chunks = total([virtual for _ in stages], stages)
        spread = paced(stages, micro_batches, [one.both / virtual for one in stages]) + 2.0 * latency * (chunks - 1.0)
        return spread if is_scalar(virtual) else where(virtual > 1.0, spread, PLAIN.closed_form(stages, micro_batches))

    def is_exact(self, stages: Real, micro_batches: Real, virtual: Real) -> bool:
        """Tell whether it is 1F1B with at least as many micro batches as stages."""
        return not any_above(virtual, 1.0) and PLAIN.is_exact(stages, micro_batches, virtual)

    def in_flight(self, index: Real, stages: Real, virtual: Real, micro_batches: Real) -> Real:
        """Return ``2 (p - i - 1) + (v - 1) p + 1`` chunks of a v-th of the layers (arXiv 2104.04473)."""
        behind = stages - index
        chunks = (2.0 * (behind - 1.0) + (virtual - 1.0) * stages + 1.0) / virtual
        if is_scalar(virtual):
            return minimum(behind if virtual == 1.0 else chunks, micro_batches)
        return minimum(maximum(behind, chunks), micro_batches)


def _ways(stages: int, micro_batches: int, virtual: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the forward and the backward passes of a stage in order: groups of micro batches, chunk after chunk."""
    micro = np.tile(np.arange(micro_batches), virtual)
    chunk = np.repeat(np.arange(virtual), micro_batches)
    order = np.lexsort((micro, chunk, micro // stages))
    micro, chunk = micro[order], chunk[order]
    return np.column_stack([micro, chunk]), np.column_stack([micro, virtual - 1 - chunk])
