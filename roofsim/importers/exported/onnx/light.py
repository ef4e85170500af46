"""Write down ONNX ops that move bytes and compute a little."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from roofsim.importers.exported.onnx.call import NodeCall

#: Bounds of a clip that is an activation with a name of its own.
RELU6: Final = (0.0, 6.0)


def pointwise(call: NodeCall, name: str) -> None:
    """Write down an elementwise op."""
    reads = [call.read(0)] if name == "_to_copy" else call.reads()
    name = "hardtanh" if name == "clamp" and _bounds(call) == RELU6 else name
    if not reads:
        call.write("full", (), [call.make()])
        return
    call.write(name, reads, [call.make()])


def _bounds(call: NodeCall) -> tuple[float, ...]:
    """Return the constant bounds of a clip; before opset 11 they were attributes."""
    if call.walk.opset < 11:
        return tuple(float(call.attribute(name, 0.0)) for name in ("min", "max"))
    given = [value for value in call.inputs[1:3] if value is not None and value.constant is not None]
    return tuple(float(value.constant.reshape(-1)[0]) for value in given)


def power(call: NodeCall) -> None:
    """Write down a power; a constant exponent is a number."""
    exponent = call.input(1)
    if exponent is not None and exponent.constant is not None and exponent.elements == 1:
        value = float(exponent.constant.reshape(-1)[0])
        call.write("pow", [call.read(0)], [call.make()], exponent=int(value) if value.is_integer() else value)
        return
    call.write("pow", call.reads(), [call.make()])


def moved(call: NodeCall, name: str) -> None:
    """Write down what writes elements elsewhere; axes, sizes and pads are no tensors to read."""
    several = name in ("cat", "gather", "index", "scatter")
    given = {"dim": int(call.attribute("axis", 0))} if name in ("cat", "gather") else {}
    call.write(name, call.reads() if several else [call.read(0)], call.makes(), **given)


def view(call: NodeCall, name: str) -> None:
    """Write down what shows the elements of its input in another shape."""
    source = call.read(0)
    call.write(name, [source], [call.make(0, source)])


def transpose(call: NodeCall) -> None:
    """Write down a transposition: a copy, unless it moves axes of length one only."""
    source, shape = call.read(0), call.shape(0)
    order = call.attribute("perm", list(range(len(shape)))[::-1])
    long = [axis for axis in order if shape[axis] != 1]
    if long == sorted(long):
        call.write("view", [source], [call.make(0, source)])
    else:
        call.write("permute", [source], [call.make()], dims=[int(axis) for axis in order])


def cast(call: NodeCall) -> None:
    """Write down a conversion; one to the same type is nothing."""
    source = call.read(0)
    value, out = call.input(0), call.outputs[0]
    if value is not None and value.elem == out.elem:
        call.write("view", [source], [call.make(0, source)])
    else:
        call.write("_to_copy", [source], [call.make()])


def reduction(call: NodeCall, name: str) -> None:
    """Write down a reduction."""
    call.write(name, [call.read(0)], [call.make()])


def fill(call: NodeCall, name: str) -> None:
    """Write down what only writes."""
    call.write(name, (), [call.make()])


def gather(call: NodeCall) -> None:
    """Write down a look-up: rows of a table by index, or any other elements."""
    table, index = call.input(0), call.input(1)
    axis = int(call.attribute("axis", 0))
    weight = table is not None and table.fixed and table.floating and len(call.shape(0)) == 2 and axis == 0
    if weight and index is not None and not (index.constant is not None and index.elements == 1):
        call.write("embedding", [call.read(0, "parameter"), call.read(1)], [call.make()])
        return
    if index is not None and index.constant is not None and index.elements == 1:
        call.write("select", [call.read(0)], [call.make()])
        return
    call.write("index_select", [call.read(0), call.read(1)], [call.make()])


def softmax(call: NodeCall, name: str = "_softmax") -> None:
    """Write down a softmax; before opset 13 it went over all axes from one on."""
    source, shape = call.read(0), call.shape(0)
    if call.walk.opset >= 13:
        call.write(name, [source], [call.make()], dim=int(call.attribute("axis", -1)))
        return
    axis = int(call.attribute("axis", 1)) % max(len(shape), 1)
    flat = call.scratch((prod(shape[:axis]), prod(shape[axis:])), source, source)
    call.write("view", [source], [flat])
    made = call.scratch((prod(shape[:axis]), prod(shape[axis:])), source)
    call.write(name, [flat], [made], dim=1)
    call.write("view", [made], [call.make(0, made)])


def batch_norm(call: NodeCall) -> None:
    """Write down a batch norm of running statistics."""
    if call.attribute("training_mode", 0):
        call.fail("takes the statistics of its batch: the graph was exported for training")
    reads = [call.read(at, "parameter") for at in (0, 1, 2)] + [call.read(at, "buffer") for at in (3, 4)]
    call.write("_native_batch_norm_legit_no_training", reads, [call.make()], training=False)


def norm(call: NodeCall, name: str, *, skips: bool = False) -> None:
    """Write down a norm in one kernel; one that `skips` adds a residual first, and may give out the sum."""
    source = call.read(0)
    first = 1
    if skips:
        added = call.make(3) if len(call.node.output) > 3 and call.node.output[3] else None
        summed = call.scratch(call.shape(0), source) if added is None else added
        call.write("add", [source, call.read(1)], [summed])
        source, first = summed, 2
    weights = [call.read(at, "parameter") for at in range(first, min(first + 2, len(call.inputs))) if call.input(at)]
    makes = [call.make(at) for at, output in enumerate(call.node.output[:3]) if output]
    call.write(name, [source, *weights], makes)


def scaled_by_norm(call: NodeCall) -> None:
    """Write down a division by the norm of an axis."""
    source, shape = call.read(0), call.shape(0)
    axis = int(call.attribute("axis", -1)) % len(shape)
    length = call.scratch((*shape[:axis], 1, *shape[axis + 1 :]), source)
    call.write("linalg_vector_norm", [source], [length])
    call.write("div", [source, length], [call.make()])


def local_norm(call: NodeCall) -> None:
    """Write down a local response norm: squares, their means over channels beside one another, and the division by them."""
    source, shape = call.read(0), call.shape(0)
    squares, means = (call.scratch(shape, source) for _ in range(2))
    call.write("square", [source], [squares])
    call.write("avg_pool3d", [squares], [means], kernel_size=[int(call.attribute("size", 5)), 1, 1])
    call.write("div", [source, means], [call.make()])


def pool(call: NodeCall, name: str) -> None:
    """Write down pooling; its positions are made where the graph names them."""
    kernel = call.attribute("kernel_shape")
    given = {} if kernel is None else {"kernel_size": [int(size) for size in kernel]}
    call.write(name, [call.read(0)], call.makes(), **given)


def resize(call: NodeCall, name: str = "") -> None:
    """Write down an interpolation."""
    nearest = str(call.attribute("mode", "nearest")) == "nearest"
    row = name or ("upsample_nearest2d" if nearest else "upsample_bilinear2d")
    reads = [call.read(0), call.read(1)] if name else [call.read(0)]
    call.write(row, reads, [call.make()])


def dynamic_quantise(call: NodeCall) -> None:
    """Write down a quantisation by the range of what is quantised: the range, then the conversion."""
    source = call.read(0)
    call.write("amax", [source], [call.make(1)])
    call.write("full", (), [call.make(2)])
    call.write("_to_copy", [source], [call.make(0)])


def rotary(call: NodeCall) -> None:
    """Write down a rotary embedding as one kernel over what it turns, sines and cosines."""
    call.write("addcmul", call.reads(), [call.make()])
