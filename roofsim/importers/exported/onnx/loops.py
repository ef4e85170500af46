"""Write out the loops of ONNX graphs whose number of turns is known: `Loop` with a constant count, `Scan` over an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from roofsim.importers.exported.onnx.values import OnnxValue
from roofsim.importers.exported.tape import fail, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from roofsim.importers.exported.tape import ExportTape

#: Nodes that a loop may be written out as.
MOST_WRITTEN: Final = 200_000
#: Since this version axes are inputs of the ops that slices are made with.
_OLDEST: Final = 13
_INT64: Final = 7
_BOOL: Final = 9


class GraphWalk(Protocol):
    """What of a walk through a graph a loop asks for."""

    source: str
    values: dict[str, OnnxValue]
    tape: ExportTape

    @property
    def opset(self) -> int:
        """The version of ONNX's own ops."""

    def enter(self, graph: Any) -> None:
        """Take note of the constants of a graph."""

    def nodes(self, nodes: Iterable[Any]) -> None:
        """Write down nodes, in order."""

    def tensor(self, value: OnnxValue) -> int:
        """Return the number of a value's tensor."""

    def type_name(self, elem: int, name: str) -> str:
        """Return the name of a type."""


def write_loop(walk: GraphWalk, node: Any, inputs: Sequence[OnnxValue | None]) -> None:
    """Write a loop out: its body as often as it turns, what a turn hands on to the next, and what all turns make, put together.

    Raises
    ------
    SpecError
        Where the number of turns, or whether it goes on, is known only with data.
    """
    if walk.opset < _OLDEST:
        fail(walk.source, f"has the loop {shown(node.name)!r} in opset {walk.opset}", "Export it again, with opset 17.")
    if node.op_type == "Loop":
        _loop(walk, node, inputs)
    else:
        _scan(walk, node, inputs)


def _loop(walk: GraphWalk, node: Any, inputs: Sequence[OnnxValue | None]) -> None:
    count, goes_on, *carried = inputs
    body = _body(node)
    if count is None or count.constant is None or (goes_on is not None and goes_on.constant is None):
        _unknown(walk, node)
    turns = int(count.constant.reshape(-1)[0])
    if goes_on is not None and not bool(goes_on.constant.reshape(-1)[0]):
        turns = 0
    _check(walk, node, turns, len(body.node))
    made: list[list[OnnxValue]] = [[] for _ in body.output[1 + len(carried) :]]
    for turn in range(turns):
        own = [_constant(body.input[0].name, turn, _INT64), _constant(body.input[1].name, 1, _BOOL), *carried]
        goes_on, *results = _turn(walk, body, own)
        carried = list(results[: len(carried)])
        for kept, value in zip(made, results[len(carried) :], strict=True):
            kept.append(value)
        if goes_on.constant is None:
            _unknown(walk, node)
        if not bool(goes_on.constant.reshape(-1)[0]):
            break
    _give(walk, node, carried, made, [0] * len(made))


def _scan(walk: GraphWalk, node: Any, inputs: Sequence[OnnxValue | None]) -> None:
    body, attributes = _body(node), {attribute.name: attribute for attribute in node.attribute}
    number = int(attributes["num_scan_inputs"].i)
    carried, over = list(inputs[: len(inputs) - number]), inputs[len(inputs) - number :]
    axes = _axes(attributes.get("scan_input_axes"), number)
    sizes = {one.shape[axis % len(one.shape)] for one, axis in zip(over, axes, strict=True) if one and one.shape}
    if len(sizes) != 1:
        _unknown(walk, node)
    turns = sizes.pop()
    _check(walk, node, turns, len(body.node))
    made: list[list[OnnxValue]] = [[] for _ in body.output[len(carried) :]]
    for turn in range(turns):
        slices = [_slice(walk, one, axis, turn) for one, axis in zip(over, axes, strict=True) if one is not None]
        results = _turn(walk, body, [*carried, *slices])
        carried = list(results[: len(carried)])
        for kept, value in zip(made, results[len(carried) :], strict=True):
            kept.append(value)
    _give(walk, node, carried, made, _axes(attributes.get("scan_output_axes"), len(made)))


def _turn(walk: GraphWalk, body: Any, own: Sequence[OnnxValue | None]) -> list[OnnxValue]:
    """Write the body once, with what this turn starts from; returns what it gives out."""
    walk.enter(body)
    for port, value in zip(body.input, own, strict=True):
        if value is not None:
            walk.values[port.name] = value
    walk.nodes(body.node)
    return [walk.values[port.name] for port in body.output]


def _give(
    walk: GraphWalk, node: Any, carried: Sequence[OnnxValue | None], made: list[list[OnnxValue]], axes: list[int]
) -> None:
    """Name what a loop gives out: what its last turn hands on, and what all turns made, stacked."""
    for name, value in zip(node.output, carried, strict=False):
        if name and value is not None:
            walk.values[name] = value
    for name, parts, axis in zip(node.output[len(carried) :], made, axes, strict=True):
        if not name:
            continue
        if not parts:
            _unknown(walk, node)
        names = []
        for turn, part in enumerate(parts):
            walk.values[f"{name}.{turn}"] = part
            walk.values[f"{name}.axis"] = _constant(f"{name}.axis", [axis], _INT64)
            names.append(f"{name}.{turn}.row")
            _run(walk, node, "Unsqueeze", [f"{name}.{turn}", f"{name}.axis"], names[-1])
        _run(walk, node, "Concat", names, name, axis=axis)


def _slice(walk: GraphWalk, whole: OnnxValue, axis: int, turn: int) -> OnnxValue:
    """Return what a turn of a scan works on: a row of an input, shown where it lies (onnxruntime: OrtValueTensorSlicer)."""
    shape = tuple(size for place, size in enumerate(whole.sizes) if place != axis % len(whole.sizes))
    name = f"{whole.name}.{turn}"
    base = walk.tensor(whole)
    number = walk.tape.tensor(shape, walk.type_name(whole.elem, whole.name), role="activation", name=name, base=base)
    return OnnxValue(name, shape, whole.elem, number=number, of_data=whole.of_data)


def _run(walk: GraphWalk, node: Any, op: str, inputs: list[str], output: str, **attributes: Any) -> None:
    from onnx import helper

    walk.nodes([helper.make_node(op, inputs, [output], name=f"{node.name}.{op}", **attributes)])


def _constant(name: str, value: Any, elem: int) -> OnnxValue:
    import numpy as np

    made = np.array(value, dtype=np.bool_ if elem == _BOOL else np.int64)
    return OnnxValue(name, made.shape, elem, constant=made, role="buffer")


def _body(node: Any) -> Any:
    return next(attribute.g for attribute in node.attribute if attribute.name == "body")


def _axes(attribute: Any, number: int) -> list[int]:
    return [0] * number if attribute is None else [int(axis) for axis in attribute.ints]


def _check(walk: GraphWalk, node: Any, turns: int, nodes: int) -> None:
    if turns * nodes > MOST_WRITTEN:
        fail(
            walk.source,
            f"the loop {shown(node.name)!r} turns {turns:,} times, {nodes} nodes each: too many to write out",
            "Export it at a smaller size, or describe the model by a family.",
        )


def _unknown(walk: GraphWalk, node: Any) -> NoReturn:
    fail(
        walk.source,
        f"the loop {shown(node.name)!r} ({node.op_type}) turns as often as data says",
        "Export it with a constant number of turns, or, where that is an input of one number, state it: --set model.dims.NAME=8.",
        code="depends-on-values",
    )
