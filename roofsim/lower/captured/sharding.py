"""The table of sharding rules: how what an op makes is split, where what it reads is. Ops without one take whole tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.lower.captured.names import ATTENTIONS
from roofsim.lower.captured.rules import COPIES, ELEMENTWISE, FILLS, LOSSES, NORMS, REDUCTIONS, VIEWS
from roofsim.lower.captured.splits import CannotSplitError, Split, aligned, reshaped, value, values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roofsim.importers.captured.form import CapturedOp, CapturedSize

#: Shape and split of a tensor.
Shape = tuple["CapturedSize", ...]
Seen = tuple[Shape, "Split | None"]
if TYPE_CHECKING:
    #: The splits of what an op makes, of (op, what it reads, shapes of what it makes).
    ShardingRule = Callable[[CapturedOp, Sequence[Seen], Sequence[Shape]], list[Split | None]]


def pointwise(_op: CapturedOp, reads: Sequence[Seen], makes: Sequence[Shape]) -> list[Split | None]:
    """Broadcast what is read; all that have the divided dimension must be divided in it."""
    out = makes[0]
    divisions = {aligned(split, shape, out) for shape, split in reads if split is not None}
    if len({(split.dim, split.outer) for split in divisions}) != 1:
        raise CannotSplitError("reads tensors that are split in different ways")
    own = divisions.pop()
    for shape, split in reads:
        dim = own.dim - len(out) + len(shape)
        if split is None and dim >= 0 and value(shape[dim]) != 1:
            raise CannotSplitError("reads one tensor whole that is as large as another that is split")
    return [own if len(shape) == len(out) else None for shape in makes]


def view(_op: CapturedOp, reads: Sequence[Seen], makes: Sequence[Shape]) -> list[Split | None]:
    """Put elements into another shape."""
    shape, split = _first(reads)
    return [reshaped(split, shape, out) for out in makes]


def transposed(op: CapturedOp, reads: Sequence[Seen], _makes: Sequence[Shape]) -> list[Split | None]:
    """Put dimensions into another order."""
    shape, split = _first(reads)
    order = _order(op, len(shape))
    return [Split(order.index(split.dim), split.outer, split.rows)]


def _order(op: CapturedOp, rank: int) -> list[int]:
    """Return which dimension each of the result was."""
    order = list(range(rank))
    given, name = op.given, op.op.partition(".")[2]
    if isinstance(given.get("dims"), list) and len(given["dims"]) == rank:
        return [int(dim) % rank for dim in given["dims"]]
    if name in ("t", "numpy_T"):
        return order[::-1]
    pair = [given.get(key) for key in ("dim0", "dim1")] if name != "mT" else [-2, -1]
    if not all(type(dim) is int for dim in pair):
        raise CannotSplitError("does not say which dimensions it swaps")
    first, second = (int(dim) % rank for dim in pair if dim is not None)
    order[first], order[second] = second, first
    return order


def sliced(op: CapturedOp, reads: Sequence[Seen], makes: Sequence[Shape]) -> list[Split | None]:
    """Take a part along a dimension that is not divided, or all of one that is."""
    shape, split = _first(reads)
    dim = int(op.given.get("dim", 0)) % len(shape)
    if dim == split.dim and (len(makes[0]) < len(shape) or value(makes[0][dim]) != value(shape[dim])):
        raise CannotSplitError("takes a part of the dimension that is split")
    gone = len(makes[0]) < len(shape) and dim < split.dim
    return [Split(split.dim - gone, split.outer, split.rows)]


def parted(op: CapturedOp, reads: Sequence[Seen], makes: Sequence[Shape]) -> list[Split | None]:
    """Take a tensor apart; along the divided dimension into the matrices that it stacks."""
    shape, split = _first(reads)
    dim = int(op.given.get("dim", 0)) % len(shape)
    gone = len(makes[0]) < len(shape)
    if dim != split.dim:
        return [Split(split.dim - (gone and dim < split.dim), split.outer, split.rows) for _ in makes]
    parts = {value(shape[dim]) / (1 if gone else value(out[dim])) for out in makes}
    if gone or len(parts) != 1 or split.outer % min(parts) != 0:
        raise CannotSplitError(
            f"takes apart what is split; where the weight stacks {len(makes)} matrices, say parts: {len(makes)}"
        )
    return [Split(split.dim, split.outer / min(parts), split.rows) for _ in makes]


def expanded(_op: CapturedOp, reads: Sequence[Seen], makes: Sequence[Shape]) -> list[Split | None]:
    """Repeat along dimensions of size one."""
    shape, split = _first(reads)
    return [aligned(split, shape, makes[0])]


def joined(op: CapturedOp, reads: Sequence[Seen], makes: Sequence[Shape]) -> list[Split | None]:
    """Put tensors beside one another along a dimension that is not divided."""
    divisions = {split for _, split in reads}
    own = next(iter(divisions))
    if len(divisions) != 1 or own is None:
        raise CannotSplitError("reads tensors that are split in different ways")
    dim = int(op.given.get("dim", 0))
    stacks = len(makes[0]) > len(reads[0][0])
    dim %= len(makes[0])
    if stacks:
        return [Split(own.dim + (dim <= own.dim), own.outer, own.rows)]
    if dim == own.dim:
        raise CannotSplitError("joins tensors along the dimension that is split")
    return [own]


def whole_rows(op: CapturedOp, reads: Sequence[Seen], makes: Sequence[Shape]) -> list[Split | None]:
    """Work along one dimension, which must be whole."""
    shape, split = _first(reads)
    if int(op.given.get("dim", -1)) % len(shape) == split.dim:
        raise CannotSplitError("needs whole rows of what is split")
    return [split for _ in makes]


def normed(op: CapturedOp, reads: Sequence[Seen], makes: Sequence[Shape]) -> list[Split | None]:
    """Normalise the last dimensions, which must be whole."""
    shape, split = _first(reads)
    normalised = op.given.get("normalized_shape")
    last = len(normalised) if isinstance(normalised, list) else 1
    if split.dim >= len(shape) - last:
        raise CannotSplitError("needs whole rows of what is split")
    return [split for _ in makes]


def reduced(op: CapturedOp, reads: Sequence[Seen], makes: Sequence[Shape]) -> list[Split | None]:
    """Sum along dimensions that are whole."""
    shape, split = _first(reads)
    given = op.given.get("dim")
    dims = [int(dim) % len(shape) for dim in (given if isinstance(given, list) else [given]) if dim is not None]
    if not dims or split.dim in dims:
        raise CannotSplitError("sums over the dimension that is split")
    gone = 0 if len(makes[0]) == len(shape) else sum(dim < split.dim for dim in dims)
    return [Split(split.dim - gone, split.outer, split.rows) for _ in makes]


def multiplied(_op: CapturedOp, reads: Sequence[Seen], makes: Sequence[Shape]) -> list[Split | None]:
    """Multiply matrices that are divided by rows, by columns, or in the same way one by one."""
    (left, of_left), (right, of_right) = reads[-2:]
    out = makes[0]
    columns = len(right) - 1
    if of_left is not None and of_right is not None:
        batched = of_left.dim < len(left) - 2 and aligned(of_left, left, out) == aligned(of_right, right, out)
        if not batched:
            raise CannotSplitError("multiplies two tensors that are both split")
        return [aligned(of_left, left, out)]
    if of_right is not None:
        if of_right.dim != columns:
            raise CannotSplitError("multiplies by a matrix whose rows are split, outside of a RowwiseParallel module")
        return [Split(len(out) - 1, of_right.outer, of_right.rows)]
    assert of_left is not None
    if of_left.dim == len(left) - 1:
        raise CannotSplitError("takes whole rows; a RowwiseParallel module takes split ones")
    if of_left.dim < len(left) - 2 and len(right) > 2 and value(right[of_left.dim - len(left) + len(right)]) != 1:
        raise CannotSplitError("multiplies a tensor that is split by one that is whole")
    return [Split(of_left.dim, of_left.outer, of_left.rows)]


def linear(op: CapturedOp, reads: Sequence[Seen], makes: Sequence[Shape]) -> list[Split | None]:
    """Multiply by a weight ``[columns, width]``."""
    (weight, of_weight), own = reads[1], reads[0]
    swapped = None if of_weight is None else Split(1 - of_weight.dim, of_weight.outer, of_weight.rows)
    return multiplied(op, (own, (weight[::-1], swapped)), makes)


def attended(_op: CapturedOp, reads: Sequence[Seen], makes: Sequence[Shape]) -> list[Split | None]:
    """Attend with a share of the heads ``[batch, heads, length, size]``."""
    (queries, own), *others = reads
    if own is None or any(split is None or (split.dim, split.outer) != (own.dim, own.outer) for _, split in others[:2]):
        raise CannotSplitError("takes queries, keys and values that are split in different ways")
    if own.dim != 1:
        raise CannotSplitError("takes whole sequences: only its heads can be split")
    if any(split is None and len(shape) == 4 and value(shape[1]) != 1 for shape, split in others[2:]):
        raise CannotSplitError("takes a mask of all heads")
    heads = value(queries[1])
    return [own if len(shape) > 1 and value(shape[1]) == heads else None for shape in makes]


def looked_up(_op: CapturedOp, reads: Sequence[Seen], _makes: Sequence[Shape]) -> list[Split | None]:
    """Look rows up whose width is divided, or by indices that are."""
    (_, of_table), (indices, of_indices) = reads[:2]
    if of_table is not None and (of_table.dim != 1 or of_indices is not None):
        raise CannotSplitError("looks up in a table whose rows are split, outside of a RowwiseParallel module")
    return [of_indices if of_table is None else Split(len(indices), of_table.outer)]


def lost(_op: CapturedOp, reads: Sequence[Seen], makes: Sequence[Shape]) -> list[Split | None]:
    """Take the loss of log-probabilities that are divided by classes."""
    shape, split = reads[0]
    if split is None or split.dim != len(shape) - 1:
        raise CannotSplitError("takes a loss of samples of which each rank has some; gather them before it")
    return [None for _ in makes]


def _first(reads: Sequence[Seen]) -> tuple[Shape, Split]:
    """Return the shape and the split of the first tensor that is read, if that is the one that is divided."""
    shape, split = reads[0]
    if split is None:
        raise CannotSplitError("reads one tensor whole and another that is split")
    return shape, split


def _filled(_op: CapturedOp, reads: Sequence[Seen], makes: Sequence[Shape]) -> list[Split | None]:
    """Make tensors that are shaped like others."""
    shape, split = _first(reads)
    return [split if values(shape) == values(out) else None for out in makes]


_OF_VIEWS: Final = {"reshape": view, "transpose": transposed, "slice": sliced, "expand": expanded, "split": parted}
_OF_COPIES: Final = {"clone": pointwise, "concat": joined, "transpose": transposed, "expand": expanded}


def _table() -> dict[str, ShardingRule]:
    """Return the rules by the name of the op."""
    rules: dict[str, ShardingRule] = {}
    rules |= dict.fromkeys(ELEMENTWISE, pointwise) | dict.fromkeys(FILLS, _filled)
    rules |= {name: _OF_VIEWS[row] for name, row in VIEWS.items() if row in _OF_VIEWS}
    rules |= {name: _OF_COPIES[row] for name, row in COPIES.items() if row in _OF_COPIES}
    rules |= dict.fromkeys(REDUCTIONS, reduced) | dict.fromkeys(ATTENTIONS, attended)
    rules |= {name: normed for name, row in NORMS.items() if row in ("layer", "rms")}
    rules |= {name: lost for name, row in LOSSES.items() if row == "nll"}
    rules |= dict.fromkeys(("_to_copy", "to", "native_dropout", "dropout"), pointwise)
    rules |= dict.fromkeys(("_softmax", "_safe_softmax", "softmax", "_log_softmax", "log_softmax"), whole_rows)
    rules |= dict.fromkeys(("mm", "bmm", "matmul", "addmm", "baddbmm", "mv"), multiplied)
    return rules | {"embedding": looked_up, "linear": linear}


SHARDINGS: Final = _table()


def sharding_of(op: str) -> ShardingRule | None:
    """Return the rule of an op by its name, in place or not; None: it takes whole tensors only."""
    name = op.partition(".")[2]
    return SHARDINGS.get(name) or SHARDINGS.get(name.rstrip("_"))
