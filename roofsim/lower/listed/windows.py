"""Build blocks that cut maps into windows or grids and put them together again, and what attention in them adds to scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.graph.ops import Gather, Matmul
from roofsim.graph.tensor import INT64
from roofsim.numeric import ceil, product, same

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.blocks.layers import Layers
    from roofsim.lower.listed.context import Context
    from roofsim.numeric import Real
    from roofsim.spec.model.layers import windows as schemas

Kept = dict[str, Any]


def windows(context: Context, block: schemas.WindowsBlock, x: Tensor, _: Kept) -> Tensor:
    """Cut maps, or tokens of known rows and columns, into ``[batch x windows, side x side, width]``."""
    layers, side = context.layers, context.size(block.side)
    if context.is_map(x):
        channels, extents = x.shape[1], x.shape[2:]
        padded = _padded(extents, side)
        x = _with_padding(layers, x, extents, padded, (x.shape[0], channels, *padded))
    else:
        assert block.extents is not None
        channels, extents = x.shape[-1], tuple(map(context.size, block.extents))
        _check_count(context, x.shape[1], extents)
        padded = _padded(extents, side)
        x = _with_padding(layers, x, extents, padded, (x.shape[0], product(*padded), channels))
    number = product(*padded) / (side * side)
    return layers.copy(x, "transpose", (x.shape[0] * number, side * side, channels))


def join_windows(context: Context, block: schemas.JoinWindowsBlock, x: Tensor, kept: Kept) -> Tensor:
    """Put windows together, and cut off what they were padded with."""
    layers, channels = context.layers, x.shape[-1]
    if block.like is not None:
        batch, _, *extents = kept[block.like].shape
        if not same(batch * product(*extents), product(*x.shape[:2])):
            held, maps = x.shape[0] / batch * x.shape[1], " x ".join(f"{extent:,g}" for extent in extents)
            raise context.wrong_size(f"its windows would hold {held:,g} positions; the maps have {maps}")
        return layers.copy(x, "transpose", (batch, channels, *extents))
    assert block.extents is not None
    side, whole = context.size(block.side), tuple(map(context.size, block.extents))
    padded = _padded(whole, side)
    batch = x.shape[0] * side * side / product(*padded)
    out = layers.copy(x, "transpose", (batch, product(*padded), channels))
    if _alike(whole, padded):
        return out
    inner = layers.view(out, "slice", batch, product(*whole), channels)
    return layers.copy(inner, "contiguous")


def _padded(extents: tuple[Real, ...], side: Real) -> tuple[Real, ...]:
    return tuple(ceil(extent / side) * side for extent in extents)


def _alike(one: tuple[Real, ...], other: tuple[Real, ...]) -> bool:
    return all(map(same, one, other))


def _with_padding(
    layers: Layers, x: Tensor, extents: tuple[Real, ...], padded: tuple[Real, ...], shape: tuple[Real, ...]
) -> Tensor:
    return x if _alike(extents, padded) else layers.copy(x, "pad", shape)


def _check_count(context: Context, tokens: Real, extents: tuple[Real, ...]) -> None:
    if not same(tokens, product(*extents)):
        rows, columns = extents
        raise context.wrong_size(f"{tokens:,g} tokens are not {rows:,g} x {columns:,g}")


def masks(context: Context, block: schemas.MasksBlock, x: Tensor, kept: Kept) -> Tensor:
    """Multiply tokens with all positions of maps."""
    b, maps = context.layers.b, kept[block.maps]
    batch, count, width = x.shape
    if not same(count, context.size(block.tokens)):
        raise context.wrong_size(f"{count:,g} tokens enter masks, which has tokens: {context.size(block.tokens):,g}")
    out = b.tensor("masks", batch, count, *maps.shape[2:])
    positions = product(*maps.shape[2:])
    b.emit(Matmul, "masks", inputs=(x, maps), outputs=(out,), m=count, n=positions, k=width, batch=batch)
    return out


def drop_path(context: Context, block: schemas.DropPathBlock, x: Tensor, _: Kept) -> Tensor:
    """Drop whole samples while training."""
    return context.layers.stochastic_depth(x, block.rate)


def decomposed_bias(layers: Layers, q: Tensor, rows: Real, columns: Real) -> Tensor:
    """Return what relative rows and columns add to scores: products of queries with a vector of each distance (MViTv2, SAM).

    `q` is ``[batch, rows x columns, heads, size]``; the result ``[batch, heads, rows x columns, rows x columns]``.
    """
    b, (batch, tokens, heads, size) = layers.b, q.shape
    with b.scope("relative_positions"):
        parts = []
        for leaf, extent, others in (("rows", rows, columns), ("columns", columns, rows)):
            table = b.parameter(leaf, 2.0 * extent - 1.0, size)
            index = layers.view(b.buffer(f"{leaf}_index", extent, extent, dtype=INT64), "reshape", extent * extent)
            vectors = b.tensor(f"{leaf}_vectors", extent * extent, size)
            b.emit(Gather, f"{leaf}_vectors", inputs=(table, index), outputs=(vectors,), function="index")
            out = b.tensor(f"{leaf}_scores", batch, heads, tokens, extent)
            lines = batch * heads * others
            # One product a row takes its queries together, which lie apart; those of a column are a view.
            own = layers.copy(q, "transpose") if leaf == "rows" else q
            b.emit(
                Matmul, f"{leaf}_scores", inputs=(own, vectors), outputs=(out,), m=lines, n=extent, k=size, batch=extent
            )
            parts.append(out)
        down, across = parts
        by_row = layers.view(down, "reshape", batch, heads, tokens, rows, 1.0)
        by_column = layers.view(across, "reshape", batch, heads, tokens, 1.0, columns)
        whole = layers.add(by_row, by_column)
        return layers.view(whole, "reshape", batch, heads, tokens, tokens)


def distance_bias(layers: Layers, q: Tensor) -> tuple[Tensor, Tensor]:
    """Return queries with their bias, and what distances add to scores (Transformer-XL, arXiv 1901.02860, section 3.3).

    `q` is ``[batch, tokens, heads, size]``; the bias ``[batch, heads, tokens, tokens]``, a product with a vector of each of
    ``2 tokens - 1`` distances, shifted so that rows begin at their own token.
    """
    b, (batch, tokens, heads, size) = layers.b, q.shape
    with b.scope("relative_positions"):
        distances, width = 2.0 * tokens - 1.0, heads * size
        vectors = layers.linear(b.input("distances", distances, width), width, "distance")
        content, position = (b.parameter(f"{leaf}_bias", heads, size) for leaf in ("content", "position"))
        own = layers.add(q, position)
        scores = b.tensor("scores", batch, heads, tokens, distances)
        dims = {"m": batch * tokens, "n": distances, "k": size, "batch": heads}
        b.emit(Matmul, "scores", inputs=(own, vectors), outputs=(scores,), **dims)
        padded = layers.copy(scores, "pad", (batch, heads, tokens, distances + 1.0))
        shifted = layers.view(padded, "slice", batch, heads, tokens, tokens)
        return layers.add(q, content), layers.pointwise("mul_scalar", shifted)
