"""Describe an engine's other kernels: what is merged, how convolutions and experts run, how old the libraries are."""

from __future__ import annotations

from typing import Annotated, Literal

from roofsim.schema.base import Field
from roofsim.spec.engine.base import Facts, Flat
from roofsim.spec.strict import Strict

#: What is merged into one kernel (or one matmul).
FusionGroup = Literal[
    "pointwise",
    "bias_dropout_add",
    "bias_activation",
    "gated_activation",
    "residual_norm",
    "qkv",
    "gate_up",
]


class FusionFacts(Facts):
    """What is one kernel, and what a chain of them."""

    groups: Annotated[tuple[FusionGroup, ...], Flat("fusion")] = Field(
        default=(),
        description="pointwise: a compiler merges what is between heavy ops; bias_dropout_add: a library's kernel. "
        "qkv and gate_up: one matmul; gated_activation: activation and product of a gated MLP in one kernel. In inference "
        "also residual_norm (residual sum inside the norm). bias_activation (bias and GELU in one kernel) changes no price: "
        "biases ride in the matmul.",
    )
    compiled: Literal["model", "layers"] = Field(
        default="model",
        description="What pointwise fusion covers: everything, or the repeated layers without the loss.",
    )
    backward_reads: Literal["autograd", "min_cut"] = Field(
        default="autograd",
        description="What the forward pass of a compiled training step keeps for the backward pass. autograd: what each op's "
        "gradient reads; min_cut: the least from which the backward pass can compute the rest again without running a heavy op "
        "twice (torch.compile's partitioner).",
    )
    rms_norm: Literal["fused", "chain"] = Field(default="fused", description="One kernel, or transformers' fp32 chain.")
    norm_load_bytes: Annotated[float, Field(ge=1.0, le=64.0)] | None = Field(
        default=None,
        description="Bytes that a thread of the kernel of RMS norms loads at once; null: as the measured one, 2.",
    )
    index_load_bytes: Annotated[float, Field(ge=1.0, le=16.0)] | None = Field(
        default=None,
        description="Bytes that a thread of kernels which collect rows by index loads at once, where rows are wide enough; null: "
        "an element. Kernels that add rows up by index take an element at a time.",
    )
    gelu_new: Literal["fused", "chain"] = Field(default="fused", description="The tanh GELU: one kernel, or eight.")
    rotary: Literal["fused", "chain"] = Field(
        default="fused", description="Rotary embedding: one kernel per tensor, or six."
    )
    silu_backward: Literal["fused", "decomposed"] = Field(
        default="fused", description="decomposed: six kernels, as a PyTorch without GPU kernels traces it."
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
    quantised_norms: bool = Field(
        default=False, description="Norms of training write their result in the narrow type of the GEMM that reads it."
    )
    quantised_activations: tuple[str, ...] = Field(
        default=(),
        description="Narrow types of operands in which the kernels of activations of training write their results, and those of "
        "their gradients; others are converted by a kernel of their own.",
    )
    bias_gradients: Literal["separate", "fused"] = Field(
        default="separate",
        description="fused: the gradient of a bias is summed by the kernel that converts the same gradient to a narrow type, or in "
        "the epilogue of the GEMM of the weight's gradient; separate: a kernel of its own.",
    )
    concatenations: Literal["copied", "written"] = Field(
        default="copied",
        description="Concatenations of inference: a kernel copies the parts, or the kernels that make them write each into its "
        "place.",
    )
    patterns: tuple[Literal["attention", "bias", "layer_norm", "rms_norm", "gelu", "silu"], ...] = Field(
        default=(),
        description="What it recognises in the graph of a captured or exported program that has it op by op, in inference, "
        "and runs as one kernel.",
    )
    plain_kernels: tuple[Literal["biases", "convolution_biases", "masks", "reductions"], ...] = Field(
        default=(),
        description="What runs as kernels of its own in inference: biases of GEMMs and of convolutions, the padding mask of "
        "unfused attention, and both reductions and the last pass of softmax and norms.",
    )


class ConvolutionFacts(Facts):
    """How convolutions run."""

    memory_format: Literal["channels_first", "channels_last"] = Field(
        default="channels_first", description="Layout of images (NCHW or NHWC)."
    )
    share: Annotated[Annotated[float, Field(gt=0.0, le=1.0)], Flat("convolution_share")] = Field(
        default=1.0,
        description="Share of the rate of searched convolutions that those reach in inference which the library's heuristics "
        "choose.",
    )
    norms: Annotated[Literal["kernels", "folded"], Flat("convolution_norms")] = Field(
        default="kernels",
        description="Batch norms of inference behind convolutions: kernels of their own, or folded into the convolution's weights "
        "and bias when the model is built.",
    )
    epilogue: Annotated[Literal["none", "activation", "residual"], Flat("convolution_epilogue")] = Field(
        default="none",
        description="What convolutions of inference do before they write their result: nothing; the activation behind them; also "
        "the sum with a residual before it.",
    )
    pool_positions: bool = Field(
        default=True,
        description="Whether max pools of inference also write where the maxima are, as PyTorch's kernel does.",
    )
    narrow: Annotated[bool, Flat("narrow_convolutions")] = Field(
        default=False,
        description="Whether there are kernels of convolutions in the 8-bit types that GEMMs are asked for; false: they stay in "
        "16 bits.",
    )
    workspace: Annotated[Literal["none", "transposed"], Flat("convolution_workspace")] = Field(
        default="none",
        description="What the decoder of a diffusion pipeline allocates beside the tensors of a convolution: nothing, or "
        "copies in the layout of its kernel, which reads channels last.",
    )


class ServingExperts(Strict):
    """How tokens of inference reach experts that are dealt out over more ranks than share the token."""

    exchange: Literal["all_to_all", "gather"] = Field(
        default="all_to_all",
        description="all_to_all: each token goes to the ranks of its experts and back; gather: all tokens go to all ranks, "
        "and the ranks' sums are scattered back.",
    )
    dispatch: Literal["compute", "fp8"] = Field(
        default="compute",
        description="Type in which tokens travel to experts; results travel back in the compute type.",
    )


ExpertProducts = Literal["grouped", "separate"]


class ExpertFacts(Facts):
    """How mixtures of experts run."""

    products: Annotated[ExpertProducts, Flat("expert_products")] = Field(
        default="grouped",
        description="How the rows of experts are multiplied: grouped: by one kernel for all experts; separate: by a product of "
        "the usual library for each.",
    )
    products_on: Annotated[dict[str, ExpertProducts], Flat("expert_products_on")] = Field(
        default_factory=dict, description="GPU architecture -> `products` there, where it is not the usual."
    )
    product_streams: Annotated[float, Field(ge=1.0, le=128.0), Flat("expert_product_streams")] = Field(
        default=1.0, description="Streams over which separate products of experts are spread."
    )
    fused_accumulation: Annotated[bool, Flat("expert_fused_accumulation")] = Field(
        default=False,
        description="Whether the products of experts add their weight gradients into the buffer themselves, where those of "
        "other layers do.",
    )
    router: Literal["modules", "fused"] = Field(
        default="modules",
        description="How inference routes tokens to experts: modules: as the transformers library does; fused: scores by a "
        "product in the model's own type, and one kernel that chooses experts and their weights.",
    )
    kernels: Annotated[Annotated[float, Field(ge=0.0, le=40.0)] | None, Flat("expert_kernels")] = Field(
        default=None,
        description="Launches per layer of inference that bring tokens into the order of experts and back; null: as many as "
        "the transformers library has.",
    )
    rows: Annotated[Literal["modules", "copied", "gathered"], Flat("expert_rows")] = Field(
        default="modules",
        description="How inference brings tokens into the order of experts: modules: as the transformers library does; copied: "
        "one kernel converts and copies rows; gathered: the GEMMs pick them. Both sum results in one pass.",
    )
    capacity_rows: Annotated[Literal["dropped", "padded"], Flat("expert_capacity_rows")] = Field(
        default="dropped",
        description="With a capacity factor: tokens beyond it are dropped; or each expert's rows are also padded up to it.",
    )
    over_ranks: Annotated[ServingExperts, Flat("serving_experts")] = Field(
        default=ServingExperts(), description="How tokens of inference reach experts on other ranks."
    )
    uneven: Annotated[bool, Flat("uneven_experts")] = Field(
        default=False,
        description="Whether ranks of inference may hold unlike numbers of experts, some one more than others.",
    )
    copies: Annotated[bool, Flat("expert_copies")] = Field(
        default=False,
        description="Whether ranks of inference may hold copies of experts that others hold too (redundant_experts).",
    )


class KernelFacts(Facts):
    """What holds for all kernels of an engine."""

    vendors: tuple[str, ...] = Field(
        default=(), description="Makers of the GPUs that it runs on: an error on others; empty: not stated."
    )
    not_on: tuple[str, ...] = Field(
        default=(), description="GPU architectures that it does not run on: an error; empty: none stated."
    )
    library_released: Annotated[float, Field(ge=2010.0, le=2040.0)] | None = Field(
        default=None,
        description="When the kernel libraries came out, a decimal year: young ones are slow on new chips. null: mature.",
    )
    measured_as: Literal["vllm", "sglang", "trtllm"] | None = Field(
        default=None,
        description="Under which name its own kernels were measured, of experts and of latent attention; null: it runs the "
        "kernels of others, medians over all count.",
    )
    floor_cycles: Annotated[Annotated[float, Field(gt=0.0, le=100_000.0)] | None, Flat("kernel_cycles")] = Field(
        default=None,
        description="Clock cycles of the engine's smallest kernel in inference, the gap to the next included; null: the "
        "architecture's floor.",
    )
    extra_per_layer: Annotated[Annotated[float, Field(ge=0.0, le=1000.0)], Flat("extra_kernels_per_layer")] = Field(
        default=0.0,
        description="Launches per layer and pass beyond those of the graph, without traffic of their own (packing, "
        "activation quantisation), in inference.",
    )
