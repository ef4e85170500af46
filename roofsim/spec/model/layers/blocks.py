"""Describe blocks that are one or a few kernels: linear layers, convolutions, norms, activations, pooling, tables."""

from __future__ import annotations

from typing import ClassVar, Literal

from roofsim.schema.base import Field
from roofsim.spec.model.layers.amounts import Amount
from roofsim.spec.model.layers.forms import Form, LayerBlock, Sizes, WrongBlockError, divides, wants, widened

#: One size, or one for each dimension.
Extent = Amount | tuple[Amount, ...]
Activation = Literal[
    "relu",
    "relu6",
    "gelu",
    "gelu_new",
    "gelu_tanh",
    "quick_gelu",
    "silu",
    "sigmoid",
    "tanh",
    "relu_squared",
    "hardswish",
    "hardsigmoid",
    "leaky_relu",
    "elu",
    "mish",
    "softplus",
    "exp",
    "softmax",
    "scale",
    "normalise",
]


#: How an RMS norm is written.
WeightForm = Literal["plain", "fp32", "widened", "wide", "zero_centered", "mixed", "kernel"]


class OfTokensBlock(LayerBlock):
    """A block on each token (or row) alone."""

    splits_tensor: ClassVar[bool] = True
    splits_sequence: ClassVar[bool] = True


class LinearBlock(OfTokensBlock):
    """``x W^T + b`` over the last axis of tokens or rows."""

    main: ClassVar[str] = "width"

    width: Amount = Field(description="Width of the result.")
    bias: bool = True
    split: Literal["whole", "columns", "rows"] | None = Field(
        default=None,
        description="Over a tensor group: every rank has all of it (whole), a share of the result's width (columns), or of its "
        "input's, and the results are summed (rows). Left out, a tensor group is refused.",
    )

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return tokens or rows of the new width."""
        wants(taken, "tokens", "rows", what="linear")
        return widened(taken, sizes.of(self.width, "width"))

    def splits_tensor_here(self) -> bool:
        """Tell whether it says how."""
        return self.split is not None


class NormBlock(OfTokensBlock):
    """Layer or RMS normalisation over the width of tokens or rows."""

    bias: bool = Field(default=True, description="Of layer_norm.")
    affine: bool = Field(default=True, description="Whether it has weights at all.")
    weight_form: WeightForm = Field(
        default="plain",
        description="How an unfused rms_norm applies its weight (see the decoder's normalization_weight); mixed: as plain, of what "
        "enters and not of its wide copy (diffusers); widened: as fp32, with an fp32 copy of the "
        "weight (Nemotron-H); kernel: one kernel in every engine (torch.nn.RMSNorm).",
    )
    parts: Amount = Field(
        default=1,
        description="Of rms_norm: parts of the width, of which each is normalised by itself, with the same weights.",
    )

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return the same."""
        wants(taken, "tokens", "rows", what="a norm over the width")
        divides(taken.width, sizes.of(self.parts, "parts"), "the width", "parts")
        return taken


class CastBlock(OfTokensBlock):
    """Another type for what follows: fp32 where a model's code computes so, and back to that of the other activations."""

    main: ClassVar[str] = "to"

    to: Literal["fp32", "compute"]


class DropoutBlock(OfTokensBlock):
    """Drop elements while training."""

    main: ClassVar[str] = "rate"

    rate: float = Field(ge=0.0, lt=1.0)


class PointwiseBlock(OfTokensBlock):
    """An activation or another function of each element."""

    main: ClassVar[str] = "function"

    function: Activation
    inplace: bool | None = Field(
        default=None, description="Left out: in place on maps, as usual code of ConvNets has it."
    )


class GluBlock(LayerBlock):
    """One half of the width (or of the channels), times the sigmoid of the other (arXiv 1612.08083)."""

    channels: bool = Field(default=False, description="Over the channels of maps in one dimension.")

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return half the width."""
        del sizes
        wants(taken, "tokens", "rows", "maps", what="glu")
        if (taken.layout == "maps" and taken.dimensions == 1) != self.channels:
            hint = "channels: true goes with maps in one dimension, and only with them."
            raise WrongBlockError(f"glu takes {taken}", "channels", hint)
        divides(taken.width, 2, "the width", "channels")
        return widened(taken, taken.width // 2)


class ConvBlock(LayerBlock):
    """A convolution over maps of one, two or three dimensions."""

    main: ClassVar[str] = "channels"

    channels: Amount
    kernel: Extent = 3
    stride: Extent = 1
    padding: Extent | None = Field(default=None, description="Left out: half the dilated kernel, which keeps the size.")
    dilation: Amount = 1
    groups: Amount | Literal["depthwise"] = Field(default=1, description="depthwise: one for each channel.")
    bias: bool = True
    transposed: bool = Field(default=False, description="Makes maps larger by the stride (ConvTranspose).")

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return maps of other channels."""
        wants(taken, "maps", what="conv")
        channels = sizes.of(self.channels, "channels")
        groups = taken.width if self.groups == "depthwise" else sizes.of(self.groups, "groups")
        divides(taken.width, groups, "the number of input channels", "groups")
        divides(channels, groups, "channels", "channels")
        extents(self.kernel, taken, sizes, "kernel")
        if self.padding is not None:
            extents(self.padding, taken, sizes, "padding", least=0)
        extents(self.stride, taken, sizes, "stride")
        sizes.of(self.dilation, "dilation")
        return widened(taken, channels)


def extents(given: Extent, taken: Form, sizes: Sizes, key: str, least: int = 1) -> None:
    """Check one size, or one for each dimension of maps.

    Raises
    ------
    WrongBlockError
        For a wrong size, or more or fewer than maps have dimensions.
    """
    each = given if isinstance(given, tuple) else (given,)
    if isinstance(given, tuple) and len(given) != taken.dimensions:
        raise WrongBlockError(f"{len(given)} sizes for maps in {taken.dimensions} dimensions", key)
    for one in each:
        sizes.of(one, key, least)


class CausalConvBlock(OfTokensBlock):
    """A depthwise convolution of each channel over the last tokens, as hybrids have before their scans."""

    main: ClassVar[str] = "kernel"
    splits_tensor: ClassVar[bool] = False
    splits_sequence: ClassVar[bool] = False
    recurrent: ClassVar[bool] = True

    kernel: Amount = 4
    bias: bool = False

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return the same."""
        wants(taken, "tokens", what="causal_conv")
        sizes.of(self.kernel, "kernel")
        return taken


class BatchNormBlock(LayerBlock):
    """Normalisation of channels over batch and positions."""

    affine: bool = True
    frozen: bool = Field(default=False, description="Statistics and weights are buffers (torchvision's detectors).")

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return the same."""
        del sizes
        wants(taken, "maps", "rows", what="batch_norm")
        return taken


class GroupNormBlock(LayerBlock):
    """Normalisation of groups of channels of each sample."""

    main: ClassVar[str] = "groups"

    groups: Amount = 32

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return the same."""
        wants(taken, "maps", what="group_norm")
        divides(taken.width, sizes.of(self.groups, "groups"), "the number of channels", "groups")
        return taken


class PoolBlock(LayerBlock):
    """Maximum or average over windows of maps."""

    main: ClassVar[str] = "kernel"

    kernel: Amount = 2
    stride: Amount | None = Field(default=None, description="As the kernel, if left out.")
    padding: Amount = 0
    ceil_mode: bool = False

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return maps of as many channels."""
        wants(taken, "maps", what="pooling")
        sizes.of(self.kernel, "kernel")
        sizes.of(self.kernel if self.stride is None else self.stride, "stride")
        sizes.of(self.padding, "padding", least=0)
        return taken


class AdaptiveAverageBlock(LayerBlock):
    """Average over a grid of windows that together cover the map."""

    main: ClassVar[str] = "side"

    side: Amount

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return maps of as many channels."""
        wants(taken, "maps", what="adaptive_average")
        sizes.of(self.side, "side")
        return taken


class UpsampleBlock(LayerBlock):
    """Interpolation to larger maps."""

    main: ClassVar[str] = "factor"

    factor: Amount = 2
    mode: Literal["nearest", "bilinear"] = "nearest"

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return maps of as many channels."""
        wants(taken, "maps", what="upsample")
        sizes.of(self.factor, "factor")
        return taken


class SqueezeExciteBlock(LayerBlock):
    """A gate on channels, computed from their means (two 1x1 convolutions)."""

    main: ClassVar[str] = "reduced"

    reduced: Amount = Field(description="Channels between the two convolutions.")
    activation: Activation = "relu"
    gate: Literal["sigmoid", "hardsigmoid"] = "sigmoid"

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return the same."""
        wants(taken, "maps", what="squeeze_excite")
        sizes.of(self.reduced, "reduced")
        return taken


class PositionlessBlock(LayerBlock):
    """One row of all positions: their mean, or the last token."""

    generates: ClassVar[bool] = False

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return rows."""
        del sizes
        wants(taken, "tokens", "maps", what="it")
        return Form("rows", taken.width)


class LastBlock(PositionlessBlock):
    """The last token of each sample."""

    gathered: bool = Field(
        default=False, description="Samples end at tokens of their own: theirs are gathered, not shown (CLIP's texts)."
    )


class OfMapsBlock(PositionlessBlock):
    """The mean of each map."""

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return rows."""
        wants(taken, "maps", what="global_average")
        return super().gives(taken, sizes)


class EmbeddingBlock(OfTokensBlock):
    """A table of tokens, split over a tensor group by its entries; with positions, a scale and a norm where models have them."""

    entries: Amount
    width: Amount
    positions: Amount | None = Field(default=None, description="Learned positions that are added: how many.")
    scale: bool = Field(default=False, description="Multiply by sqrt(width) (Gemma).")
    normalization: Literal["layernorm", "rmsnorm"] | None = None
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return tokens."""
        wants(taken, "ids", what="embedding")
        sizes.of(self.entries, "entries")
        if self.positions is not None:
            sizes.of(self.positions, "positions")
        return Form("tokens", sizes.of(self.width, "width"))


class LogitsBlock(OfTokensBlock):
    """The head of a language model: logits of all tokens with their loss while training, of the last one in inference."""

    main: ClassVar[str] = "entries"
    entries: Amount = Field(description="Entries of the vocabulary.")
    tied: bool = Field(default=False, description="The table of the embedding is its weight.")
    bias: bool = False
    soft_cap: bool = Field(default=False, description="tanh soft cap (Gemma 2).")
    scale: bool = Field(default=False, description="A constant factor (Granite, Cohere).")
    in_fp32: bool = Field(default=False, description="The model widens them itself (Mamba-2, Nemotron-H).")

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return the end."""
        wants(taken, "tokens", what="logits")
        sizes.of(self.entries, "entries")
        return Form("loss")


class ClassifierBlock(LayerBlock):
    """A linear classifier of rows, with the cross entropy while training."""

    main: ClassVar[str] = "classes"
    generates: ClassVar[bool] = False
    splits_tensor: ClassVar[bool] = True

    classes: Amount
    bias: bool = True

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return the end."""
        wants(taken, "rows", what="classifier")
        sizes.of(self.classes, "classes")
        return Form("loss")


#: Losses by name.
LossFunction = Literal["mse", "cross_entropy", "binary_cross_entropy", "transducer"]


class LossBlock(LayerBlock):
    """What training compares the result with: targets of the same shape, or a class of each position."""

    main: ClassVar[str] = "function"
    generates: ClassVar[bool] = False
    splits_tensor: ClassVar[bool] = True

    function: LossFunction = Field(
        default="mse",
        description="transducer: of logits of all frames and labels, summed over the paths through them (arXiv 1211.3711).",
    )
    also: tuple[str, ...] = Field(
        default=(), description="Kept results that are compared with targets of their shape beside (L1), such as boxes."
    )

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return the end."""
        del sizes
        wants(taken, "tokens", "rows", "maps", what="loss")
        return Form("loss")

    def reads(self) -> tuple[tuple[str, str], ...]:
        """Return what else is compared."""
        return tuple((f"also.{place}", name) for place, name in enumerate(self.also))
