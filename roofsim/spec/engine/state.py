"""Describe an engine's types and training state: recipes, weight formats, gradients, the optimizer."""

from __future__ import annotations

from typing import Annotated, Literal

from roofsim.schema.base import Field
from roofsim.spec.engine.base import Facts, Flat
from roofsim.spec.precision.formats import FormatFamily


class PrecisionFacts(Facts):
    """Which types an engine computes in, and which weights it loads."""

    default: Annotated[str | None, Flat("default_precision")] = Field(
        default=None,
        description="The precision people get from the engine without asking; null: not stated. Stated, not yet used: a "
        "scenario without precision gets the card's 16-bit type.",
    )
    recipe: Annotated[Literal["pure", "master", "sharded"], Flat("precision_recipe")] = Field(
        default="pure",
        description="pure: fp16 and bf16 mean everything in that type; master: fp32 master parameters and states beside it; "
        "sharded: fp32 parameters and states split over the ranks, low-precision copies gathered to compute with (on one "
        "GPU priced as master).",
    )
    activation_type: Literal["compute", "fp32"] = Field(
        default="compute",
        description="Type of activations in 16-bit inference. fp32: elementwise kernels know no other; a prefill converts "
        "the inputs and results of library GEMMs, decode kernels read fp32 beside 16-bit weights.",
    )
    narrow_operands: Literal["kept", "cast_again"] = Field(
        default="kept",
        description="What backward reads of operands that were cast to a narrow type: the narrow ones, or the wide ones, cast "
        "a second time.",
    )
    narrow_weights_cast: Literal["micro_batch", "step"] = Field(
        default="micro_batch",
        description="How often training converts 16-bit weights for narrow products: in each micro batch, or once a step.",
    )
    narrow_parameters: tuple[Literal["fp8", "mxfp8", "nvfp4"], ...] = Field(
        default=(),
        description="Precisions whose name alone means, in training, that the layers' weights are kept in that type without a "
        "16-bit copy, as precision.parameters of the same name says; others keep 16-bit parameters.",
    )
    narrow_gradients: Annotated[Literal["parameters", "fp32"] | None, Flat("narrow_gradient_type")] = Field(
        default=None,
        description="As gradient_type, where linear layers are trained in 8 bits or fewer; null: the same.",
    )
    weight_formats: dict[str, str] = Field(
        default_factory=dict, description="Precision name -> the weight format that the engine means by it."
    )
    cache_types: dict[str, Literal["fp8"]] = Field(
        default_factory=dict,
        description="Precision name -> type of the key-value cache in the engine's recipe of it, in inference; left out: the "
        "type of the activations. precision.key_value_cache states another.",
    )
    formats: tuple[FormatFamily, ...] | None = Field(
        default=None,
        description="Families of stored weights narrower than 16 bits that it loads, in inference; null: not stated.",
    )
    formats_not_on: dict[FormatFamily, tuple[str, ...]] = Field(
        default_factory=dict,
        description="Family of `formats` -> GPU architectures that its kernels do not run on: an error; left out: none stated.",
    )
    stored_only: tuple[FormatFamily, ...] = Field(
        default=(),
        description="Families of `formats` whose weights it expands, although cards have arithmetic in that format.",
    )
    expands_foreign_formats: bool = Field(
        default=False,
        description="Where the card lacks a format's arithmetic (fp8, fp4, int8), its weights are multiplied in 16 bits; "
        "false: an error.",
    )

    @property
    def sixteen(self) -> str:
        """Return the 16-bit type that it computes in beside narrower ones."""
        return "bf16" if self.default == "bf16" else "fp16"


class TrainingFacts(Facts):
    """How a training step keeps gradients, updates parameters and recomputes."""

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
    activation_input_type: Literal["compute", "fp8"] = Field(
        default="compute",
        description="Type in which the input of a gated activation is kept until backward; fp8: a copy is cast for that, and back.",
    )
    adapter_type: Literal["parameters", "fp32"] = Field(
        default="parameters",
        description="Type of adapters beside a 16-bit model, where the scenario states none: the model's, or fp32.",
    )
    frozen_formats: tuple[FormatFamily, ...] = Field(
        default=(),
        description="Families of stored weights that stay as they are under adapters, written out for each GEMM; a checkpoint in "
        "another one is expanded to 16 bits first.",
    )
    loss_metrics: Annotated[int, Field(ge=0, le=10)] = Field(
        default=0, description="Metrics that the trainer computes of every micro batch's logits, each in fp32."
    )
