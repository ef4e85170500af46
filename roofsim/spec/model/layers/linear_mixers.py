"""Describe attention without a softmax, whose state is a matrix per head: gated delta rules, and sums that decay."""

from __future__ import annotations

from typing import ClassVar

from roofsim.schema.base import Field
from roofsim.spec.model.layers.amounts import Amount
from roofsim.spec.model.layers.forms import Form, LayerBlock, Sizes, divides, wants


class DeltaNetBlock(LayerBlock):
    """A layer of gated delta rules (arXiv 2412.06464), as Qwen3-Next has it."""

    splits_tensor: ClassVar[bool] = True
    recurrent: ClassVar[bool] = True

    key_heads: Amount
    value_heads: Amount
    key_head_size: Amount
    value_head_size: Amount
    conv_kernel: Amount = 4

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return tokens of the same width."""
        wants(taken, "tokens", what="delta_net")
        keys = sizes.of(self.key_heads, "key_heads")
        divides(sizes.of(self.value_heads, "value_heads"), keys, "value_heads", "key_heads")
        for key in ("key_head_size", "value_head_size", "conv_kernel"):
            sizes.of(getattr(self, key), key)
        return taken


class KimiDeltaBlock(LayerBlock):
    """Kimi Delta Attention (arXiv 2510.26692): gated delta rules whose states decay by channel."""

    main: ClassVar[str] = "num_heads"
    splits_tensor: ClassVar[bool] = True
    recurrent: ClassVar[bool] = True

    num_heads: Amount
    head_size: Amount = 128
    gate_rank: Amount | None = Field(default=None, description="Rank of decays and gates: as head_size, if left out.")
    conv_kernel: Amount = 4

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return tokens of the same width."""
        wants(taken, "tokens", what="kimi_delta")
        for key in ("num_heads", "head_size", "conv_kernel"):
            sizes.of(getattr(self, key), key)
        if self.gate_rank is not None:
            sizes.of(self.gate_rank, "gate_rank")
        return taken


class LightningAttentionBlock(LayerBlock):
    """Lightning attention (arXiv 2405.17381): each head's state decays at a rate of its own, which nothing learns (MiniMax-01)."""

    main: ClassVar[str] = "num_heads"
    splits_tensor: ClassVar[bool] = True
    recurrent: ClassVar[bool] = True

    num_heads: Amount
    head_size: Amount = 128
    block_size: Amount = Field(
        default=256, description="Tokens that attend to each other by products, before the state."
    )

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return tokens of the same width."""
        wants(taken, "tokens", what="lightning_attention")
        for key in ("num_heads", "head_size", "block_size"):
            sizes.of(getattr(self, key), key)
        return taken
