"""Go through an ONNX graph at one size: shapes by onnx's inference, constants worked out, the rest written on a tape."""

from __future__ import annotations

import math
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from roofsim.importers.exported.dims import Dim, ProgramInput, size_at
from roofsim.importers.exported.expressions import names_in
from roofsim.importers.exported.onnx.contrib import shapes_of
from roofsim.importers.exported.onnx.loops import write_loop
from roofsim.importers.exported.onnx.nodes import GRAPH, LOOPS, OWN, module_of
from roofsim.importers.exported.onnx.values import (
    MOST_FOLDED,
    TYPES,
    WHOLE,
    OnnxValue,
    folded,
    of_initializer,
    type_of_numbers,
)
from roofsim.importers.exported.tape import MOST_ELEMENTS, ExportTape, fail, shown
from roofsim.records import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import NoReturn

#: Nodes of a graph, subgraphs included.
MOST_NODES: Final = 200_000
#: Elements of a constant that follows open sizes: shapes and axes are handed on by the host, tables are made by kernels.
MOST_OF_SIZES: Final = 16
#: Ops whose results are new in every pass although they read nothing.
_RANDOM: Final = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"}
)
#: Ops that show a constant in another form: engines store it so when they load the file.
_SHOWING: Final = frozenset({"Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten"})
#: Ops that run in every pass although what they read is fixed: weights are made wide, or looked up and repeated as sizes say.
_EXPANDING: Final = frozenset({"DequantizeLinear", "Gather", "Expand", "Tile"})


def inputs_of(graph: Any) -> list[ProgramInput]:
    """Return what a graph is called with; an open size without a name is named after its input and axis."""
    stored = {tensor.name for tensor in graph.initializer}
    return [
        ProgramInput(each.name, each.type.tensor_type.elem_type in (1, 10, 11, 16), shape_of(each))
        for each in graph.input
        if each.name not in stored
    ]


def shape_of(info: Any) -> tuple[Dim, ...]:
    """Return the sizes that a graph states of an input or value."""
    return tuple(
        int(dim.dim_value)
        if dim.HasField("dim_value") and dim.dim_value >= 0
        else _open_name(dim.dim_param, f"{info.name}_{axis}")
        for axis, dim in enumerate(info.type.tensor_type.shape.dim)
    )


def numbers_of(graph: Any) -> tuple[str, ...]:
    """Return the inputs of a graph that are one number that is no floating one: a rate of samples, a number of turns."""
    stored = {tensor.name for tensor in graph.initializer}
    return tuple(
        each.name
        for each in graph.input
        if each.name not in stored
        and each.name.isidentifier()
        and each.type.tensor_type.elem_type in WHOLE
        and each.type.tensor_type.HasField("shape")
        and all(size == 1 for size in shape_of(each))
    )


def _open_name(given: str, instead: str) -> str:
    """Return the name of an open size, or its expression; one that `--set` could not say is changed, one of signs replaced."""
    if given and given not in names_in(given):
        return given
    name = re.sub(r"\W", "_", given if any(each.isalnum() for each in given) else instead)
    return name if name.isidentifier() else f"size_{name}"


@dataclass(eq=False)
class OnnxWalk:
    """A walk through a graph at one size.

    Attributes
    ----------
    values
        Name of a value -> what is known of it; of an outer graph's too, inside of a branch.
    tape
        What is written down.
    write
        Writes a node down by its rule.
    unknown, stated
        Ops without a rule, and how often the graph has them; those whose work the user states.
    """

    source: str
    opsets: dict[str, int]
    numbers: Mapping[str, int]
    tape: ExportTape
    write: Callable[[OnnxWalk, Any, Sequence[OnnxValue | None], Sequence[OnnxValue]], None]
    unknown: Mapping[str, int]
    stated: frozenset[str] = frozenset()
    values: dict[str, OnnxValue] = field(default_factory=dict)
    infos: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def opset(self) -> int:
        """The version of ONNX's own ops."""
        return max((version for domain, version in self.opsets.items() if domain in OWN), default=1)

    def run(self, graph: Any) -> None:
        """Write down a whole graph, and what it gives out."""
        self.enter(graph)
        for each in inputs_of(graph):
            shape = tuple(size_at(size, self.numbers, self.source) for size in each.shape)
            said = self.numbers.get(each.name)
            self.values[each.name] = (
                self._input(each.name, shape, graph)
                if said is None
                else self._stated_number(each.name, shape, said, graph)
            )
        self.nodes(graph.node)
        for info in graph.output:
            value = self.values.get(info.name)
            if value is None:
                fail(self.source, f"gives out {shown(info.name)!r}, which no node makes")
            if value.number is not None:
                self.tape.outputs.append(value.number)

    def enter(self, graph: Any) -> None:
        """Take note of the constants of a graph, and of the shapes that it states."""
        for tensor in graph.initializer:
            self.values[tensor.name] = of_initializer(tensor, self.source)
        for sparse in graph.sparse_initializer:
            fail(self.source, f"has the sparse initializer {shown(sparse.values.name)!r}, which is not priced")
        self.infos |= {info.name: info for info in (*graph.value_info, *graph.output)}

    def _input(self, name: str, shape: tuple[int, ...], graph: Any) -> OnnxValue:
        info = next(each for each in graph.input if each.name == name)
        if info.type.WhichOneof("value") != "tensor_type":
            fail(self.source, f"reads {shown(name)!r}, which is no tensor")
        elem = info.type.tensor_type.elem_type
        number = self.tape.tensor(shape, self.type_name(elem, name), role="input", name=name)
        return OnnxValue(name, shape, elem, number, role="input", of_data=True)

    def _stated_number(self, name: str, shape: tuple[int, ...], said: int, graph: Any) -> OnnxValue:
        """Return an input of one number that the user states."""
        import numpy as np

        elem = next(each for each in graph.input if each.name == name).type.tensor_type.elem_type
        number = np.full(shape, said, dtype=type_of_numbers(elem))
        return OnnxValue(name, shape, elem, constant=number, role="buffer")

    def nodes(self, nodes: Iterable[Any]) -> None:
        """Write down nodes, in order."""
        for node in nodes:
            module = module_of(node)
            self.tape.module = self.tape.module if module is None else module
            self.tape.line = node.name or node.output[0]
            inputs = [self.read_value(name, node) for name in node.input]
            if node.op_type == "If":
                self._branch(node, inputs[0])
                continue
            if node.op_type in LOOPS and node.domain in OWN:
                write_loop(self, node, inputs)
                continue
            outputs = self.inferred(node, inputs)
            if self._constant(node, inputs, outputs):
                continue
            self.write(self, node, inputs, outputs)

    def read_value(self, name: str, node: Any) -> OnnxValue | None:
        """Return what a node reads under a name; None: nothing, which is how optional inputs are left out."""
        if not name:
            return None
        value = self.values.get(name)
        if value is None:
            fail(self.source, f"node {shown(node.name)!r} ({node.op_type}) reads {shown(name)!r}, which nothing makes")
        return value

    def _branch(self, node: Any, condition: OnnxValue | None) -> None:
        """Go through the branch of an `If` that its constant condition takes."""
        if condition is None or condition.constant is None:
            fail(
                self.source,
                f"the node {shown(node.name)!r} (If) takes its way by a value that is known only with data",
                "Export one way of it, capture the module that it was exported from (`roofsim capture`), or, where the condition "
                "follows from an input of one number, state that: --set model.dims.NAME=16000.",
                code="depends-on-values",
            )
        wanted = "then_branch" if bool(condition.constant.reshape(-1)[0]) else "else_branch"
        graph = next(attribute.g for attribute in node.attribute if attribute.name == wanted)
        self.enter(graph)
        self.nodes(graph.node)
        for out, inner in zip(node.output, graph.output, strict=True):
            self.values[out] = self.values[inner.name]

    # -- shapes and constants ------------------------------------------------------------------------------------

    def inferred(self, node: Any, inputs: Sequence[OnnxValue | None]) -> list[OnnxValue]:
        """Return what a node makes, with shapes as far as onnx infers them or the file states them."""
        shapes = shapes_of(node, inputs)
        if shapes is None:
            shapes = self._by_schema(node, inputs) if node.domain in OWN else {}
        made = []
        for name in node.output:
            shape, elem = shapes.get(name, (None, 0))
            if shape is None and name in self.infos:
                shape, elem = self._stated(name)
            if shape is not None and (any(size < 0 for size in shape) or math.prod(shape) > MOST_ELEMENTS):
                fail(
                    self.source,
                    f"node {shown(node.name)!r} ({node.op_type}) makes the impossible shape {list(shape)[:8]}",
                )
            known = [value for value in inputs if value is not None]
            of_data = any(value.of_data for value in known) and node.op_type not in ("Shape", "Size")
            made.append(OnnxValue(name, shape, elem, of_data=of_data))
            made[-1].of_sizes = any(value.of_sizes for value in known)
            if name:
                self.values[name] = made[-1]
        return made

    def _stated(self, name: str) -> tuple[tuple[int, ...] | None, int]:
        """Return the shape that the file states of a value, where its open sizes have numbers."""
        info = self.infos[name]
        if not info.type.tensor_type.HasField("shape"):
            return None, info.type.tensor_type.elem_type
        try:
            shape = tuple(size_at(size, self.numbers, self.source) for size in shape_of(info))
        except Exception:
            return None, info.type.tensor_type.elem_type
        return shape, info.type.tensor_type.elem_type

    def _by_schema(
        self, node: Any, inputs: Sequence[OnnxValue | None]
    ) -> dict[str, tuple[tuple[int, ...] | None, int]]:
        from onnx import defs, helper, numpy_helper, shape_inference

        try:
            schema = defs.get_schema(node.op_type, self.opset, "")
        except defs.SchemaError:
            return {}
        known = [(name, value) for name, value in zip(node.input, inputs, strict=True) if value is not None]
        types = {name: helper.make_tensor_type_proto(value.elem, value.shape) for name, value in known}
        data = {
            name: numpy_helper.from_array(value.constant, name)
            for name, value in known
            if value.constant is not None and value.elements <= MOST_FOLDED and not value.floating
        }
        data |= {
            name: numpy_helper.from_array(value.constant, name)
            for name, value in known
            if value.constant is not None and value.floating and value.elements <= 16
        }
        try:
            made = shape_inference.infer_node_outputs(
                schema, node, types, data, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10
            )
        except (shape_inference.InferenceError, ValueError, RuntimeError, TypeError) as error:
            text = " ".join(str(error).split())[:200]
            fail(
                self.source,
                f"node {shown(node.name)!r} ({node.op_type}) does not fit its inputs at "
                f"{', '.join(f'{name} {size}' for name, size in self.numbers.items()) or 'the sizes of the file'}: {text}",
                "The file may be fixed at other sizes than its open dimensions say: set them, --set model.dims.NAME=SIZE.",
            )
        return {name: _shape_in(info) for name, info in made.items()}

    def _constant(self, node: Any, inputs: Sequence[OnnxValue | None], outputs: Sequence[OnnxValue]) -> bool:
        """Take what a node makes of constants, or of shapes alone, for a constant; tell whether it is one."""
        import numpy as np

        if node.op_type == "Shape" and inputs[0] is not None and inputs[0].shape is not None:
            start, end = (_attribute(node, name, default) for name, default in (("start", 0), ("end", None)))
            outputs[0].constant = np.array(inputs[0].sizes[start:end], dtype=np.int64)
        elif node.op_type == "Size" and inputs[0] is not None and inputs[0].shape is not None:
            outputs[0].constant = np.array(inputs[0].elements, dtype=np.int64)
        elif node.op_type == "Constant":
            return self._of_constant_node(node, outputs[0])
        elif node.op_type in _RANDOM or node.domain not in OWN or any(a.type == GRAPH for a in node.attribute):
            return False
        else:
            known = [value for value in inputs if value is not None]
            if not all(value.fixed for value in known):
                return False
            return self._of_fixed(node, known, inputs, outputs)
        outputs[0].shape, outputs[0].elem, outputs[0].role = outputs[0].constant.shape, 7, "buffer"
        outputs[0].of_sizes = bool(self.numbers)
        return True

    def _of_constant_node(self, node: Any, out: OnnxValue) -> bool:
        tensor = next((attribute.t for attribute in node.attribute if attribute.name == "value"), None)
        if tensor is None:
            return folded(node, self.opset, [], [out])
        stated = of_initializer(tensor, self.source)
        out.shape, out.elem, out.constant, out.role = stated.shape, stated.elem, stated.constant, "buffer"
        return True

    def _of_fixed(
        self, node: Any, known: Sequence[OnnxValue], inputs: Sequence[OnnxValue | None], outputs: Sequence[OnnxValue]
    ) -> bool:
        """Take note of what a node makes of fixed values: engines work it out when they load the file."""
        if node.op_type in _EXPANDING and not all(
            value.constant is not None and value.role == "buffer" for value in known
        ):
            return False
        if any(out.of_sizes and out.shape is not None and out.elements > MOST_OF_SIZES for out in outputs):
            return False
        if any(out.shape is None for out in outputs):
            return all(value.constant is not None for value in known) and folded(node, self.opset, inputs, outputs)
        trained = next((value for value in known if value.role == "parameter"), None)
        if node.op_type in _SHOWING and trained is not None:
            out = outputs[0]
            out.role, out.source = trained.role, trained if trained.source is None else trained.source
        if all(value.constant is not None for value in known) and folded(node, self.opset, inputs, outputs):
            if trained is not None and outputs[0].elements > 1 and outputs[0].floating:
                outputs[0].role = "parameter"
            return True
        for out in outputs:
            out.role = "buffer" if trained is None or not (out.floating or out.elem == trained.elem) else "parameter"
        return True

    def refuse_unknown(self, name: str) -> NoReturn:
        """Raise for an op without a rule whose results have no known shape."""
        listed = "; ".join(f"{op} ({times} times)" for op, times in sorted(self.unknown.items())) or name
        stated = name in self.stated
        fail(
            self.source,
            f"has ops that roofsim has no rule for: {listed}; the first is the node {self.tape.line!r}, and the shape of what it "
            "makes depends on data or is not in the file",
            "Add the shape of its result to the file (value_info), or bind it at export."
            if stated
            else f"State what a call takes, --cost {name}=FLOPS,BYTES, with the shape of its result in the file (value_info).",
            code="op-without-rule",
        )

    # -- tensors on the tape -------------------------------------------------------------------------------------

    def type_name(self, elem: int, name: str) -> str:
        """Return the name of a type."""
        known = TYPES.get(elem)
        if known is None:
            fail(
                self.source,
                f"{shown(name)!r} has the type {elem}, which is not priced; known: {', '.join(TYPES.values())}",
            )
        return known

    def tensor(self, value: OnnxValue, *, role: str | None = None) -> int:
        """Return the number of a value's tensor; of a constant, one is made on first sight."""
        if value.number is None:
            base = None
            if value.source is not None and value.source.elements == value.elements:
                base = self.tensor(value.source)
            if value.shape is None:
                fail(self.source, f"the shape of {shown(value.name)!r} depends on data, or is not known")
            kind = "activation" if base is not None else role or (value.role if value.fixed else "activation")
            value.number = self.tape.tensor(
                value.shape, self.type_name(value.elem, value.name), role=kind, name=value.name, base=base
            )
        return value.number

    def make(self, value: OnnxValue, base: int | None = None) -> int:
        """Return the number of the new tensor that a value is, in the storage of another if `base` is given."""
        if value.shape is None:
            fail(self.source, f"the shape of {shown(value.name)!r} depends on data, or is not known")
        value.number = self.tape.tensor(value.shape, self.type_name(value.elem, value.name), base=base)
        return value.number


def _shape_in(proto: Any) -> tuple[tuple[int, ...] | None, int]:
    """Return shape and type of a type that onnx inferred; no shape where a size is open."""
    tensor = proto.tensor_type
    if not tensor.HasField("shape") or not all(dim.HasField("dim_value") for dim in tensor.shape.dim):
        return None, tensor.elem_type
    return tuple(int(dim.dim_value) for dim in tensor.shape.dim), tensor.elem_type


def _attribute(node: Any, name: str, default: Any) -> Any:
    return next((attribute.i for attribute in node.attribute if attribute.name == name), default)
