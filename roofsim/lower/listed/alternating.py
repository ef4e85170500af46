"""Build alternating updates (AltUp, arXiv 2301.13310), kernel by kernel, as Gemma 3n's code in the transformers library runs them.

Streams are one tensor ``[batch, length, streams x width]``, the active one first; the library's lie one behind the other
(``[streams, batch, length, width]``), which are as many bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.graph.ops import Matmul
from roofsim.graph.tensor import FP32

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.blocks.layers import Layers
    from roofsim.lower.listed.context import Context
    from roofsim.numeric import Real
    from roofsim.spec.model.layers import alternating

Kept = dict[str, Any]


def open_streams(context: Context, block: alternating.OpenStreamsBlock, x: Tensor, _: Kept) -> Tensor:
    """Stack tokens ``[batch, length, width]`` and a projection of them for each other stream."""
    layers, width = context.layers, x.shape[-1]
    target = _magnitude(layers, x, bounded=False)
    others = (layers.linear(x, width, f"stream{number}") for number in range(2, int(context.count(block.streams)) + 1))
    return layers.concat((x, *(_matched(layers, stream, target) for stream in others)), -1)


def close_streams(context: Context, block: alternating.CloseStreamsBlock, x: Tensor, _: Kept) -> Tensor:
    """Return the mean of the first stream and of projections of the others, stacked once more."""
    layers, count = context.layers, context.size(block.streams)
    width = x.shape[-1] / count
    first, *others = layers.split(x, *(width for _ in range(int(context.count(block.streams)))), function="slices")
    target = _magnitude(layers, first, bounded=False)
    projected = (layers.linear(stream, width, f"stream{number}") for number, stream in enumerate(others, 2))
    streams = (first, *(_matched(layers, stream, target) for stream in projected))
    stacked = layers.view(layers.concat(streams, -1), "reshape", *x.shape[:-1], count, width)
    return layers.reduce(stacked, first.shape, "mean")


def _magnitude(layers: Layers, x: Tensor, *, bounded: bool) -> Tensor:
    """Return the root of the mean square of each token ``[batch, length, 1]``, from a least one on where `bounded`."""
    mean = layers.reduce(layers.pointwise("square", x), (*x.shape[:-1], 1.0), "mean")
    return layers.pointwise("sqrt", layers.pointwise("clamp", mean)) if bounded else layers.pointwise("pow", mean)


def _matched(layers: Layers, x: Tensor, target: Tensor) -> Tensor:
    own = _magnitude(layers, x, bounded=True)
    return layers.pointwise("div", layers.mul(x, target), own)


def predict_streams(context: Context, block: alternating.PredictStreamsBlock, x: Tensor, _: Kept) -> Tensor:
    """Mix all streams by a matrix ``[streams, streams]`` of each token, and add them."""
    layers, count = context.layers, context.size(block.streams)
    batch, length, width = x.shape
    own, tokens = width / count, batch * length
    router = layers.b.name("router")
    routed = _routed(layers, layers.view(x, "slice", batch, length, own), count, router)
    weights = layers.linear(routed, count * count, "prediction")
    square = layers.view(weights, "reshape", tokens, count, count)
    wide = layers.view(x, "reshape", tokens, own, count)
    mixed = layers.b.tensor("mixed", tokens, own, count)
    layers.b.emit(Matmul, "mixed", inputs=(wide, square), outputs=(mixed,), m=own, n=count, k=count, batch=tokens)
    total = layers.pointwise("add", layers.view(mixed, "reshape", *x.shape), x, inplace=True)
    out = layers.copy(total, "contiguous")
    context.routers[out] = router
    return out


def correct_streams(context: Context, block: alternating.CorrectStreamsBlock, x: Tensor, kept: Kept) -> Tensor:
    """Add to each stream a share of what the layer changed about the active one."""
    layers, count, activated = context.layers, context.size(block.streams), kept[block.activated]
    batch, length, width = x.shape
    own = width / count
    routed = _routed(layers, activated, count, context.routers.get(x, layers.b.name("router")))
    weight = layers.b.parameter("correction.weight", count, count)
    weight = layers.pointwise("clamp", weight) if layers.flavour.training else weight
    shares = layers.pointwise("add_scalar", layers.linear(routed, count, "correction", weight=weight))
    changed = layers.pointwise("sub", activated, layers.view(x, "slice", batch, length, own))
    changes = layers.copy(
        layers.view(changed, "reshape", batch, length, 1.0, own), "expand", (batch, length, count, own)
    )
    moved = layers.mul(changes, layers.view(shares, "reshape", batch, length, count, 1.0))
    out = layers.pointwise("add", layers.view(moved, "reshape", *x.shape), x, inplace=True)
    if block.active_as is not None:
        active = layers.copy(layers.view(out, "slice", batch, length, own))
        kept[block.active_as] = layers.mul(active, layers.b.parameter("scale", own))
    return out


def _routed(layers: Layers, x: Tensor, count: Real, weights: str) -> Tensor:
    """Return a number of each stream for each token ``[batch, length, streams]``; routers of one name share their weights."""
    with layers.b.scope("router"), layers.b.sharing(weights):
        normed = layers.pointwise("mul_scalar", layers.rms_norm(x, "norm", weight_form="wide"))
        routed = layers.linear(normed, count, "router")
        return layers.cast(layers.pointwise("tanh", layers.cast(routed, FP32)), routed)


def add_to_streams(context: Context, block: alternating.AddToStreamsBlock, x: Tensor, kept: Kept) -> Tensor:
    """Add kept tokens to all streams in place; the active one, to which the library adds nothing, is read and written too."""
    layers, other = context.layers, kept[block.other]
    batch, length, width = x.shape
    own = other.shape[-1]
    streams = layers.view(x, "reshape", batch, length, width / own, own)
    added = layers.pointwise("add", streams, layers.view(other, "reshape", batch, length, 1.0, own), inplace=True)
    return layers.view(added, "reshape", *x.shape)
