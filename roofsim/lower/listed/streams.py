"""Build blocks of networks that condition one stream of tokens on others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.graph.component import Purpose
from roofsim.graph.ops import Elementwise
from roofsim.lower.diffusion.mmdit import JointDit
from roofsim.spec.model.diffusion import DitModel

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.listed.context import Context
    from roofsim.numeric import Real
    from roofsim.spec.model.layers import streams

Kept = dict[str, Any]


def learned(context: Context, block: streams.LearnedBlock, x: Tensor, _: Kept) -> Tensor:
    """Show learned tokens to each sample."""
    layers, tokens, width = context.layers, context.size(block.tokens), context.size(block.width)
    return layers.view(layers.b.parameter("tokens", 1.0, tokens, width), "expand", x.shape[0], tokens, width)


def sines(context: Context, _block: streams.SinesBlock, x: Tensor, _: Kept) -> Tensor:
    """Make the fixed positions of tokens; nothing of them is trained."""
    b = context.layers.b
    out = b.tensor("positions", *x.shape, dtype=x.dtype)
    b.emit(Elementwise, "positions", inputs=(), outputs=(out,), holds=(x,), function="sin")
    return out


def bias(context: Context, block: streams.BiasBlock, x: Tensor, _: Kept) -> Tensor:
    """Add a learned vector."""
    own = (1.0,) if len(x.shape) == 2 else (1.0, context.size(block.tokens))
    return context.layers.add(x, context.layers.b.parameter("bias", *own, x.shape[-1]))


def scale_shift(context: Context, block: streams.ScaleShiftBlock, x: Tensor, kept: Kept) -> Tensor:
    """Scale and shift by parts of a vector."""
    layers = context.layers
    scale, shift = (_part(context, kept[block.by], amount, x) for amount in (block.scale, block.shift))
    return layers.add(layers.mul(x, layers.pointwise("add_scalar", scale)), shift)


def gate(context: Context, block: streams.GateBlock, x: Tensor, kept: Kept) -> Tensor:
    """Multiply by a part of a vector."""
    return context.layers.mul(x, _part(context, kept[block.by], block.part, x))


def _part(context: Context, rows: Tensor, which: Any, x: Tensor) -> Tensor:
    """Return a part of rows ``[batch, parts x width]`` as one token of each sample, or of tokens; all parts are shown at once."""
    width = x.shape[-1]
    parts = context.parts.get(rows)
    if parts is None:
        layers, count = context.layers, round(context.count(rows.shape[-1] / width))
        alike = len(rows.shape) == len(x.shape)
        row = rows if alike else layers.view(rows, "reshape", rows.shape[0], 1.0, rows.shape[-1])
        parts = context.parts[rows] = layers.split(row, *(width for _ in range(count)))
    return parts[round(context.count(which))]


def joint_attention(context: Context, block: streams.JointAttentionBlock, x: Tensor, kept: Kept) -> Tensor:
    """Attend over two streams together, or over one."""
    layers, other = context.layers, None if block.other is None else kept[block.other]
    net = _joint(context, block, x)
    tokens = x.shape[1] if other is None else x.shape[1] + other.shape[1]
    tables = tables_of(context, block, x, tokens) if block.rotary else None
    if other is not None:
        assert block.other is not None
        out, kept[block.other] = net.joint_attention(x, other, tables)
        return out
    out = net.self_attention(x, tables)
    if not block.output:
        return out
    with layers.b.scope("joint_attention"):
        return layers.linear(out, x.shape[-1], Purpose.OUTPUT, bias=True)


def tables_of(context: Context, block: streams.JointAttentionBlock, x: Tensor, tokens: Real) -> tuple[Tensor, Tensor]:
    """Return the rotary tables of so many tokens in all, made where none are known."""
    tables: tuple[Tensor, Tensor] = context.turning(tokens, lambda: _joint(context, block, x).rotary_tables(tokens))
    return tables


def _joint(context: Context, block: streams.JointAttentionBlock, x: Tensor) -> JointDit:
    fields: dict[str, Any] = {
        "hidden_size": x.shape[-1],
        "num_attention_heads": context.size(block.num_attention_heads),
        "query_key_norm": block.query_key_norm,
        "query_key_norm_form": "mixed",
        "position_embedding": "rotary" if block.rotary else "sincos",
        "conditioning": "text",
    }
    model = DitModel.model_construct(**fields)
    return JointDit(model, context.call, context.layers.b, context.layers)
