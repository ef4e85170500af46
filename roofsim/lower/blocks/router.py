"""Build the routers of mixtures of experts: scores, the choice of the best, and their weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.component import Purpose
from roofsim.graph.ops import Elementwise, Gather, Sort
from roofsim.graph.tensor import BOOL, FP32, INT64, Tensor

if TYPE_CHECKING:
    from roofsim.lower.blocks.layers import Layers
    from roofsim.numeric import Real
    from roofsim.spec.model.transformer import DecoderModel


def route(layers: Layers, model: DecoderModel, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weights and the indices ``[tokens, k]`` of the experts that each token ``[tokens, hidden]`` takes."""
    with layers.b.scope(Purpose.ROUTER):
        logits = _logits(layers, model, x)
    if model.router_scores == "sparse_mixer":
        from roofsim.lower.blocks.sparse_mixer import sparse_mixer  # of few models

        return sparse_mixer(layers, logits)  # beside the router: no engine chooses so in one kernel
    with layers.b.scope(Purpose.ROUTER):
        k = model.experts_per_token
        if model.router_scores == "softmax_of_top":
            top, indices = _best(layers, logits, k)
            return layers.softmax(top), indices
        if model.router_scores == "wide_softmax_of_top":
            top, indices = _best(layers, layers.cast(logits, FP32), k)
            return layers.cast(layers.softmax(top), x), indices
        scores = _scores(layers, model, logits)
        if _chooses_apart(model):
            _, indices = _best(layers, _in_groups(layers, model, _corrected(layers, model, scores)), k, "choice")
            top = _gathered(layers, scores, indices)
        else:
            top, indices = _best(layers, scores, k)
        if model.router_normalized:
            top = _normalised(layers, model, top)
        if model.expert_scale:
            factors = layers.b.parameter("expert_scale", model.num_experts + model.zero_experts)
            top = layers.mul(top, _gathered(layers, factors, indices))
        if model.router_scaled:
            top = layers.pointwise("mul_scalar", top)
        return top if model.router_weights_in_fp32 else layers.cast(top, x), indices


def _logits(layers: Layers, model: DecoderModel, x: Tensor) -> Tensor:
    count = model.num_experts + model.zero_experts
    weight = layers.b.parameter("weight", count, x.shape[-1])
    if model.router_in_fp32 and layers.flavour.engine.experts.router == "modules":
        x, weight = layers.cast(x, FP32), layers.cast(weight, FP32)
    shares = layers.shares  # ranks that hold the same tokens route them all
    repeated = 1.0 if shares.sequence else shares.tensor
    return layers.linear(x, count, Purpose.LOGITS, weight=weight, bias=model.router_bias, repeated=repeated)


def _scores(layers: Layers, model: DecoderModel, logits: Tensor) -> Tensor:
    wide = layers.cast(logits, FP32) if model.router_scores_in_fp32 else logits
    return layers.pointwise("sigmoid", wide) if model.router_scores == "sigmoid" else layers.softmax(wide)


def _normalised(layers: Layers, model: DecoderModel, top: Tensor) -> Tensor:
    """Divide by the sum of each row; sigmoids may all be zero, so a tiny number is added to theirs."""
    total = layers.reduce(top, (top.shape[0], 1.0))
    total = layers.pointwise("add_scalar", total) if model.router_scores == "sigmoid" else total
    return layers.pointwise("div", top, total)


def _chooses_apart(model: DecoderModel) -> bool:
    """Tell whether experts are chosen by other numbers than the scores that become their weights."""
    return model.router_correction_bias or model.router_groups is not None


def _best(layers: Layers, scores: Tensor, k: Real, leaf: str = "topk") -> tuple[Tensor, Tensor]:
    """Return the `k` largest of the last axis and where they stand."""
    b = layers.b
    shape = (*scores.shape[:-1], k)
    top = b.tensor("top_weights", *shape, dtype=scores.dtype)
    indices = b.tensor("top_indices", *shape, dtype=INT64)
    b.emit(Sort, leaf, inputs=(scores,), outputs=(top, indices), function="topk")
    return top, indices


def _gathered(layers: Layers, scores: Tensor, indices: Tensor) -> Tensor:
    b = layers.b
    out = b.tensor("chosen", *indices.shape, dtype=scores.dtype)
    b.emit(Gather, "chosen", inputs=(scores, indices), outputs=(out,))
    return out


def _corrected(layers: Layers, model: DecoderModel, scores: Tensor) -> Tensor:
    """Add the bias that balances the experts' load; it takes part in the choice only."""
    if not model.router_correction_bias:
        return scores
    return layers.pointwise("add", scores, layers.b.buffer("correction_bias", scores.shape[-1]), dtype=FP32)


def _in_groups(layers: Layers, model: DecoderModel, scores: Tensor) -> Tensor:
    """Hide all experts but those of the groups with the best scores (by their two best experts, or their best)."""
    groups = model.router_groups
    if groups is None:
        return scores
    tokens, size = scores.shape[0], model.num_experts / groups
    grouped = layers.view(scores, "reshape", tokens, groups, size)
    if model.router_correction_bias:
        pairs, _ = _best(layers, grouped, 2.0, "best_two")
        of_group = layers.reduce(pairs, (tokens, groups))
    else:
        of_group = layers.reduce(grouped, (tokens, groups), "max")
    _, chosen = _best(layers, of_group, model.router_groups_per_token, "groups")
    return layers.pointwise("where", scores, _mask_of(layers, of_group, chosen, grouped), dtype=scores.dtype)


def _mask_of(layers: Layers, of_group: Tensor, chosen: Tensor, grouped: Tensor) -> Tensor:
    """Return a mask ``[tokens, experts]`` of what the chosen groups leave out."""
    b = layers.b
    marks = b.tensor("marks", *of_group.shape, dtype=of_group.dtype)
    b.emit(Gather, "mark", inputs=(of_group, chosen), outputs=(marks,), function="scatter")
    spread = layers.copy(marks, "expand", grouped.shape)
    hidden = b.tensor("hidden", grouped.shape[0], grouped.shape[1] * grouped.shape[2], dtype=BOOL)
    b.emit(Elementwise, "compare", inputs=(spread,), outputs=(hidden,), function="compare")
    return hidden
