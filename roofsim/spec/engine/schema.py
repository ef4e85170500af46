"""Describe engines: the facts of a software stack that decide what is fused, kept and launched."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from roofsim.errors import did_you_mean
from roofsim.schema.base import Field, model_validator
from roofsim.spec import catalog
from roofsim.spec.engine.inference import AttentionKernel, EncoderAttention, InferenceFacts, WeightOnly
from roofsim.spec.engine.parts import Overlap, RankWait, ServingExperts, ServingPipeline
from roofsim.spec.engine.versions import NO_FACTS, Releases
from roofsim.spec.precision.formats import FORMATS
from roofsim.spec.precision.roles import NAMES, known_precision, unknown_precision
from roofsim.spec.reading.quantity import BytesOrNone, SecondsOrNone

Phase = Literal["train", "forward", "prefill", "decode", "generate"]

#: What is merged into one kernel (or one matmul).
FusionGroup = Literal[
    "pointwise", "bias_dropout_add", "bias_activation", "gated_activation", "residual_norm", "qkv", "gate_up",
]  # fmt: skip

ALL_PHASES: Final = ("train", "forward", "prefill", "decode", "generate")


class Engine(InferenceFacts, Releases):
    """Facts of a software stack. A wrong one costs more than all constants together, so each is data with a source."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    name: str
    description: str = ""
    aliases: tuple[str, ...] = ()
    phases: tuple[Phase, ...] = Field(
        default=ALL_PHASES, description="What the engine can run; asking for another phase is an error."
    )

    # -- attention ----------------------------------------------------------------------------------------------

    attention: Literal["flash", "sdpa", "unfused", "fused_softmax"] = Field(
        default="sdpa",
        description="flash: a fused kernel always; sdpa: PyTorch's own choice by type and mask; unfused: products, scale, "
        "mask, softmax as kernels of their own; fused_softmax: products around one scale-mask-softmax kernel.",
    )
    attention_generation: AttentionKernel | None = Field(
        default=None,
        description="Which attention kernel runs in training and prefill: unfused; fused_softmax; memory_efficient "
        "(CUTLASS, xformers); flash1 (and its Triton version), flash2, flash3; cudnn; flashinfer; trtllm "
        "(TensorRT-LLM's own); ggml; paged (vLLM's first kernels); single_query (one block per head, no split along the "
        "cache). null: not stated.",
    )
    attention_generation_on: dict[str, AttentionKernel] = Field(
        default_factory=dict,
        description="GPU architecture -> attention_generation there, where the engine chooses by card.",
    )
    decode_attention: AttentionKernel | None = Field(
        default=None,
        description="Which attention kernel runs in decode steps; null: as attention_generation. Any but unfused and "
        "fused_softmax is one kernel, whatever `attention` says.",
    )
    encoder_attention: EncoderAttention | None = Field(
        default=None, description="A fused kernel for passes of encoders that it takes; null: none beside `attention`."
    )
    convolution_share: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        default=1.0,
        description="Share of the rate of searched convolutions that those reach in inference which the library's heuristics "
        "choose.",
    )
    convolution_workspace: Literal["none", "transposed"] = Field(
        default="none",
        description="What the decoder of a diffusion pipeline allocates beside the tensors of a convolution: nothing, or "
        "copies in the layout of its kernel, which reads channels last.",
    )
    plain_kernels: tuple[Literal["biases", "convolution_biases", "masks", "reductions"], ...] = Field(
        default=(),
        description="What runs as kernels of its own in inference: biases of GEMMs and of convolutions, the padding mask of "
        "unfused attention, and both reductions and the last pass of softmax and norms.",
    )
    packs_heads: bool = Field(
        default=False,
        description="In inference a kernel before fused attention adds biases and packs queries, keys and values.",
    )
    attention_copies: bool = Field(
        default=True,
        description="Unfused attention GEMMs of inference read contiguous copies of queries, keys and values, shared heads "
        "written out; false: they read the cache in place.",
    )
    grouped_heads: Literal["shared", "written_out"] = Field(
        default="shared",
        description="Whether fused attention reads keys and values that query heads share as they are, or a copy for each "
        "query head (repeat_kv), in training.",
    )
    attention_unpads: bool = Field(
        default=False,
        description="Queries, keys, values and the result are copied without padding (and back) in training.",
    )
    cache_read_share: Annotated[float, Field(gt=0.0, le=1.0)] | None = Field(
        default=None,
        description="Share of the memory bandwidth with which unfused attention GEMMs read the cache in decode steps; null: as "
        "weight GEMMs.",
    )

    # -- kernels ------------------------------------------------------------------------------------------------

    rms_norm: Literal["fused", "chain"] = Field(default="fused", description="One kernel, or transformers' fp32 chain.")
    gelu_new: Literal["fused", "chain"] = Field(default="fused", description="The tanh GELU: one kernel, or eight.")
    rotary: Literal["fused", "chain"] = Field(
        default="fused", description="Rotary embedding: one kernel per tensor, or six."
    )
    cross_entropy: Literal["native", "upcast", "in_place", "fused"] = Field(
        default="native",
        description="Loss on the logits' type; on an fp32 copy; on an fp32 copy that is overwritten up to the gradient; or "
        "one kernel in place.",
    )
    split_cross_entropy: Literal["same", "chain"] = Field(
        default="same",
        description="The loss of a vocabulary that is split over tensor ranks: as cross_entropy, or kernel by kernel "
        "(DTensor's loss_parallel).",
    )
    loss_metrics: Annotated[int, Field(ge=0, le=10)] = Field(
        default=0, description="Metrics that the trainer computes of every micro batch's logits, each in fp32."
    )
    silu_backward: Literal["fused", "decomposed"] = Field(
        default="fused", description="decomposed: six kernels, as a PyTorch without GPU kernels traces it."
    )
    fusion: tuple[FusionGroup, ...] = Field(
        default=(),
        description="pointwise: a compiler merges what is between heavy ops; bias_dropout_add: a library's kernel. "
        "In training, qkv and gate_up: one matmul; gated_activation: activation and product of a gated MLP in one kernel. "
        "In inference: these, and residual_norm (residual sum inside the norm). bias_activation (bias and GELU in one "
        "kernel) changes no price: biases ride in the matmul.",
    )
    compiled: Literal["model", "layers"] = Field(
        default="model",
        description="What pointwise fusion covers: everything, or the repeated layers without the loss.",
    )
    extra_kernels_per_layer: Annotated[float, Field(ge=0.0, le=1000.0)] = Field(
        default=0.0,
        description="Launches per layer and pass beyond those of the graph, without traffic of their own (packing, "
        "activation quantisation), in inference.",
    )
    kernel_cycles: Annotated[float, Field(gt=0.0, le=100_000.0)] | None = Field(
        default=None,
        description="Clock cycles of the engine's smallest kernel in inference, the gap to the next included; null: the "
        "architecture's floor.",
    )
    cache_write_kernels: Annotated[float, Field(ge=0.0, le=20.0)] | None = Field(
        default=None,
        description="Launches per layer that rotate queries and keys and write the cache in a prefill; 0: the attention "
        "kernel does both; null: one per tensor.",
    )
    decode_cache_write_kernels: Annotated[float, Field(ge=0.0, le=20.0)] | None = Field(
        default=None, description="As cache_write_kernels, in decode steps."
    )
    expert_kernels: Annotated[float, Field(ge=0.0, le=40.0)] | None = Field(
        default=None,
        description="Launches per layer of inference that bring tokens into the order of experts and back; null: as many as "
        "the transformers library has.",
    )
    stream_share: Annotated[float, Field(gt=0.0, le=1.0)] | None = Field(
        default=None,
        description="Share of the memory bandwidth that GEMMs of inference draw while they stream weights of 16 or 8 "
        "bits; null: as library kernels were measured to.",
    )
    vector_rows: Annotated[int, Field(ge=0)] = Field(
        default=0,
        description="Rows up to which GEMMs run in kernels for vectors, which use the whole card however small the "
        "GEMM is; 0: never.",
    )
    matmul_accumulation: Literal["fp32", "fp16"] = Field(
        default="fp32",
        description="Type in which 16-bit matmuls add up; it chooses the GPU's peak where it has two.",
    )
    expand_weights_from: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Tokens in a pass from which quantised weights are first written out in 16 bits for a library "
        "matmul; null: never.",
    )
    weight_only: WeightOnly = Field(
        default=WeightOnly(), description="Kernels of GEMMs whose weights are narrower than what they multiply."
    )
    weight_formats: dict[str, str] = Field(
        default_factory=dict, description="Precision name -> the weight format that the engine means by it."
    )
    expands_foreign_formats: bool = Field(
        default=False,
        description="Where the card lacks a format's arithmetic (fp8, fp4, int8), its weights are multiplied in 16 bits; "
        "false: an error.",
    )
    narrow_products: Literal["wide", "int32", "narrow"] = Field(
        default="wide",
        description="What GEMMs of 8-bit operands write, in inference: 16 bits, beside kernels that convert each input; or "
        "int32 or 8 bits, which the kernels between GEMMs read, to write 8 bits.",
    )
    narrow_product_launches: Annotated[float, Field(ge=1.0, le=10.0)] = Field(
        default=1.0,
        description="Launches that the host's time for a GEMM of 8-bit operands counts as, in inference.",
    )
    stream_bytes_per_clock: Annotated[float, Field(gt=0.0, le=1000.0)] | None = Field(
        default=None,
        description="Bytes per clock that a compute unit draws at most while a GEMM of few rows streams its weights; "
        "null: as many as the memory gives.",
    )
    memory_format: Literal["channels_first", "channels_last"] = Field(
        default="channels_first", description="Layout of images (NCHW or NHWC)."
    )

    # -- types and state ----------------------------------------------------------------------------------------

    default_precision: str | None = Field(
        default=None,
        description="The precision people get from the engine without asking; null: not stated. Stated, not yet used: a "
        "scenario without precision gets the card's 16-bit type.",
    )
    activation_type: Literal["compute", "fp32"] = Field(
        default="compute",
        description="Type of activations in 16-bit inference. fp32: elementwise kernels know no other; a prefill converts "
        "the inputs and results of library GEMMs, decode kernels read fp32 beside 16-bit weights.",
    )
    precision_recipe: Literal["pure", "master", "sharded"] = Field(
        default="pure",
        description="pure: fp16 and bf16 mean everything in that type; master: fp32 master parameters and states beside it; "
        "sharded: fp32 parameters and states split over the ranks, low-precision copies gathered to compute with (on one "
        "GPU priced as master).",
    )
    narrow_operands: Literal["kept", "cast_again"] = Field(
        default="kept",
        description="What backward reads of operands that were cast to a narrow type: the narrow ones, or the wide ones, cast "
        "a second time.",
    )
    gradient_type: Literal["parameters", "fp32"] = Field(
        default="parameters", description="Type in which gradients are kept."
    )
    gradient_accumulation: Literal["separate", "fused", "cast_then_add"] = Field(
        default="separate",
        description="fused: the weight-gradient matmul adds into the buffer; cast_then_add: a cast to fp32 and an add as "
        "kernels of their own.",
    )
    fused_accumulation_in: Literal["all", "layers"] = Field(
        default="all",
        description="Which matmuls add into the buffer where gradient_accumulation is fused; the gradient of another (the "
        "head's) is made in the buffer's type first.",
    )
    reduction_type: Literal["gradients", "parameters", "fp32"] = Field(
        default="gradients",
        description="Type in which gradients travel between data-parallel ranks: that in which they are kept, that of the "
        "compute parameters, or fp32.",
    )
    gather_copies: Annotated[int, Field(ge=0, le=5)] = Field(
        default=0, description="Passes over fully sharded parameters out of the buffer that a gather filled."
    )
    reduction_copies: Annotated[int, Field(ge=0, le=5)] = Field(
        default=0,
        description="Passes over gradients before a sharded reduction: 1, a cast; 2, and a division; 3, a copy before.",
    )
    adamw: Literal["foreach", "fused", "loop", "bert_adam"] = Field(
        default="foreach",
        description="What optimizer: adamw means; bert_adam: the unfused loop of BERT scripts before 2021, with a norm and "
        "clip per tensor.",
    )
    gradient_clipping: Literal["none", "norm"] = Field(
        default="none", description="norm: the gradients' norm is taken and they are scaled by it before the update."
    )
    selective_recompute: Literal["core_attention", "every_second_matmul"] = Field(
        default="core_attention", description="What recompute: selective means."
    )
    recompute_stops_early: bool = Field(
        default=True, description="Non-reentrant checkpoints stop once backward has what it needs."
    )

    # -- host, memory, communication ----------------------------------------------------------------------------

    launch: Literal["eager", "graphs"] = Field(
        default="eager", description="graphs: CUDA graphs, no host time per kernel."
    )
    decode_launch: Literal["eager", "graphs"] | None = Field(
        default=None, description="As launch, in decode steps; null: the same."
    )
    library_released: Annotated[float, Field(ge=2010.0, le=2040.0)] | None = Field(
        default=None,
        description="When the kernel libraries came out, a decimal year: young ones are slow on new chips. null: mature.",
    )
    host_issue_time: SecondsOrNone = Field(default=6e-6, description="Host time per kernel on the reference host.")
    host_call_time: SecondsOrNone = Field(
        default=29e-6, description="Host time per kernel of a forward pass on the reference host, its modules included."
    )
    host_time_per_step: SecondsOrNone = Field(
        default=0.0, description="Time of scheduler and sampling per decode step."
    )
    host_time_per_sequence: SecondsOrNone = Field(default=0.0, description="The same, per running sequence.")
    merged_weights: Literal["in_place", "beside_parts"] = Field(
        default="in_place",
        description="How weights that `fusion` merges come to the device: as they stay; or concatenated there, the parts being "
        "freed when the whole model is built.",
    )
    reserved_overhead: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        default=0.1, description="Reserved beyond allocated memory, as a share of what a step allocates."
    )
    sequence_gather: Literal["again", "saved"] = Field(
        default="again",
        description="What backward reads of a sequence that was gathered for a split region: gathered again, or saved.",
    )
    rest_units: Literal["one", "apart"] = Field(
        default="one",
        description="How fully sharded parameters of no layer are gathered: embedding and head as one unit, kept from the "
        "first op to the last; or each when it is read first, freed behind its last reader.",
    )
    gradient_buckets: Literal["in_place", "copied"] = Field(
        default="in_place",
        description="Whether replicas reduce gradients where they lie, or copy them into buckets of the same size, which stay.",
    )
    sharded_accumulation: Literal["shards", "whole"] = Field(
        default="shards",
        description="What full sharding sums micro batches in: reduced shards; or whole gradients of each unit that trains "
        "anything, its frozen parameters included, reduced once (FSDP1's no_sync).",
    )
    pipelined_shards: Literal["again", "kept"] = Field(
        default="again",
        description="What becomes of fully sharded parameters between the micro batches of a pipeline: freed and gathered "
        "again; or kept whole, with whole gradients, from the first to the last.",
    )
    runtime_memory: BytesOrNone = Field(
        default=0.0,
        description="Device memory of the engine's libraries: handles, workspaces, code beside the CUDA context.",
    )
    workspace_per_token: Annotated[float, Field(ge=0.0, le=1000.0)] = Field(
        default=0.0, description="Values of the model's width that are set aside per token of all prompts of a batch."
    )
    allocator: Literal["native", "expandable", "planned"] = Field(
        default="native",
        description="PyTorch's caching allocator with separate segments or with expandable ones; planned: none of the kind, "
        "buffers are planned or taken whole.",
    )
    communication_pools: bool = Field(
        default=False,
        description="Whether gathers and reductions allocate on streams of their own, whose memory others cannot reuse.",
    )
    overlap: Overlap = Field(default=Overlap(), description="Which communication hides behind compute.")
    tensor_parallel: bool = Field(
        default=True, description="Whether inference can split layers over tensor ranks; asking otherwise is an error."
    )
    all_reduce: Literal["nccl", "custom"] = Field(
        default="nccl",
        description="How all-reduces of inference run inside a node whose GPUs have links of their own: the library's, or "
        "the engine's one-shot and two-shot kernels up to their size limit.",
    )
    rank_wait: RankWait = Field(
        default=RankWait(), description="What tensor ranks of inference wait for one another beside the collectives."
    )
    serving_pipeline: ServingPipeline = Field(
        default=ServingPipeline(), description="How passes of inference go through pipeline stages."
    )
    serving_experts: ServingExperts = Field(
        default=ServingExperts(), description="How tokens of inference reach experts on other ranks."
    )
    pipeline_message: Literal["whole", "split"] = Field(
        default="whole", description="split: each tensor rank sends its share of the activations, gathered on arrival."
    )

    sources: dict[str, str] = Field(default_factory=dict, description="Fact -> where it is known from.")
    notes: str = ""

    @model_validator(mode="after")
    def _known_names(self) -> Self:
        for architecture in (
            *self.attention_generation_on,
            *self.decode_launch_on,
            *self.never_expands_on,
            *(name for names in self.formats_not_on.values() for name in names),
        ):
            _check(architecture, tuple(catalog.names("architecture")), "GPU architecture")
        precision = self.default_precision
        if precision is not None and not known_precision(precision):
            raise ValueError(f"unknown precision {precision!r}. {unknown_precision(precision)}")
        for name, meant in self.weight_formats.items():
            _check(name, NAMES, "precision")
            _check(meant, tuple(FORMATS), "weight format")
        for fact in self.sources:
            _check(fact.partition(".")[0], tuple(type(self).model_fields), "engine fact")
        for fact in self.changed_facts():
            _check(fact, tuple(name for name in type(self).model_fields if name not in NO_FACTS), "engine fact")
        if self.cache_block_size is not None and self.key_value_cache != "paged":
            raise ValueError(f"cache_block_size goes with key_value_cache: paged, not {self.key_value_cache}")
        return self

    def attention_on(self, architecture: str, *, decodes: bool = False) -> str | None:
        """Return the attention kernel's generation on a GPU architecture, or None where it is not stated."""
        if decodes and self.decode_attention is not None:
            return self.decode_attention
        return self.attention_generation_on.get(architecture, self.attention_generation)

    def launch_on(self, architecture: str, *, decodes: bool) -> str:
        """Return how kernels are launched on a GPU architecture, in a decode step or another pass."""
        return self.decode_launch_on.get(architecture, self.decode_launch or self.launch) if decodes else self.launch


def _check(name: str, known: tuple[str, ...], what: str) -> None:
    if name not in known:
        raise ValueError(f"unknown {what} {name!r}. {did_you_mean(name, known)}")
