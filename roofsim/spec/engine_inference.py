"""Describe parts of an engine that have several facts: what it hides, kernels for narrow weights, attention of encoders."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

#: Which code computes attention; the name of a generation stands for its achieved rate.
AttentionKernel = Literal[
    "unfused", "fused_softmax", "memory_efficient", "flash1", "flash2", "flash3", "cudnn", "flashinfer", "trtllm",
    "ggml", "paged", "single_query",
]  # fmt: skip


class Strict(BaseModel):
    """Refuses unknown keys and numbers that are none."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, protected_namespaces=())


class Overlap(Strict):
    """Which communication the engine hides behind compute."""

    tensor: bool = Field(default=False, description="Collectives of tensor parallelism, behind the matmuls' tiles.")
    data: bool = Field(default=True, description="Gradient reductions and parameter gathers, behind other layers.")
    pipeline: bool = Field(default=False, description="Messages between pipeline stages, behind other micro batches.")
    update: bool = Field(
        default=False, description="The host's update of offloaded state, behind the backward pass as gradients arrive."
    )


class WeightOnly(Strict):
    """Kernels that multiply 16-bit activations with narrow weights."""

    kernels: Annotated[float, Field(ge=1.0, le=20.0)] = Field(
        default=1.0, description="Launches per product: the product, conversions of its input, sums of its parts."
    )
    compute: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        default=0.95, description="Share of the rate of 16-bit products that is left while weights are expanded."
    )
    bandwidth: Annotated[float, Field(gt=0.0, le=1.0)] | None = Field(
        default=None, description="Share of the memory bandwidth while weights stream; null: as library kernels do."
    )
    integer: Annotated[float, Field(gt=0.0, le=1.0)] | None = Field(
        default=None,
        description="Share of the int8 peak that these kernels reach, which convert their input to int8 and never expand weights "
        "on cards without 16-bit matrix units; null: they multiply in 16 bits.",
    )
    bytes_per_clock: Annotated[float, Field(gt=0.0, le=1000.0)] | None = Field(
        default=None, description="As stream_bytes_per_clock, of narrow weights; null: the same."
    )


class EncoderAttention(Strict):
    """A fused attention kernel of encoders (whole sequences, no cache) within bounds; outside the engine's own runs."""

    generation: AttentionKernel = Field(description="As attention_generation.")
    architectures: tuple[str, ...] = Field(description="GPU architectures that it was written for, 16-bit types.")
    narrow_architectures: tuple[str, ...] = Field(default=(), description="The same for int8 and fp8.")
    longest: Annotated[int, Field(ge=1)] = Field(description="Tokens of the longest sequence.")
    head_sizes: tuple[int, ...] = Field(description="Head sizes that it takes.")
    packs: bool = Field(
        default=False, description="A kernel before it adds biases and packs queries, keys and values into one tensor."
    )
