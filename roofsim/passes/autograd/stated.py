"""The backward rows of what only captured programs have: kernels whose work the user states, writes by index, recurrent cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.ops import Elementwise, Gather, StatedKernel, View
from roofsim.graph.tensor import Tensor
from roofsim.passes.autograd.tape import Tape, backward

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.ops import Reduction


@backward.register
def _(op: StatedKernel, tape: Tape) -> None:
    """Take twice the work, as the two gradients of a product do; nobody states it."""
    wanted = [tensor for tensor in dict.fromkeys(op.inputs) if tape.needs(tensor)]
    grads = tuple(tape.new(tensor) for tensor in wanted)
    tape.emit(
        StatedKernel,
        "gradient",
        (*arrived(op, tape), *op.inputs),
        grads,
        stated_flops=2.0 * op.stated_flops,
        stated_bytes=2.0 * op.stated_bytes,
        backward=True,
        math=op.math,
    )
    for tensor, gradient in zip(wanted, grads, strict=True):
        tape.give(tensor, gradient)


def arrived(op: AbstractOp, tape: Tape) -> tuple[Tensor, ...]:
    """Return the gradients that have arrived at the outputs of an op."""
    grads = (tape.grad(tensor) for tensor in op.outputs)
    return tuple(grad for grad in grads if grad is not None)


def cell_backward(op: Elementwise, tape: Tape) -> None:
    """Emit the one kernel behind the gates of a recurrent cell: it reads what forward kept, and gives every input its gradient."""
    wanted = [tensor for tensor in dict.fromkeys(op.inputs) if tape.needs(tensor)]
    grads = tuple(tape.new(tensor) for tensor in wanted)
    read = (*arrived(op, tape), *(tensor for tensor in op.outputs[1:] if tensor.dtype.floating))
    tape.emit(Elementwise, "cell_backward", read, grads, function="cell_backward")
    for tensor, gradient in zip(wanted, grads, strict=True):
        tape.give(tensor, gradient)


def scatter_backward(op: Gather, tape: Tape) -> None:
    """Emit the gradient of a write by index: what was written over gets none, what was written that of its place."""
    target, *others = op.inputs
    (grad, *_) = arrived(op, tape)
    indices = tuple(tensor for tensor in others if not tensor.dtype.floating)
    if tape.needs(target):
        out = tape.new(target, grad.dtype)
        tape.emit(Gather, "fill_gradient", (grad, *indices), (out,), function="scatter")
        tape.give(target, out)
    for tensor in others:
        if tensor.dtype.floating and tape.needs(tensor):
            out = tape.new(tensor, grad.dtype)
            # The rule asks for the shape of what was written, and so keeps all of it (derivatives.yaml, index_add).
            tape.emit(Gather, "gather_gradient", (grad, *indices), (out,), function="index", holds=(tensor,))
            tape.give(tensor, out)


def estimated_backward(op: Elementwise, tape: Tape, grad: Tensor) -> None:
    """Emit the gradient that a router of experts estimates: the scores get it, not the weights that were made of them."""
    (weight, _), (scores, shares, drawn) = op.inputs, op.holds
    own = tape.pointwise("mul", weight, grad, weight)
    others = tape.pointwise("mul", scores, shares, tape.pointwise("neg", weight, own))
    out = tape.new(scores, base=others)
    tape.emit(Gather, "scatter_gradient", (others, own, drawn), (out,), function="scatter")
    tape.give(scores, out)


def variance_backward(op: Reduction, tape: Tape) -> None:
    """Emit the gradient of a variance or a norm: the distance of each element from the mean, scaled."""
    source = op.inputs[0]
    (grad, *_) = arrived(op, tape)
    stretched = Tensor(f"{source.name}.expanded_grad", source.shape, grad.dtype, grad.role, base=grad)
    tape.emit(View, "expand", (grad,), (stretched,), function="expand")
    distance = tape.pointwise("sub", source, source, *op.outputs[1:])
    tape.give(source, tape.pointwise("mul", source, distance, stretched))
