"""The backward row of recurrences: one call back through the cells, and products over all tokens."""

from __future__ import annotations

from roofsim.graph.ops import Matmul, Recurrence, Reduction
from roofsim.passes.autograd.tape import Tape, backward


@backward.register
def _(op: Recurrence, tape: Tape) -> None:
    """Go back through the cells in one call; the gradients of their weights are products over all tokens, as in cuDNN."""
    inner, *weights = op.inputs
    grad = tape.new(inner)
    dims = {name: getattr(op, name) for name in ("cell", "batch", "tokens", "hidden", "carried", "gates", "projects")}
    states, *kept = op.outputs
    tape.emit(Recurrence, "gradient", (tape.incoming(op), *weights, states, *kept), (grad,), backward=True, **dims)
    tape.give(inner, grad)
    tokens = op.batch * op.tokens
    for weight in weights:
        if not tape.needs(weight):
            continue
        out = tape.new(weight)
        if len(weight.shape) == 1:
            tape.emit(Reduction, "bias_gradient", (grad,), (out,), function="sum")
        else:
            of_gates = weight is weights[0]
            left = grad if of_gates else tape.incoming(op)
            right = states if of_gates else kept[0]
            m, n = weight.shape
            tape.emit(Matmul, "weight_gradient", (left, right), (out,), m=m, n=n, k=tokens)
        tape.give(weight, out)
