"""Build mixture-of-experts layers: router, permutation, grouped matmuls, weighted sum."""

from __future__ import annotations

from roofsim.graph.ops import Elementwise, Gather, GroupedMatmul, Reduction, Sort
from roofsim.graph.tensor import FP32, INT32, INT64, Tensor
from roofsim.lower.layers import Layers
from roofsim.numeric import Real, product
from roofsim.spec.families.transformer import DecoderModel


def experts_layer(layers: Layers, model: DecoderModel, x: Tensor) -> Tensor:
    """Send each token ``[batch, sequence, hidden]`` to its experts and sum what they return.

    Dropless: the grouped matmuls run over tokens x experts_per_token rows sorted by expert, as the transformers
    library does with `torch._grouped_mm`. Shared experts, where the model has them, run on every token.
    """
    with layers.b.scope("experts"):
        tokens = product(*x.shape[:-1])
        flat = layers.view(x, "reshape", tokens, x.shape[-1])
        weights, indices = _route(layers, model, flat)
        rows, sorted_weights, order, offsets = _permute(layers, model, flat, weights, indices)
        result = _expert_mlp(layers, model, rows, offsets)
        combined = _combine(layers, flat, result, sorted_weights, order)
        out = layers.view(combined, "reshape", *x.shape)
    return out


def _route(layers: Layers, model: DecoderModel, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weights and the indices ``[tokens, k]`` of the experts that each token takes."""
    b, k = layers.b, model.experts_per_token
    tokens = x.shape[0]
    with b.scope("router"):
        wide = layers.cast(x, FP32) if model.attention == "mla" else x
        weight = b.parameter("weight", model.num_experts, x.shape[-1])
        used = layers.cast(weight, FP32) if model.attention == "mla" else weight
        logits = layers.linear(wide, model.num_experts, "logits", weight=used, bias=model.router_bias)
        scores = layers.softmax(layers.cast(logits, FP32)) if model.router_scores == "softmax" else layers.pointwise(
            "sigmoid", logits
        )
        top = b.tensor("top_weights", tokens, k, dtype=FP32)
        indices = b.tensor("top_indices", tokens, k, dtype=INT64)
        b.emit(Sort, "topk", inputs=(scores,), outputs=(top, indices), function="topk")
        total = layers.reduce(top, (tokens, 1.0))
        return layers.pointwise("div", top, total), indices


def _permute(
    layers: Layers, model: DecoderModel, x: Tensor, weights: Tensor, indices: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sort (token, expert) pairs by expert; return the rows, their weights, the order, the ends of each expert's rows."""
    b = layers.b
    pairs = x.shape[0] * model.experts_per_token
    with b.scope("permute"):
        ordered = b.tensor("ordered", pairs, dtype=INT64)
        order = b.tensor("order", pairs, dtype=INT64)
        b.emit(Sort, "sort", inputs=(indices,), outputs=(ordered, order), function="sort")
        source = b.tensor("source", pairs, dtype=INT64)
        b.emit(Elementwise, "floor_divide", inputs=(order,), outputs=(source,), function="floor_divide")
        rows = b.tensor("rows", pairs, x.shape[-1])
        b.emit(Gather, "rows", inputs=(x, source), outputs=(rows,))
        row_weights = b.tensor("row_weights", pairs, dtype=FP32)
        b.emit(Gather, "weights", inputs=(weights, order), outputs=(row_weights,))
        narrow = b.tensor("narrow", pairs, dtype=INT32)
        b.emit(Elementwise, "to_int", inputs=(ordered,), outputs=(narrow,), function="to_int")
        counts = b.tensor("counts", model.num_experts, dtype=INT32)
        b.emit(Sort, "histogram", inputs=(narrow,), outputs=(counts,), function="histogram")
        offsets = b.tensor("offsets", model.num_experts, dtype=INT32)
        b.emit(Sort, "cumsum", inputs=(counts,), outputs=(offsets,), function="cumsum")
    return rows, row_weights, order, offsets


def grouped_linear(layers: Layers, model: DecoderModel, rows: Tensor, offsets: Tensor, width: Real, leaf: str) -> Tensor:
    """Multiply each expert's rows with its own matrix ``[width, k]``."""
    b = layers.b
    with b.scope(leaf):
        k = rows.shape[-1]
        weight = b.parameter("weight", model.num_experts, width, k)
        out = b.tensor("out", rows.shape[0], width)
        b.emit(
            GroupedMatmul, "matmul", inputs=(rows, weight, offsets), outputs=(out,),
            rows=rows.shape[0], n=width, k=k, experts=model.num_experts,
        )  # fmt: skip
        if model.expert_bias:
            bias = b.parameter("bias", model.num_experts, width)
            picked = b.tensor("picked", rows.shape[0], width)
            b.emit(Gather, "bias", inputs=(bias,), outputs=(picked,))
            out = layers.add(out, picked)
        return out


def _expert_mlp(layers: Layers, model: DecoderModel, rows: Tensor, offsets: Tensor) -> Tensor:
    width = model.expert_intermediate_size
    assert width is not None and model.activation is not None
    if not model.gated_mlp:
        hidden = layers.activation(grouped_linear(layers, model, rows, offsets, width, "up"), model.activation)
    else:
        both = grouped_linear(layers, model, rows, offsets, 2.0 * width, "gate_up")
        gate, up = layers.split(both, width, width)
        hidden = layers.mul(layers.activation(gate, model.activation), up)
    return grouped_linear(layers, model, hidden, offsets, rows.shape[-1], "down")


def _combine(layers: Layers, x: Tensor, result: Tensor, weights: Tensor, order: Tensor) -> Tensor:
    """Weight the experts' rows, bring them back into token order and sum the k rows of each token, in fp32."""
    b = layers.b
    pairs, width = result.shape
    with b.scope("combine"):
        column = layers.view(weights, "reshape", pairs, 1.0)
        weighted = layers.pointwise("mul", result, column, dtype=FP32)
        inverse = b.tensor("inverse", pairs, dtype=INT64)
        b.emit(Gather, "invert", inputs=(order,), outputs=(inverse,), function="scatter")
        restored = b.tensor("restored", pairs, width, dtype=FP32)
        b.emit(Gather, "restore", inputs=(weighted, inverse), outputs=(restored,))
        summed = b.tensor("sum", x.shape[0], width, dtype=FP32)
        b.emit(Reduction, "sum", inputs=(restored,), outputs=(summed,), function="sum")
        return layers.cast(summed, x)

