"""Build blocks that put what enters into another shape: patches, maps and tokens, parts, rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.numeric import exactly, product, same

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.blocks.layers import Layers
    from roofsim.lower.listed.context import Context
    from roofsim.numeric import Real
    from roofsim.spec.model.layers import shapes

Kept = dict[str, Any]


def patches(context: Context, block: shapes.PatchesBlock, x: Tensor, _: Kept) -> Tensor:
    """Turn patches into tokens, with a token of the class and learned positions where a model has them."""
    layers, b, width = context.layers, context.layers.b, context.size(block.width)
    size = context.each(block.size)
    if context.model.counted_in == "tokens":  # images beside tokens, of which a prompt holds room for whole patches
        for axis, side in enumerate(x.shape[2:]):
            context.parts_of(side, size[axis] if isinstance(size, tuple) else size, "a side of")
    if block.unfolded:
        out = layers.linear(_cut_out(layers, x, size), width, "patches", bias=block.bias)
    else:
        out = layers.conv(x, width, size, "patches", stride=size, padding=0.0, bias=block.bias)
        out = layers.view(out, "transpose", out.shape[0], product(*out.shape[2:]), width)
    if block.class_token:
        first = layers.view(b.parameter("class_token", 1.0, 1.0, width), "expand", out.shape[0], 1.0, width)
        out = layers.concat((first, out), 1)
    return layers.add(out, b.parameter("positions", 1.0, out.shape[1], width)) if block.positions else out


def _cut_out(layers: Layers, x: Tensor, size: Real | tuple[Real, ...]) -> Tensor:
    """Write each patch of maps side by side, as ``nn.Unfold`` does."""
    batch, channels, *extents = x.shape
    sides = size if isinstance(size, tuple) else (size,) * len(extents)
    area = product(*sides)
    return layers.copy(x, "contiguous", (batch, product(*extents) / area, channels * area))


def shuffle(context: Context, block: shapes.ShuffleBlock, x: Tensor, _: Kept) -> Tensor:
    """Deal channels out anew: groups and their members change places, by one copy."""
    del block
    return context.layers.copy(x, "transpose", x.shape)


def transpose(context: Context, block: shapes.TransposeBlock, x: Tensor, kept: Kept) -> Tensor:
    """Turn maps into tokens, or tokens into maps: by a copy, unless they are one number wide."""
    if context.is_map(x):
        return _turned(context, x, (x.shape[0], product(*x.shape[2:]), x.shape[1]))
    extents: tuple[Real, ...] = (x.shape[1],)
    if block.like is not None:
        extents = kept[block.like].shape[2:]
    elif block.extents is not None:
        extents = tuple(map(context.size, block.extents))
    return _turned(context, x, (x.shape[0], x.shape[2], *extents))


def _turned(context: Context, x: Tensor, shape: tuple[Real, ...]) -> Tensor:
    one_wide = exactly(x.shape[1] if context.is_map(x) else x.shape[2], 1.0)
    if one_wide:
        return context.layers.view(x, "reshape", *shape)
    return context.layers.copy(x, "transpose", shape)


def slice_(context: Context, block: shapes.SliceBlock, x: Tensor, _: Kept) -> Tensor:
    """Show a part of the tokens, or of the width."""
    shape = list(x.shape)
    axis = 1 if context.is_map(x) or block.width is None else -1
    if block.width is not None:
        shape[axis] = context.size(block.width)
    else:
        shape[axis] = context.size(block.tokens) if block.drop is None else x.shape[axis] - context.size(block.drop)
    return context.layers.view(x, "slice", *shape)


def fold(context: Context, block: shapes.FoldBlock, x: Tensor, _: Kept) -> Tensor:
    """Put neighbouring tokens side by side."""
    count = context.size(block.tokens)
    tokens = context.parts_of(x.shape[1], count, "the number of tokens")
    shape = (x.shape[0], tokens, x.shape[2] * count)
    return context.layers.view(x, "reshape", *shape) if block.in_order else context.layers.copy(x, "contiguous", shape)


def unfold(context: Context, block: shapes.UnfoldBlock, x: Tensor, _: Kept) -> Tensor:
    """Show parts of each token as tokens of their own."""
    count = context.size(block.tokens)
    return context.layers.view(x, "reshape", x.shape[0], x.shape[1] * count, x.shape[2] / count)


def by_row(context: Context, block: shapes.ByRowBlock, x: Tensor, _: Kept) -> Tensor:
    """Write rows of maps as tokens."""
    batch, channels, rows, columns = x.shape
    stated = context.size(block.columns)
    if not same(columns, stated):
        raise context.wrong_size(f"its maps have {columns:,g} columns where by_row says {stated:,g}")
    return context.layers.copy(x, "transpose", (batch, rows, channels * columns))


def outer_sum(context: Context, block: shapes.OuterSumBlock, x: Tensor, kept: Kept) -> Tensor:
    """Add all pairs of tokens of two sequences."""
    layers, other = context.layers, kept[block.other]
    batch, length, width = x.shape
    own = layers.view(x, "reshape", batch, length, 1.0, width)
    beside = layers.view(other, "reshape", batch, 1.0, other.shape[1], width)
    return layers.view(layers.add(own, beside), "reshape", batch, length * other.shape[1], width)


def flatten(context: Context, _: Any, x: Tensor, __: Kept) -> Tensor:
    """Show all positions in one row."""
    return context.layers.view(x, "flatten", x.shape[0], product(*x.shape[1:]))
