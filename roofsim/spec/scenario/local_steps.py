"""Describe local steps: workers that train apart and bring their parameters together once in many steps (DiLoCo)."""

from __future__ import annotations

from typing import Literal

from roofsim.schema.base import Field
from roofsim.spec.reading.spoken import Positive
from roofsim.spec.strict import Strict


class LocalSteps(Strict):
    """Groups of data-parallel ranks that each take steps of their own (local SGD; DiLoCo, arXiv 2311.08105)."""

    every: Positive = Field(description="Steps of a worker between two exchanges (H of the paper, which has 500).")
    workers: Positive | None = Field(
        default=None, description="Groups into which the data-parallel ranks fall. Default: each rank is one."
    )
    travels_in: Literal["fp32", "bf16", "fp16"] | None = Field(
        default=None, description="Type of what travels. Default: that of the parameters that the optimizer updates."
    )


def workers_of(steps: LocalSteps | None, data: int | None) -> int:
    """Return the groups that step by themselves; 1: gradients of all ranks come together in every step.

    >>> workers_of(None, 8), workers_of(LocalSteps(every=500), 8), workers_of(LocalSteps(every=500, workers=2), 8)
    (1, 8, 2)
    """
    return 1 if steps is None else (data or 1) if steps.workers is None else steps.workers
