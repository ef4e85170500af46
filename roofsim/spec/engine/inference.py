"""Describe what an engine does in inference: kernels for narrow weights, attention of encoders, the cache."""

from __future__ import annotations

from typing import Annotated, Literal

from roofsim.schema.base import Field
from roofsim.spec.engine.ranks import RankFacts, Strict
from roofsim.spec.precision.formats import FormatFamily
from roofsim.spec.scenario.serving import ServerFacts

#: Which code computes attention; the name of a generation stands for its achieved rate.
AttentionKernel = Literal[
    "unfused", "fused_softmax", "memory_efficient", "flash1", "flash2", "flash3", "cudnn", "flashinfer", "trtllm",
    "ggml", "paged", "single_query",
]  # fmt: skip


class FewRows(Strict):
    """Kernels that take the place of others for few rows."""

    rows: Annotated[int, Field(ge=1, le=1024)] = Field(description="Rows up to which they run.")
    parts: Annotated[float, Field(ge=1.0, le=64.0)] = 1.0
    tile_rows: Annotated[int, Field(ge=1, le=1024)] | None = None
    expansion_slots: Annotated[float, Field(ge=0.0, le=10_000.0)] = 0.0


class WeightOnly(Strict):
    """Kernels that multiply 16-bit activations with narrow weights."""

    kernels: Annotated[float, Field(ge=1.0, le=20.0)] = Field(
        default=1.0, description="Launches per GEMM: the GEMM, conversions of its input, sums of its parts."
    )
    compute: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        default=0.95, description="Share of the rate of 16-bit GEMMs that is left while weights are expanded."
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
    parts: Annotated[float, Field(ge=1.0, le=64.0)] = Field(
        default=1.0,
        description="Parts into which a GEMM's sum is split, each written in 16 bits and summed by a kernel of its own.",
    )
    tile_rows: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        default=None, description="Rows of a tile: each expands the weights anew; null: expansion costs `compute` only."
    )
    expansion_slots: Annotated[float, Field(ge=0.0, le=10_000.0)] = Field(
        default=0.0,
        description="Issue slots of one lane (a compute unit has 128 per clock) that a tile takes to stage and expand one weight.",
    )
    few_rows: FewRows | None = Field(
        default=None,
        description="Other kernels for few rows: {rows, parts, tile_rows, expansion_slots}; null: the same.",
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


class InferenceFacts(RankFacts):
    """The facts of an engine on its cache and its server; a part of `Engine`."""

    never_expands_on: tuple[str, ...] = Field(
        default=(),
        description="GPU architectures on which quantised weights are multiplied as they are at any length, whatever "
        "expand_weights_from says.",
    )
    decode_launch_on: dict[str, Literal["eager", "graphs"]] = Field(
        default_factory=dict, description="GPU architecture -> decode_launch there, where that depends on the card."
    )

    key_value_cache: Literal["concatenated", "in_place", "paged"] = Field(
        default="in_place",
        description="concatenated: every step copies the cache; in_place: appends; paged: appends to blocks (in time "
        "as in_place).",
    )
    cache_block_size: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Tokens in a block of a paged cache: the last one is not full; null: not paged."
    )
    host_layers: Literal["copied", "computed"] = Field(
        default="copied",
        description="Layers of inference whose weights are on the host: copied to the device for each pass, or computed by "
        "the host, with their cache there.",
    )
    host_layers_copied_from: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Tokens in a pass from which layers that the host computes are copied all the same; null: never.",
    )
    host_cache: Literal["copied", "computed"] = Field(
        default="copied",
        description="A cache on the host (parallel.offload.key_value_cache): copied to the device for each pass that reads it, or "
        "attended to by the host.",
    )
    prefill_chunk: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Tokens of prompts per pass, beyond which a prefill of a language model is cut; null: never cut.",
    )
    router: Literal["modules", "fused"] = Field(
        default="modules",
        description="How inference routes tokens to experts: modules: as the transformers library does; fused: scores by a "
        "product in the model's own type, and one kernel that chooses experts and their weights.",
    )
    expert_rows: Literal["modules", "copied", "gathered"] = Field(
        default="modules",
        description="How inference brings tokens into the order of experts: modules: as the transformers library does; copied: "
        "one kernel converts and copies rows; gathered: the GEMMs pick them. Both sum results in one pass.",
    )
    measured_as: Literal["vllm", "sglang", "trtllm"] | None = Field(
        default=None,
        description="Under which name its own kernels were measured, of experts and of latent attention; null: it runs the "
        "kernels of others, medians over all count.",
    )
    formats: tuple[FormatFamily, ...] | None = Field(
        default=None,
        description="Families of stored weights narrower than 16 bits that it loads, in inference; null: not stated.",
    )
    formats_not_on: dict[FormatFamily, tuple[str, ...]] = Field(
        default_factory=dict,
        description="Family of `formats` -> GPU architectures that its kernels do not run on: an error; left out: none stated.",
    )
    preallocated_share: Annotated[float, Field(gt=0.0, le=1.0)] | None = Field(
        default=None,
        description="Share of the memory that a server takes at start; outside of `serve` and `fit` not yet priced.",
    )
    server: ServerFacts | None = Field(
        default=None, description="How it serves; null: static batches. Outside of `serve` not yet priced."
    )
