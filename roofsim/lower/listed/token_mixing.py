"""Build layers over tokens, and learned scales of channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.graph.component import Purpose

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.blocks.convolutional import VisionLayers
    from roofsim.lower.listed.context import Context
    from roofsim.numeric import Real
    from roofsim.spec.model.layers import token_mixers

Kept = dict[str, Any]


def over_tokens(context: Context, block: token_mixers.OverTokensBlock, x: Tensor, _: Kept) -> Tensor:
    """Mix the tokens of each channel; what is transposed is written anew for its product, and its bias added apart."""
    layers, (batch, tokens, channels) = context.layers, x.shape
    turned = layers.copy(layers.view(x, "transpose", batch, channels, tokens), "contiguous")
    if block.hidden is None:
        mixed = _first(layers, turned, tokens, Purpose.UP, bias=block.bias)
    else:
        hidden = _first(layers, turned, context.size(block.hidden), Purpose.UP, bias=block.bias)
        mixed = layers.linear(layers.activation(hidden, block.activation), tokens, Purpose.DOWN, bias=block.bias)
    return layers.view(mixed, "transpose", batch, tokens, channels, copies_gradient=True)


def _first(layers: VisionLayers, turned: Tensor, width: Real, purpose: Purpose, *, bias: bool) -> Tensor:
    mixed = layers.linear(turned, width, purpose)
    if not bias:
        return mixed
    return layers.add(mixed, layers.cast(layers.b.parameter(f"{purpose}.bias", width), mixed), inplace=True)


def affine(context: Context, block: token_mixers.AffineBlock, x: Tensor, _: Kept) -> Tensor:
    """Scale and shift each channel."""
    layers, width = context.layers, x.shape[1] if context.is_map(x) else x.shape[-1]
    x = layers.mul(x, layers.b.parameter("scale", width)) if block.scale else x
    return layers.add(x, layers.b.parameter("shift", width)) if block.shift else x
