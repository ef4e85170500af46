"""Build mixture-of-experts layers: permutation, grouped matmuls, weighted sum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.graph.component import Purpose
from roofsim.graph.ops import Elementwise, Gather, GroupedMatmul, Sort
from roofsim.graph.tensor import INT32, INT64, Tensor
from roofsim.lower.blocks.exchange import combine, dispatch, enter, leave, ways_of_tokens, working_share
from roofsim.lower.blocks.expert_shares import own_batch, part_of_tokens, returned, sent, whole_batch, whole_tokens
from roofsim.lower.blocks.mlp import dense_mlp, gated
from roofsim.lower.blocks.router import route
from roofsim.lower.shares import one
from roofsim.numeric import Real, exactly, product

if TYPE_CHECKING:
    from roofsim.lower.blocks.layers import Layers
    from roofsim.spec.model.transformer import DecoderModel

#: How often noise is multiplied in, in words: not at all first.
_TIMES: Final = ("none", "once", "twice")


def experts_layer(layers: Layers, model: DecoderModel, x: Tensor, routed: Tensor | None = None) -> Tensor:
    """Send each token ``[batch, sequence, hidden]`` to its experts, by itself or `routed`, and sum what they return.

    Dropless: the grouped matmuls run over tokens x experts_per_token rows sorted by expert, as the transformers
    library does with `torch._grouped_mm`; a capacity limits or pads these rows. Experts are dealt out over the expert
    group, each whole or split over the expert tensor group; without groups of their own, split over the tensor group.
    """
    if layers.shares.serving and not one(layers.shares.expert):
        return served_experts(layers, model, x, routed)
    with layers.b.scope(Purpose.EXPERTS):
        dealt = layers.shares.has_expert_groups
        x = x if dealt else enter(layers, x)
        routed = routed if dealt or routed is None else enter(layers, routed)
        tokens = product(*x.shape[:-1])
        flat = _jittered(layers, model, layers.view(x, "reshape", tokens, x.shape[-1]))
        by = flat if routed is None else layers.view(routed, "reshape", *flat.shape)
        weights, indices = route(layers, model, by)
        entering = _narrowed(layers, model, flat)
        kept = working_share(model)
        rows, sorted_weights, order, experts, offsets = _permute(layers, model, entering, weights, indices, kept=kept)
        ways = ways_of_tokens(layers, model)
        result = combine(layers, _expert_mlp(layers, model, dispatch(layers, rows, ways), experts, offsets), ways)
        summed = _widened(layers, model, _combine(layers, entering, result, sorted_weights, order))
        summed = _handed_on(layers, model, summed, flat, weights)
        combined = layers.view(summed, "reshape", *x.shape)
        return combined if dealt or sums_together(layers, model) else leave(layers, combined)


def sums_together(layers: Layers, model: DecoderModel) -> bool:
    """Tell whether tensor ranks add up what routed and shared experts return at once, as engines of inference do."""
    shares = layers.shares
    without = exactly(model.num_shared_experts, 0.0)
    return shares.serving and one(shares.expert) and not shares.has_expert_groups and not without


def served_experts(layers: Layers, model: DecoderModel, x: Tensor, routed: Tensor | None = None) -> Tensor:
    """Sum what experts return that are dealt out over ranks of inference, all routing being even.

    Tensor ranks hold the same tokens: each computes those of its own experts, and the ranks' sums are added. Where experts
    lie on more ranks than share a token, tokens travel as well: each tensor rank sends its part of them to the ranks
    of their experts and back, or all ranks gather the tokens of all.
    """
    b, shares = layers.b, layers.shares
    with b.scope(Purpose.EXPERTS):
        mine = part_of_tokens(layers, x)
        tokens = product(*mine.shape[:-1])

        def rows_of(part: Tensor) -> Tensor:
            return whole_batch(layers, layers.view(part, "reshape", tokens, part.shape[-1]))

        flat = rows_of(mine)
        weights, indices = route(layers, model, flat if routed is None else rows_of(part_of_tokens(layers, routed)))
        pairs = flat.shape[0] * model.experts_per_token
        entering = _narrowed(layers, model, flat)
        rows, sorted_weights, order, experts, offsets = _permute(
            layers, model, entering, weights, indices, kept=working_share(model) * shares.rows_of(pairs) / pairs
        )
        result = returned(layers, _expert_mlp(layers, model, sent(layers, rows), experts, offsets))
        combined = _widened(layers, model, _combine(layers, entering, result, sorted_weights, order))
        combined = _handed_on(layers, model, combined, flat, weights)
        own = own_batch(layers, combined, tokens)
        with b.scope(Purpose.COMBINE):
            own = layers.view(own, "reshape", *mine.shape)
        return whole_tokens(layers, own, x)


def shared_experts(layers: Layers, model: DecoderModel, x: Tensor, routed: Tensor) -> Tensor:
    """Add to `routed` what the experts that every token takes return, gated or not."""
    width = model.shared_expert_intermediate_size
    assert width is not None
    with layers.b.scope(Purpose.SHARED_EXPERTS):
        together = sums_together(layers, model)
        shared = dense_mlp(layers, model, enter(layers, x), width)
        shared = shared if together else leave(layers, shared)
        if model.shared_expert_gate:
            shared = layers.mul(shared, layers.pointwise("sigmoid", layers.linear(x, 1.0, Purpose.SHARED_EXPERT_GATE)))
        both = layers.add(routed, shared)
        return leave(layers, both) if together else both


def _jittered(layers: Layers, model: DecoderModel, x: Tensor) -> Tensor:
    """Return ``[tokens, hidden]`` times noise, in place and as often as the library's training code does so."""
    if not layers.flavour.training or layers.flavour.engine.experts.router != "modules":
        return x
    for _ in range(_TIMES.index(model.expert_input_jitter)):
        noise = layers.b.tensor("noise", *x.shape, dtype=x.dtype)
        layers.b.emit(Elementwise, "noise", inputs=(), outputs=(noise,), holds=(x,), function="random")
        x = layers.pointwise("mul", x, noise, inplace=True)
    return x


def _handed_on(layers: Layers, model: DecoderModel, summed: Tensor, x: Tensor, weights: Tensor) -> Tensor:
    """Add tokens ``[tokens, hidden]`` as they are, by the weights of the experts that compute nothing."""
    if exactly(model.zero_experts, 0.0):
        return summed
    with layers.b.scope("zero_experts"):
        share = layers.cast(layers.reduce(weights, (weights.shape[0], 1.0)), x)
        return layers.add(summed, layers.mul(x, share))


def _narrowed(layers: Layers, model: DecoderModel, x: Tensor) -> Tensor:
    """Return ``[tokens, hidden]`` as experts take it: projected to their latent width, if they have one."""
    latent = model.expert_latent_size
    return x if latent is None else layers.linear(x, float(latent), "latent_down", repeated=layers.shares.tensor)


def _widened(layers: Layers, model: DecoderModel, x: Tensor) -> Tensor:
    """Return what experts made of tokens in the model's own width."""
    if model.expert_latent_size is None:
        return x
    return layers.linear(x, model.hidden_size, "latent_up", repeated=layers.shares.tensor)


def _permute(
    layers: Layers, model: DecoderModel, x: Tensor, weights: Tensor, indices: Tensor, kept: Real = 1.0
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Sort (token, expert) pairs by expert, and take the rows of a share `kept` of them.

    Returns the rows, their weights, the order, the expert of each row, and where each expert's rows end.
    """
    b = layers.b
    pairs = x.shape[0] * model.experts_per_token * kept
    with b.scope(Purpose.PERMUTE):
        ordered = b.tensor("ordered", pairs, dtype=INT64)
        order = b.tensor("order", pairs, dtype=INT64)
        b.emit(Sort, "sort", inputs=(indices,), outputs=(ordered, order), function="sort")
        source = b.tensor("source", pairs, dtype=INT64)
        b.emit(Elementwise, "floor_divide", inputs=(order,), outputs=(source,), function="floor_divide")
        rows = b.tensor("rows", pairs, x.shape[-1])
        b.emit(Gather, Purpose.ROWS, inputs=(x, source), outputs=(rows,))
        row_weights = b.tensor("row_weights", pairs, dtype=weights.dtype)
        b.emit(Gather, "weights", inputs=(weights, order), outputs=(row_weights,))
        narrow = b.tensor("narrow", pairs, dtype=INT32)
        b.emit(Elementwise, "to_int", inputs=(ordered,), outputs=(narrow,), function="to_int")
        counts = b.tensor("counts", model.num_experts, dtype=INT32)
        b.emit(Sort, "histogram", inputs=(narrow,), outputs=(counts,), function="histogram")
        offsets = b.tensor("offsets", model.num_experts, dtype=INT32)
        b.emit(Sort, "cumsum", inputs=(counts,), outputs=(offsets,), function="cumsum")
    return rows, row_weights, order, ordered, offsets


def grouped_linear(
    layers: Layers, model: DecoderModel, rows: Tensor, experts: Tensor, offsets: Tensor, width: Real, leaf: str
) -> Tensor:
    """Multiply each expert's rows with its own matrix ``[width, k]``; a bias is picked per row and added in place."""
    b = layers.b
    with b.scope(leaf):
        k, experts_here = rows.shape[-1], layers.shares.of_experts(model.num_experts)
        weight = b.parameter("weight", experts_here, width, k)
        out = b.tensor("out", rows.shape[0], width)
        b.emit(
            GroupedMatmul,
            "matmul",
            inputs=(rows, weight, offsets),
            outputs=(out,),
            rows=rows.shape[0],
            n=width,
            k=k,
            experts=experts_here,
            load=layers.shares.expert_load,
            dealt=layers.shares.expert if layers.shares.serving else 1.0,
        )
        if not model.expert_bias:
            return out
        bias = b.parameter("bias", experts_here, width)
        picked = b.tensor("picked", rows.shape[0], width)
        b.emit(Gather, "bias", inputs=(bias, experts), outputs=(picked,))
        return layers.add(out, picked, inplace=True)


def _expert_mlp(layers: Layers, model: DecoderModel, rows: Tensor, experts: Tensor, offsets: Tensor) -> Tensor:
    width = model.expert_intermediate_size
    assert width is not None
    assert model.activation is not None
    if not model.gated_mlp:
        up = grouped_linear(layers, model, rows, experts, offsets, width, Purpose.UP)
        hidden = layers.activation(up, model.activation)
    else:
        both = grouped_linear(layers, model, rows, experts, offsets, 2.0 * width, Purpose.GATE_UP)
        # gpt-oss interleaves gate and up: two strided slices instead of one split.
        how = "split" if model.gate == "plain" else "slices"
        first, second = layers.split(both, width, width, function=how)
        hidden = gated(layers, first, second, model.activation, model.gate)
    return grouped_linear(layers, model, hidden, experts, offsets, rows.shape[-1], Purpose.DOWN)


def _combine(layers: Layers, x: Tensor, result: Tensor, weights: Tensor, order: Tensor) -> Tensor:
    """Weight the experts' rows, bring them back into token order and sum the rows of each token."""
    b = layers.b
    (pairs, width), tokens = result.shape, x.shape[0]
    with b.scope(Purpose.COMBINE):
        weighted = layers.mul(result, layers.view(weights, "reshape", pairs, 1.0))
        positions = b.tensor("positions", pairs, dtype=INT64)
        b.emit(Elementwise, "arange", inputs=(), outputs=(positions,), function="arange")
        inverse = b.tensor("inverse", pairs, dtype=INT64)
        b.emit(Gather, "invert", inputs=(positions, order), outputs=(inverse,), function="scatter")
        restored = b.tensor("restored", pairs, width)
        b.emit(Gather, "restore", inputs=(weighted, inverse), outputs=(restored,))
        by_token = layers.view(restored, "reshape", tokens, pairs / tokens, width, copies_gradient=True)
        return layers.cast(layers.reduce(by_token, (tokens, width)), x)
