"""Describe what is run: phase, sizes of the batch, precision, optimizer, recomputation, engine."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal, Self, get_args

from roofsim.schema.base import AfterValidator, Field, model_validator
from roofsim.spec import usual
from roofsim.spec.engine.choice import EngineChoice
from roofsim.spec.engine.ranks import ContextCommunication
from roofsim.spec.model.base import Rate
from roofsim.spec.precision.roles import NAMES, PrecisionRoles
from roofsim.spec.reading.quantity import Duration, Frequency, Power
from roofsim.spec.reading.spoken import (
    Named,
    NonNegative,
    PhaseWord,
    Positive,
    PrecisionWord,
    ShardingWord,
    optimizer_word,
)
from roofsim.spec.scenario.adapter import Adapter
from roofsim.spec.scenario.guided import Backend, GuidedDecoding
from roofsim.spec.scenario.local_steps import LocalSteps
from roofsim.spec.scenario.offload import Offload, Pairs
from roofsim.spec.scenario.running import Checkpoint, Input
from roofsim.spec.scenario.schedules import SCHEDULES, known
from roofsim.spec.scenario.serving import Serving
from roofsim.spec.scenario.sharding import ShardedOver
from roofsim.spec.strict import Strict

OptimizerName = Literal[
    "adamw",
    "adamw-fused",
    "adamw-loop",
    "paged-adamw",
    "lamb",
    "adam8bit",
    "paged-adam8bit",
    "adam4bit",
    "ademamix",
    "ademamix8bit",
    "sgd",
    "sgd-momentum",
    "lars",
    "adagrad",
    "adafactor",
    "lion",
    "muon",
    "soap",
    "shampoo",
    "galore",
    "none",
]

#: Optimizers that multiply matrices, which no host is priced for.
MATRIX_OPTIMIZERS: Final = ("muon", "soap", "shampoo", "galore")

#: Optimizer -> what a reader of its step time should know.
OPTIMIZER_NOTES: Final = {
    "paged-adamw": "its state is priced on the card; pages that find no room there would move over PCIe in every step",
    "paged-adam8bit": "its state is priced on the card; pages that find no room there would move over PCIe in every step",
    "galore": "rank 128; new projections (a singular value decomposition of each matrix every 200 steps) are not in the step",
    "soap": "its bases are renewed every 10 steps, a tenth of that is in each; QR is priced as matrix products",
    "shampoo": "blocks of 1,024; new roots (an eigendecomposition of each block, every precondition_frequency steps) are not in "
    "the step",
}

TRAIN_ONLY: Final = ("global_batch_size",)
SERVING: Final = ("concurrency", "request_rate", "serving")


class RecomputePlan(Strict):
    """Which layers are checkpointed."""

    policy: Literal["full", "selective", "none"] = Field(default="full", description="What is recomputed.")
    every: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        default=None, description="Recompute every n-th layer."
    )
    layers: Annotated[int, Field(ge=0, le=100_000)] | None = Field(
        default=None, description="Recompute the first n layers."
    )
    segment: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        default=None,
        description="Layers per checkpoint; the square root of their number needs the least memory.",
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        given = [name for name in ("every", "layers", "segment") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"give one of every, layers, segment; got {' and '.join(given)}")
        if given and self.policy != "full":
            raise ValueError(f"{given[0]} goes with policy: full")
        return self


class Workload(Strict):
    """What is run. Sizes may be replaced by arrays with `model_copy`."""

    phase: Annotated[Literal["train", "forward", "prefill", "decode", "generate", "inference"], PhaseWord] = Field(
        default="train",
        description="What runs: an optimizer step, one forward pass, the prompts, one step of decoding, or prompts and output. "
        "inference: generate where the model generates tokens, otherwise forward.",
    )
    micro_batch_size: Positive | None = Field(
        default=None, description="Sequences or images per forward pass on each rank. Default: 1."
    )
    batch_size: Positive | None = Field(
        default=None,
        description="Sequences or images in the batch of each replica: the word for inference. In training, the micro batch.",
    )
    global_batch_size: Positive | None = Field(
        default=None,
        description="Sequences or images per optimizer step, over all ranks. Default: one micro batch per data-parallel rank.",
    )
    sequence_length: Positive | None = Field(
        default=None,
        description="Tokens per sequence; in an encoder-decoder, positions of the encoder. Default: the model's maximum, but at "
        "most 4,096.",
    )
    packed_length: Annotated[float, Field(gt=0.0, le=10.0**12)] | None = Field(
        default=None,
        description="Mean tokens per sample where several samples are packed into each sequence of a training step: fused "
        "attention stays inside a sample. Default: one sample per sequence.",
    )
    image_size: Positive | None = Field(
        default=None, description="Width and height of an image in pixels. Default: the model's own."
    )
    num_inference_steps: Positive | None = Field(
        default=None, description="Denoising steps of a diffusion pipeline. Default: the model's own."
    )
    target_length: Positive | None = Field(
        default=None, description="Tokens per sequence in the decoder of an encoder-decoder. Default: the model's own."
    )
    prompt_length: NonNegative | None = Field(
        default=None, description="Tokens per prompt; in an encoder-decoder, the tokens that the decoder starts from."
    )
    output_length: Positive | None = Field(default=None, description="Tokens to generate for each sequence.")
    beam_width: Annotated[int, Field(ge=1, le=64)] | None = Field(
        default=None,
        description="Beams of each sequence that is generated (beam search), where the engine has it. Default: 1, sampling.",
    )
    guided_decoding: Backend | GuidedDecoding | None = Field(
        default=None,
        description="Tokens are held to a grammar or a JSON schema (structured output): a backend, or {backend: xgrammar, "
        "mask_time: 50 us, threads: 4, share: 0.5}. Default: tokens are free.",
    )
    num_return_sequences: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        default=None,
        description="Answers that are sampled for each prompt (n of the OpenAI API), each a row of its own. Default: 1.",
    )
    context_length: NonNegative | None = Field(
        default=None, description="Tokens that are in the cache before the first step."
    )
    concurrency: Positive | None = Field(
        default=None, description="Requests that are always in flight: a closed loop, for `roofsim serve`."
    )
    request_rate: Annotated[float, Field(gt=0.0, le=10.0**9)] | None = Field(
        default=None, description="Requests that arrive per second: an open loop, for `roofsim serve`."
    )
    serving: Serving | None = Field(
        default=None,
        description="Settings of the server, for `roofsim serve`: {max_num_seqs: 256, prefix_cache_hit_rate: 0.5, ...}.",
    )
    precision: Annotated[str | PrecisionRoles | None, PrecisionWord] = Field(
        default=None,
        description="A name, or a mapping with one type per role: {compute: bf16, parameters: fp32}. Also exl2-4.0bpw, "
        "exl3-4.0bpw. Default: bf16, or fp16 on cards without bf16.",
        examples=list(NAMES),
    )
    optimizer: Annotated[OptimizerName, optimizer_word(*get_args(OptimizerName))] = Field(
        default="adamw", description="The optimizer of a training step."
    )
    weight_average: Literal["none", "ema"] = Field(
        default="none",
        description="ema: a moving average of the trained parameters is kept beside them, in the type of masters, and sharded as "
        "the optimizer's state is.",
    )
    adapter: Literal["lora", "qlora"] | Adapter | None = Field(
        default=None,
        description="Train low-rank adapters beside a frozen model: a name, or {kind: qlora, rank: 16, targets: [query, "
        "value]}. Default: train all parameters.",
    )
    recompute: Literal["none", "selective", "full"] | RecomputePlan = Field(
        default="none",
        description="Activations that the backward pass computes again instead of keeping them; also {policy: full, every: 2}.",
    )
    engine: str | EngineChoice = Field(
        default=usual.ENGINE,
        description="Software stack: which kernels run, how they are fused and launched, what is kept in memory; also name@version "
        "or name@date (autoawq@0.1.6, llama.cpp@2024-05), name+variant, or a mapping of them.",
    )
    attention: Literal["flash", "sdpa", "unfused", "fused_softmax"] | None = Field(
        default=None, description="Attention kernel. Default: the engine's own."
    )
    passes: tuple[str, ...] | None = Field(
        default=None, description="Passes of plug-ins that change the graph (`roofsim list plugins`). Default: none."
    )
    engine_facts: dict[str, Any] = Field(
        default_factory=dict, description="Facts of the engine to override: {cross_entropy: fused}."
    )
    memory_format: Literal["channels_last", "channels_first"] | None = Field(
        default=None, description="Layout of images in memory. Default: the engine's own."
    )
    dropout: Rate | None = Field(default=None, description="Dropout rate. Default: the model's own.")
    checkpoint: Checkpoint | None = Field(
        default=None,
        description="How often a checkpoint is written: {every: 500} steps, {interval: 30 min}, or {} for the best interval at "
        "the given mtbf.",
    )
    input: Input | None = Field(
        default=None,
        description="What feeds the steps: {bytes_per_sample: 110 kB, decode_time: 8 ms, workers: 8}.",
    )

    @model_validator(mode="after")
    def _one_batch_word(self) -> Self:
        both = self.micro_batch_size is not None and self.batch_size is not None
        if both and self.micro_batch_size != self.batch_size:
            raise ValueError(
                f"micro_batch_size {self.micro_batch_size} and batch_size {self.batch_size} mean the same; give one"
            )
        return self

    @model_validator(mode="after")
    def _adapter_is_trained(self) -> Self:
        if self.adapter is not None and self.phase != "train":
            raise ValueError(
                f"adapter belongs to phase train, not {self.phase}: merged into its layer it costs nothing"
            )
        return self


class Parallel(Strict):
    """How the work is spread over GPUs."""

    tensor: Positive = Field(default=1, description="GPUs that split each layer (tensor parallelism).")
    pipeline: Positive = Field(default=1, description="Pipeline stages, each with a part of the layers.")
    virtual_stages: Positive = Field(
        default=1, description="Chunks of layers per pipeline stage, run in turn (interleaved schedule)."
    )
    schedule: Annotated[str, AfterValidator(known)] = Field(
        default="1f1b", description="Order in which pipeline stages run micro batches.", examples=list(SCHEDULES)
    )
    data: Positive | None = Field(
        default=None,
        description="Replicas that process different samples (data parallelism). Default: the GPUs that remain.",
    )
    stage_layers: tuple[Annotated[int, Field(ge=0, le=100_000)], ...] | None = Field(
        default=None, description="Layers of each pipeline stage: [10, 12, 12, 11]. Default: an even split."
    )
    account_for_embedding: bool = Field(
        default=False, description="Count the embedding as one layer of the first stage when layers are split."
    )
    account_for_loss: bool = Field(
        default=False, description="Count the head and the loss as one layer of the last stage when layers are split."
    )
    context: Positive = Field(default=1, description="GPUs that split each sequence (context parallelism).")
    context_communication: ContextCommunication | None = Field(
        default=None,
        description="How context ranks exchange keys and values. p2p: in a ring; all_gather: all before attention; "
        "gathered_ring: gathered, then processed block by block; a2a: exchange heads for tokens (Ulysses); a2a+p2p: exchange heads "
        "among context_heads ranks, and form a ring of these groups. Default: the engine's own.",
    )
    context_heads: Positive | None = Field(
        default=None,
        description="With a2a+p2p: context ranks that exchange heads. Default: as many as divide the heads.",
    )
    expert: Positive = Field(default=1, description="GPUs that share the experts of a layer (expert parallelism).")
    expert_tensor: Positive | None = Field(
        default=None,
        description="GPUs that split each expert. Default: 1 with expert parallelism, otherwise as tensor.",
    )
    expert_imbalance: Annotated[float, Field(ge=1.0, le=1000.0)] = Field(
        default=1.0,
        description="Tokens that the busiest expert rank receives, relative to the mean; 1 means balanced routing.",
    )
    redundant_experts: Annotated[int, Field(ge=0, le=100_000)] = Field(
        default=0,
        description="Copies of experts per layer beside one of each, in inference: num_experts and these are dealt out evenly over "
        "the expert ranks (EPLB).",
    )
    expert_capacity: Annotated[float, Field(gt=0.0, le=1000.0)] | None = Field(
        default=None,
        description="Capacity factor: an expert takes this multiple of its even share of tokens and drops the rest. Default: no "
        "token is dropped.",
    )
    sequence: bool = Field(
        default=False,
        description="Split normalization and dropout along the sequence too (Megatron's sequence parallelism).",
    )
    sharding: Annotated[Literal["none", "optimizer", "gradients", "full"] | ShardedOver | None, ShardingWord] = Field(
        default=None,
        description="What data-parallel ranks share instead of each holding a copy: optimizer (zero1), gradients (zero2), full "
        "(zero3, fsdp), or {full: 8}, {optimizer: 8} for groups of 8. Default: the engine's own.",
    )
    local_steps: LocalSteps | None = Field(
        default=None,
        description="Workers that train apart and exchange what changed once in many steps (DiLoCo): {every: 500, workers: 4}. "
        "Default: gradients of all ranks come together in every step.",
    )
    tables: Literal["copied", "table", "row", "column"] = Field(
        default="copied",
        description="How data-parallel ranks hold embedding tables that are updated row by row: each a copy; whole tables dealt "
        "out; a block of rows of each; some columns of each.",
    )
    offload: Annotated[Offload, Pairs] = Field(
        default=Offload(),
        description="Parts of the state that are kept on the host, behind CXL or in storage: optimizer_state=host,activations=nvme "
        "or {parameters: {host: 0.5}}. Places: host, cxl, nvme, nvmeof.",
    )

    structural: ClassVar = ("schedule", "sequence", "sharding", "tables", "local_steps", "offload")

    @property
    def shards_fully(self) -> bool:
        """Whether parameters are sharded too, over all replicas or groups of them."""
        return self.sharding == "full" or (isinstance(self.sharding, ShardedOver) and self.sharding.level == "full")

    @property
    def gpus(self) -> int:
        """GPUs that the degrees multiply to."""
        return self.tensor * self.pipeline * self.context * (1 if self.data is None else self.data)


class HardwareChoice(Strict):
    """On what it runs."""

    gpu: Annotated[str | dict[str, Any], Named] = Field(
        default=usual.GPU,
        description="GPU: a catalog name such as h100 or rtx4090, or a mapping that describes one.",
    )
    gpus: Positive | None = Field(default=None, description="Number of GPUs. Default: the product of the degrees.")
    system: str | dict[str, Any] | None = Field(
        default=None,
        description="Node that holds the GPUs, with its links and network: dgx-h100, for example. Default: the GPU's usual one.",
    )
    calibration: str | None = Field(
        default=None,
        description="File of constants measured on the card, written by `roofsim calibrate fit --overlay`.",
    )
    override: dict[str, Any] = Field(
        default_factory=dict,
        description="Hardware figures to change: {gpu.memory.bandwidth: 3 TB/s}, or by a factor on what the catalog states: 2x, "
        "+10%, -10%.",
    )
    power_limit: Power | None = Field(
        default=None,
        description="Power that each GPU is held to, as `nvidia-smi -pl` sets it: 250 W. Default: the card's own.",
    )
    clock_limit: Frequency | None = Field(
        default=None,
        description="Clock that each GPU is held to, as `nvidia-smi -lgc` sets it: 1.2 GHz. Default: as high as its power allows.",
    )
    mtbf: Duration | None = Field(default=None, description="Mean time between failures of the whole job: 5 h.")
    mtbf_per_gpu: Duration | None = Field(
        default=None, description="Mean time between failures of one GPU and its part of the node: 50000 h."
    )
    restart: Duration | None = Field(
        default=None,
        description="Time from a failure to the next step, without the time to read the checkpoint. Default: 5 min.",
    )
    jitter: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        default=0.0, description="Standard deviation of one rank's step time, as a share of it: 0.02."
    )


class Scenario(Strict):
    """A request: a model, what is done with it, and on what."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    units: Literal["SI"] | None = Field(
        default=None, description="SI: bare numbers are quantities in SI units, as in the scenario of a result."
    )
    model: str | dict[str, Any] = Field(
        description="A catalog name, a model file, a Hugging Face config.json, or a mapping with a family."
    )
    workload: Workload = Field(default=Workload(), description="What is run: phase, sizes, precision, engine.")
    parallel: Parallel = Field(default=Parallel(), description="How the work is split over GPUs.")
    hardware: HardwareChoice = Field(default=HardwareChoice(), description="What it runs on.")
