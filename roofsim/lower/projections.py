"""Build the projections before attention: queries, keys and values of equal heads, apart or in one matmul."""

from __future__ import annotations

from dataclasses import dataclass

from roofsim.graph.tensor import Tensor
from roofsim.lower.attention import Heads
from roofsim.lower.layers import Layers
from roofsim.numeric import Real


@dataclass(frozen=True, kw_only=True)
class ProjectionBiases:
    """Which of the three projections have a bias (Whisper's keys have none)."""

    query: bool
    key: bool
    value: bool

    @classmethod
    def all(cls, present: bool) -> ProjectionBiases:
        """Return biases everywhere or nowhere."""
        return cls(query=present, key=present, value=present)


def project(
    layers: Layers, x: Tensor, heads: Heads, biases: ProjectionBiases, *, fused: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values ``[batch, length, heads, size]`` of ``[batch, length, width]``."""
    wide, narrow = heads.heads * heads.head_size, heads.kv_heads * heads.head_size
    if fused:
        both = layers.linear(x, wide + 2.0 * narrow, "query_key_value", bias=biases.query)
        flat = layers.split(both, wide, narrow, narrow)
    else:
        flat = (
            layers.linear(x, wide, "query", bias=biases.query),
            layers.linear(x, narrow, "key", bias=biases.key),
            layers.linear(x, narrow, "value", bias=biases.value),
        )
    counts = (heads.heads, heads.kv_heads, heads.kv_heads)
    q, k, v = (by_head(layers, part, count) for part, count in zip(flat, counts, strict=True))
    return q, k, v


def by_head(layers: Layers, x: Tensor, heads: Real) -> Tensor:
    """Show ``[batch, length, width]`` as ``[batch, length, heads, size]``."""
    return layers.view(x, "reshape", *x.shape[:2], heads, x.shape[2] / heads)
