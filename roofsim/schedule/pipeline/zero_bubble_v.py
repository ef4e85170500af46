"""ZB-V: a pipeline folded into a V, in which split backward passes leave no bubble where all passes take the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.numeric import Real, maximum, minimum
from roofsim.schedule.pipeline.forms import largest, paced, total
from roofsim.schedule.pipeline.protocol import BACKWARD, FORWARD, WEIGHTS, Accuracy, PipelineSchedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.schedule.pipeline.protocol import StageTimes, Work


class ZeroBubbleV(PipelineSchedule):
    """Two chunks per stage, the second on the way back (PyTorch's ScheduleZBVZeroBubble).

    The first stage has both ends of the model. Each stage holds as many micro batches as there are stages, as with 1F1B.
    """

    name: ClassVar[str] = "zero-bubble-v"
    description: ClassVar[str] = (
        "two chunks per stage in a V, gradients of weights apart: no bubble where passes are equal"
    )
    source: ClassVar[str] = "arXiv 2401.10241, section 6; torch.distributed.pipelining.ScheduleZBVZeroBubble"
    virtual_stages: ClassVar[tuple[int, int | None]] = (2, 2)
    folds: ClassVar[bool] = True
    splits_backward: ClassVar[bool] = True
    drains_in_turn: ClassVar[bool] = False
    accuracy: ClassVar[Accuracy] = Accuracy(whole_rounds=0.18, broken_rounds=0.18)

    def order(self, stage: int, stages: int, micro_batches: int, virtual: int) -> list[Work]:
        """Return what a stage does, in order: warm-up, one pass of each kind in turn, and a drain of what was put off.

        Written for at least ``2 p - 1`` micro batches; of fewer, what the missing ones would do is left out.
        """
        del virtual
        counted = _Counted()
        counted.run((FORWARD, 0), times=2 * (stages - stage) - 1)
        counted.run((FORWARD, 1), (FORWARD, 0), times=stage)
        counted.run((FORWARD, 1), (BACKWARD, 1), (WEIGHTS, 1), times=stages - stage)
        while counted.done[FORWARD, 1] < max(2 * stages - 1, micro_batches):
            ahead = [(FORWARD, 0)] if counted.done[FORWARD, 0] < max(2 * stages - 1, micro_batches) else []
            counted.run(*ahead, (BACKWARD, 0), (WEIGHTS, 0), (FORWARD, 1), (BACKWARD, 1), (WEIGHTS, 1))
        counted.run((BACKWARD, 0), (BACKWARD, 1), times=stage)
        counted.run((BACKWARD, 0), (WEIGHTS, 0), times=stages - stage)
        for chunk in (1, 0):
            counted.run((WEIGHTS, chunk), times=counted.done[BACKWARD, chunk] - counted.done[WEIGHTS, chunk])
        return [(kind, micro, chunk) for kind, micro, chunk in counted.order if micro < micro_batches]

    def closed_form(
        self, stages: Sequence[StageTimes], micro_batches: Real, virtual: Real = 1.0, latency: Real = 0.0
    ) -> Real:
        """Return the seconds where every other stage keeps the slowest waiting once, for a forward pass of a chunk.

        With fewer than ``2 p - 1`` micro batches the way of the first through all stages and back takes longer: gradients of
        its inputs, those of weights at the end, and one more forward and backward pass for each further micro batch.
        """
        del latency
        fill = paced(stages, micro_batches, [one.forward / virtual for one in stages])
        through = [one.forward + 0.5 * one.backward for one in stages]
        weights = largest([0.5 * one.backward for one in stages])
        return maximum(fill, total(through, stages) + weights + (micro_batches - 1.0) * largest(through))

    def is_exact(self, stages: Real, micro_batches: Real, virtual: Real) -> bool:
        """Tell that it need not be."""
        del stages, micro_batches, virtual
        return False

    def in_flight(self, index: Real, stages: Real, virtual: Real, micro_batches: Real) -> Real:
        """Return as many as there are stages; fewer on the first stages where there are fewer than ``2 p - 1``."""
        first = minimum(micro_batches, 2.0 * stages - index - 1.0)
        return (first + minimum(micro_batches, index + 1.0)) / virtual


class _Counted:
    """An order as it is written: each kind of pass of each chunk takes its micro batches one after another."""

    def __init__(self) -> None:
        self.order: list[Work] = []
        self.done = {(kind, chunk): 0 for kind in (FORWARD, BACKWARD, WEIGHTS) for chunk in (0, 1)}

    def run(self, *passes: tuple[int, int], times: int = 1) -> None:
        """Add passes, (kind, chunk), so many times in a row."""
        for _ in range(times):
            for kind, chunk in passes:
                self.order.append((kind, self.done[kind, chunk], chunk))
                self.done[kind, chunk] += 1
