"""Bring the tokens of inference to ranks whose experts they chose, and what these return back to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.lower.blocks.exchange import emit
from roofsim.lower.shares import one
from roofsim.numeric import where

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.blocks.layers import Layers
    from roofsim.numeric import Real

#: Each of these emits nothing where the numbers say that nothing moves; of arrays, collectives of one rank.


def part_of_tokens(layers: Layers, x: Tensor) -> Tensor:
    """Return the part of ``[batch, sequence, width]`` that a tensor rank sends to experts: all, where all ranks work on all."""
    senders = layers.shares.senders
    if one(senders):
        return x
    batch, *rest = x.shape
    return layers.view(x, "slice", batch / senders, *rest)


def whole_tokens(layers: Layers, own: Tensor, x: Tensor) -> Tensor:
    """Return ``[batch, sequence, width]`` like `x`, of which tensor ranks have their sums or each a part."""
    shares = layers.shares
    if one(shares.tensor):
        return own
    if not one(shares.senders):
        out = layers.b.tensor("tokens", *x.shape, dtype=own.dtype)
        own = emit(layers, "all_gather", "tensor", shares.senders, own, out, leaf="tokens")
    if one(shares.summing):
        return own
    out = layers.b.tensor("summed", *own.shape, dtype=own.dtype, base=own)
    return emit(layers, "all_reduce", "tensor", shares.summing, own, out)


def whole_batch(layers: Layers, flat: Tensor) -> Tensor:
    """Gather the rows ``[tokens, width]`` of all ranks whose attention has batches of their own, where the engine does so."""
    shares = layers.shares
    if one(shares.gathering):
        return flat
    tokens, width = flat.shape
    out = layers.b.tensor("gathered", tokens * shares.gathering, width, dtype=flat.dtype)
    return emit(layers, "all_gather", "dispatch", shares.gathering, flat, out, travels_in=shares.dispatch_type)


def own_batch(layers: Layers, combined: Tensor, tokens: Real) -> Tensor:
    """Add up the ranks' sums ``[tokens of all, width]``, each rank getting its own tokens back."""
    shares = layers.shares
    if one(shares.gathering):
        return combined
    out = layers.b.tensor("scattered", tokens, combined.shape[-1], dtype=combined.dtype)
    return emit(layers, "reduce_scatter", "dispatch", shares.gathering, combined, out)


def sent(layers: Layers, rows: Tensor) -> Tensor:
    """Send rows ``[rows, width]`` to the ranks of their experts; the busiest rank receives `expert_load` times as many."""
    shares = layers.shares
    if one(shares.exchanging):
        return rows
    more = where(shares.exchanging > 1.0, shares.expert_load, 1.0)
    out = layers.b.tensor("dispatch", rows.shape[0] * more, rows.shape[1], dtype=rows.dtype)
    ranks, travels_in = shares.exchanging, shares.dispatch_type
    return emit(layers, "all_to_all", "expert", ranks, rows, out, leaf="dispatch", travels_in=travels_in)


def returned(layers: Layers, result: Tensor) -> Tensor:
    """Send what experts made of rows back to where these came from."""
    shares = layers.shares
    if one(shares.exchanging):
        return result
    more = where(shares.exchanging > 1.0, shares.expert_load, 1.0)
    out = layers.b.tensor("combine", result.shape[0] / more, result.shape[1], dtype=result.dtype)
    return emit(layers, "all_to_all", "expert", shares.exchanging, result, out, leaf="combine")
