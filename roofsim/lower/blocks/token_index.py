"""Build the indexer of sparse attention (DeepSeek-V3.2, GLM-5): small heads score all tokens, attention reads the best of them.

Each query's heads of the index multiply one key of each token, scores below zero are dropped, and a weight of each head and query
sums the heads; attention then sees the ``index_tokens`` with the highest sums (DeepSeek-V3.2-Exp's report, section 2.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.component import Purpose
from roofsim.graph.ops import Elementwise, Gather, Matmul, Sort
from roofsim.graph.tensor import BOOL, FP32, INT64, Tensor
from roofsim.lower.blocks.attention import Tables, cached, rotate
from roofsim.numeric import minimum
from roofsim.records import replace

if TYPE_CHECKING:
    from roofsim.lower.blocks.heads import Heads
    from roofsim.lower.blocks.layers import Layers
    from roofsim.lower.call import Call
    from roofsim.spec.model.transformer import DecoderModel


def sparse(
    layers: Layers, model: DecoderModel, call: Call, heads: Heads, x: Tensor, low: Tensor, tables: Tables
) -> tuple[Heads, Tensor | None]:
    """Return the heads of an attention that reads chosen tokens only, and the mask that says which, where code writes one.

    Parameters
    ----------
    x, low
        The layer's input ``[batch, length, hidden]`` and the compressed queries ``[batch, length, q_lora_rank]``.

    Notes
    -----
    A serving engine's kernel gathers what was chosen: as many scores as a window of that size has. The transformers library
    masks the whole score matrix. The choice has no gradient (``torch.no_grad`` there), and its weights have none.
    """
    with layers.b.scope("indexer"), layers.b.freezing():
        q, k = _rotated(layers, model, x, low, tables)
        k = cached(layers, call, k, "index_key_cache")
        weights = layers.linear(x, float(model.index_heads), "weights")
        fused = layers.flavour.engine.fusion.rotary != "chain"
        sums = (_one_kernel if fused else _written_out)(layers, q, k, weights)
        chosen = minimum(float(model.index_tokens or 0), k.shape[1])
        places = layers.b.tensor("places", *sums.shape[:2], chosen, dtype=INT64)
        best = layers.b.tensor("best", *places.shape, dtype=sums.dtype)
        layers.b.emit(Sort, "topk", inputs=(sums,), outputs=(best, places), function="topk")
        if fused:
            return replace(heads, window=model.index_tokens), None
        return replace(heads, causal=False), _mask(layers, sums, places, x)


def _rotated(layers: Layers, model: DecoderModel, x: Tensor, low: Tensor, tables: Tables) -> tuple[Tensor, Tensor]:
    """Return queries ``[batch, length, heads, size]`` and one key of each token, both turned in part."""
    size, turned = float(model.index_head_size or 0), float(model.qk_rope_head_size or 0)
    q = layers.linear(low, float(model.index_heads) * size, "queries")
    k = layers.layer_norm(layers.linear(x, size, "keys"), "key_norm")
    made = []
    for part, count, leaf in ((q, float(model.index_heads), Purpose.ROTATE_QUERY), (k, 1.0, Purpose.ROTATE_KEY)):
        own = layers.view(part, "reshape", *x.shape[:2], count, size)
        first, rest = layers.split(own, turned, size - turned)
        made.append(layers.concat((rotate(layers, first, tables, leaf), rest), -1))
    return made[0], made[1]


def _one_kernel(layers: Layers, q: Tensor, k: Tensor, weights: Tensor) -> Tensor:
    """Score, drop and sum in one kernel that writes the sums alone (DeepGEMM, ``fp8_mqa_logits``)."""
    batch, length, heads, size = q.shape
    sums = layers.b.tensor("sums", batch, length, k.shape[1], dtype=FP32)
    sides = {"m": length * heads, "n": k.shape[1], "k": size, "batch": batch, "scores": True, "parts": 1.0 / heads}
    layers.b.emit(Matmul, "scores", inputs=(q, k, weights), outputs=(sums,), **sides)
    return sums


def _written_out(layers: Layers, q: Tensor, k: Tensor, weights: Tensor) -> Tensor:
    """Score, drop and sum in fp32, kernel by kernel, as the transformers library does."""
    b, (batch, length, heads, size), tokens = layers.b, q.shape, k.shape[1]
    q, k = layers.cast(q, FP32), layers.cast(k, FP32)
    scores = b.tensor("scores", batch, heads, length, tokens, dtype=FP32)
    sides = {"m": length * heads, "n": tokens, "k": size, "batch": batch, "scores": True}
    b.emit(Matmul, "scores", inputs=(q, k), outputs=(scores,), **sides)
    scores = layers.pointwise("relu", layers.pointwise("mul_scalar", scores))
    weights = layers.pointwise("mul_scalar", layers.cast(weights, FP32))
    sums = b.tensor("sums", batch, length, tokens, dtype=FP32)
    sides = {"m": 1.0, "n": tokens, "k": heads, "batch": batch * length, "scores": True}
    b.emit(Matmul, "sum", inputs=(weights, scores), outputs=(sums,), **sides)
    return layers.pointwise("where", sums)


def _mask(layers: Layers, sums: Tensor, places: Tensor, like: Tensor) -> Tensor:
    """Return the mask ``[batch, 1, length, tokens]`` that hides what was not chosen, in the type of the activations."""
    b, (batch, length, tokens) = layers.b, sums.shape
    hidden = b.tensor("hidden", batch, 1.0, length, tokens, dtype=BOOL)
    b.emit(Gather, "mark", inputs=(places,), outputs=(hidden,), function="scatter")
    mask = b.tensor("mask", batch, 1.0, length, tokens, dtype=like.dtype)
    b.emit(Elementwise, "masked", inputs=(hidden,), outputs=(mask,), function="where")
    return mask
