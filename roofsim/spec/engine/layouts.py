"""Describe what users of an engine may choose of a layout: what a search over layouts tries."""

from __future__ import annotations

from typing import Literal

from roofsim.schema.base import Field
from roofsim.spec.strict import Strict

#: Degrees of parallelism beside data parallelism, which takes the GPUs that remain.
Degree = Literal["tensor", "pipeline", "virtual_stages", "context", "expert", "expert_tensor"]
#: What data-parallel ranks share: all of them, or those of a node.
Sharing = Literal["none", "optimizer", "optimizer_in_node", "gradients", "full", "full_in_node"]


class LayoutChoices(Strict):
    """What users of an engine may choose of a layout. No fact of a run: a scenario may ask for more."""

    degrees: tuple[Degree, ...] = Field(
        default=("tensor", "pipeline", "virtual_stages", "context", "expert", "expert_tensor"),
        description="Degrees of parallelism beside data parallelism.",
    )
    sequence: bool = Field(default=True, description="Whether tensor ranks may split sequences in training.")
    schedules: tuple[str, ...] = Field(
        default=("1f1b",), description="Schedules of training pipelines; 1f1b with virtual stages is interleaved."
    )
    counted_ends: bool = Field(
        default=False, description="Whether embedding and loss may count as layers when stages are cut."
    )
    sharding: tuple[Sharing, ...] = Field(
        default=("none", "optimizer", "full"),
        description="What data-parallel ranks may share in training; in_node: those of one node.",
    )
    recompute: tuple[Literal["none", "selective", "full"], ...] = Field(
        default=("none", "selective", "full"), description="What the backward pass may compute again."
    )
    offload: tuple[Literal["optimizer_state", "parameters", "activations"], ...] = Field(
        default=(), description="Parts of the state that training may keep on the host."
    )
