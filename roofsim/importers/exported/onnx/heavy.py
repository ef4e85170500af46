"""Write down ONNX ops that carry FLOPs: products, convolutions, attention, recurrent layers."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.importers.exported.onnx.call import NodeCall

#: Products of each cell (ONNX, operators LSTM, GRU, RNN): rows of W and R are so many times the hidden size.
GATES: Final = {"lstm": 4, "gru": 3, "rnn": 1}


def convolution(call: NodeCall, *, transposed: bool = False, reads: Sequence[int] = (0, 1, 2)) -> None:
    """Write down a convolution."""
    numbers = [call.read(at, "parameter") for at in reads if call.input(at) is not None]
    strides = [int(each) for each in call.attribute("strides", [1])]
    call.write(
        "convolution",
        numbers,
        [call.make()],
        stride=strides,
        groups=int(call.attribute("group", 1)),
        transposed=transposed,
    )


def product(call: NodeCall, *, right: int = 1) -> None:
    """Write down a product of matrices, operands transposed as the node says."""
    operands = [_matrix(call, 0, "transA"), _matrix(call, right, "transB")]
    call.write("matmul", operands, [call.make()])


def general_product(call: NodeCall) -> None:
    """Write down a product with a bias in its epilogue."""
    operands = [_matrix(call, 0, "transA"), _matrix(call, 1, "transB")]
    if call.input(2) is None:
        call.write("mm", operands, [call.make()])
    else:
        call.write("addmm", [call.read(2, "parameter"), *operands], [call.make()])


def _matrix(call: NodeCall, at: int, flag: str) -> int:
    """Return an operand of a product, its last axes swapped where the node says so."""
    number = call.read(at, "parameter" if call.of_data else "buffer")
    shape = call.shape(at)
    if not int(call.attribute(flag, 0)) or len(shape) < 2:
        return number
    turned = call.scratch((*shape[:-2], shape[-1], shape[-2]), number, number)
    call.write("transpose", [number], [turned])
    return turned


def packed_product(call: NodeCall) -> None:
    """Write down a product with weights of few bits, which its kernel expands: they are read as they are stored."""
    source, shape = call.read(0), call.shape(0)
    packed = [call.read(at, "parameter") for at in range(1, min(4, len(call.inputs))) if call.input(at) is not None]
    width = call.made_shape()[-1]
    weight = call.scratch((shape[-1], width), source)
    call.write("_to_copy", packed[:1], [weight])
    call.write("matmul", [source, weight], [call.make()])


def einsum(call: NodeCall) -> None:
    """Write down a sum over products: of two operands, one batched product of what both, one, and none of the results have."""
    equation = str(call.attribute("equation", "")).replace(" ", "")
    left, _, result = equation.partition("->")
    terms = left.split(",")
    if not result or len(terms) > 2 or "." in equation:
        call.unknown("onnx::Einsum")
        return
    first = call.read(0, "parameter")
    if len(terms) == 1:
        call.write("permute" if len(result) == len(terms[0]) else "sum", [first], [call.make()])
        return
    second = call.read(1, "parameter")
    sizes = dict(zip(terms[0], call.shape(0), strict=True)) | dict(zip(terms[1], call.shape(1), strict=True))
    both = set(terms[0]) & set(terms[1])
    over = sorted(both - set(result))
    if not over:
        call.write("mul", [first, second], [call.make()])
        return
    batch, k = (prod(sizes[each] for each in names) for names in (sorted(both & set(result)), over))
    m, n = (prod(sizes[each] for each in term if each not in both) for term in terms)
    shapes = ((batch, m, k), (batch, k, n))
    shown = [call.scratch(shape, number, number) for shape, number in zip(shapes, (first, second), strict=True)]
    for number, made in zip((first, second), shown, strict=True):
        call.write("view", [number], [made])
    made = call.scratch((batch, m, n), first)
    call.write("bmm", shown, [made])
    call.write("view", [made], [call.make(0, made)])


def recurrent(call: NodeCall, cell: str) -> None:
    """Write down a recurrent layer: for each direction the product of all inputs, then the cells token by token."""
    source, (tokens, batch, width) = call.read(0), call.shape(0)
    hidden = int(call.attribute("hidden_size", call.shape(2)[-1]))
    directions = call.shape(1)[0]
    gates = GATES[cell] * hidden
    flat = call.scratch((tokens * batch, width), source, source)
    call.write("view", [source], [flat])
    weights = [call.read(1, "parameter"), call.read(2, "parameter")]
    biases = [] if call.input(3) is None else [call.read(3, "parameter")]
    parts = []
    for _ in range(directions):
        own = call.scratch((gates, width), weights[0], weights[0])
        call.write("select", weights[:1], [own])
        into = call.scratch((width, gates), own, own)
        call.write("transpose", [own], [into])
        inner = call.scratch((tokens * batch, gates), source)
        call.write("addmm" if biases else "mm", [*biases, flat, into], [inner])
        shown = call.scratch((tokens, batch, gates), source, inner)
        call.write("view", [inner], [shown])
        back = call.scratch((gates, hidden), weights[1], weights[1])
        call.write("select", weights[1:], [back])
        parts.append(call.scratch((tokens, batch, hidden), source))
        call.write(cell, [shown, back], [parts[-1]])
    made = [at for at, name in enumerate(call.node.output) if name]
    if directions == 1 and 0 in made:
        call.write("view", parts, [call.make(0, parts[0])])
    elif 0 in made:
        call.write("stack", parts, [call.make(0)])
    for at in made:
        if at:  # the last state, and the last memory
            call.write("slice", parts[:1], [call.make(at)])


def attention(call: NodeCall) -> None:
    """Write down attention that is one op: heads are taken apart, and the kernel reads them as they lie."""
    q, k = call.shape(0), call.shape(1)
    heads, own = _heads(call)
    reads = []
    for at, (shape, number) in enumerate(((q, heads), (k, own), (call.shape(2), own))):
        source = call.read(at)
        if len(shape) == 3:
            split = call.scratch((shape[0], number, shape[1], shape[2] // number), source, source)
            call.write("view", [source], [split])
            source = split
        elif len(shape) != 4:
            call.fail(f"reads {shape} where queries, keys and values have three or four axes")
        reads.append(source)
    shapes = [call.walk.tape.tensors[number]["shape"] for number in reads]
    mask = 3 if call.node.op_type == "Attention" else 5
    masks = [] if call.input(mask) is None else [call.read(mask)]
    out = call.scratch((*shapes[0][:3], shapes[2][-1]), reads[0])
    causal = bool(call.attribute("is_causal", call.attribute("unidirectional", 0)))
    call.write("scaled_dot_product_attention", [*reads, *masks], [out], is_causal=causal)
    call.write("view", [out], [call.make(0, out)])
    for at, name in enumerate(call.node.output[1:], 1):
        if name:
            call.write("cat", reads[1 : 1 + min(at, 2)][-1:], [call.make(at)])


def _heads(call: NodeCall) -> tuple[int, int]:
    """Return the heads of queries, and of keys and values."""
    own = call.attribute("q_num_heads", call.attribute("num_heads", 0))
    shape = call.shape(0)
    if not own:
        own = shape[1] if len(shape) == 4 else call.fail("does not say how many heads it has")
    return int(own), int(call.attribute("kv_num_heads", own) or own)
