"""Describe sharding over fewer ranks than hold the same parameters."""

from __future__ import annotations

from typing import Literal, Self

from roofsim.schema.base import BaseModel, ConfigDict, Field, model_validator
from roofsim.spec.reading.spoken import Positive


class ShardedOver(BaseModel):
    """Sharding over fewer ranks than there are: groups share a copy, and gradients are summed across groups."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True, allow_inf_nan=False
    )

    full: Positive | None = Field(
        default=None, description="Ranks that share parameters, gradients and optimizer state (hybrid sharding)."
    )
    optimizer: Positive | None = Field(
        default=None,
        description="Ranks that share the optimizer's state (Megatron's num-distributed-optimizer-instances, Apex's distributed "
        "optimizers with redundant groups).",
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.full is None) == (self.optimizer is None):
            raise ValueError("expected a mapping with either full or optimizer, such as {full: 8}")
        return self

    @property
    def level(self) -> Literal["full", "optimizer"]:
        """What is sharded."""
        return "optimizer" if self.full is None else "full"

    @property
    def ranks(self) -> int:
        """Ranks that share one copy."""
        return self.full or self.optimizer or 1
