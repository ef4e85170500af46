"""Describe an engine's attention: which kernels run where, and what they read."""

from __future__ import annotations

from typing import Annotated, Literal

from roofsim.schema.base import Field
from roofsim.spec.engine.base import Facts, Flat
from roofsim.spec.strict import Strict

#: Which code computes attention; the name of a generation stands for its achieved rate.
AttentionKernel = Literal[
    "unfused",
    "fused_softmax",
    "memory_efficient",
    "flash1",
    "flash2",
    "flash3",
    "cudnn",
    "flashinfer",
    "trtllm",
    "ggml",
    "paged",
    "single_query",
    "masked",
]


class EncoderAttention(Strict):
    """A fused attention kernel of encoders (whole sequences, no cache) within bounds; outside the engine's own runs."""

    generation: AttentionKernel = Field(description="As attention_generation.")
    architectures: tuple[str, ...] = Field(description="GPU architectures that it was written for, 16-bit types.")
    narrow_architectures: tuple[str, ...] = Field(default=(), description="The same for int8 and fp8.")
    longest: Annotated[int, Field(ge=1)] = Field(description="Tokens of the longest sequence.")
    head_sizes: tuple[int, ...] = Field(description="Head sizes that it takes.")
    windows: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(),
        description="Lengths that it was written for: scores of a shorter sequence are computed up to the next.",
    )
    packs: bool = Field(
        default=False, description="A kernel before it adds biases and packs queries, keys and values into one tensor."
    )


class AttentionFacts(Facts):
    """How attention runs."""

    implementation: Annotated[Literal["flash", "sdpa", "unfused", "fused_softmax"], Flat("attention")] = Field(
        default="sdpa",
        description="flash: a fused kernel always; sdpa: PyTorch's own choice by type and mask; unfused: products, scale, "
        "mask, softmax as kernels of their own; fused_softmax: products around one scale-mask-softmax kernel.",
    )
    generation: Annotated[AttentionKernel | None, Flat("attention_generation")] = Field(
        default=None,
        description="Which attention kernel runs in training and prefill: unfused; fused_softmax; memory_efficient "
        "(CUTLASS, xformers); flash1 (and its Triton version), flash2, flash3; cudnn; flashinfer; trtllm "
        "(TensorRT-LLM's own); ggml; paged (vLLM's first kernels); single_query (one block per head, no split along the "
        "cache); masked (TensorRT-LLM before XQA). null: not stated.",
    )
    generation_on: Annotated[dict[str, AttentionKernel], Flat("attention_generation_on")] = Field(
        default_factory=dict,
        description="GPU architecture -> attention_generation there, where the engine chooses by card.",
    )
    decode_generation: Annotated[AttentionKernel | None, Flat("decode_attention")] = Field(
        default=None,
        description="Which attention kernel runs in decode steps; null: as attention_generation. Any but unfused and "
        "fused_softmax is one kernel, whatever `attention` says.",
    )
    encoder: Annotated[EncoderAttention | None, Flat("encoder_attention")] = Field(
        default=None, description="A fused kernel for passes of encoders that it takes; null: none beside `attention`."
    )
    grouped_heads: Literal["shared", "written_out"] = Field(
        default="shared",
        description="Whether fused attention reads keys and values that query heads share as they are, or a copy for each "
        "query head (repeat_kv).",
    )
    copies: Annotated[bool, Flat("attention_copies")] = Field(
        default=True,
        description="Unfused attention GEMMs of inference read contiguous copies of queries, keys and values, shared heads "
        "written out; false: they read the cache in place.",
    )
    unpads: Annotated[bool, Flat("attention_unpads")] = Field(
        default=False,
        description="Queries, keys, values and the result are copied without padding, and back.",
    )
    packs_heads: bool = Field(
        default=False,
        description="In inference a kernel before fused attention adds biases and packs queries, keys and values.",
    )
    windows: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(),
        description="Lengths that the kernel for many queries was written for: it computes scores up to the next, and drops "
        "those beyond the sequence. Empty: any length.",
    )
    cache_read_share: Annotated[float, Field(gt=0.0, le=1.0)] | None = Field(
        default=None,
        description="Share of the memory bandwidth with which unfused attention GEMMs read the cache in decode steps; null: as "
        "weight GEMMs.",
    )
