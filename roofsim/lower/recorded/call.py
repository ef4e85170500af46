"""Hold a recorded call of an operator: the sizes and types of its tensors, and the numbers it was called with."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final

from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

Shape = tuple[int, ...]

#: What the profiler calls types of elements, and PyTorch's names of them (kineto: scalarTypeToTypeMeta(...).name()).
_TYPES: Final = {
    "float": "float32",
    "double": "float64",
    "c10::half": "float16",
    "c10::bfloat16": "bfloat16",
    "long int": "int64",
    "long": "int64",
    "long long": "int64",
    "unsigned long": "uint64",
    "unsigned int": "uint32",
    "int": "int32",
    "short": "int16",
    "short int": "int16",
    "signed char": "int8",
    "char": "int8",
    "unsigned char": "uint8",
    "bool": "bool",
    "c10::complex<float>": "complex64",
    "c10::float8_e4m3fn": "float8_e4m3fn",
    "c10::float8_e4m3fnuz": "float8_e4m3fn",
    "c10::float8_e5m2": "float8_e5m2",
    "c10::float8_e5m2fnuz": "float8_e5m2",
}
#: What the profiler calls a list of tensors, whose types it does not say.
LIST: Final = "TensorList"
#: Characters of a recorded argument that are read.
_LONGEST: Final = 1000


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call of an operator, as a profiler recorded it.

    Attributes
    ----------
    operator
        With its namespace: ``aten::addmm``.
    dims
        Dimensions of each input; of a list of tensors those of all, a tuple in a tuple.
    types
        What the profiler calls the type of each input.
    inputs
        What each input that is no tensor was, as text; empty where the profiler did not say.
    """

    operator: str
    dims: tuple[Any, ...] = ()
    types: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        """Name without namespace, and without the mark of what works in place."""
        name = self.operator.rpartition("::")[2]
        return name if name.startswith("__") else name.rstrip("_")

    def dtype(self, place: int) -> str | None:
        """Return PyTorch's name of an input's type; None where it is no tensor, or its type is not said."""
        return _TYPES.get(self.types[place].lower()) if place < len(self.types) else None

    def tensor(self, place: int) -> Shape | None:
        """Return the dimensions of an input; None where it is no tensor."""
        if place >= len(self.dims) or self.dtype(place) is None:
            return None
        given = self.dims[place]
        return given if all(isinstance(size, int) for size in given) else None

    def tensors(self) -> Iterator[tuple[int, Shape]]:
        """Yield place and dimensions of each input that is a tensor."""
        for place in range(len(self.dims)):
            shape = self.tensor(place)
            if shape is not None:
                yield place, shape

    def lists(self) -> Iterator[tuple[Shape, ...]]:
        """Yield the dimensions of each input that is a list of tensors, one of no tensors included."""
        for place, given in enumerate(self.dims):
            if place < len(self.types) and self.types[place] == LIST:
                yield tuple(one for one in given if isinstance(one, tuple))

    def said(self, place: int) -> Any:
        """Return a number, a truth value or a list that the operator was called with; None where nothing says."""
        text = self.inputs[place] if place < len(self.inputs) else ""
        if not text or len(text) > _LONGEST:
            return None
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return None


def call_of(operator: str, dims: Any, types: Any, inputs: Any) -> RecordedCall | None:
    """Return a call, from what a profiler wrote of it; None where it wrote no dimensions."""
    if not isinstance(dims, list) or not dims:
        return None
    words = tuple(str(one) for one in types) if isinstance(types, list) else ()
    texts = tuple(str(one) for one in inputs) if isinstance(inputs, list) else ()
    return RecordedCall(operator, tuple(_shape(one) for one in dims), words, texts)


def _shape(given: Any) -> tuple[Any, ...]:
    """Return the dimensions of a tensor, or of each tensor of a list; nothing of what is neither."""
    if not isinstance(given, list):
        return ()
    if all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in given):
        return tuple(given)
    return tuple(_shape(one) for one in given if isinstance(one, list))
