"""Build the projections before attention: queries, keys and values of equal heads, apart or in one matmul."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.component import Purpose
from roofsim.graph.ops import Matmul
from roofsim.numeric import Real, product
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.blocks.heads import Heads
    from roofsim.lower.blocks.layers import Layers


@dataclass(frozen=True, kw_only=True)
class ProjectionBiases:
    """Which of the three projections have a bias (Whisper's keys have none)."""

    query: bool
    key: bool
    value: bool

    @classmethod
    def all(cls, present: bool) -> ProjectionBiases:
        """Return biases everywhere or nowhere."""
        return cls(query=present, key=present, value=present)


def project(
    layers: Layers, x: Tensor, heads: Heads, biases: ProjectionBiases, *, fused: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values ``[batch, length, heads, size]`` of ``[batch, length, width]``."""
    wide, narrow = heads.heads * heads.head_size, heads.kv_heads * heads.head_size
    if fused:
        both = layers.linear(x, wide + 2.0 * narrow, Purpose.QUERY_KEY_VALUE, bias=biases.query)
        flat = layers.split(both, wide, narrow, narrow)
    else:
        flat = (
            layers.linear(x, wide, Purpose.QUERY, bias=biases.query),
            layers.linear(x, narrow, Purpose.KEY, bias=biases.key),
            layers.linear(x, narrow, Purpose.VALUE, bias=biases.value),
        )
    counts = (heads.heads, heads.kv_heads, heads.kv_heads)
    q, k, v = (by_head(layers, part, count) for part, count in zip(flat, counts, strict=True))
    return q, k, v


def by_head(layers: Layers, x: Tensor, heads: Real) -> Tensor:
    """Show ``[batch, length, width]`` as ``[batch, length, heads, size]``."""
    return layers.view(x, "reshape", *x.shape[:2], heads, x.shape[2] / heads)


def project_copied(layers: Layers, x: Tensor, heads: Heads, bias: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values as torch.nn.MultiheadAttention takes them out of one projection.

    Its input has the tokens first, so it is copied, and the bias is added by a kernel of its own; the stack of three is copied, and
    each is taken by its index, so that three gradients of the whole stack are added up (torch/nn/functional.py,
    multi_head_attention_forward and _in_projection_packed).
    """
    b, batch, length, size = layers.b, x.shape[0], x.shape[1], heads.head_size
    width = heads.heads * size
    turned = layers.copy(layers.view(x, "transpose", length, batch, x.shape[-1]), "contiguous")
    with b.scope(Purpose.QUERY_KEY_VALUE):
        weight = b.parameter("weight", 3.0 * width, x.shape[-1])
        out = b.tensor("out", length, batch, 3.0 * width)
        b.emit(
            Matmul,
            "matmul",
            inputs=(turned, weight),
            outputs=(out,),
            m=length * batch,
            n=3.0 * width,
            k=x.shape[-1],
        )
        if bias is not None:
            out = layers.add(out, bias)
    shown = layers.view(out, "transpose", 3.0, length, batch, width, copies_gradient=True)
    stack = layers.copy(shown, "contiguous")
    parts = layers.split(stack, 1.0, 1.0, 1.0, axis=0, function="slices")
    q, k, v = (layers.view(part, "transpose", batch, length, heads.heads, size) for part in parts)
    return q, k, v


def project_stacked(layers: Layers, x: Tensor, heads: Heads, bias: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values of one projection as timm's code takes them apart.

    It shows the result as ``[3, batch, heads, length, size]``, so that backward stacks three gradients and then writes
    them in the projection's layout.
    """
    b, size = layers.b, heads.head_size
    with b.scope(Purpose.QUERY_KEY_VALUE):
        width = 3.0 * heads.heads * size
        weight = b.parameter("weight", width, x.shape[-1])
        out = b.tensor("out", *x.shape[:-1], width)
        rows = product(*x.shape[:-1])
        inputs = (x, weight) if bias is None else (x, weight, bias)
        b.emit(Matmul, "matmul", inputs=inputs, outputs=(out,), m=rows, n=width, k=x.shape[-1])
    stacked = layers.view(out, "transpose", 3.0, x.shape[0], heads.heads, x.shape[1], size, copies_gradient=True)
    parts = layers.split(stacked, 1.0, 1.0, 1.0, axis=0)
    q, k, v = (layers.view(part, "transpose", x.shape[0], x.shape[1], heads.heads, size) for part in parts)
    return q, k, v
