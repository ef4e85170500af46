"""Build relative position biases: what is added to attention scores by the distance of query and key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.ops import Copy, Elementwise, Gather, View
from roofsim.graph.tensor import BOOL, FP32, INT64, DType, Tensor
from roofsim.numeric import Real, round_up, same, where

if TYPE_CHECKING:
    from roofsim.lower.blocks.layers import Layers

#: Elements to a multiple of which PyTorch pads the rows of a bias for the memory-efficient kernel (`preprocess_mask`).
ROW_ALIGNMENT = 8.0


def bucketed_bias(
    layers: Layers, q_length: Real, kv_length: Real, heads: Real, buckets: Real, *, both_ways: bool
) -> Tensor:
    """Return T5's bias ``[heads, q_length, kv_length]``: one learned number per head and bucket of distances.

    The lookup writes ``[q_length, kv_length, heads]``; the bias is a view of it. `both_ways`: keys after the query have
    buckets of their own (encoder).
    """
    b = layers.b
    with b.scope("relative_bias"):
        indices = _buckets(layers, q_length, kv_length, both_ways=both_ways)
        values = layers.lookup(indices, b.parameter("weight", buckets, heads))
        return layers.view(values, "transpose", heads, q_length, kv_length)


def _buckets(layers: Layers, q_length: Real, kv_length: Real, *, both_ways: bool) -> Tensor:
    """Sort distances into buckets: exact near zero, logarithmic beyond; a dozen small kernels over all pairs."""
    queries = _map(layers, "add_scalar", INT64, _arange(layers, q_length))
    distance = _map(layers, "sub", INT64, queries, _arange(layers, kv_length), shape=(q_length, kv_length))
    if both_ways:
        after = layers.cast(_map(layers, "compare", BOOL, distance), INT64)
        side = _map(layers, "add_scalar", INT64, _map(layers, "mul_scalar", INT64, after))
        distance = _map(layers, "abs", INT64, distance)
    else:
        side = _map(layers, "fill", INT64, shape=distance.shape)
        distance = _map(layers, "neg", INT64, _map(layers, "clamp", INT64, distance, side))
    near = _map(layers, "compare", BOOL, distance)
    far = layers.cast(distance, FP32)
    for function in ("div_scalar", "log", "div_scalar", "mul_scalar"):
        far = _map(layers, function, FP32, far)
    far = _map(layers, "add_scalar", INT64, layers.cast(far, INT64))
    far = _map(layers, "clamp", INT64, far, _map(layers, "fill", INT64, shape=far.shape))
    chosen = _map(layers, "where", INT64, near, distance, far)
    return _map(layers, "add", INT64, chosen, side)


def logarithmic_distances(layers: Layers, length: Real) -> Tensor:
    """Return DeBERTa's distances ``[length, length]`` between all pairs: exact near zero, logarithmic beyond, with their sign."""
    distance = _map(layers, "sub", INT64, _arange(layers, length), _arange(layers, length), shape=(length, length))
    sign = _map(layers, "compare", INT64, distance)
    near = _map(layers, "mul", BOOL, _map(layers, "compare", BOOL, distance), _map(layers, "compare", BOOL, distance))
    size = _map(layers, "where", INT64, near, _map(layers, "abs", INT64, distance))
    far = _map(layers, "div_scalar", FP32, size)
    for function in ("log", "div_scalar", "mul_scalar", "to_int", "add_scalar"):  # the fourth rounds up
        far = _map(layers, function, FP32, far)
    inside, plain = _map(layers, "compare", BOOL, size), layers.cast(distance, FP32)
    chosen = _map(layers, "where", FP32, inside, plain, _map(layers, "mul", FP32, far, sign))
    return layers.cast(chosen, INT64)


def _arange(layers: Layers, length: Real) -> Tensor:
    return _map(layers, "arange", INT64, shape=(length,))


def _map(layers: Layers, function: str, dtype: DType, *inputs: Tensor, shape: tuple[Real, ...] | None = None) -> Tensor:
    out = layers.b.tensor(function, *(inputs[0].shape if shape is None else shape), dtype=dtype)
    layers.b.emit(Elementwise, function, inputs=inputs, outputs=(out,), function=function)
    return out


def indexed_bias(layers: Layers, tokens: Real, entries: Real, heads: Real) -> Tensor:
    """Return the bias ``[heads, tokens, tokens]`` of BEiT and of Swin's windows, from a table by a fixed index."""
    b = layers.b
    with b.scope("relative_bias"):
        table = b.parameter("table", entries, heads)
        indices = layers.view(b.buffer("index", tokens, tokens, dtype=INT64), "reshape", tokens * tokens)
        values = b.tensor("values", tokens * tokens, heads)
        b.emit(Gather, "values", inputs=(table, indices), outputs=(values,), function="index")
        return layers.view(values, "transpose", heads, tokens, tokens)


def causal_bias(layers: Layers, bias: Tensor) -> Tensor:
    """Hide keys after the query in a bias: one comparison of positions, one choice."""
    q_length, kv_length = bias.shape[-2:]
    queries, keys = _arange(layers, q_length), _arange(layers, kv_length)
    order = _map(layers, "compare", BOOL, queries, keys, shape=(q_length, kv_length))
    out = layers.b.tensor("where", *bias.shape)
    layers.b.emit(Elementwise, "where", inputs=(order, bias), outputs=(out,), function="where")
    return out


def zero_bias(layers: Layers, dtype: DType, heads: Real, q_length: Real, kv_length: Real) -> Tensor:
    """Return a bias of zeros, in rows long enough for `aligned`."""
    return _map(layers, "fill", dtype, shape=(heads, q_length, round_up(kv_length, ROW_ALIGNMENT)))


def contiguous_bias(layers: Layers, bias: Tensor, like: Tensor) -> Tensor:
    """Write a bias row by row, in the type of `like`, in rows long enough for `aligned`."""
    *outer, kv_length = bias.shape
    out = layers.copy(bias, "contiguous", (*outer, round_up(kv_length, ROW_ALIGNMENT)))
    return layers.cast(out, like)


def aligned(layers: Layers, bias: Tensor, kv_length: Real, batch: Real) -> Tensor:
    """Show a bias to every sequence of the batch, as the memory-efficient kernel reads it.

    PyTorch pads rows that are no multiple of eight elements; the padded copy stands in the storage of `bias`, which has
    the room. Where sizes are arrays the padding runs in the share of them that needs it.
    """
    b, padded = layers.b, bias.shape[-1]
    shape = (*bias.shape[:-1], kv_length)
    if not same(padded, kv_length):
        share = where(padded == kv_length, 0.0, 1.0)
        out = b.tensor("pad", *bias.shape, dtype=bias.dtype, base=bias)
        b.emit(Copy, "pad", inputs=(bias,), outputs=(out,), function="pad", share=share)
        rows = b.tensor("rows", *shape, dtype=bias.dtype, base=out)
        b.emit(View, "rows", inputs=(out,), outputs=(rows,), function="slice", share=share)
        bias = rows
    return layers.view(bias, "expand", batch, *shape)
