"""Describe blocks of networks without attention: layers over tokens, and learned scales of channels."""

from __future__ import annotations

from typing import ClassVar

from roofsim.schema.base import Field
from roofsim.spec.model.layers.amounts import Amount
from roofsim.spec.model.layers.forms import Form, LayerBlock, Sizes, wants
from roofsim.spec.model.layers.mixers import MlpActivation


class OverTokensBlock(LayerBlock):
    """A linear layer, or two with an activation, over the tokens of each channel (MLP-Mixer, gMLP, ResMLP)."""

    main: ClassVar[str] = "hidden"
    generates: ClassVar[bool] = False

    hidden: Amount | None = Field(
        default=None, description="Of two layers: what the first makes of the tokens. Default: one layer."
    )
    activation: MlpActivation = Field(default="gelu", description="Between two layers.")
    bias: bool = True

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return as many tokens of the same width."""
        wants(taken, "tokens", what="over_tokens")
        if self.hidden is not None:
            sizes.of(self.hidden, "hidden")
        return taken


class AffineBlock(LayerBlock):
    """Learned scale and shift of each channel, without a norm (ResMLP's Affine; LayerScale: shift: false)."""

    scale: bool = True
    shift: bool = True

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return the same."""
        del sizes
        wants(taken, "tokens", "rows", "maps", what="affine")
        return taken
