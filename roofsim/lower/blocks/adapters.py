"""Build low-rank products beside projections, with weights of their own where layers share the rest (Zamba2, arXiv 2411.15242)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.blocks.layers import Layers
    from roofsim.numeric import Real


def adapted(layers: Layers, x: Tensor, made: Tensor, rank: Real, leaf: str) -> Tensor:
    """Return what a projection made of `x`, with what two thin layers make of it."""
    with layers.b.apart():
        low = layers.linear(x, rank, f"{leaf}_adapter_down")
        return layers.add(made, layers.linear(low, made.shape[-1], f"{leaf}_adapter_up"))
