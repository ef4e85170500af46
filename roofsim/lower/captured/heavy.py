"""Emit what carries the FLOPs of a captured program: products, convolutions, attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.graph.component import Purpose
from roofsim.graph.ops import Attention, Convolution, GroupedMatmul, Matmul, Recurrence, StatedKernel
from roofsim.graph.tensor import Role, Tensor
from roofsim.numeric import Real
from roofsim.numeric import product as times

if TYPE_CHECKING:
    from roofsim.lower.captured.context import CapturedGraph


def product(at: CapturedGraph) -> None:
    """Emit ``[batch, m, k] @ [batch, k, n]``; a vector is a matrix of one row or column."""
    left, right = at.op.reads[:2]
    _product(at, left, right)


def product_with_bias(at: CapturedGraph) -> None:
    """Emit a product with something added in its epilogue."""
    bias, left, right = at.op.reads[:3]
    _product(at, left, right, at.tensor(bias))


def _product(at: CapturedGraph, left: int, right: int, *bias: Tensor) -> None:
    first, second = _at_least_matrix(at.shape(left), last=False), _at_least_matrix(at.shape(right), last=True)
    k, n = second[-2:]
    batch = times(*second[:-2])
    rows = times(*first[:-1]) / batch
    weight = _is_weight(at.tensor(right)) or _is_weight(at.tensor(left))
    scores = len(second) > 2 and not weight
    operands = (at.tensor(left), at.tensor(right), *bias)
    at.emit(Matmul, "matmul", operands, m=rows, n=n, k=k, batch=batch, scores=scores)


def _at_least_matrix(shape: tuple[Real, ...], *, last: bool) -> tuple[Real, ...]:
    if len(shape) > 1:
        return shape
    return (*shape, 1.0) if last else (1.0, *shape)


def _is_weight(tensor: Tensor) -> bool:
    return tensor.root.role is Role.PARAMETER


def linear(at: CapturedGraph) -> None:
    """Emit a linear layer that was kept whole: ``x @ W^T + b``."""
    x, weight, *bias = at.op.reads
    n, k = at.shape(weight)
    inputs = (at.tensor(x), at.tensor(weight), *(at.tensor(number) for number in bias))
    at.emit(Matmul, "matmul", inputs, m=times(*at.shape(x)[:-1]), n=n, k=k)


def grouped(at: CapturedGraph) -> None:
    """Emit a product of rows that are sorted by expert."""
    rows, weight, *offsets = at.op.reads
    experts, k, n = at.shape(weight)
    inputs = (at.tensor(rows), at.tensor(weight), *(at.tensor(number) for number in offsets[:1]))
    at.emit(GroupedMatmul, "grouped", inputs, rows=at.shape(rows)[0], n=n, k=k, experts=experts)


def convolution(at: CapturedGraph) -> None:
    """Emit a convolution, transposed or not."""
    x, weight, *bias = at.op.reads
    shape, out, kernel = at.shape(x), at.shape(at.op.makes[0]), at.shape(weight)
    given = at.op.given
    stride = given.get("stride", 1)
    at.emit(
        Convolution,
        "conv",
        tuple(at.tensor(number) for number in (x, weight, *bias)),
        batch=shape[0],
        in_channels=shape[1],
        out_channels=out[1],
        in_size=shape[2:],
        out_size=out[2:],
        kernel_size=kernel[2:],
        stride=float(stride[0] if isinstance(stride, (list, tuple)) else stride),
        groups=float(given.get("groups", 1)),
        transposed=bool(given.get("transposed", False)),
    )


def attention(at: CapturedGraph, row: str) -> None:
    """Emit a fused attention kernel; of what it makes, the result, the logarithms of the sums, and the state of its dropout."""
    q, k, v, *mask = at.op.reads
    batch, heads, length, size = at.shape(q)
    kv_heads, kv_length = at.shape(k)[1:3]
    outer, at.b.component = at.b.component, at.part(Purpose.ATTENTION)
    keeps = [number for place, number in enumerate(at.op.makes) if place < 2 or at.capture.tensors[number].shape != ()]
    state = [number for number in at.op.makes if number not in keeps][:1]
    makes = keeps[:2] + state if at.call.trains else keeps[:1]
    at.emit(
        Attention,
        row,
        tuple(at.tensor(number) for number in (q, k, v, *mask)),
        outputs=tuple(at.made(number, "out" if place == 0 else "kept") for place, number in enumerate(makes)),
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        q_length=length,
        kv_length=kv_length,
        head_size=size,
        value_head_size=at.shape(v)[-1],
        causal=bool(at.op.given.get("is_causal", False)),
        kernel=row,
    )
    at.b.component = outer


#: Products of a cell of a recurrent layer.
_GATES: Final = {"lstm": 4.0, "gru": 3.0, "rnn": 1.0}


def recurrence(at: CapturedGraph, row: str) -> None:
    """Emit the cells of a recurrent layer ``[tokens, batch, gates]``, as a library runs them: one call, token after token."""
    tokens, batch, width = at.shape(at.op.reads[0])
    hidden = at.shape(at.op.makes[0])[-1]
    at.emit(
        Recurrence,
        "cells",
        at.reads(),
        cell=row,
        batch=batch,
        tokens=tokens,
        hidden=width / _GATES[row],
        carried=hidden,
        gates=_GATES[row],
    )


def stated(at: CapturedGraph, flops: float, traffic: float) -> None:
    """Emit an op whose work the user states."""
    inputs = at.reads()
    floating = tuple(tensor for tensor in inputs if tensor.dtype.floating)
    rest = tuple(tensor for tensor in inputs if not tensor.dtype.floating)
    # Without an operand that says so, it computes in the scenario's type.
    math = None if floating else at.call.compute
    at.emit(StatedKernel, "stated", (*floating, *rest), stated_flops=flops, stated_bytes=traffic, math=math)
