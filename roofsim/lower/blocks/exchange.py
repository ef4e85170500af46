"""Bring tensors into regions that a group of ranks shares, and out again: a collective each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.graph.ops import Collective
from roofsim.numeric import same

if TYPE_CHECKING:
    from roofsim.graph.tensor import DType, Tensor
    from roofsim.lower.blocks.layers import Layers
    from roofsim.lower.call import Call
    from roofsim.numeric import Real
    from roofsim.spec.model.transformer import DecoderModel
from roofsim.lower.shares import one


def enter(layers: Layers, x: Tensor) -> Tensor:
    """Bring ``[batch, sequence, width]`` into a region that is split over the tensor group."""
    shares = layers.shares
    if one(shares.tensor):
        return x
    if not shares.sequence:
        out = layers.b.tensor("entered", *x.shape, dtype=x.dtype, base=x)
        return emit(layers, "identity", "tensor", shares.tensor, x, out)
    out = layers.b.tensor("gathered", *_resized(x, shares.tensor), dtype=x.dtype)
    return emit(
        layers, "all_gather", "tensor", shares.tensor, x, out, again=shares.communication.sequence_gather == "again"
    )


def leave(layers: Layers, x: Tensor) -> Tensor:
    """Sum the parts ``[batch, sequence, width]`` that the ranks of a tensor group computed."""
    shares = layers.shares
    if one(shares.tensor):
        return x
    if not shares.sequence:
        out = layers.b.tensor("summed", *x.shape, dtype=x.dtype, base=x)
        return emit(layers, "all_reduce", "tensor", shares.tensor, x, out)
    out = layers.b.tensor("scattered", *_resized(x, 1.0 / shares.tensor), dtype=x.dtype)
    return emit(layers, "reduce_scatter", "tensor", shares.tensor, x, out)


def summed_inside(layers: Layers, x: Tensor) -> Tensor:
    """Sum the parts that the ranks of a tensor group computed, inside of a region, of which each then takes all for its share."""
    ranks = layers.shares.tensor
    if one(ranks):
        return x
    out = layers.b.tensor("summed", *x.shape, dtype=x.dtype, base=x)
    whole = emit(layers, "all_reduce", "tensor", ranks, x, out, leaf="sum_inside")
    shown = layers.b.tensor("shown", *x.shape, dtype=x.dtype, base=whole)
    return emit(layers, "identity", "tensor", ranks, whole, shown, leaf="show_inside")


def _resized(x: Tensor, factor: Real) -> tuple[Real, ...]:
    """Return the shape with another number of tokens: ``[tokens, width]`` or ``[batch, sequence, width]``."""
    axis = max(len(x.shape) - 2, 0)
    return tuple(size * factor if place == axis else size for place, size in enumerate(x.shape))


def working_share(model: DecoderModel) -> Real:
    """Return the share of the experts that tokens choose which compute something, where all are chosen alike."""
    return model.num_experts / (model.num_experts + model.zero_experts)


def ways_of_tokens(layers: Layers, model: DecoderModel) -> dict[str, Any]:
    """Return how rows of one token travel to the nodes of their experts: together, where the engine's exchange does so."""
    if layers.shares.communication.expert_exchange == "rows":
        return {}
    groups = 1.0 if model.router_groups is None else model.router_groups
    chosen = 1.0 if model.router_groups is None else model.router_groups_per_token
    return {"per_token": model.experts_per_token * working_share(model), "groups": groups, "chosen": chosen}


def dispatch(layers: Layers, rows: Tensor, ways: dict[str, Any]) -> Tensor:
    """Send rows ``[rows, width]`` to the ranks of their experts, `expert_load` times as many of which take this one's.

    Where several ranks split each expert, all of them get the rows of all.
    """
    shares = layers.shares
    if not same(shares.expert_load, 1.0) or not one(shares.expert):
        out = layers.b.tensor("dispatch", rows.shape[0] * shares.expert_load, rows.shape[1], dtype=rows.dtype)
        rows = emit(layers, "all_to_all", "expert", shares.expert, rows, out, leaf="dispatch", **ways)
    if shares.has_expert_groups and not one(shares.expert_width):
        out = layers.b.tensor("rows_of_all", rows.shape[0] * shares.expert_width, rows.shape[1], dtype=rows.dtype)
        rows = emit(layers, "all_gather", "expert_tensor", shares.expert_width, rows, out)
    return rows


def combine(layers: Layers, rows: Tensor, ways: dict[str, Any]) -> Tensor:
    """Send what experts made of rows ``[rows, width]`` back to where these came from."""
    shares = layers.shares
    if shares.has_expert_groups and not one(shares.expert_width):
        out = layers.b.tensor("own_rows", rows.shape[0] / shares.expert_width, rows.shape[1], dtype=rows.dtype)
        rows = emit(layers, "reduce_scatter", "expert_tensor", shares.expert_width, rows, out)
    if not same(shares.expert_load, 1.0) or not one(shares.expert):
        out = layers.b.tensor("combine", rows.shape[0] / shares.expert_load, rows.shape[1], dtype=rows.dtype)
        rows = emit(layers, "all_to_all", "expert", shares.expert, rows, out, leaf="combine", **ways)
    return rows


def statistics(layers: Layers, logits: Tensor, dtype: DType) -> None:
    """Combine the rows' maxima, sums and target logits of a vocabulary that is split over the tensor group."""
    shares = layers.shares
    if one(shares.tensor):
        return
    rows = logits.shape[0]
    out = layers.b.tensor("statistics", rows, 3.0, dtype=dtype)
    emit(layers, "all_reduce", "tensor", shares.tensor, logits, out, leaf="statistics")


def whole_vocabulary(layers: Layers, logits: Tensor) -> Tensor:
    """Gather the logits ``[..., vocabulary]`` of all ranks, to sample from them."""
    shares = layers.shares
    if one(shares.tensor):
        return logits
    *rows, width = logits.shape
    out = layers.b.tensor("all_logits", *rows, width * shares.tensor, dtype=logits.dtype)
    return emit(layers, "all_gather", "tensor", shares.tensor, logits, out, leaf="logits")


def emit(
    layers: Layers,
    function: str,
    group: str,
    ranks: Real,
    x: Tensor,
    out: Tensor,
    *,
    again: bool = False,
    leaf: str | None = None,
    **fields: object,
) -> Tensor:
    """Emit a collective of a group from `x` to `out`; `again`: not kept for backward."""
    layers.b.emit(
        Collective,
        f"{group}_{leaf or function}",
        inputs=(x,),
        outputs=(out,),
        function=function,
        group_of=group,
        ranks=ranks,
        again=again,
        **fields,
    )
    return out


def sample(layers: Layers, call: Call, logits: Tensor) -> None:
    """Gather the logits of all ranks to sample from them, from those that a grammar allows, or to find the best beams."""
    logits = whole_vocabulary(layers, logits)
    if call.guided is not None:
        from roofsim.lower.blocks.masks import masked

        masked(layers, call, logits)
    if call.searches:
        from roofsim.lower.blocks.beams import choose

        choose(layers, call, logits)
