"""Build disentangled attention (DeBERTa, arXiv 2006.03654): content and position score each other both ways, kernel by kernel.

As transformers runs it (modeling_deberta_v2.py): the positions' queries and keys are made in every layer, by the projections of
the content and from one normalised table, and repeated for every sequence; what they score is picked by distance. No fused kernel
does that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.component import Purpose
from roofsim.graph.ops import Elementwise, Gather, Matmul
from roofsim.graph.tensor import BOOL, FP32, Tensor
from roofsim.lower.blocks.exchange import enter
from roofsim.lower.blocks.projections import by_head
from roofsim.lower.blocks.relative_bias import logarithmic_distances
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.lower.blocks.heads import Heads
    from roofsim.lower.blocks.layers import Layers
    from roofsim.numeric import Real


@dataclass(frozen=True)
class Distances:
    """What all layers read: the table of positions ``[2 x buckets, width]``, the buckets of all pairs, the mask of padding."""

    table: Tensor
    buckets: Tensor
    mask: Tensor
    dropout: float


def present(layers: Layers, batch: Real, length: Real) -> Tensor:
    """Return the mask ``[batch, length]`` of tokens that are no padding: ones, which the library writes where none is given."""
    return _made(layers, "fill", (batch, length))


def distances(layers: Layers, mask: Tensor, width: Real, buckets: Real, dropout: float) -> Distances:
    """Return what is made once for all layers."""
    b, (batch, length) = layers.b, mask.shape
    with b.scope("distances"):
        pairs = layers.mul(
            layers.view(mask, "reshape", batch, 1.0, 1.0, length), layers.view(mask, "reshape", batch, 1.0, length, 1.0)
        )
        buckets_of_pairs = logarithmic_distances(layers, length)
        table = layers.layer_norm(b.parameter("weight", 2.0 * buckets, width), "norm")
    return Distances(table, buckets_of_pairs, pairs, dropout)


def disentangled(layers: Layers, heads: Heads, x: Tensor, shared: Distances) -> Tensor:
    """Return ``[batch, length, heads x size]`` of ``[batch, length, width]``."""
    (batch, length, _), size = x.shape, heads.head_size
    table = layers.dropout(enter(layers, shared.table), shared.dropout)
    q, position_q = _projected(layers, heads, x, table, Purpose.QUERY)
    k, position_k = _projected(layers, heads, x, table, Purpose.KEY)
    value = layers.linear(x, heads.heads * size, Purpose.VALUE, bias=True)
    v = layers.copy(by_head(layers, value, heads.heads), "transpose", (batch, heads.heads, length, size))
    with layers.b.scope(Purpose.ATTENTION):
        scores = _product(layers, "scores", q, layers.pointwise("div_scalar", k), (length, length, size))
        near = layers.pointwise("add_scalar", _picked(layers, q, position_k, shared.buckets, "content", size))
        other = _picked(layers, k, position_q, layers.pointwise("neg", shared.buckets), "position", size)
        near = layers.add(near, other, inplace=True)
        scores = layers.add(scores, near)
        hidden = layers.pointwise("compare", layers.pointwise("compare", shared.mask, dtype=BOOL), dtype=BOOL)
        hidden = layers.pointwise("masked_fill", scores, hidden, dtype=scores.dtype)
        weights = layers.dropout(layers.softmax(hidden), heads.dropout)
        context = _product(layers, "context", weights, v, (length, size, length))
        out = layers.copy(context, "transpose", (batch, length, heads.heads * size))
        layers.release(q, k, v, near, hidden)
        return out


def _projected(layers: Layers, heads: Heads, x: Tensor, table: Tensor, leaf: str) -> tuple[Tensor, Tensor]:
    """Return ``[batch, heads, length, size]`` of tokens and ``[batch, heads, positions, size]`` of the table: one projection."""
    b, size = layers.b, heads.head_size
    with b.scope(leaf):
        weight = b.parameter("weight", heads.heads * size, x.shape[-1])
        bias = b.parameter("bias", heads.heads * size)
    batch, positions = x.shape[0], table.shape[0]
    content = layers.linear(x, heads.heads * size, leaf, weight=weight, bias=bias)
    content = layers.copy(by_head(layers, content, heads.heads), "transpose", (batch, heads.heads, x.shape[1], size))
    placed = layers.linear(table, heads.heads * size, f"position_{leaf}", weight=weight, bias=bias)
    placed = layers.view(placed, "reshape", positions, heads.heads, size)
    placed = layers.copy(placed, "transpose", (heads.heads, positions, size))
    return content, layers.copy(placed, "expand", (batch, *placed.shape))


def _picked(layers: Layers, content: Tensor, placed: Tensor, buckets: Tensor, leaf: str, size: Real) -> Tensor:
    """Score content by all positions, and pick those of the distances: ``[batch, heads, length, length]``, scaled."""
    b, (batch, heads, length, _) = layers.b, content.shape
    with b.scope(leaf):
        scores = _product(layers, "scores", content, placed, (length, placed.shape[2], size))
        place = layers.pointwise("clamp", layers.pointwise("add_scalar", buckets))
        picked = b.tensor("picked", batch, heads, length, length)
        b.emit(Gather, "pick", inputs=(scores, place), outputs=(picked,), function="gather")
        return layers.pointwise("div_scalar", picked)


def _product(layers: Layers, leaf: str, left: Tensor, right: Tensor, sizes: tuple[Real, Real, Real]) -> Tensor:
    m, n, k = sizes
    batch, heads = left.shape[:2]
    out = layers.b.tensor(leaf, batch, heads, m, n)
    facts = {"m": m, "n": n, "k": k, "batch": batch * heads, "scores": True}
    layers.b.emit(Matmul, leaf, inputs=(left, right), outputs=(out,), **facts)
    return out


def _made(layers: Layers, function: str, shape: tuple[Real, ...]) -> Tensor:
    out = layers.b.tensor(function, *shape, dtype=FP32)
    layers.b.emit(Elementwise, function, inputs=(), outputs=(out,), function=function)
    return out
