"""Build blocks of one or a few kernels: linear layers, convolutions, norms, activations, pooling, ends."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from roofsim.graph.component import Purpose
from roofsim.graph.ops import Convolution, Elementwise, Gather, Loss
from roofsim.graph.tensor import AUTO, FP32, INT64
from roofsim.lower.blocks.exchange import enter, leave
from roofsim.lower.blocks.losses import cross_entropy
from roofsim.numeric import maximum
from roofsim.records import replace

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.listed.context import Context
    from roofsim.numeric import Real
    from roofsim.spec.model.layers import blocks

Kept = dict[str, Any]


def linear(context: Context, block: blocks.LinearBlock, x: Tensor, _: Kept) -> Tensor:
    """Build a linear layer, of columns or rows where a tensor group splits it so."""
    layers, width = context.layers, context.size(block.width)
    if block.split == "columns":
        return layers.linear(enter(layers, x), layers.shares.of_tensor(width), "linear", bias=block.bias)
    out = layers.linear(x, width, "linear", bias=block.bias)
    return leave(layers, out) if block.split == "rows" else out


def conv(context: Context, block: blocks.ConvBlock, x: Tensor, _: Kept) -> Tensor:
    """Build a convolution; a transposed one makes maps larger by its stride."""
    layers, channels = context.layers, context.size(block.channels)
    groups = x.shape[1] if block.groups == "depthwise" else context.size(block.groups)
    kernel = context.each(block.kernel)
    if block.transposed:
        return _transposed(context, block, x, channels, groups)
    padding = None if block.padding is None else context.each(block.padding)
    return layers.conv(
        x,
        channels,
        kernel,
        "conv",
        stride=context.each(block.stride),
        padding=padding,
        dilation=context.size(block.dilation),
        groups=groups,
        bias=block.bias,
    )


def _transposed(context: Context, block: blocks.ConvBlock, x: Tensor, channels: Real, groups: Real) -> Tensor:
    b, given, steps = context.layers.b, context.each(block.kernel), context.each(block.stride)
    kernels = given if isinstance(given, tuple) else tuple(given for _ in x.shape[2:])
    strides = steps if isinstance(steps, tuple) else tuple(steps for _ in x.shape[2:])
    size = tuple(step * length for step, length in zip(strides, x.shape[2:], strict=True))
    with b.scope("conv"):
        weights: tuple[Tensor, ...] = (b.parameter("weight", x.shape[1], channels / groups, *kernels),)
        weights += (b.parameter("bias", channels),) if block.bias else ()
        out = b.tensor("out", x.shape[0], channels, *size)
        b.emit(
            Convolution,
            "conv",
            inputs=(x, *weights),
            outputs=(out,),
            batch=x.shape[0],
            in_channels=x.shape[1],
            out_channels=channels,
            in_size=x.shape[2:],
            out_size=size,
            kernel_size=kernels,
            stride=reduce(maximum, strides),
            groups=groups,
            transposed=True,
        )
        return out


def layer_norm(context: Context, block: blocks.NormBlock, x: Tensor, _: Kept) -> Tensor:
    """Build a layer norm."""
    return context.layers.layer_norm(x, "norm", bias=block.bias, affine=block.affine)


def rms_norm(context: Context, block: blocks.NormBlock, x: Tensor, _: Kept) -> Tensor:
    """Build an RMS norm, of the whole width or of each of its parts."""
    layers, form = context.layers, block.weight_form
    if block.parts == 1:
        return layers.rms_norm(x, "norm", weight_form=form, affine=block.affine)
    parts = context.size(block.parts)
    split = layers.view(x, "reshape", *x.shape[:-1], parts, x.shape[-1] / parts)
    return layers.view(layers.rms_norm(split, "norm", weight_form=form), "reshape", *x.shape)


def batch_norm(context: Context, block: blocks.BatchNormBlock, x: Tensor, _: Kept) -> Tensor:
    """Build a batch norm."""
    layers = replace(context.layers, frozen_norms=True) if block.frozen else context.layers
    return layers.batch_norm(x, "norm", affine=block.affine)


def group_norm(context: Context, block: blocks.GroupNormBlock, x: Tensor, _: Kept) -> Tensor:
    """Build a group norm."""
    return context.layers.group_norm(x, context.size(block.groups), "norm")


def activation(context: Context, block: Any, x: Tensor, _: Kept) -> Tensor:
    """Apply a function to each element, in place on maps."""
    layers, function = context.layers, block if isinstance(block, str) else block.function
    stated = None if isinstance(block, str) else block.inplace
    if function == "softmax":
        return layers.softmax(x)
    if function == "scale":
        return layers.pointwise("mul_scalar", x)
    if context.is_map(x) if stated is None else stated:
        return layers.activate(x, function)
    return layers.activation(x, function)


def glu(context: Context, block: blocks.GluBlock, x: Tensor, _: Kept) -> Tensor:
    """Multiply one half by the sigmoid of the other, in one kernel."""
    b, axis = context.layers.b, 1 if block.channels or context.is_map(x) else -1
    shape = list(x.shape)
    shape[axis] = shape[axis] / 2.0
    out = b.tensor("glu", *shape)
    b.emit(Elementwise, "glu", inputs=(x,), outputs=(out,), function="glu")
    return out


def cast(context: Context, block: blocks.CastBlock, x: Tensor, _: Kept) -> Tensor:
    """Convert what enters."""
    return context.layers.cast(x, FP32 if block.to == "fp32" else AUTO)


def dropout(context: Context, block: blocks.DropoutBlock, x: Tensor, _: Kept) -> Tensor:
    """Drop elements while training."""
    return context.layers.dropout(x, block.rate)


def max_pool(context: Context, block: blocks.PoolBlock, x: Tensor, _: Kept) -> Tensor:
    """Take the maximum of windows."""
    return _pool(context, block, x, "max")


def average_pool(context: Context, block: blocks.PoolBlock, x: Tensor, _: Kept) -> Tensor:
    """Average windows."""
    return _pool(context, block, x, "average")


def _pool(context: Context, block: blocks.PoolBlock, x: Tensor, function: str) -> Tensor:
    kernel = context.size(block.kernel)
    stride = None if block.stride is None else context.size(block.stride)
    padding = context.size(block.padding)
    return context.layers.pool(x, function, kernel, "pool", stride=stride, padding=padding, ceil_mode=block.ceil_mode)


def adaptive_average(context: Context, block: blocks.AdaptiveAverageBlock, x: Tensor, _: Kept) -> Tensor:
    """Average over a grid of windows."""
    return context.layers.adaptive_average(x, context.size(block.side), "pool")


def mean(context: Context, _: Any, x: Tensor, __: Kept) -> Tensor:
    """Average over all positions of maps, or over all tokens."""
    layers = context.layers
    if context.is_map(x):
        return layers.global_average(x)
    return layers.reduce(x, (x.shape[0], x.shape[-1]), "mean")


def last(context: Context, block: blocks.LastBlock, x: Tensor, _: Kept) -> Tensor:
    """Take the last token."""
    if block.gathered:
        b = context.layers.b
        out = b.tensor("last", x.shape[0], x.shape[-1])
        b.emit(Gather, "last", inputs=(x, b.input("ends", x.shape[0], dtype=INT64)), outputs=(out,), function="index")
        return out
    return context.layers.view(x, "slice", x.shape[0], x.shape[-1])


def upsample(context: Context, block: blocks.UpsampleBlock, x: Tensor, _: Kept) -> Tensor:
    """Make maps larger."""
    factor = context.size(block.factor)
    return context.layers.resize(x, tuple(factor * length for length in x.shape[2:]), block.mode)


def squeeze_excite(context: Context, block: blocks.SqueezeExciteBlock, x: Tensor, _: Kept) -> Tensor:
    """Gate channels by their means."""
    reduced = context.size(block.reduced)
    return context.layers.squeeze_excite(x, reduced, "squeeze", activation=block.activation, gate=block.gate)


def classifier(context: Context, block: blocks.ClassifierBlock, x: Tensor, _: Kept) -> Tensor:
    """Build a classifier with its loss while training."""
    return context.layers.classify(x, context.size(block.classes), train=context.call.trains, bias=block.bias)


def loss(context: Context, block: Any, x: Tensor, kept: Kept) -> Tensor:
    """Compare the result with targets while training, and kept results beside it."""
    if not context.call.trains:
        return x
    short = isinstance(block, str)
    total = _loss(context, block if short else block.function, context.answers(x))
    for name in () if short else block.also:
        total = context.layers.add(total, _each_element(context, kept[name], "smooth_l1"))
    return total


def _loss(context: Context, function: str, x: Tensor) -> Tensor:
    layers = context.layers
    if function == "mse":
        return layers.mse_loss(x, layers.b.input("targets", *x.shape))
    if function == "transducer":
        return _transducer(context, x)
    if function == "binary_cross_entropy":
        return _each_element(context, x, function)
    classes = x.shape[1] if context.is_map(x) else x.shape[-1]
    positions = x.numel / classes
    flat = x if len(x.shape) == 2 else layers.view(x, "reshape", positions, classes)
    return cross_entropy(layers, flat, layers.labels(positions))


def _transducer(context: Context, x: Tensor) -> Tensor:
    """Sum over all paths: a pass over the logits, and sums forth and back of each pair, which the gradient reads (apex)."""
    b, pairs = context.layers.b, x.shape[:-1]
    with b.scope(Purpose.LOSS):
        loss = b.tensor("loss", dtype=FP32)
        sums = tuple(b.tensor(leaf, *pairs, dtype=FP32) for leaf in ("normalizers", "forth", "back"))
        labels = context.layers.labels(x.shape[0])
        b.emit(Loss, "transducer", inputs=(x, labels), outputs=(loss, *sums), function="transducer")
        return loss


def _each_element(context: Context, x: Tensor, function: str) -> Tensor:
    """Compare each element with its target in fp32, and sum up."""
    layers, b = context.layers, context.layers.b
    with b.scope(Purpose.LOSS):
        wide = layers.cast(x, FP32)
        out = b.tensor("distance", *x.shape, dtype=FP32)
        targets = b.input("targets", *x.shape, dtype=FP32)
        b.emit(Loss, function, inputs=(wide, targets), outputs=(out,), function=function)
        return layers.reduce(out, ())
