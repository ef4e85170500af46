"""Emit what moves bytes and computes a little: elementwise ops, norms, reductions, losses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from roofsim.graph.component import Purpose
from roofsim.graph.ops import (
    Copy,
    Dropout,
    Elementwise,
    Loss,
    Normalization,
    Pool,
    Reduction,
    Resize,
    Softmax,
    View,
)
from roofsim.numeric import product

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.captured.context import CapturedGraph


class Pointwise(NamedTuple):
    """An elementwise function: of one tensor (and numbers), and of several."""

    one: str
    several: str = ""


#: Powers that have functions of their own.
_POWERS: Final = {2: "square", 3: "cube", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}


def elementwise(at: CapturedGraph, row: Pointwise) -> None:
    """Emit an elementwise op."""
    inputs = at.reads()
    function = row.several if len(inputs) > 1 and row.several else row.one
    if function == "pow" and len(inputs) == 1:
        function = _POWERS.get(at.op.given.get("exponent", 0), "pow")
    holds = _copied(at, inputs) if at.op.op.endswith("_") else ()
    at.emit(Elementwise, function, inputs, function=function, holds=holds)


def _copied(at: CapturedGraph, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return the copy that autograd made of what an op overwrites just before it, if it did."""
    before = at.b.ops[-1] if at.b.ops else None
    made = isinstance(before, Copy) and before.inputs[0] is inputs[0] and before.function == "clone"
    return before.outputs if made and before is not None else ()


def fill(at: CapturedGraph, row: str) -> None:
    """Emit a kernel that only writes; what it fills, or is shaped like, it does not read."""
    at.emit(Elementwise, row, (), function=row)


def gates(at: CapturedGraph) -> None:
    """Emit the fused gates of a recurrent cell: new states and what backward needs of them."""
    at.emit(Elementwise, "gates", at.reads(), function="cell")


def reduction(at: CapturedGraph, row: str) -> None:
    """Emit a reduction."""
    at.emit(Reduction, row, at.reads()[:1], function=row)


def norm(at: CapturedGraph, row: str) -> None:
    """Emit a normalisation in one kernel."""
    inputs = at.reads()
    training = bool(at.op.given.get("training", at.op.given.get("train", row != "batch")))
    if row == "batch":
        training = training and at.call.trains
        inputs = inputs[: len(inputs) - 2] if training and len(inputs) > 3 else inputs
    makes = at.op.makes[: {"rms": 2}.get(row, 3)]
    if row == "batch" and not training:
        makes = makes[:1]
    names = ("out", "mean", "rstd")
    outputs = tuple(at.made(number, name) for number, name in zip(makes, names, strict=False))
    at.emit(Normalization, "norm", inputs, outputs=outputs, method=row, training=training)


def softmax(at: CapturedGraph, *, logarithm: bool = False) -> None:
    """Emit a softmax over one axis."""
    shape, axis = at.shape(at.op.reads[0]), at.op.given.get("dim", -1)
    row = shape[axis] if shape and isinstance(axis, int) and -len(shape) <= axis < len(shape) else 1.0
    leaf = "log_softmax" if logarithm else "softmax"
    at.emit(Softmax, leaf, at.reads()[:1], row=row, logarithm=logarithm)


def dropout(at: CapturedGraph) -> None:
    """Emit dropout with its mask; in inference, or at rate 0, what it reads as it is."""
    inputs = at.reads()[:1]
    rate = at.op.given.get("p", 0.5)
    if not at.call.trains or rate == 0.0 or at.call.flavour.dropout == 0.0:
        out = at.b.tensor("dropout", *at.shape(at.op.makes[0]), dtype=inputs[0].dtype, base=inputs[0])
        at.env[at.op.makes[0]] = out
        at.emit(View, "dropout", inputs, outputs=(out,), function="reshape")
        return
    at.emit(Dropout, "dropout", inputs)


def pool(at: CapturedGraph, row: str) -> None:
    """Emit pooling over windows."""
    out = at.shape(at.op.makes[0])
    given = at.op.given.get("kernel_size")
    window = product(*(float(size) for size in given)) if isinstance(given, (list, tuple)) else None
    if isinstance(given, list) and len(given) == 1:
        window = float(given[0]) ** (len(out) - 2)
    if window is None:
        window = product(*at.shape(at.op.reads[0])) / product(*out)
    at.emit(Pool, row, at.reads()[:1], function=row, window=window)


def resize(at: CapturedGraph, row: str) -> None:
    """Emit an interpolation."""
    at.emit(Resize, "resize", at.reads()[:1], function=row)


def loss(at: CapturedGraph, row: str) -> None:
    """Emit a loss."""
    outer = at.b.component
    if outer is None or not outer.within(Purpose.LOSS):
        at.b.component = at.part(Purpose.LOSS)
    at.emit(Loss, row, at.reads()[:2], function=row)
    at.b.component = outer
