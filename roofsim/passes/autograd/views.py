"""The backward rows of views: gradients of parts go back into the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.ops import Copy, Reduction, View
from roofsim.passes.autograd.tape import Tape, backward

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor


@backward.register
def _(op: View, tape: Tape) -> None:
    source = op.inputs[0]
    if not tape.needs(source):
        return
    if op.function == "split":
        out = tape.new(source)
        parts = tuple(_part(tape, tensor) for tensor in op.outputs)
        tape.emit(Copy, "concat_gradient", parts, (out,), function="concat")
        tape.give(source, out)
        return
    if op.function == "slices":
        _slice_gradients(op, tape)
        return
    if op.function == "assembled":
        _assembled_gradients(op, tape)
        return
    grad = tape.incoming(op)
    if op.function == "expand":
        out = tape.new(source, grad.dtype)
        tape.emit(Reduction, "sum_gradient", (grad,), (out,), function="sum")
    elif op.function == "slice":
        out = tape.new(source, grad.dtype)
        tape.emit(Copy, "pad_gradient", (grad,), (out,), function="pad")
    elif op.copies_gradient:
        out = tape.new(source, grad.dtype)
        tape.emit(Copy, "copy_gradient", (grad,), (out,), function="transpose")
    else:
        out = tape.new(source, grad.dtype, base=grad)
        tape.emit(View, "gradient", (grad,), (out,), function=op.function)
    tape.give(source, out)


def _part(tape: Tape, tensor: Tensor) -> Tensor:
    grad = tape.grad(tensor)
    return tape.zeros(tensor) if grad is None else grad


def _slice_gradients(op: View, tape: Tape) -> None:
    """Slices taken one by one: each gradient is written into zeros of the full size, and these are added."""
    source = op.inputs[0]
    for tensor in reversed(op.outputs):
        grad = tape.grad(tensor)
        if grad is not None:
            out = tape.new(source, grad.dtype)
            tape.emit(Copy, "pad_gradient", (grad,), (out,), function="pad")
            tape.give(source, out)


def _assembled_gradients(op: View, tape: Tape) -> None:
    """Parts copied one after the other into an empty tensor: each copy's gradient starts from one of the whole."""
    grad, first = tape.incoming(op), op.inputs[0]
    for tensor in reversed(op.inputs):
        whole = tape.new(op.outputs[0], grad.dtype)
        tape.emit(Copy, "whole_gradient", (grad,), (whole,), function="clone")
        part = tape.new(tensor, grad.dtype, base=whole)
        tape.emit(View, "slice", (whole,), (part,), function="slice")
        tape.give(tensor, part)
        if tensor is not first:
            tape.pointwise("fill", tensor, base=whole)
        grad = whole
