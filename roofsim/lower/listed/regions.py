"""Build blocks of detectors and of two towers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.graph.ops import Gather, Matmul
from roofsim.lower.blocks.attention import attend as attention
from roofsim.lower.blocks.boxes import suppressed
from roofsim.lower.blocks.heads import Heads
from roofsim.lower.blocks.losses import cross_entropy
from roofsim.lower.blocks.relative_bias import indexed_bias
from roofsim.lower.listed.windows import decomposed_bias, distance_bias
from roofsim.numeric import same
from roofsim.records import replace

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.listed.context import Context
    from roofsim.spec.model.layers import regions

Kept = dict[str, Any]


def roi_align(context: Context, block: regions.RegionsBlock, x: Tensor, kept: Kept) -> Tensor:
    """Read boxes of maps on a grid of points each: a gather whose rows are the channels of a point."""
    b, images = context.layers.b, x.shape[0]
    stated = block.training_boxes if context.call.trains and block.training_boxes is not None else block.boxes
    count, side = images * context.size(stated), context.size(block.side)
    boxes = b.input("boxes", count, 5.0)
    out = b.tensor("regions", count, x.shape[1], *(side for _ in x.shape[2:]))
    b.emit(
        Gather, "roi_align", inputs=(x, *(kept[name] for name in block.levels), boxes), outputs=(out,), function="index"
    )
    return out


def suppress(context: Context, block: regions.SuppressBlock, x: Tensor, _: Kept) -> Tensor:
    """Sort boxes, compare the best with each other, keep some."""
    return suppressed(context.layers, x, context.size(block.candidates), context.size(block.kept))


def contrast(context: Context, block: Any, x: Tensor, kept: Kept) -> Tensor:
    """Multiply all vectors of one tower with all of the other, and compare both ways while training."""
    layers, b = context.layers, context.layers.b
    other = kept[block if isinstance(block, str) else block.other]
    samples, width = x.shape
    out = b.tensor("similarity", samples, samples)
    b.emit(Matmul, "similarity", inputs=(x, other), outputs=(out,), m=samples, n=samples, k=width)
    scaled = layers.mul(out, layers.pointwise("exp", b.parameter("logit_scale", 1.0)))
    if not context.call.trains:
        return scaled
    turned = layers.view(scaled, "transpose", samples, samples)
    return layers.add(*(cross_entropy(layers, one, layers.labels(samples)) for one in (scaled, turned)))


def attend(context: Context, block: regions.AttendBlock, x: Tensor, _: Kept) -> Tensor:
    """Attend with queries, keys and values that stand side by side."""
    layers, call = context.layers, context.call
    count, size = context.size(block.num_attention_heads), context.size(block.head_size)
    value = size if block.value_head_size is None else context.size(block.value_head_size)
    heads = Heads(heads=count, kv_heads=count, head_size=size, value_head_size=value, causal=False)
    parts = layers.split(x, count * size, count * size, count * value)
    q, k, v = (layers.view(part, "reshape", *x.shape[:2], count, part.shape[-1] / count) for part in parts)
    bias = None
    if block.relative_entries is not None:
        bias = indexed_bias(layers, x.shape[1], context.size(block.relative_entries), count)
        bias = layers.copy(bias, "contiguous")
    if block.relative_sides is not None:
        rows, columns = map(context.size, block.relative_sides)
        if not same(x.shape[1], rows * columns):
            raise context.wrong_size(f"{x.shape[1]:,g} tokens are not {rows:,g} x {columns:,g}")
        bias = decomposed_bias(layers, q, rows, columns)
    if block.relative_distances:
        q, bias = distance_bias(layers, q)
    if not block.fused:
        engine = call.flavour.engine.changed(attention="unfused")
        call = replace(call, flavour=replace(call.flavour, engine=engine))
        heads, k = replace(heads, scale=False), layers.pointwise("mul_scalar", k)
    # A fused kernel reads what is added as its mask.
    return attention(layers, call, heads, q, k, v, bias)
