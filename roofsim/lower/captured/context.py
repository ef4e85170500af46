"""Hold the state of a captured program while its graph is built: sizes, tensors, and the op that is at hand."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Problem, SpecError
from roofsim.graph.builder import Builder
from roofsim.graph.component import Component, Purpose
from roofsim.graph.ops import View
from roofsim.graph.tensor import AUTO, BF16, BOOL, FP8, FP16, FP32, INT8, INT32, INT64, DType, Role, Tensor
from roofsim.numeric import Real, same

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from roofsim.graph.base import AbstractOp
    from roofsim.importers.captured.form import Capture, CapturedOp, CapturedSize
    from roofsim.lower.call import Call
    from roofsim.lower.captured.splits import Split
    from roofsim.spec.model.captured import CapturedProgram

#: Two to a byte; the scales of a block are tensors of their own.
PACKED_4: Final = DType("packed int4", 0.5, floating=False)
#: PyTorch's names of types.
TYPES: Final = {
    "float32": FP32,
    "bfloat16": BF16,
    "float16": FP16,
    "float64": DType("fp64", 8.0, rank=4),
    "complex64": DType("complex64", 8.0, rank=3),
    "int64": INT64,
    "uint64": INT64,
    "uint32": INT32,
    "int32": INT32,
    "int16": DType("int16", 2.0, floating=False),
    "int8": INT8,
    "uint8": INT8,
    "bool": BOOL,
    "float8_e4m3fn": FP8,
    "float8_e5m2": FP8,
    "int4": PACKED_4,
    "uint4": PACKED_4,
}
#: Types of a module's numbers, in whose place the scenario's precision is.
OWN: Final = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
_ROLES: Final = {"parameter": Role.PARAMETER, "buffer": Role.BUFFER, "input": Role.INPUT, "activation": Role.ACTIVATION}


class CapturedGraph:
    """A captured program while its graph is built: rules ask it for tensors, and emit ops into it."""

    def __init__(
        self, model: CapturedProgram, capture: Capture, call: Call, splits: Mapping[int, Split] | None = None
    ) -> None:
        self.model = model
        self.capture = capture
        self.call = call
        self.splits: Mapping[int, Split] = splits or {}
        self.b = Builder()
        self.env: dict[int, Tensor] = {}
        self.op: CapturedOp = capture.ops[0]
        self.own = OWN[capture.dtype]
        self._used = {number for op in capture.ops for number in op.reads}
        self._used |= {tensor.base for tensor in capture.tensors if tensor.base is not None}
        self._components: dict[str, Component] = {}
        symbols = capture.symbols
        self.batch = self._size_of("batch", call.batch, symbols.batch)
        length = float(symbols.length[-1]) if call.length is None else call.length
        self.length = self._size_of("length", length, symbols.length)

    def _size_of(self, what: str, asked: Real, seen: Sequence[int]) -> Real:
        """Return a size; of one that was captured alone no other value is known."""
        if len(seen) == 1 and not same(asked, float(seen[0])):
            flags = {"batch": "--batch 2,3", "length": "--length 128,256,384,512"}
            captured = self.model.form == "capture"
            way = f"Capture it at several, such as {flags[what]}" if captured else "Export it with this dimension open"
            raise SpecError(
                Problem(
                    f"{self.model.name} was {'captured' if captured else 'exported'} at {what} {seen[0]} alone: "
                    "nothing says how it follows another",
                    path="workload",
                    hint=f"{way}, or ask for {what} {seen[0]}.",
                )
            )
        return asked

    @cached_property
    def _made_by(self) -> dict[int, CapturedOp]:
        return {number: op for op in self.capture.ops for number in op.makes}

    @cached_property
    def _read_by(self) -> dict[int, list[CapturedOp]]:
        readers: dict[int, list[CapturedOp]] = {}
        for op in self.capture.ops:
            for number in op.reads:
                readers.setdefault(number, []).append(op)
        return readers

    def maker(self, number: int) -> CapturedOp | None:
        """Return the op that makes a tensor; None: it stands before the program."""
        return self._made_by.get(number)

    def readers(self, number: int) -> list[CapturedOp]:
        """Return the ops that read a tensor."""
        return self._read_by.get(number, [])

    def is_read(self, number: int) -> bool:
        """Tell whether an op reads a tensor, or shows its storage."""
        return number in self._used

    # -- tensors -------------------------------------------------------------------------------------------------

    def size(self, given: CapturedSize) -> Real:
        """Return a size of the captured program at the batch and length of the pass."""
        if isinstance(given, int):
            return float(given)
        total: Real = 0.0
        for numerator, denominator, of_batch, of_length in given:
            term: Real = float(numerator)
            for _ in range(of_batch):
                term = term * self.batch
            for _ in range(of_length):
                term = term * self.length
            total = total + (term if denominator == 1 else term / float(denominator))
        return total

    def shape(self, number: int) -> tuple[Real, ...]:
        """Return the shape of a tensor, or of a rank's share of it."""
        sizes = [self.size(each) for each in self.capture.tensors[number].shape]
        split = self.splits.get(number)
        if split is not None:
            whole = sizes[split.dim]
            sizes[split.dim] = self.call.shares.of_tensor(whole) if split.rows else whole / self.call.shares.tensor
        return tuple(sizes)

    def dtype(self, number: int) -> DType:
        """Return the type of a tensor: that of the scenario where it is the module's own."""
        name = self.capture.tensors[number].dtype
        if name == self.own:
            return AUTO
        known = TYPES.get(name)
        if known is None:
            raise SpecError(
                Problem(
                    f"{self.model.name}: {self.op.op} uses the type {name!r}; known: {', '.join(TYPES)}", path="model"
                )
            )
        return known

    def tensor(self, number: int) -> Tensor:
        """Return a tensor that an op reads; a source is made on first sight."""
        if number not in self.env:
            entry = self.capture.tensors[number]
            base = None if entry.base is None else self.tensor(entry.base)
            self.env[number] = Tensor(
                entry.name or f"constant.{number}",
                self.shape(number),
                self.dtype(number) if base is None else base.dtype,
                _ROLES[entry.role],
                base=base,
                requires_grad=entry.trained,
                component=self.component(entry.module),
            )
            if base is not None:  # an alias that no op made: autograd shows a tensor anew, or an op changed its strides
                self.b.emit(View, "alias", inputs=(base,), outputs=(self.env[number],), function="reshape")
        return self.env[number]

    def made(self, number: int, leaf: str) -> Tensor:
        """Return a new tensor that the current op makes, in the storage that it was seen in."""
        entry = self.capture.tensors[number]
        base = None if entry.base is None else self.tensor(entry.base)
        new = self.b.tensor(
            leaf, *self.shape(number), dtype=self.dtype(number) if base is None else base.dtype, base=base
        )
        self.env[number] = new
        return new

    def reads(self) -> tuple[Tensor, ...]:
        """Return the tensors that the current op reads."""
        return tuple(self.tensor(number) for number in self.op.reads)

    def emit(
        self,
        op_class: type[AbstractOp],
        leaf: str,
        inputs: tuple[Tensor, ...],
        outputs: tuple[Tensor, ...] | None = None,
        **fields: Any,
    ) -> None:
        """Emit an op; left out, `outputs` are what the captured one makes."""
        if outputs is None:
            outputs = tuple(self.made(number, leaf) for number in self.op.makes)
        self.b.emit(op_class, leaf, inputs=inputs, outputs=outputs, **fields)

    def component(self, path: str) -> Component | None:
        """Return the component of a module's path; None: the model itself."""
        if not path:
            return None
        known = self._components.get(path)
        if known is None:
            parent, _, leaf = path.rpartition(".")
            known = self._components[path] = Component(leaf, None, self.component(parent))
        return known

    def part(self, purpose: Purpose) -> Component:
        """Return the component of a purpose inside of the current one."""
        return Component(str(purpose), purpose, self.b.component)
