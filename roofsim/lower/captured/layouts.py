"""Tell which views have a gradient that PyTorch must copy on its way back: transposes of what a reshape took apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.lower.captured.names import ATTENTIONS
from roofsim.numeric import same

if TYPE_CHECKING:
    from roofsim.importers.captured.form import CapturedOp
    from roofsim.lower.captured.context import CapturedGraph

_RESHAPES: Final = ("aten.view", "aten._unsafe_view", "aten.reshape", "aten.unflatten", "aten._reshape_alias")
_TRANSPOSES: Final = ("aten.permute", "aten.transpose")
#: What shows a tensor and leaves the layout of its gradient to its readers.
_SHOWS: Final = ("aten.expand", "aten.unsqueeze", "aten.squeeze", *_TRANSPOSES, *_RESHAPES)
#: A map whose channels come last in memory, shown with them second: convolutions hand its gradient back in the layout that it has.
_CHANNELS_SECOND: Final = [0, 3, 1, 2]
_ADDS_AXES: Final = ("aten.unsqueeze", "aten.squeeze")
#: Whose gradients have the layout of what was read, as the kernels of attention make them.
_AS_READ: Final = frozenset(f"aten.{name}" for name in ATTENTIONS)


def copies_gradient(at: CapturedGraph) -> bool:
    """Tell whether the gradient of the current op, a transpose, is copied before it can be shown in the shape before.

    The backward of a reshape is a reshape (torch/csrc/autograd, derivatives.yaml: view): of a gradient whose elements lie in
    another order it writes them anew. Kernels of attention give gradients the layout of what they read.
    """
    op = at.op
    if op.op not in _TRANSPOSES:
        return False
    before = at.maker(op.reads[0])
    while before is not None and before.op in _ADDS_AXES:
        before = at.maker(before.reads[0])
    if before is None or before.op not in _RESHAPES or not _made_anew(at, op.makes[0]):
        return False
    whole, shown = (_captured(at, number) for number in (before.reads[0], op.reads[0]))
    order = _order(op, len(shown))
    if order is None or order == _CHANNELS_SECOND:
        return False
    return not _can_show(_strides(shown, order), shown, whole)


def _captured(at: CapturedGraph, number: int) -> tuple[float, ...]:
    """Return the shape of a tensor at the largest sizes that were captured: which axes merge does not depend on others."""
    symbols = at.capture.symbols
    batch, length = float(max(symbols.batch)), float(max(symbols.length))
    return tuple(
        float(size)
        if isinstance(size, int)
        else sum(top / bottom * batch**of_batch * length**of_length for top, bottom, of_batch, of_length in size)
        for size in at.capture.tensors[number].shape
    )


def _made_anew(at: CapturedGraph, number: int) -> bool:
    """Tell whether the gradient of a tensor comes in the order of its elements."""
    readers = at.readers(number)
    return bool(readers) and all(
        _made_anew(at, one.makes[0]) if one.op in _SHOWS else one.op not in _AS_READ for one in readers
    )


def _order(op: CapturedOp, rank: int) -> list[int] | None:
    """Return which axis of what is read each axis of the result is."""
    given = op.given
    order = list(range(rank))
    if op.op == "aten.permute":
        dims = given.get("dims")
        return [dim % rank for dim in dims] if isinstance(dims, list) and len(dims) == rank else None
    first, second = given.get("dim0"), given.get("dim1")
    if not isinstance(first, int) or not isinstance(second, int):
        return None
    order[first], order[second] = order[second], order[first]
    return order


def _strides(shape: tuple[float, ...], order: list[int]) -> list[float]:
    """Return the strides of each axis where elements lie in the order of the transposed tensor."""
    strides: list[float] = [1.0] * len(shape)
    step: float = 1.0
    for axis in reversed(order):
        strides[axis] = step
        step = step * shape[axis]
    return strides


def _can_show(strides: list[float], shape: tuple[float, ...], whole: tuple[float, ...]) -> bool:
    """Tell whether a tensor of some strides can be shown in another shape (aten/src/ATen/TensorUtils.cpp: computeStride)."""
    wanted = [size for size in whole if not same(size, 1.0)]
    place = len(wanted) - 1
    axes = [(size, stride) for size, stride in zip(shape, strides, strict=True) if not same(size, 1.0)]
    at = len(axes) - 1
    while at >= 0:
        run, (size, stride) = axes[at][0], axes[at]
        while at > 0 and same(axes[at - 1][1], size * stride):
            at -= 1
            size, stride = axes[at]
            run = run * size
        held: float = 1.0
        while place >= 0 and held < run and not same(held, run):
            held = held * wanted[place]
            place -= 1
        if not same(held, run):
            return False
        at -= 1
    return place < 0
