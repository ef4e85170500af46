"""Define what a pipeline schedule says of itself; everything that runs, prices or describes one asks through this."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from roofsim.numeric import Real

#: Kinds of work; where backward passes are not split, `BACKWARD` is the whole of one.
FORWARD: Final = 0
BACKWARD: Final = 1
WEIGHTS: Final = 2
KINDS: Final = ("forward", "backward", "weight gradients")

#: (kind, micro batch, chunk of the stage's layers).
Work = tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class StageTimes:
    """Seconds of one micro batch on stages that are alike, with what the stage itself waits for; and how many they are."""

    forward: Real
    backward: Real
    positions: Real = 1.0

    @property
    def both(self) -> Real:
        """Forward and backward."""
        return self.forward + self.backward


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """Largest relative error of a closed form against the event simulation, where it is not exact.

    It holds for up to eight stages of which none takes more than 1.6 times as long as another; tests enforce it.

    Attributes
    ----------
    whole_rounds
        With micro batches in whole rounds of the stages.
    broken_rounds
        With fewer micro batches than stages, or a partial last round.
    """

    whole_rounds: float = 0.0
    broken_rounds: float = 0.0


class PipelineSchedule(ABC):
    """The order in which the stages of a pipeline work on their micro batches, and what follows from it.

    A schedule has no state. `stages` is the number of stages, `virtual` the chunks of layers that each has; `placement` says
    which stage has which part of the model. Numbers in `order` are whole; elsewhere they are floats or arrays.

    Attributes
    ----------
    name
        What `parallel.schedule` says.
    description
        One sentence for users.
    source
        Where its order was published.
    virtual_stages
        Fewest and most chunks per stage that it takes; None: any number.
    folds
        Whether every second chunk goes through the stages backward (V-shaped), so that the last stage hands on to itself and,
        with an even number of chunks, the first stage has the head beside the embedding.
    splits_backward
        Whether gradients of weights are work of their own, which nothing but the update waits for.
    drains_in_turn
        Whether a stage is done one backward pass before the stage below it, so that its update begins earlier.
    accuracy
        How far the closed form may be off.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    source: ClassVar[str]
    virtual_stages: ClassVar[tuple[int, int | None]] = (1, 1)
    folds: ClassVar[bool] = False
    splits_backward: ClassVar[bool] = False
    drains_in_turn: ClassVar[bool] = True
    accuracy: ClassVar[Accuracy] = Accuracy()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "order" in vars(cls) and "pieces" not in vars(cls):  # its order, not the array of what it inherits from
            cls.pieces = PipelineSchedule.pieces  # type: ignore[method-assign]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def runs_as(self, virtual: Real) -> str:
        """Return the name of the schedule that runs with so many chunks per stage: its own, unless it says otherwise."""
        del virtual
        return self.name

    def placement(self, stages: int, virtual: int) -> list[int]:
        """Return the stage of each part of the model, chunk after chunk.

        >>> from roofsim.schedule.pipeline.gpipe import GPipe
        >>> GPipe().placement(2, 2)
        [0, 1, 0, 1]
        """
        way = range(stages)
        return [stage for chunk in range(virtual) for stage in (reversed(way) if self.folds and chunk % 2 else way)]

    def head_on_first(self, virtual: Real) -> bool:
        """Tell whether the first stage has the head and the loss as well."""
        return self.folds and int(np.ravel(virtual)[0]) % 2 == 0

    def layer_unit(self, stages: int, virtual: int) -> int:
        """Return what the number of layers must be a multiple of: with chunks, all of them have the same layers."""
        return stages * virtual if virtual > 1 else 1

    def micro_batch_unit(self, stages: int, virtual: int) -> int:
        """Return what the number of micro batches must be a multiple of."""
        del stages, virtual
        return 1

    @abstractmethod
    def order(self, stage: int, stages: int, micro_batches: int, virtual: int) -> list[Work]:
        """Return what a stage does, in order: each micro batch forward and backward through each of its chunks, once."""

    def pieces(self, stage: int, stages: int, micro_batches: int, virtual: int) -> NDArray[np.intp]:
        """Return `order` as an array, (pieces, 3); schedules that are run often make it at once."""
        return np.array(self.order(stage, stages, micro_batches, virtual), dtype=np.intp).reshape(-1, 3)

    @abstractmethod
    def closed_form(
        self, stages: Sequence[StageTimes], micro_batches: Real, virtual: Real = 1.0, latency: Real = 0.0
    ) -> Real:
        """Return the seconds from the first forward pass to the last backward pass, without running the order.

        `stages` are the kinds of stages in the order of the pipeline; `latency` are the seconds that a result takes to the
        next stage while neither of the two is busy with it.
        """

    @abstractmethod
    def is_exact(self, stages: Real, micro_batches: Real, virtual: Real) -> bool:
        """Tell whether the closed form is what the event simulation gives, whatever each stage takes, at latency 0."""

    @abstractmethod
    def in_flight(self, index: Real, stages: Real, virtual: Real, micro_batches: Real) -> Real:
        """Return the most micro batches, of all its layers, whose activations the stage `index` holds at once."""
