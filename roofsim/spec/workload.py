"""Describe what is run: phase, sizes of the batch, precision, optimizer, recomputation, engine."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from roofsim.spec.adapter import Adapter
from roofsim.spec.engine_choice import EngineChoice
from roofsim.spec.families.base import Rate
from roofsim.spec.precision import PrecisionRoles
from roofsim.spec.quantity import Duration
from roofsim.spec.running import Checkpoint, Input
from roofsim.spec.serving import Serving

Positive = Annotated[int, Field(gt=0, le=10**12)]
NonNegative = Annotated[int, Field(ge=0, le=10**12)]

OPTIMIZERS: Final = (
    "adamw", "adamw-fused", "adamw-loop", "lamb", "adam8bit", "adam4bit", "sgd", "sgd-momentum", "adafactor", "lion",
    "muon", "none",
)  # fmt: skip

TRAIN_ONLY: Final = ("global_batch_size",)
SERVING: Final = ("concurrency", "request_rate", "serving")


class _Strict(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        protected_namespaces=(),
        arbitrary_types_allowed=True,
    )


class RecomputePlan(_Strict):
    """Which layers are checkpointed."""

    policy: Literal["full", "selective", "none"] = "full"
    every: Annotated[int, Field(ge=1, le=10_000)] | None = Field(default=None, description="One layer in so many.")
    layers: Annotated[int, Field(ge=0, le=100_000)] | None = Field(
        default=None, description="The first so many layers."
    )
    segment: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        default=None, description="So many layers are one checkpoint (the square root of all is least memory)."
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        given = [name for name in ("every", "layers", "segment") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"give one of every, layers, segment; got {' and '.join(given)}")
        if given and self.policy != "full":
            raise ValueError(f"{given[0]} goes with policy: full")
        return self


class Workload(_Strict):
    """What is run. Sizes may be replaced by arrays with `model_copy`."""

    phase: Literal["train", "forward", "prefill", "decode", "generate"] = "train"
    micro_batch_size: Positive | None = Field(
        default=None, description="Sequences (or images) per pass of one rank; 1."
    )
    batch_size: Positive | None = Field(
        default=None, description="The inference word for the same: sequences (or images) of each data replica."
    )
    global_batch_size: Positive | None = Field(
        default=None, description="Sequences per optimizer step, over all ranks."
    )
    sequence_length: Positive | None = Field(
        default=None, description="Tokens per sequence; the model's own, if left out."
    )
    image_size: Positive | None = Field(default=None, description="Side in pixels; the model's own, if left out.")
    num_inference_steps: Positive | None = Field(
        default=None, description="Passes of the denoiser of a diffusion pipeline; the model's own, if left out."
    )
    target_length: Positive | None = Field(default=None, description="Decoder tokens of an encoder-decoder.")
    prompt_length: NonNegative | None = Field(
        default=None, description="Tokens of a prompt; of an encoder-decoder those that the decoder starts from."
    )
    output_length: Positive | None = None
    context_length: NonNegative | None = Field(default=None, description="Tokens in the cache before the (first) step.")
    concurrency: Positive | None = Field(
        default=None, description="Of `roofsim serve`: so many requests are always in the server."
    )
    request_rate: Annotated[float, Field(gt=0.0, le=10.0**9)] | None = Field(
        default=None, description="Of `roofsim serve`: requests per second, whatever the server does."
    )
    serving: Serving | None = Field(
        default=None, description="Of `roofsim serve`: {max_num_seqs: 256, prefix_cache_hit_rate: 0.5, ...}."
    )
    precision: str | PrecisionRoles | None = Field(default=None, description="A name, or a mapping of roles.")
    optimizer: Literal[
        "adamw", "adamw-fused", "adamw-loop", "lamb", "adam8bit", "adam4bit", "sgd", "sgd-momentum", "adafactor", "lion",
        "muon", "none",
    ] = "adamw"  # fmt: skip
    adapter: Literal["lora", "qlora"] | Adapter | None = Field(
        default=None,
        description="Low-rank adapters on a frozen model; a kind alone has the usual rank, targets and storage. Left out: "
        "all parameters are trained.",
    )
    recompute: Literal["none", "selective", "full"] | RecomputePlan = "none"
    engine: str | EngineChoice = Field(
        default="pytorch-eager",
        description="A name, name@version or name@date (autoawq@0.1.6, llama.cpp@2024-05), name+variant, or a mapping of them.",
    )
    attention: Literal["flash", "sdpa", "unfused", "fused_softmax"] | None = Field(
        default=None, description="The engine's own, if left out."
    )
    engine_facts: dict[str, Any] = Field(default_factory=dict, description="Facts of the engine to override.")
    memory_format: Literal["channels_last", "channels_first"] | None = Field(
        default=None, description="The engine's own, if left out (vision)."
    )
    dropout: Rate | None = Field(default=None, description="The model's own, if left out.")
    checkpoint: Checkpoint | None = Field(
        default=None,
        description="{every: 500} steps, {interval: 30 min}, or {} for the best interval of hardware.mtbf.",
    )
    input: Input | None = Field(
        default=None, description="{bytes_per_sample: 110 kB, decode_time: 8 ms, workers: 8}: what feeds the steps."
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


class OffloadShare(_Strict):
    """How much of the layers' weights lies elsewhere."""

    host: Annotated[float, Field(ge=0.0, le=1.0)] | None = Field(default=None, description="Share on the host.")
    nvme: Annotated[float, Field(ge=0.0, le=1.0)] | None = Field(default=None, description="Share in storage.")

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.host is None) == (self.nvme is None):
            raise ValueError("give the share of one place, for example {host: 0.5}")
        return self


class Offload(_Strict):
    """Where parts of the state live."""

    parameters: Literal["none", "host", "nvme"] | OffloadShare = Field(
        default="none", description="A place, or in inference {host: 0.5}: that share of the layers' weights."
    )
    layers: NonNegative | None = Field(
        default=None,
        description="Beside parameters, in inference: only the weights of the first so many layers; all, if left out.",
    )
    key_value_cache: Literal["none", "host"] = Field(
        default="none", description="Keys and values, in inference: copied for each pass that reads them."
    )
    gradients: Literal["none", "host", "nvme"] = "none"
    optimizer_state: Literal["none", "host", "nvme"] = "none"
    activations: Literal["none", "host", "nvme"] = "none"

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.layers is not None and not isinstance(self.parameters, str):
            raise ValueError("give layers, or a share of them, not both")
        if self.layers is not None and self.parameters == "none":
            raise ValueError("layers goes with parameters: host or parameters: nvme")
        return self

    @property
    def share(self) -> float | None:
        """Share of the layers whose weights lie elsewhere; None: not said so."""
        if isinstance(self.parameters, str):
            return None
        return self.parameters.nvme if self.parameters.host is None else self.parameters.host

    @property
    def parameters_at(self) -> str:
        """Where weights lie that are not on the device; ``none`` where all are."""
        if self.layers == 0 or self.share == 0.0:
            return "none"
        if isinstance(self.parameters, str):
            return self.parameters
        return "nvme" if self.parameters.host is None else "host"

    @property
    def partial(self) -> bool:
        """Whether it is asked for only a part of the weights."""
        return self.layers is not None or self.share is not None


class ShardedOver(_Strict):
    """Full sharding over fewer ranks than there are (hybrid sharding)."""

    full: Positive


#: How ranks of a context group exchange keys and values.
ContextCommunication = Literal["p2p", "all_gather", "gathered_ring", "a2a", "a2a+p2p"]


class Parallel(_Strict):
    """How the work is spread over GPUs."""

    tensor: Positive = 1
    pipeline: Positive = 1
    virtual_stages: Positive = 1
    schedule: Literal["gpipe", "1f1b", "interleaved", "zero-bubble"] = "1f1b"
    data: Positive | None = Field(default=None, description="What remains of the GPUs, if left out.")
    stage_layers: tuple[Annotated[int, Field(ge=0, le=100_000)], ...] | None = Field(
        default=None, description="[10, 12, 12, 11]: layers of each pipeline stage; dealt out evenly, if left out."
    )
    account_for_embedding: bool = Field(
        default=False, description="The embedding counts as a layer of the first stage when layers are dealt out."
    )
    account_for_loss: bool = Field(
        default=False, description="Head and loss count as a layer of the last stage when layers are dealt out."
    )
    context: Positive = 1
    context_communication: ContextCommunication | None = Field(
        default=None,
        description="p2p: a ring; all_gather: keys and values before attention; gathered_ring: gathered, worked off block by "
        "block; a2a: heads instead of tokens (Ulysses); a2a+p2p: heads among context_heads ranks, a ring of these. The engine's "
        "own, if left out.",
    )
    context_heads: Positive | None = Field(
        default=None, description="Of a2a+p2p: context ranks that deal heads out; as many as divide them, if left out."
    )
    expert: Positive = 1
    expert_tensor: Positive | None = Field(
        default=None,
        description="Ranks that split each expert; 1 beside expert > 1, else those of tensor, if left out.",
    )
    expert_imbalance: Annotated[float, Field(ge=1.0, le=1000.0)] = Field(
        default=1.0, description="Tokens that the busiest expert rank receives, against the mean; 1: even routing."
    )
    expert_capacity: Annotated[float, Field(gt=0.0, le=1000.0)] | None = Field(
        default=None,
        description="Capacity factor: an expert takes so many times its even share of tokens and drops the rest; left out: "
        "dropless.",
    )
    sequence: bool = Field(default=False, description="Megatron sequence parallelism along tensor.")
    sharding: Literal["none", "optimizer", "gradients", "full"] | ShardedOver | None = Field(
        default=None, description="What data-parallel ranks share out; the engine's own, if left out."
    )
    offload: Offload = Offload()

    structural: ClassVar = ("schedule", "sequence", "sharding", "offload")

    @property
    def gpus(self) -> int:
        """GPUs that the degrees multiply to."""
        return self.tensor * self.pipeline * self.context * (1 if self.data is None else self.data)


class HardwareChoice(_Strict):
    """On what it runs."""

    gpu: str | dict[str, Any] = Field(default="a100-sxm4-80gb", description="A catalog name, or an inline card.")
    gpus: Positive | None = Field(default=None, description="What the layout's degrees multiply to, if left out.")
    system: str | dict[str, Any] | None = Field(default=None, description="The GPU's usual one, if left out.")
    calibration: str | None = Field(
        default=None, description="An overlay of the card's constants, written by `roofsim calibrate fit --overlay`."
    )
    override: dict[str, Any] = Field(
        default_factory=dict,
        description="gpu.memory.bandwidth: 3 TB/s, or a factor on what the catalog states: 2x, +10%, -10%.",
    )
    mtbf: Duration | None = Field(default=None, description="Mean time between failures of the whole job.")
    mtbf_per_gpu: Duration | None = Field(default=None, description="The same of one GPU with its part of the node.")
    restart: Duration | None = Field(
        default=None, description="From a failure to the next step, beside reading the checkpoint; 5 min if left out."
    )
    jitter: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        default=0.0, description="Standard deviation of the time of one rank's step, as a share of it."
    )


class Scenario(_Strict):
    """A request: a model, what is done with it, and on what."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    units: Literal["SI"] | None = Field(
        default=None, description="SI: bare numbers are quantities in SI units, as in the scenario of a result."
    )
    model: str | dict[str, Any]
    workload: Workload = Workload()
    parallel: Parallel = Parallel()
    hardware: HardwareChoice = HardwareChoice()
