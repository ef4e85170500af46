"""One node of an ONNX graph as its rule sees it: what it reads and makes, its attributes, and the tape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.importers.exported.onnx.contrib import attribute_of
from roofsim.importers.exported.tape import fail, shown
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from roofsim.importers.exported.onnx.graph import OnnxWalk
    from roofsim.importers.exported.onnx.values import OnnxValue


@dataclass(frozen=True)
class NodeCall:
    """A node at one size."""

    walk: OnnxWalk
    node: Any
    inputs: Sequence[OnnxValue | None]
    outputs: Sequence[OnnxValue]

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute as a number, a text, or a list of numbers."""
        return attribute_of(self.node, name, default)

    def input(self, at: int) -> OnnxValue | None:
        """Return an input; None: it was left out."""
        return self.inputs[at] if at < len(self.inputs) else None

    def shape(self, at: int) -> tuple[int, ...]:
        """Return the shape of an input; raises `SpecError` where it is left out or not known."""
        value = self.input(at)
        if value is None or value.shape is None:
            self.fail("reads what has no known shape")
        return value.shape

    def made_shape(self) -> tuple[int, ...]:
        """Return the shape of the first output; raises `SpecError` where it is not known."""
        out = self.outputs[0]
        if out.shape is None:
            self.fail("makes what depends on data: its shape is not known")
        return out.shape

    @property
    def of_data(self) -> bool:
        """Whether it reads numbers that inputs have: what else it reads is then learned."""
        return any(value is not None and value.of_data for value in self.inputs)

    def read(self, at: int, role: str | None = None) -> int:
        """Return the number of an input's tensor; `role` is that of what the graph has as a constant."""
        value = self.input(at)
        if value is None:
            self.fail(f"lacks its input {at}")
        return self.walk.tensor(value, role=role)

    def reads(self, first: int = 0) -> list[int]:
        """Return the tensors that it reads from an input on, but for single numbers, which a kernel is handed."""
        return [
            self.walk.tensor(value, role=None if self.of_data else "buffer")
            for value in self.inputs[first:]
            if value is not None and not (value.fixed and value.shape is not None and value.elements == 1)
        ]

    def make(self, at: int = 0, base: int | None = None) -> int:
        """Return the number of the tensor that an output is."""
        return self.walk.make(self.outputs[at], base)

    def makes(self) -> list[int]:
        """Return the tensors of all outputs that have a name."""
        return [self.make(at) for at, name in enumerate(self.node.output) if name]

    def scratch(self, shape: Sequence[int], like: int, base: int | None = None) -> int:
        """Return the number of a tensor between two ops, of the type of another."""
        tape = self.walk.tape
        return tape.tensor(tuple(shape), tape.tensors[like]["dtype"], base=base)

    def write(self, name: str, reads: Sequence[int], makes: Sequence[int], **given: Any) -> None:
        """Write down an op of PyTorch by its short name."""
        self.walk.tape.op(f"aten.{name}", reads, makes, **given)

    def unknown(self, name: str) -> None:
        """Write down an op without a rule under its own name."""
        if any(out.shape is None for out, shown_as in zip(self.outputs, self.node.output, strict=True) if shown_as):
            self.walk.refuse_unknown(name)
        reads = [self.walk.tensor(value) for value in self.inputs if value is not None]
        self.walk.tape.op(name, reads, self.makes())

    def fail(self, message: str) -> NoReturn:
        """Raise the error of this node."""
        fail(self.walk.source, f"node {shown(self.node.name)!r} ({self.node.op_type}) {message}")
