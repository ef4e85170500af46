"""Emit what moves elements of a captured program: views, copies, conversions, and what follows indices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.ops import Cast, Copy, Embedding, Gather, Sort, View
from roofsim.graph.tensor import AUTO, Role
from roofsim.lower.captured.layouts import copies_gradient
from roofsim.numeric import product, same

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.captured.context import CapturedGraph


def view(at: CapturedGraph, row: str) -> None:
    """Emit a view; a transposed weight that only products read is the weight itself."""
    if row == "empty":
        if any(map(at.is_read, at.op.makes)):
            at.emit(View, row, (), function=row)
        return
    source = at.tensor(at.op.reads[0])
    if all(at.capture.tensors[number].base is None for number in at.op.makes):
        _written(at, row)
        return
    if row == "transpose" and source.role is Role.PARAMETER and _only_multiplied(at, at.op.makes[0]):
        at.env[at.op.makes[0]] = source
        return
    if row == "expand" and _shows_all(at):
        row = "reshape"
    at.emit(View, row, (source,), function=row, copies_gradient=row == "transpose" and copies_gradient(at))


def _shows_all(at: CapturedGraph) -> bool:
    """Tell whether an expansion shows what it reads as it is: its gradient is no sum."""
    before, after = at.shape(at.op.reads[0]), at.shape(at.op.makes[0])
    return len(before) == len(after) and all(map(same, before, after))


def _written(at: CapturedGraph, row: str) -> None:
    """Emit what is a view by its name and wrote its result anew."""
    at.emit(Copy, row, at.reads()[:1], function="transpose" if row == "transpose" else "clone")


def _only_multiplied(at: CapturedGraph, number: int) -> bool:
    """Tell whether products alone read a tensor."""
    products = ("aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm", "aten.matmul")
    return all(op.op in products for op in at.capture.ops if number in op.reads)


def copy(at: CapturedGraph, row: str) -> None:
    """Emit a copy; one in another layout for its reader passes its gradient without a copy."""
    inputs = at.reads()
    if at.op.op.rstrip("_") == "aten.copy" and len(inputs) == 2:
        inputs = inputs[1:]
    if row == "clone" and at.op.given.get("memory_format") == "contiguous_format":
        row = "contiguous"
    at.emit(Copy, row, inputs, function=row)


def convert(at: CapturedGraph) -> None:
    """Emit a conversion to another type; one to the type of the module's numbers is to whatever that will be."""
    source, target = at.op.reads[0], at.op.makes[0]
    before, after = at.dtype(source), at.dtype(target)
    inputs = (at.tensor(source),)
    if before is after:
        at.emit(Copy, "clone", inputs, function="clone")
        return
    like = _of_own_type(at, inputs[0]) if after is AUTO else None
    at.emit(Cast, "cast", inputs, holds=() if like is None else (like,))


def _of_own_type(at: CapturedGraph, start: Tensor) -> Tensor | None:
    """Return the nearest tensor of the module's type that another was made of; else the module's first parameter."""
    maker = {tensor: op for op in at.b.ops[-400:] for tensor in op.outputs}
    waiting, seen = [start], {start}
    while waiting:
        tensor = waiting.pop(0)
        if tensor.dtype is AUTO and tensor.role is Role.ACTIVATION:
            return tensor
        for other in maker[tensor].inputs if tensor in maker else ():
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return next((made for made in at.env.values() if made.dtype is AUTO and made.role is Role.PARAMETER), None)


def embedding(at: CapturedGraph, *, bags: bool = False) -> None:
    """Emit a look-up in a table."""
    table, *indices = at.op.reads
    inputs = (at.tensor(table), *(at.tensor(number) for number in indices[:1]))
    width = at.shape(table)[-1]
    at.emit(
        Embedding,
        "lookup",
        inputs,
        outputs=(at.made(at.op.makes[0], "out"),),
        lookups=product(*at.shape(indices[0])),
        width=width,
        bags=bags,
    )


def gather(at: CapturedGraph, row: str) -> None:
    """Emit what collects or scatters rows by index."""
    at.emit(Gather, row, at.reads(), function=row)


def sort(at: CapturedGraph, row: str) -> None:
    """Emit what orders elements."""
    at.emit(Sort, row, at.reads()[:1], function=row)
