"""Bring queries, keys and values of a sequence together that is split over a context group, and the result back.

``all_gather``: keys and values of the whole sequence before attention, reduce-scattered gradients (Llama 3, arXiv 2407.21783,
section 3.3.2; Transformer Engine's AttnFuncWithCPAndKVAllGather). ``p2p``: blocks of them go round a ring while attention runs
on the last one (arXiv 2310.01889; Transformer Engine's AttnFuncWithCPAndKVP2P). ``gathered_ring``: gathered at once, worked off
block by block (PyTorch's set_rotate_method("allgather")). ``a2a``: heads are split instead of tokens (arXiv 2309.14509).
``a2a+p2p``: the first among some ranks, rings of such groups (arXiv 2405.07719).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.lower.blocks.exchange import emit
from roofsim.lower.shares import one
from roofsim.records import replace

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.blocks.heads import Heads
    from roofsim.lower.blocks.layers import Layers


def whole_context(layers: Layers, x: Tensor, *, rings: bool) -> Tensor:
    """Return keys or values ``[batch, length, heads, size]`` of the whole sequence, as they come from the context group.

    Shared heads that were written out come head by head, ``[batch, heads, length, size]``; the shape says how many there
    are, not how they lie.
    """
    shares = layers.shares
    if one(shares.context) or shares.exchange == "a2a":
        return x
    ranks, group = shares.context_shards, "context_ring" if shares.swaps_heads else "context"
    batch, length, *rest = x.shape
    out = layers.b.tensor("whole", batch, length * ranks, *rest, dtype=x.dtype)
    if not rings:
        return emit(layers, "all_gather", group, ranks, x, out, again=True)
    if shares.exchange == "gathered_ring":
        return emit(layers, "all_gather", group, ranks, x, out, again=True, ring=True, beside=1.0 / ranks)
    steps = ranks - 1.0
    return emit(layers, "ring", group, ranks, x, out, again=True, ring=True, steps=steps, beside=steps / ranks)


def own_heads(layers: Layers, heads: Heads) -> Heads:
    """Return the heads that a rank of the context group attends with."""
    context = layers.shares.context_heads
    return replace(heads, heads=heads.heads / context, kv_heads=heads.kv_heads / context)


def to_heads(layers: Layers, x: Tensor) -> Tensor:
    """Turn a rank's tokens of all heads ``[batch, length, heads, size]`` into all tokens of its heads."""
    context = layers.shares.context_heads
    batch, length, heads, size = x.shape
    out = layers.b.tensor("own_heads", batch, length * context, heads / context, size, dtype=x.dtype)
    return emit(layers, "all_to_all", "context", context, x, out)


def to_tokens(layers: Layers, x: Tensor) -> Tensor:
    """Turn all tokens of a rank's heads ``[batch, length, width]`` back into its tokens of all heads."""
    context = layers.shares.context_heads
    batch, length, width = x.shape
    out = layers.b.tensor("own_tokens", batch, length / context, width * context, dtype=x.dtype)
    return emit(layers, "all_to_all", "context", context, x, out)
