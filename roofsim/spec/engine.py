"""Describe engines: the facts of a software stack that decide what is fused, kept and launched."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from roofsim.spec.quantity import SecondsOrNone


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, protected_namespaces=())


class Overlap(_Strict):
    """Which communication the engine hides behind compute."""

    tensor: bool = False
    data: bool = True
    pipeline: bool = False


class Engine(_Strict):
    """Facts of a software stack. A wrong one costs more than all constants together, so each is data with a source."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    name: str
    description: str = ""
    aliases: tuple[str, ...] = ()

    attention: Literal["flash", "sdpa", "unfused", "fused_softmax"] = Field(
        default="sdpa",
        description="flash: a fused kernel always; sdpa: PyTorch's own choice by type and mask; unfused: products, scale, "
        "mask, softmax as kernels of their own; fused_softmax: products around one scale-mask-softmax kernel.",
    )
    rms_norm: Literal["fused", "chain"] = Field(default="fused", description="One kernel, or transformers' fp32 chain.")
    gelu_new: Literal["fused", "chain"] = Field(default="fused", description="The tanh GELU: one kernel, or eight.")
    rotary: Literal["fused", "chain"] = Field(
        default="fused", description="Rotary embedding: one kernel a tensor, or six."
    )
    cross_entropy: Literal["native", "upcast", "fused"] = Field(
        default="native", description="Loss on the logits' type, on an fp32 copy, or one kernel in place."
    )
    silu_backward: Literal["fused", "decomposed"] = Field(
        default="fused", description="decomposed: six kernels, as a PyTorch without GPU kernels traces it."
    )
    fusion: tuple[Literal["pointwise", "bias_dropout_add"], ...] = Field(
        default=(), description="pointwise: a compiler merges what lies between heavy ops."
    )
    precision_recipe: Literal["pure", "master"] = Field(
        default="pure",
        description="pure: fp16 and bf16 mean everything in that type; master: fp32 master parameters and states beside it.",
    )
    gradient_type: Literal["parameters", "fp32"] = Field(
        default="parameters", description="Type in which gradients are kept."
    )
    gradient_accumulation: Literal["separate", "fused"] = Field(
        default="separate", description="fused: the weight-gradient matmul adds into the buffer."
    )
    adamw: Literal["foreach", "fused", "loop"] = Field(default="foreach", description="What optimizer: adamw means.")
    selective_recompute: Literal["core_attention", "every_second_matmul"] = "core_attention"
    recompute_stops_early: bool = Field(
        default=True, description="Non-reentrant checkpoints stop once backward has what it needs."
    )
    launch: Literal["eager", "graphs"] = Field(
        default="eager", description="graphs: CUDA graphs, no host time per kernel."
    )
    host_issue_time: SecondsOrNone = Field(default=6e-6, description="Host time per kernel on the reference host.")
    memory_format: Literal["channels_first", "channels_last"] = "channels_first"
    key_value_cache: Literal["concatenated", "in_place"] = "in_place"
    reserved_overhead: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        default=0.1, description="Reserved beyond allocated memory, as a share of what a step allocates."
    )
    overlap: Overlap = Overlap()
    sources: dict[str, str] = Field(default_factory=dict, description="Fact -> where it is known from.")
    notes: str = ""
