"""One statement of StableHLO as its rule sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.importers.exported.tape import fail, shown
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from roofsim.importers.exported.stablehlo.syntax import Statement, TensorType
    from roofsim.importers.exported.tape import ExportTape

#: Element types -> the names of PyTorch.
TYPES: Final = {
    "f32": "float32",
    "bf16": "bfloat16",
    "f16": "float16",
    "f64": "float64",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "ui64": "uint64",
    "ui32": "uint32",
    "ui16": "int16",
    "ui8": "uint8",
    "i1": "bool",
    "i4": "int4",
    "ui4": "uint4",
    "complex<f32>": "complex64",
}


@dataclass(eq=False)
class HloValue:
    """A value: its type, the number of its tensor, and the number that it has in every place, where that is known.

    `share`: whether it is what one rank has of it, where the text has the whole.
    """

    type: TensorType
    number: int | None = None
    constant: float | None = None
    share: bool = False


@dataclass(frozen=True)
class HloCall:
    """A statement with the values that it reads and makes; `layers` are slices of parameters by the stack and their place."""

    source: str
    tape: ExportTape
    statement: Statement
    inputs: Sequence[HloValue]
    outputs: Sequence[HloValue]
    layers: dict[tuple[int, tuple[float, ...]], int]

    def shapes(self) -> list[tuple[int, ...]]:
        """Return the shapes of what it reads."""
        return [value.type.shape for value in self.inputs]

    def made_shape(self) -> tuple[int, ...]:
        """Return the shape of its first result."""
        return self.outputs[0].type.shape

    def read(self, at: int) -> int:
        """Return the tensor of an operand; of a constant, one is made on first sight."""
        if at >= len(self.inputs):
            self.fail(f"lacks its operand {at}")
        value = self.inputs[at]
        if value.number is None:
            value.number = self.tape.tensor(value.type.shape, self._name(value.type), role="buffer")
        return value.number

    def reads(self) -> list[int]:
        """Return the tensors of operands that are no single number."""
        return [self.read(at) for at, value in enumerate(self.inputs) if value.constant is None]

    def make(self, base: int | None = None, at: int = 0) -> int:
        """Return the tensor of a result, in the storage of another if `base` is given."""
        value = self.outputs[at]
        value.number = self.tape.tensor(value.type.shape, self._name(value.type), base=base)
        return value.number

    def makes(self) -> list[int]:
        """Return the tensors of all results."""
        return [self.make(at=at) for at in range(len(self.outputs))]

    def make_layer(self) -> bool:
        """Take a slice of stacked parameters, at a place that is known, for parameters of their own; tell whether it is one.

        A loop over layers (`jax.lax.scan`) so reads each layer's parameters, and not the whole stack again and again.
        """
        source = self.read(0)
        places = [value.constant for value in self.inputs[1:]]
        if self.tape.tensors[source].get("role") != "parameter" or None in places:
            return False
        key = source, tuple(place for place in places if place is not None)
        if key not in self.layers:
            out, name = self.outputs[0].type, self.tape.tensors[source].get("name", "")
            self.layers[key] = self.tape.tensor(out.shape, self._name(out), role="parameter", name=name)
        self.outputs[0].number = self.layers[key]
        return True

    def scratch(self, shape: Sequence[int], like: int | None, base: int | None = None) -> int:
        """Return a tensor between two ops, of the type of another, or of the result."""
        dtype = self._name(self.outputs[0].type) if like is None else self.tape.tensors[like]["dtype"]
        return self.tape.tensor(tuple(shape), dtype, base=base)

    def write(self, name: str, reads: Sequence[int], makes: Sequence[int], **given: Any) -> None:
        """Write down an op of PyTorch by its short name."""
        self.tape.op(f"aten.{name}", reads, makes, **given)

    def write_collective(self, name: str, reads: Sequence[int], makes: Sequence[int], **given: Any) -> None:
        """Write down a collective by PyTorch's short name."""
        self.tape.op(f"_c10d_functional.{name}", reads, makes, **given)

    def own(self, name: str) -> None:
        """Write down an op under its own name, which lowering refuses or prices as stated."""
        self.tape.op(shown(name), [self.read(at) for at in range(len(self.inputs))], self.makes())

    def fail(self, message: str) -> NoReturn:
        """Raise the error of this statement."""
        fail(self.source, f"line {self.statement.line}: {shown(self.statement.op)} {message}")

    def _name(self, kind: TensorType) -> str:
        name = TYPES.get(kind.element)
        if name is None:
            self.fail(f"has the type {shown(kind.element)}, which is not priced; known: {', '.join(TYPES)}")
        return name
