"""Hold what is known of the values of an ONNX graph at one size, and work out small ones that are constant."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from roofsim.importers.exported.tape import MOST_ELEMENTS, fail
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Elements of a constant that is worked out: shapes, axes, indices, masks of short sequences.
MOST_FOLDED: Final = 1 << 16
#: ONNX's numbers of types (onnx/onnx.proto, TensorProto.DataType) -> the names of PyTorch.
TYPES: Final = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "int16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fn",
    19: "float8_e5m2",
    20: "float8_e5m2",
    21: "uint4",
    22: "int4",
}
FLOATING: Final = frozenset({1, 10, 11, 16, 17, 18, 19, 20})
#: Whole numbers, and truth.
WHOLE: Final = frozenset({2, 3, 4, 5, 6, 7, 9, 12, 13})
#: Types of one byte or less that weights are quantised to.
NARROW: Final = frozenset({2, 3, 17, 18, 19, 20, 21, 22})


@dataclass(eq=False)
class OnnxValue:
    """A value of a graph at one size.

    Attributes
    ----------
    shape, elem
        Its sizes (None: not known) and ONNX's number of its type.
    number
        Of its tensor on the tape; None: nothing has read it yet.
    constant
        Its elements, where they are known; a NumPy array.
    role
        `activation`, `input`, or of constants `parameter` and `buffer`.
    source
        The constant that this one shows in another shape.
    of_sizes, of_data
        Whether it follows open sizes of inputs, or their numbers.
    """

    name: str
    shape: tuple[int, ...] | None
    elem: int
    number: int | None = None
    constant: Any = None
    role: str = "activation"
    source: OnnxValue | None = None
    of_sizes: bool = False
    of_data: bool = False

    @property
    def fixed(self) -> bool:
        """Whether it is the same in every pass."""
        return self.constant is not None or self.role in ("parameter", "buffer")

    @property
    def floating(self) -> bool:
        """Whether its numbers are floating ones."""
        return self.elem in FLOATING

    @property
    def elements(self) -> int:
        """How many numbers it has."""
        return math.prod(self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Its shape, which is known."""
        assert self.shape is not None
        return self.shape


def type_of_numbers(elem: int) -> Any:
    """Return NumPy's type of a whole number."""
    from onnx import helper

    return helper.tensor_dtype_to_np_dtype(elem)


def of_initializer(proto: Any, source: str) -> OnnxValue:
    """Return the value of an initializer; elements only of small ones that the file holds itself."""
    shape = tuple(int(size) for size in proto.dims)
    if any(size < 0 for size in shape) or math.prod(shape) > MOST_ELEMENTS:
        fail(source, f"the initializer {proto.name[:80]!r} has the impossible shape {list(shape)[:8]}")
    value = OnnxValue(proto.name, shape, proto.data_type)
    if math.prod(shape) <= MOST_FOLDED and not proto.external_data:
        value.constant = _elements(proto)
    weight = value.floating or (value.elem in NARROW and value.elements > 1)
    value.role = "parameter" if weight and value.elements > 1 else "buffer"
    return value


def _elements(proto: Any) -> Any:
    from onnx import numpy_helper

    try:
        return numpy_helper.to_array(proto)
    except (ValueError, TypeError, KeyError):
        return None  # its elements were left out, or are in no form that NumPy has


def folded(node: Any, opset: int, inputs: Sequence[OnnxValue | None], outputs: Sequence[OnnxValue]) -> bool:
    """Work out the elements of what a node makes of constants, where they are few; tell whether that went well.

    Raises nothing: what onnx's reference has no code for stays an op.
    """
    if any(out.shape is None or out.elements > MOST_FOLDED for out in outputs):
        return False
    from onnx.reference import ReferenceEvaluator

    names = [name for name in node.input if name]
    given = [value for value in inputs if value is not None]
    try:
        evaluator = ReferenceEvaluator(node, opsets={"": opset})
        results = evaluator.run(None, {name: value.constant for name, value in zip(names, given, strict=True)})
    except Exception:
        return False
    for out, result in zip(outputs, results, strict=False):
        if tuple(getattr(result, "shape", ("?",))) != out.shape:
            return False
        out.constant = result
        out.role = "buffer"
    return True
