"""Build chains of inverted residuals, the blocks of EfficientNet and MobileNet."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.blocks.convolutional import VisionLayers
    from roofsim.spec.model.mobile import InvertedResidual


def inverted_residuals(
    layers: VisionLayers,
    x: Tensor,
    blocks: tuple[InvertedResidual, ...],
    *,
    inplace_add: bool = False,
    stochastic_depth: float = 0.0,
) -> Tensor:
    """Build the blocks in order; equal ones in a row become one repeated block."""
    b, position = layers.b, 0
    for block, run in groupby(blocks):
        times = len(list(run))
        with b.repeat(f"blocks.{position}", float(times)):
            y = _branch(layers, x, block)
            if block.residual:
                y = layers.add(layers.stochastic_depth(y, stochastic_depth), x, inplace=inplace_add)
                y = b.carry(x, y)
        x = y
        position += times
    return x


def _branch(layers: VisionLayers, x: Tensor, block: InvertedResidual) -> Tensor:
    """Expand, convolve each channel by itself, squeeze and excite, project."""
    wide, y = float(block.expanded_channels), x
    if block.expanded_channels != block.in_channels:
        y = layers.conv_norm(y, wide, 1.0, "expand", activation=block.activation)
    y = layers.conv_norm(
        y, wide, float(block.kernel), "depthwise", stride=float(block.stride), groups=wide, activation=block.activation
    )
    if block.squeezed_channels is not None:
        y = layers.squeeze_excite(
            y, float(block.squeezed_channels), "se", activation=block.squeeze_activation, gate=block.gate
        )
    return layers.conv_norm(y, float(block.out_channels), 1.0, "project", activation=None)
