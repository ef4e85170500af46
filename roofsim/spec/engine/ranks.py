"""Describe what an engine does between many ranks: context exchange, experts, statistics, gradient buckets."""

from __future__ import annotations

from typing import Literal

from roofsim.schema.base import BaseModel, ConfigDict, Field
from roofsim.spec.reading.quantity import Bytes
from roofsim.spec.scenario.workload import ContextCommunication


class Strict(BaseModel):
    """Refuse unknown keys and values that would have to be converted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, protected_namespaces=(), allow_inf_nan=False)


class RankFacts(Strict):
    """The facts of an engine that only several GPUs show; a part of `Engine`."""

    context_communication: ContextCommunication = Field(
        default="p2p",
        description="How ranks of a context group exchange keys and values: as parallel.context_communication.",
    )
    context_balance: Literal["zigzag", "none"] = Field(
        default="zigzag",
        description="How a causal sequence is divided over a context group: a piece from its front and one from its end for "
        "each rank; or in order, so that the last rank attends to most.",
    )
    context_merge: Literal["compute", "fp32"] = Field(
        default="compute",
        description="Type in which a ring adds up partial results and sends gradients of keys and values on.",
    )
    expert_capacity_rows: Literal["dropped", "padded"] = Field(
        default="dropped",
        description="With a capacity factor: tokens beyond it are dropped; or each expert's rows are also padded up to it.",
    )
    sync_batch_norm: bool = Field(
        default=False,
        description="Batch norms take their statistics over all data-parallel ranks: a gather forward, a sum backward, for "
        "each of them.",
    )
    gradient_bucket: Bytes | None = Field(
        default=None,
        description="Bytes of gradients that are reduced together while backward goes on; null: layer by layer.",
    )
