"""Describe how an engine runs passes: launches, the cache, what is on the host, device memory, pieces of prompts."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from roofsim.schema.base import Field, model_validator
from roofsim.spec.engine.base import Facts, Flat
from roofsim.spec.reading.quantity import BytesOrNone, SecondsOrNone
from roofsim.spec.strict import Strict


class LaunchFacts(Facts):
    """How kernels are launched, and what the host takes."""

    mode: Annotated[Literal["eager", "graphs"], Flat("launch")] = Field(
        default="eager", description="graphs: CUDA graphs, no host time per kernel."
    )
    decode_mode: Annotated[Literal["eager", "graphs"] | None, Flat("decode_launch")] = Field(
        default=None, description="As launch, in decode steps; null: the same."
    )
    decode_mode_on: Annotated[dict[str, Literal["eager", "graphs"]], Flat("decode_launch_on")] = Field(
        default_factory=dict, description="GPU architecture -> decode_launch there, where that depends on the card."
    )
    graph_collectives: Annotated[bool, Flat("graph_collectives")] = Field(
        default=True,
        description="Whether CUDA graphs hold collectives too; false: the host launches each, and the graph behind it, which "
        "is said and not priced.",
    )
    host_issue_time: SecondsOrNone | None = Field(
        default=None, description="Host time per kernel on the reference host; null: the constant host_issue_time."
    )
    host_call_time: SecondsOrNone | None = Field(
        default=None,
        description="Host time per kernel of a forward pass on the reference host, its modules included; null: the constant "
        "host_call_time.",
    )
    host_backward_time: SecondsOrNone | None = Field(
        default=None,
        description="Host time per kernel of a backward pass on the reference host, autograd's nodes included; null: "
        "host_issue_time.",
    )
    host_tensor_time: SecondsOrNone = Field(
        default=0.0,
        description="Host time of an update by kernels over many tensors, for each tensor and kernel, on the reference host.",
    )
    host_time_per_pass: SecondsOrNone = Field(
        default=0.0,
        description="Of a network that answers in one pass: the time to launch it as a whole and to begin and end the copies of "
        "inputs and results, without their bytes.",
    )
    host_time_per_step: SecondsOrNone = Field(
        default=0.0, description="Time of scheduler and sampling per decode step."
    )
    host_time_per_sequence: SecondsOrNone = Field(default=0.0, description="The same, per running sequence.")
    masks: Annotated[Literal["none", "beside", "between"], Flat("guided_masks")] = Field(
        default="none",
        description="When the host computes the masks of guided decoding. none: not known; beside: while the pass "
        "runs, whose tokens they are for; between: behind it, while the device waits.",
    )


class CacheFacts(Facts):
    """How keys and values are kept and written."""

    storage: Annotated[Literal["concatenated", "in_place", "paged"], Flat("key_value_cache")] = Field(
        default="in_place",
        description="concatenated: every step copies the cache; in_place: appends; paged: appends to blocks (in time "
        "as in_place).",
    )
    block_size: Annotated[Annotated[int, Field(ge=1)] | None, Flat("cache_block_size")] = Field(
        default=None, description="Tokens in a block of a paged cache: the last one is not full; null: not paged."
    )
    beams: Annotated[Literal["none", "shared", "copied"], Flat("beam_search")] = Field(
        default="none",
        description="Beam search. none: the engine has none; shared: beams share the cache of their prompt, and a table says whose "
        "tokens each reads; copied: prompts run for every beam, and each step copies the cache in the order of the best.",
    )
    samples: Annotated[Literal["none", "shared", "copied"], Flat("parallel_sampling")] = Field(
        default="none",
        description="Several answers to one prompt. none: not known of the engine; shared: they share the cache of their prompt; "
        "copied: the prompt runs, and is kept, for each.",
    )
    write_kernels: Annotated[Annotated[float, Field(ge=0.0, le=20.0)] | None, Flat("cache_write_kernels")] = Field(
        default=None,
        description="Launches per layer that rotate queries and keys and write the cache in a prefill; 0: the attention "
        "kernel does both; null: one per tensor.",
    )
    decode_write_kernels: Annotated[
        Annotated[float, Field(ge=0.0, le=20.0)] | None, Flat("decode_cache_write_kernels")
    ] = Field(default=None, description="As cache_write_kernels, in decode steps.")


class OffloadFacts(Facts):
    """What an engine does with what is on the host."""

    layers: Annotated[Literal["copied", "computed"], Flat("host_layers")] = Field(
        default="copied",
        description="Layers of inference whose weights are on the host: copied to the device for each pass, or computed by "
        "the host, with their cache there.",
    )
    layers_copied_from: Annotated[Annotated[int, Field(ge=1)] | None, Flat("host_layers_copied_from")] = Field(
        default=None,
        description="Tokens in a pass from which layers that the host computes are copied all the same; null: never.",
    )
    cache: Annotated[Literal["copied", "computed"], Flat("host_cache")] = Field(
        default="copied",
        description="A cache on the host (parallel.offload.key_value_cache): copied to the device for each pass that reads it, or "
        "attended to by the host.",
    )


class MemoryFacts(Facts):
    """What an engine takes of the device's memory beside the tensors of a step."""

    allocator: Literal["native", "expandable", "planned"] = Field(
        default="native",
        description="PyTorch's caching allocator with separate segments or with expandable ones; planned: none of the kind, "
        "buffers are planned or taken whole.",
    )
    communication_pools: bool = Field(
        default=False,
        description="Whether gathers and reductions allocate on streams of their own, whose memory others cannot reuse.",
    )
    reserved_overhead: Annotated[float, Field(ge=0.0, le=1.0)] | None = Field(
        default=None,
        description="Reserved beyond allocated memory, as a share of what a step allocates; null: the constant "
        "reserved_overhead.",
    )
    runtime_memory: BytesOrNone = Field(
        default=0.0,
        description="Device memory of the engine's libraries: handles, workspaces, code beside the CUDA context.",
    )
    workspace_per_token: Annotated[float, Field(ge=0.0, le=1000.0)] = Field(
        default=0.0, description="Values of the model's width that are set aside per token of all prompts of a batch."
    )
    merged_weights: Literal["in_place", "beside_parts"] = Field(
        default="in_place",
        description="How weights that `fusion` merges come to the device: as they stay; or concatenated there, the parts being "
        "freed when the whole model is built.",
    )
    preallocated_share: Annotated[float, Field(gt=0.0, le=1.0)] | None = Field(
        default=None,
        description="Share of the memory that a server takes at start; outside of `serve` and `fit` not yet priced.",
    )


class ServingPipeline(Strict):
    """How passes of inference go through pipeline stages."""

    prefill: Literal["whole", "divided", "chunks"] = Field(
        default="whole",
        description="whole: all prompts pass the stages as one; divided: a batch that is a multiple of the stages is dealt "
        "into as many micro batches, and these are halved while they have more tokens than micro_batch; chunks: the pieces "
        "of prefill_chunk tokens follow one another.",
    )
    decode: Literal["whole", "divided", "split"] = Field(
        default="whole",
        description="whole: the batch passes the stages as one; divided: as in a prefill, and all stages wait for the end of "
        "a step; split: as many parts of the batch as stages are under way at once, each at its own step.",
    )
    micro_batch: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Tokens that a divided micro batch has at most, if it can be halved; null: any number.",
    )
    hop: SecondsOrNone = Field(
        default=0.0,
        description="Time from one stage to the next beside the message: synchronisation, copies, launches.",
    )
    decode_gap: SecondsOrNone = Field(
        default=0.0,
        description="Device time that each kernel of a decode step takes longer, where stages keep the engine from CUDA "
        "graphs.",
    )

    run_ahead: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Kernels that wait on one card at most before the host's thread stops issuing, where one thread issues "
        "those of all stages: then other stages get nothing either; null: each stage has a host of its own.",
    )
    copies: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Micro batches whose inputs a stage can hold at once: the next one is issued when the first of them has "
        "left the last stage; null: any number.",
    )

    @model_validator(mode="after")
    def _halved(self) -> Self:
        if self.micro_batch is not None and "divided" not in (self.prefill, self.decode):
            raise ValueError("micro_batch goes with prefill: divided or decode: divided")
        return self


class ScheduleFacts(Facts):
    """How inference cuts prompts and batches into passes."""

    prefill_chunk: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Tokens of prompts per pass, beyond which a prefill of a language model is cut; null: never cut.",
    )
    pipeline: Annotated[ServingPipeline, Flat("serving_pipeline")] = Field(
        default=ServingPipeline(), description="How passes of inference go through pipeline stages."
    )
