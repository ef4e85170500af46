"""Describe blocks through which a state passes from token to token: scans, short convolutions, recurrences.

Attention whose state is a matrix per head stands in `linear_mixers`, RWKV's in `time_mixes`.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from roofsim.schema.base import Field
from roofsim.spec.model.layers.amounts import Amount
from roofsim.spec.model.layers.forms import Form, LayerBlock, Sizes, divides, wants, widened


class MambaBlock(LayerBlock):
    """Mamba's mixer: projections around a convolution over time and a selective scan (arXiv 2312.00752)."""

    splits_tensor: ClassVar[bool] = True
    recurrent: ClassVar[bool] = True

    state_size: Amount = 16
    expand: Amount = Field(default=2, description="Channels, in units of the width.")
    conv_kernel: Amount = 4
    time_step_rank: Amount | None = Field(default=None, description="Width / 16, rounded up, if left out.")
    biases: bool = False
    conv_bias: bool = True
    inner_norms: Literal["none", "weighted", "plain"] = Field(
        default="none",
        description="RMS norms on step, input and output matrices: with weights (Jamba), without (Falcon).",
    )

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return tokens of the same width."""
        wants(taken, "tokens", what="mamba")
        for key in ("state_size", "expand", "conv_kernel"):
            sizes.of(getattr(self, key), key)
        if self.time_step_rank is not None:
            sizes.of(self.time_step_rank, "time_step_rank")
        return taken


class Mamba2Block(LayerBlock):
    """Mamba-2's mixer: heads with one decay each, whose scan is products in chunks (SSD, arXiv 2405.21060)."""

    main: ClassVar[str] = "num_heads"
    splits_tensor: ClassVar[bool] = True
    recurrent: ClassVar[bool] = True

    num_heads: Amount
    head_size: Amount = 64
    state_size: Amount = 128
    num_groups: Amount = Field(default=1, description="Groups of heads that share input and output matrices.")
    conv_kernel: Amount = 4
    chunk_size: Amount = 256
    biases: bool = False
    conv_bias: bool = True
    gated_norm: bool = Field(default=True, description="An RMS norm on the gated result.")

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return tokens of the same width."""
        wants(taken, "tokens", what="mamba2")
        for key in ("head_size", "state_size", "conv_kernel", "chunk_size"):
            sizes.of(getattr(self, key), key)
        heads = sizes.of(self.num_heads, "num_heads")
        divides(heads, sizes.of(self.num_groups, "num_groups"), "num_heads", "num_groups")
        return taken


class ShortConvBlock(LayerBlock):
    """A convolution over the last tokens between two gates, all three of one projection (LFM2)."""

    main: ClassVar[str] = "kernel"
    recurrent: ClassVar[bool] = True

    kernel: Amount = 3
    bias: bool = False

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return tokens of the same width."""
        wants(taken, "tokens", what="short_conv")
        sizes.of(self.kernel, "kernel")
        return taken


class RecurrentBlock(LayerBlock):
    """Layers of cells that go through a sequence token by token: one launch after the other."""

    main: ClassVar[str] = "hidden_size"
    recurrent: ClassVar[bool] = True

    hidden_size: Amount
    num_layers: Amount = 1
    bias: bool = True
    bidirectional: bool = False
    projection_size: Amount | None = Field(
        default=None, description="Width to which an LSTM projects what it hands on."
    )
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0, description="Between layers.")

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return tokens of the cells' width, twice in both directions."""
        wants(taken, "tokens", what="a recurrence")
        width = sizes.of(self.hidden_size, "hidden_size")
        sizes.of(self.num_layers, "num_layers")
        if self.projection_size is not None:
            width = sizes.of(self.projection_size, "projection_size")
        return widened(taken, 2 * width if self.bidirectional else width)

    def generates_here(self) -> bool:
        """Tell whether it goes forward only."""
        return not self.bidirectional
