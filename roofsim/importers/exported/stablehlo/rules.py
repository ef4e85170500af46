"""The table of rules: which op of PyTorch each op of StableHLO is, so that captures' rules price both."""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.importers.exported.stablehlo.call import HloCall


def _each(names: str, row: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), row)


#: Elementwise ops.
POINTWISE: Final = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "negate": "neg",
    "power": "pow",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "cbrt": "sqrt",
    "exponential": "exp",
    "exponential_minus_one": "exp",
    "log": "log",
    "log_plus_one": "log",
    "tanh": "tanh",
    "logistic": "sigmoid",
    "abs": "abs",
    "maximum": "maximum",
    "minimum": "minimum",
    "clamp": "clamp",
    "select": "where",
    "erf": "erf",
    "erf_inv": "erf",
    "square": "square",
    "convert": "_to_copy",
    **_each("cosine sine tan atan2 sinh cosh asin acos atan", "sin"),
    **_each("compare and or not xor sign is_finite is_inf popcnt count_leading_zeros", "eq"),
    **_each("shift_left shift_right_logical shift_right_arithmetic", "eq"),
    **_each("floor ceil round_nearest_even round_nearest_afz remainder", "floor"),
}
#: Ops that show the elements of what they read: XLA lays out operands as their readers want them, and fuses slices.
VIEWS: Final = {
    **_each("reshape bitcast_convert optimization_barrier real imag", "view"),
    "transpose": "permute",
    "broadcast_in_dim": "expand",
    "broadcast": "expand",
    "slice": "slice",
}
#: Ops that write elements anew.
MOVES: Final = {"concatenate": "cat", "pad": "constant_pad_nd", "reverse": "flip", "top_k": "topk", "sort": "sort"}
#: Ops that write without reading.
FILLS: Final = {"iota": "arange", "rng": "rand", "rng_bit_generator": "rand"}
#: What a reduction's function makes it.
REDUCTIONS: Final = {"add": "sum", "multiply": "prod", "maximum": "amax", "minimum": "amin", "and": "all", "or": "any"}
#: Where a collective says how many ranks each of its groups has.
GROUPS: Final = re.compile(r"replica_groups = dense<[^>]*> : tensor<\d+x(\d+)xi64>")
#: Collectives, by PyTorch's functional ones.
COLLECTIVES: Final = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather_into_tensor",
    "reduce_scatter": "reduce_scatter_tensor",
    "all_to_all": "all_to_all_single",
    "collective_permute": "permute_tensor",
}
#: Targets of custom calls that run nothing on the device, and those that are an op of their own.
MARKS: Final = frozenset(
    {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "LayoutConstraint", "annotate_device_placement"}
)
TARGETS: Final = {"mhlo.topk": "topk", "mhlo.erf": "erf", "mhlo.tan": "sin", "cu_threefry2x32": "rand"}


def numbers_in(text: str, name: str) -> list[int]:
    """Return the whole numbers of a list that an op is called with.

    >>> numbers_in("contracting_dims = [2] x [0]", "contracting_dims")
    [2]
    """
    match = re.search(rf"\b{name} = (?:array<i64: ?|\[|dense<\[?)([\d, ]*)", text)
    return [int(part) for part in match[1].split(",") if part.strip()] if match else []


def pointwise(call: HloCall, name: str) -> None:
    """Write down an elementwise op; a number in every place is no tensor to read."""
    reads = call.reads()
    if not reads:
        call.write("full", (), [call.make()])
        return
    call.write(name, reads, [call.make()])


def view(call: HloCall, name: str) -> None:
    """Write down a view of what is read first."""
    source = call.read(0)
    call.write(name, [source], [call.make(source)])


def part(call: HloCall) -> None:
    """Write down a slice whose place is worked out."""
    if not call.make_layer():
        view(call, "slice")


def moved(call: HloCall, name: str) -> None:
    """Write down what writes elements elsewhere."""
    call.write(name, call.reads() if name == "cat" else [call.read(0)], call.makes())


def fill(call: HloCall, name: str) -> None:
    """Write down what only writes."""
    call.write(name, (), call.makes())


def reduction(call: HloCall) -> None:
    """Write down a reduction by the function that it applies."""
    match = re.search(r"applies stablehlo\.(\w+)", call.statement.text)
    inner = [each.op.removeprefix("stablehlo.") for region in call.statement.regions for each in region]
    function = match[1] if match else next((op for op in inner if op in REDUCTIONS), "")
    call.write("argmax" if "compare" in inner else REDUCTIONS.get(function, "sum"), [call.read(0)], call.makes())


def window(call: HloCall) -> None:
    """Write down pooling."""
    inner = [each.op.removeprefix("stablehlo.") for region in call.statement.regions for each in region]
    sizes = [size for size in numbers_in(call.statement.text, "window_dimensions") if size > 1] or [1]
    name = "max_pool2d" if "maximum" in inner or "minimum" in inner else "avg_pool2d"
    call.write(name, [call.read(0)], [call.make()], kernel_size=[prod(sizes), 1])


def product(call: HloCall) -> None:
    """Write down a product of matrices: what both operands have, what is summed over, and the rest of each."""
    text, (left, right) = call.statement.text, call.shapes()[:2]
    batch, over = _pair(text, "batching_dims"), _pair(text, "contracting_dims")
    b = prod(left[axis] for axis in batch[0])
    k = prod(left[axis] for axis in over[0])
    m, n = prod(left) // max(b * k, 1), prod(right) // max(b * k, 1)
    first, second = call.read(0), call.read(1)
    shapes = (((b, m, k), first), ((b, k, n), second)) if batch[0] else (((m, k), first), ((k, n), second))
    operands = []
    for shape, number in shapes:
        operands.append(call.scratch(shape, number, number))
        call.write("view", [number], [operands[-1]])
    out = call.scratch((b, m, n) if batch[0] else (m, n), None)
    call.write("bmm" if batch[0] else "mm", operands, [out])
    call.write("view", [out], [call.make(out)])


def _pair(text: str, name: str) -> tuple[list[int], list[int]]:
    match = re.search(rf"\b{name} = \[([\d, ]*)\] x \[([\d, ]*)\]", text)
    if match is None:
        return [], []
    left, right = ([int(part) for part in each.split(",") if part.strip()] for each in match.groups())
    return left, right


def convolution(call: HloCall) -> None:
    """Write down a convolution, its operands in PyTorch's order of axes."""
    match = re.search(r"dim_numbers = \[(.*?)\]x\[(.*?)\]->\[(.*?)\]", call.statement.text)
    if match is None:
        call.fail("has no dim_numbers")
    orders = [[part.strip() for part in each.split(",")] for each in match.groups()]
    operands = []
    for at, first in ((0, ("b", "f")), (1, ("o", "i"))):
        source, shape = call.read(at), call.shapes()[at]
        operands.append(call.scratch(_turned(shape, orders[at], first), source, source))
        call.write("permute", [source], [operands[-1]])
    out = call.scratch(_turned(call.made_shape(), orders[2], ("b", "f")), None)
    text = call.statement.text
    groups = re.search(r"feature_group_count = (\d+)", text)
    stride = re.search(r"stride = \[([\d, ]+)\]", text)
    dilated = re.search(r"lhs_dilate = \[([\d, ]+)\]", text)
    transposed = dilated is not None and any(int(each) > 1 for each in dilated[1].split(","))
    strides = [int(each) for each in (dilated if transposed and dilated else stride or ["", "1"])[1].split(",")]
    given: dict[str, Any] = {"stride": strides, "groups": int(groups[1]) if groups else 1}
    call.write("convolution", operands, [out], **given)
    call.write("permute", [out], [call.make(out)])


def _turned(shape: tuple[int, ...], order: list[str], first: tuple[str, str]) -> tuple[int, ...]:
    """Return a shape in the order: the two axes named first, then those of space."""
    space = sorted(name for name in order if name.isdecimal())
    return tuple(shape[order.index(name)] for name in (*first, *space))


def gather(call: HloCall) -> None:
    """Write down a look-up: whole rows of a table that was given, or any other elements."""
    table, sizes = call.shapes()[0], numbers_in(call.statement.text, "slice_sizes")
    rows = len(table) == 2 and sizes == [1, table[1]]
    call.write("embedding" if rows else "index_select", [call.read(0), call.read(1)], [call.make()])


def update(call: HloCall) -> None:
    """Write down a write into a part of a tensor, which XLA does in its place."""
    call.write("slice_scatter", [call.read(1)], [call.make(call.read(0))])


def scatter(call: HloCall) -> None:
    """Write down a write by index."""
    call.write("scatter", call.reads(), call.makes())


def custom(call: HloCall) -> None:
    """Write down a custom call: a mark is nothing, a known target its op, any other its own name."""
    match = re.search(r"@([\w$.-]+|\"[^\"]*\")\(", call.statement.text)
    target = match[1].strip('"') if match else "?"
    if target in MARKS:
        view(call, "view")
    elif target in TARGETS:
        call.write(TARGETS[target], [call.read(0)], call.makes())
    else:
        call.own(f"stablehlo.custom_call::{target}")


def collective(call: HloCall, name: str) -> None:
    """Write down a collective among the ranks of its groups, each operand by itself."""
    text = call.statement.text
    if name == "permute_tensor":
        given: dict[str, Any] = {}
    else:
        stated = GROUPS.search(text)
        if stated is None:
            call.fail("has no replica_groups of one size")
        if int(stated[1]) == 1:
            view(call, "view")
            return
        given = {"group_size": int(stated[1])}
    for at in range(len(call.inputs)):
        source = call.read(at)
        call.write_collective(name, [source], [call.make(source if name == "all_reduce" else None, at)], **given)


Rule = Any


def _rules() -> dict[str, Rule]:
    from functools import partial

    tables: list[tuple[dict[str, str], Callable[..., None]]] = [
        (POINTWISE, pointwise),
        (VIEWS, view),
        (MOVES, moved),
        (FILLS, fill),
        (COLLECTIVES, collective),
    ]
    rules: dict[str, Rule] = {
        "dot_general": product,
        "dot": product,
        "convolution": convolution,
        "reduce": reduction,
        "reduce_window": window,
        "select_and_scatter": scatter,
        "gather": gather,
        "scatter": scatter,
        "dynamic_slice": part,
        "dynamic_update_slice": update,
        "custom_call": custom,
    }
    for table, function in tables:
        rules |= {op: partial(function, name=row) for op, row in table.items()}
    return rules


RULES: Final[dict[str, Rule]] = _rules()
