"""The rows of the backward table: matmuls, attention, convolutions, normalisation, indexing, copies and views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.errors import UnsupportedOpError
from roofsim.graph.ops import (
    Attention,
    CacheAppend,
    Cast,
    Convolution,
    Copy,
    Dropout,
    Elementwise,
    ExtraKernels,
    Fused,
    Gather,
    GroupedMatmul,
    HostCompute,
    HostTransfer,
    HostUpdate,
    Loss,
    Matmul,
    Normalization,
    OptimizerUpdate,
    Pool,
    Reduction,
    Resize,
    Scan,
    Softmax,
    Sort,
    View,
)
from roofsim.graph.tensor import Role, Tensor
from roofsim.passes.autograd.communication import kept
from roofsim.passes.autograd.functions import elementwise_backward
from roofsim.passes.autograd.quantised import written_again
from roofsim.passes.autograd.stated import scatter_backward, variance_backward
from roofsim.passes.autograd.synchronised import synchronised_backward
from roofsim.passes.autograd.tape import Tape, backward

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.tensor import DType


@backward.register
def _(op: Matmul, tape: Tape) -> None:
    left, right, *bias = op.inputs
    grad = _quantised(op, tape)
    wide = op.outputs[0].dtype
    if tape.needs(right):
        out = tape.new(right, wide if right.dtype.narrow else None)
        # A linear layer's weight is [n, k]; the right operand of a batched product is [k, n].
        read = kept(tape, left)
        operands, m, n = ((read, grad), op.k, op.n) if op.scores else ((grad, read), op.n, op.k)
        tape.emit(
            Matmul,
            "weight_gradient",
            operands,
            (out,),
            m=m,
            n=n,
            k=op.m,
            batch=op.batch,
            math=op.math,
            scores=op.scores,
            visible=op.visible,
            repeated=op.repeated,
        )
        tape.give(right, out)
    if tape.needs(left):
        out = tape.new(left, wide if left.dtype.narrow else None)
        weight, holds = written_again(op, tape)
        tape.emit(
            Matmul, "data_gradient", (grad, kept(tape, weight)), (out,),
            m=op.m, n=op.k, k=op.n, batch=op.batch, math=op.math, scores=op.scores, holds=holds,
            visible=op.visible, repeated=op.repeated,
        )  # fmt: skip
        tape.give(left, out)
    for tensor in bias:
        tape.give_reduced(tensor, tape.incoming(op))


def _quantised(op: AbstractOp, tape: Tape) -> Tensor:
    """Return the incoming gradient, in the narrow type of the forward product where it ran in one."""
    grad, narrow = tape.incoming(op), op.inputs[0].dtype
    if not narrow.narrow:
        return grad
    low = Tensor(f"{grad.name}.{narrow}", grad.shape, narrow, Role.TEMPORARY)
    tape.emit(Cast, "quantise_gradient", (grad,), (low,))
    return low


@backward.register
def _(op: GroupedMatmul, tape: Tape) -> None:
    rows, weight, offsets = op.inputs
    grad = _quantised(op, tape)
    wide = op.outputs[0].dtype
    common = {"rows": op.rows, "experts": op.experts, "load": op.load, "math": op.math}
    if tape.needs(weight):
        out = tape.new(weight, wide if weight.dtype.narrow else None)
        tape.emit(GroupedMatmul, "weight_gradient", (grad, rows, offsets), (out,), n=op.n, k=op.k, **common)
        tape.give(weight, out)
    if tape.needs(rows):
        out = tape.new(rows, wide if rows.dtype.narrow else None)
        weight, holds = written_again(op, tape)
        tape.emit(
            GroupedMatmul, "data_gradient", (grad, weight, offsets), (out,), n=op.k, k=op.n, holds=holds, **common
        )
        tape.give(rows, out)


@backward.register
def _(op: Attention, tape: Tape) -> None:
    wide = tape.incoming(op).dtype
    grad = _quantised(op, tape)
    inputs = op.inputs[:3]
    outputs = tuple(tape.new(tensor, wide if tensor.dtype.narrow else None) for tensor in inputs)
    if op.ring is not None:
        outputs = (outputs[0], *(_of_block(op, tensor, outputs[0].dtype, tape) for tensor in inputs[1:]))
    read = tuple(kept(tape, tensor) for tensor in inputs)
    extra = {
        name: getattr(op, name)
        for name in (
            "batch", "heads", "kv_heads", "q_length", "kv_length", "head_size", "value_head_size", "causal", "window",
            "kernel", "math", "shards", "balanced", "ring",
        )
    }  # fmt: skip
    bias = op.inputs[3:]
    bias_grads = tuple(tape.new(tensor) for tensor in bias if tape.needs(tensor))
    tape.emit(
        Attention, "gradient", (grad, *read, *op.outputs[:3], *bias), (*outputs, *bias_grads), backward=True, **extra
    )
    for tensor, gradient in zip(inputs, outputs, strict=True):
        if op.ring is None or tensor is inputs[0]:
            tape.give(tensor, gradient)
        else:
            tape.grads[tensor] = gradient  # a sum that goes round, in the shape of one block
    for tensor, gradient in zip([t for t in bias if tape.needs(t)], bias_grads, strict=True):
        tape.give(tensor, gradient)


def _of_block(op: Attention, whole: Tensor, narrow: DType, tape: Tape) -> Tensor:
    """Return a gradient of one block of keys or values, in the type in which a ring adds it up."""
    assert op.ring is not None
    maker = tape.graph.producer[whole]
    if isinstance(maker, Cast):  # of what went round
        maker = tape.graph.producer[maker.inputs[0]]
    own = maker.inputs[0]
    dtype = op.ring if op.ring.rank > narrow.rank else narrow
    return Tensor(f"{whole.name}.grad", own.shape, dtype, Role.TEMPORARY)


@backward.register
def _(op: Convolution, tape: Tape) -> None:
    x, weight, *bias = op.inputs
    wanted = [tensor for tensor in (x, weight, *bias) if tape.needs(tensor)]
    grads = tuple(tape.new(tensor) for tensor in wanted)
    fields = {
        name: getattr(op, name)
        for name in (
            "batch", "in_channels", "out_channels", "in_size", "out_size", "kernel_size", "stride", "groups", "transposed",
            "math",
        )
    }  # fmt: skip
    tape.emit(
        Convolution,
        "gradient",
        (tape.incoming(op), x, weight),
        grads,
        backward=True,
        data_gradient=tape.needs(x),
        weight_gradient=tape.needs(weight),
        **fields,
    )
    for tensor, gradient in zip(wanted, grads, strict=True):
        tape.give(tensor, gradient)


@backward.register
def _(op: Scan, tape: Tape) -> None:
    wanted = [tensor for tensor in op.inputs if tape.needs(tensor)]
    grads = tuple(tape.new(tensor) for tensor in wanted)
    dims = {name: getattr(op, name) for name in ("batch", "channels", "length", "state_size")}
    tape.emit(Scan, "gradient", (tape.incoming(op), *op.inputs, *op.outputs[1:]), grads, backward=True, **dims)
    for tensor, gradient in zip(wanted, grads, strict=True):
        tape.give(tensor, gradient)


@backward.register
def _(op: Elementwise, tape: Tape) -> None:
    elementwise_backward(op, tape)


@backward.register
def _(op: Dropout, tape: Tape) -> None:
    out = tape.new(op.inputs[0])
    tape.emit(Dropout, "gradient", (tape.incoming(op), op.outputs[1]), (out,), backward=True)
    tape.give(op.inputs[0], out)


@backward.register
def _(op: Cast, tape: Tape) -> None:
    source, grad = op.inputs[0], tape.incoming(op)
    if source.role is Role.PARAMETER and grad.role is Role.TEMPORARY and grad.dtype is source.dtype:
        grad = tape.kept_as_gradient(source, grad)  # of a weight that was cast to a narrow type
    tape.give(source, grad)


@backward.register
def _(op: Normalization, tape: Tape) -> None:
    if op.method == "synchronised":
        synchronised_backward(op, tape)
        return
    x, *weights = op.inputs
    trained = [tensor for tensor in weights if tape.needs(tensor)]
    grads = tuple(tape.new(tensor) for tensor in (x, *trained))
    statistics = op.outputs[1:]
    kept = (x, *(tensor for tensor in weights[:1]), *statistics)
    tape.emit(
        Normalization,
        "gradient",
        (tape.incoming(op), *kept),
        grads,
        method=op.method,
        backward=True,
        training=op.training,
    )
    for tensor, gradient in zip((x, *trained), grads, strict=True):
        tape.give(tensor, gradient)


@backward.register
def _(op: Softmax, tape: Tape) -> None:
    out = tape.new(op.inputs[0])
    tape.emit(
        Softmax,
        "gradient",
        (tape.incoming(op), op.outputs[0]),
        (out,),
        row=op.row,
        logarithm=op.logarithm,
        backward=True,
        on_chip=op.on_chip,
        visible=op.visible,
    )
    tape.give(op.inputs[0], out)


@backward.register
def _(op: Reduction, tape: Tape) -> None:
    if op.function == "variance":
        variance_backward(op, tape)
        return
    source, grad = op.inputs[0], tape.incoming(op)
    if op.function == "max":
        out, zeros = tape.new(source, grad.dtype), tape.zeros(source, grad.dtype)
        tape.emit(Gather, "scatter_gradient", (zeros, grad, *op.outputs[1:]), (out,), function="scatter")
        tape.give(source, out)
        return
    stretched = Tensor(f"{source.name}.expanded_grad", source.shape, grad.dtype, Role.TEMPORARY, base=grad)
    tape.emit(View, "expand", (grad,), (stretched,), function="expand")
    if op.function == "mean":
        stretched = tape.pointwise("div_scalar", source, stretched)
    tape.give(source, stretched)


@backward.register
def _(op: Loss, tape: Tape) -> None:
    prediction = op.inputs[0]
    if op.function == "split_nll":
        _split_nll(op, tape)
        return
    in_place = op.function in ("fused_cross_entropy", "in_place_cross_entropy")
    out = tape.new(prediction, base=prediction if in_place else None)
    read = (tape.incoming(op), *op.inputs, *op.outputs[1:])
    tape.emit(Loss, "gradient", read, (out,), function=op.function, backward=True)
    tape.give(prediction, out)


def _split_nll(op: Loss, tape: Tape) -> None:
    """Give the logits their gradient in one go: (targets' -1 + exp(log-probabilities)) * incoming, each a tensor."""
    logits, result = op.holds[0], op.inputs[0]
    targets = tape.zeros(result)
    total = tape.pointwise("add", result, targets, tape.pointwise("exp", result, result))
    out = tape.pointwise("mul_scalar", result, total, tape.incoming(op), holds=(targets,))
    tape.give(logits, out)


@backward.register
def _(op: Gather, tape: Tape) -> None:
    if op.function == "scatter":
        scatter_backward(op, tape)
        return
    source, *indices = op.inputs
    grad = tape.incoming(op)
    out = tape.new(source, grad.dtype)
    if op.function == "index_add":  # each row takes the gradient of the sum that it went into
        tape.emit(Gather, "gather_gradient", (grad, *indices), (out,), function="index", rows=op.rows)
        tape.give(source, out)
        return
    zeros = tape.zeros(source, grad.dtype)
    # gather's rule asks for the shape of what was read, and so keeps all of it (derivatives.yaml).
    kept_whole = (source,) if op.function == "gather" else ()
    tape.emit(
        Gather, "scatter_gradient", (zeros, grad, *indices), (out,), function="scatter", rows=op.rows, holds=kept_whole
    )
    tape.give(source, out)


@backward.register
def _(op: Sort, tape: Tape) -> None:
    source, grad = op.inputs[0], tape.incoming(op)
    zeros = tape.zeros(source)
    out = tape.new(source)
    tape.emit(Gather, "scatter_gradient", (zeros, grad, *op.outputs[1:]), (out,), function="scatter")
    tape.give(source, out)


@backward.register
def _(op: Pool, tape: Tape) -> None:
    x = op.inputs[0]
    out = tape.new(x)
    # Average pooling keeps its input as max pooling does, though only the shape of it is used.
    reads = (tape.incoming(op), *op.outputs[1:], x)
    tape.emit(Pool, "gradient", reads, (out,), function=op.function, window=op.window, backward=True)
    tape.give(x, out)


@backward.register
def _(op: Resize, tape: Tape) -> None:
    out = tape.new(op.inputs[0])
    tape.emit(Resize, "gradient", (tape.incoming(op),), (out,), function=op.function, backward=True)
    tape.give(op.inputs[0], out)


@backward.register
def _(op: Copy, tape: Tape) -> None:
    grad = tape.incoming(op)
    if op.function == "concat":
        _slices(op, tape, grad)
        return
    source = op.inputs[0]
    if op.function == "expand":
        out = tape.new(source)
        tape.emit(Reduction, "sum_gradient", (grad,), (out,), function="sum")
    elif op.function in ("pad", "index_copy"):
        # index_copy's rule asks for the number of axes of what was copied, and so keeps all of it (derivatives.yaml).
        out = tape.new(source, grad.dtype)
        kept_whole = (source,) if op.function == "index_copy" else ()
        tape.emit(Copy, "slice_gradient", (grad,), (out,), function="slice", holds=kept_whole)
    elif op.function == "contiguous":
        # Only the layout changed: the gradient may come in any.
        out = tape.new(source, grad.dtype, base=grad)
        tape.emit(View, "gradient", (grad,), (out,), function="reshape")
    else:
        out = tape.new(source, grad.dtype)
        tape.emit(Copy, "gradient", (grad,), (out,), function=op.function)
    tape.give(source, out)


def _slices(op: AbstractOp, tape: Tape, grad: Tensor) -> None:
    """Hand each input of a concatenation its slice of the gradient, as a view."""
    parts = tuple(Tensor(f"{t.name}.grad", t.shape, grad.dtype, Role.TEMPORARY, base=grad) for t in op.inputs)
    tape.emit(View, "slices", (grad,), parts, function="slice")
    for tensor, part in zip(op.inputs, parts, strict=True):
        tape.give(tensor, part)


@backward.register
def _(op: Fused, tape: Tape) -> None:
    for part in reversed(op.parts):
        if any(tape.grad(tensor) is not None for tensor in part.outputs):
            backward(part, tape)


@backward.register(CacheAppend)
@backward.register(ExtraKernels)
@backward.register(OptimizerUpdate)
@backward.register(HostCompute)
@backward.register(HostTransfer)
@backward.register(HostUpdate)
def _(op: AbstractOp, tape: Tape) -> None:  # noqa: ARG001 (rules use it)
    raise UnsupportedOpError("backward", op)
