"""Gradients of elementwise functions: a row each, saying which kernels run and what they read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.errors import RoofsimError
from roofsim.passes.autograd.stated import cell_backward, estimated_backward

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.graph.ops import Elementwise
    from roofsim.graph.tensor import Tensor
    from roofsim.passes.autograd.tape import Tape


#: One kernel ``<function>_backward`` that reads the gradient and the input.
FROM_INPUT: Final = frozenset(
    {
        "gelu",
        "glu",
        "hardswish",
        "hardsigmoid",
        "softplus",
        "abs",
        "clamp",
        "mish",
        "elu",
        "relu6",
        "leaky_relu",
        "log_sigmoid",
        "erf",
        "normalise",
    }
)
#: One kernel that reads the gradient and the output.
FROM_OUTPUT: Final = frozenset({"relu", "tanh", "sigmoid"})
#: The gradient passes unchanged.
IDENTITY: Final = frozenset({"add_scalar"})
#: The gradient is scaled by a constant, changes sign, or is summed up from the other end: one kernel, nothing kept.
SCALED: Final = frozenset({"mul_scalar", "div_scalar", "neg", "cumsum"})
#: No gradient flows: integer work, masks and tables, the step of one token that training has none of.
CONSTANT: Final = frozenset(
    {
        "delta_step",
        "conv_step",
        "scan_step",
        "fill",
        "arange",
        "mask",
        "angles",
        "cos",
        "sin",
        "polar",
        "floor_divide",
        "to_int",
        "compare",
        "random",
    }
)


def elementwise_backward(op: Elementwise, tape: Tape) -> None:
    """Emit the gradient of an elementwise op."""
    name = op.function
    if name in CONSTANT:
        return
    if name in SEVERAL:
        SEVERAL[name](op, tape)
        return
    grad = tape.incoming(op)
    if name in SPECIAL:
        SPECIAL[name](op, tape, grad)
    elif name in IDENTITY:
        tape.give_reduced(op.inputs[0], grad)
    elif name in SCALED:
        tape.give(op.inputs[0], tape.pointwise(name, op.inputs[0], grad))
    elif name in FROM_INPUT:
        tape.give(op.inputs[0], tape.pointwise(f"{name}_backward", op.inputs[0], grad, _kept_input(op)))
    elif name in FROM_OUTPUT:
        tape.give(op.inputs[0], tape.pointwise(f"{name}_backward", op.inputs[0], grad, op.outputs[0]))
    else:
        raise RoofsimError(f"no gradient rule for the elementwise function {name!r} ({op.name!r})")


def _kept_input(op: Elementwise) -> Tensor:
    """Return the input, or the copy that was made of it (and is held) before an in-place kernel overwrote it."""
    return op.holds[0] if op.holds else op.inputs[0]


def known_functions() -> frozenset[str]:
    """Return every function that has a row."""
    return FROM_INPUT | FROM_OUTPUT | IDENTITY | SCALED | CONSTANT | frozenset(SPECIAL) | frozenset(SEVERAL)


def _add(op: Elementwise, tape: Tape, grad: Tensor) -> None:
    for tensor in op.inputs:
        tape.give_reduced(tensor, grad)


def _sub(op: Elementwise, tape: Tape, grad: Tensor) -> None:
    tape.give_reduced(op.inputs[0], grad)
    if tape.needs(op.inputs[1]):
        tape.give_reduced(op.inputs[1], tape.pointwise("neg", op.outputs[0], grad))


def _mul(op: Elementwise, tape: Tape, grad: Tensor) -> None:
    first, second = op.inputs
    products = [
        (tensor, tape.pointwise("mul", op.outputs[0], grad, other))
        for tensor, other in ((first, second), (second, first))
        if tape.needs(tensor)
    ]
    for tensor, product in products:
        tape.give_reduced(tensor, product)


def _div(op: Elementwise, tape: Tape, grad: Tensor) -> None:
    first, second = op.inputs
    if tape.needs(first):
        tape.give_reduced(first, tape.pointwise("div", op.outputs[0], grad, second))
    if tape.needs(second):
        # -grad * ((first / second) / second): PyTorch keeps both operands, not the quotient.
        ratio = tape.pointwise("div", op.outputs[0], tape.pointwise("div", op.outputs[0], first, second), second)
        tape.give_reduced(
            second, tape.pointwise("mul", op.outputs[0], tape.pointwise("neg", op.outputs[0], grad), ratio)
        )


def _power(op: Elementwise, tape: Tape, grad: Tensor) -> None:
    x = op.inputs[0]
    slope = tape.pointwise("mul_scalar", x, tape.pointwise("pow", x, x))
    tape.give(x, tape.pointwise("mul", x, grad, slope))


def _rsqrt(op: Elementwise, tape: Tape, grad: Tensor) -> None:
    out = op.outputs[0]
    slope = tape.pointwise("mul_scalar", out, tape.pointwise("pow", out, out))
    tape.give(op.inputs[0], tape.pointwise("mul", out, grad, slope))


def _sqrt(op: Elementwise, tape: Tape, grad: Tensor) -> None:
    out = op.outputs[0]
    tape.give(op.inputs[0], tape.pointwise("div", out, grad, tape.pointwise("mul_scalar", out, out)))


def _reciprocal(op: Elementwise, tape: Tape, grad: Tensor) -> None:
    out = op.outputs[0]
    squared = tape.pointwise("mul", out, out, out)
    tape.give(op.inputs[0], tape.pointwise("mul", out, tape.pointwise("neg", out, grad), squared))


def _sine(op: Elementwise, tape: Tape, grad: Tensor) -> None:
    x = op.inputs[0]
    tape.give(x, tape.pointwise("mul", x, grad, tape.pointwise("cos", x, x)))


def _masked(op: Elementwise, tape: Tape, grad: Tensor) -> None:
    x, *mask = op.inputs
    tape.give_reduced(x, tape.pointwise("where", op.outputs[0], grad, *mask[:1]))


def _addcmul(op: Elementwise, tape: Tape, grad: Tensor) -> None:
    added, first, second = op.inputs
    tape.give_reduced(added, grad)
    for tensor, other in ((first, second), (second, first)):
        if tape.needs(tensor):
            tape.give_reduced(tensor, tape.pointwise("mul", op.outputs[0], grad, other))


def _larger(op: Elementwise, tape: Tape, grad: Tensor) -> None:
    for tensor in op.inputs:
        if tape.needs(tensor):
            chosen = tape.pointwise("compare", op.outputs[0], *op.inputs)
            tape.give_reduced(tensor, tape.pointwise("where", op.outputs[0], grad, chosen))


def _silu(op: Elementwise, tape: Tape, grad: Tensor) -> None:
    x, kept = op.inputs[0], _kept_input(op)
    if tape.silu_backward == "fused":
        tape.give(x, tape.pointwise("silu_backward", x, grad, kept))
        return
    # PyTorch's composite formula grad * (sigmoid * (1 + x * (1 - sigmoid))); C++ keeps every temporary to the end.
    sigmoid, ones = tape.pointwise("sigmoid", x, kept), tape.zeros(x)
    rest = tape.pointwise("sub", x, ones, sigmoid, base=ones)
    product = tape.pointwise("mul", x, kept, rest)
    inner = tape.pointwise("add_scalar", x, product)
    outer = tape.pointwise("mul", x, sigmoid, inner)
    tape.give(x, tape.pointwise("mul", x, grad, outer, holds=(sigmoid, ones, product, inner)))


def _where(op: Elementwise, tape: Tape, grad: Tensor) -> None:
    condition, *choices = op.inputs
    for tensor in choices:
        if tape.needs(tensor):
            tape.give_reduced(tensor, tape.pointwise("where", op.outputs[0], grad, condition))


def _exp(op: Elementwise, tape: Tape, grad: Tensor) -> None:
    tape.give(op.inputs[0], tape.pointwise("mul", op.inputs[0], grad, op.outputs[0]))


def _log(op: Elementwise, tape: Tape, grad: Tensor) -> None:
    tape.give(op.inputs[0], tape.pointwise("div", op.inputs[0], grad, op.inputs[0]))


def _rotary(op: Elementwise, tape: Tape, grad: Tensor) -> None:
    x, *tables = op.inputs
    tape.give(x, tape.pointwise("rotary_backward", x, grad, *tables, dtype=x.dtype))


def _gated(op: Elementwise, tape: Tape, grad: Tensor) -> None:
    """One kernel writes the gradients of both halves, of one tensor or of two; nothing but these halves is kept.

    Where the halves are held in a narrow type, that copy is kept instead, and cast back first.
    """
    gradients = tuple(tape.new(half) for half in op.inputs)
    stored = [tensor for tensor in op.holds if tensor.dtype.narrow]
    halves = tuple(tape.widened(copy, half) for copy, half in zip(stored, op.inputs, strict=False)) or op.inputs
    tape.emit(type(op), "gated_backward", (grad, *halves), gradients, function="gated_backward")
    for half, gradient in zip(op.inputs, gradients, strict=True):
        tape.give(half, gradient)


def _xielu(op: Elementwise, tape: Tape, grad: Tensor) -> None:
    """One kernel reads gradient and input, and writes the gradients of the input and of the two learned numbers."""
    gradients = tuple(tape.new(tensor) for tensor in op.inputs)
    tape.emit(type(op), "xielu_backward", (grad, *op.inputs), gradients, function="xielu_backward")
    for tensor, gradient in zip(op.inputs, gradients, strict=True):
        tape.give(tensor, gradient)


SPECIAL: Final[dict[str, Callable[[Elementwise, Tape, Tensor], None]]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "square": _power,
    "pow": _power,
    "sqrt": _sqrt,
    "reciprocal": _reciprocal,
    "sine": _sine,
    "cosine": _sine,
    "masked_fill": _masked,
    "maximum": _larger,
    "addcmul": _addcmul,
    "cube": _power,
    "rsqrt": _rsqrt,
    "silu": _silu,
    "exp": _exp,
    "log": _log,
    "rotary": _rotary,
    "where": _where,
    "gated": _gated,
    "xielu": _xielu,
    "estimated": estimated_backward,
}
#: Functions of several results, any of which may have got a gradient.
SEVERAL: Final[dict[str, Callable[[Elementwise, Tape], None]]] = {"cell": cell_backward}
