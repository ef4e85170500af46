"""Read a program that `torch.export` made into the form of a captured one: its ops are PyTorch's own."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import TYPE_CHECKING, Any, Final

from roofsim.importers.captured.form import SCHEMA
from roofsim.importers.exported.dims import Dim, Dims, ProgramInput, dims_of, size_at
from roofsim.importers.exported.expressions import names_in
from roofsim.importers.exported.pt2.archive import program_in
from roofsim.importers.exported.pt2.views import shows_its_input
from roofsim.importers.exported.tape import OWN, ExportTape, fail, parameters_of, shown, together
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from roofsim.importers.captured.sizes import Point

#: Numbers of types (torch/_export/serde/schema.py, ScalarType) -> their names.
TYPES: Final = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "float16",
    7: "float32",
    8: "float64",
    10: "complex64",
    12: "bool",
    13: "bfloat16",
    28: "int16",
    29: "float8_e4m3fn",
    30: "float8_e5m2",
}
_FLOATING: Final = frozenset({"float16", "float32", "float64", "bfloat16"})
#: Kinds of inputs of a graph -> the role of their tensor.
_ROLES: Final = {"parameter": "parameter", "buffer": "buffer", "tensor_constant": "buffer", "user_input": "input"}
#: Plain values in the arguments of an op.
_PLAIN: Final = ("as_int", "as_float", "as_bool", "as_string", "as_ints")
#: Ops that PyTorch has another op for on a GPU (ATen/native/Pooling.cpp).
_WITH_INDICES: Final = {
    "aten.max_pool2d": "aten.max_pool2d_with_indices",
    "aten.max_pool3d": "aten.max_pool3d_with_indices",
}
#: Nodes of a graph.
MOST_NODES: Final = 200_000


@dataclass(frozen=True)
class Pt2File:
    """A program of `torch.export`."""

    source: str
    program: dict[str, Any]
    dtype: str
    ranks: int = 1

    @property
    def graph(self) -> dict[str, Any]:
        """The graph of the program."""
        graph: dict[str, Any] = self.program["graph_module"]["graph"]
        return graph

    def dims(self, fixed: Mapping[str, int]) -> Dims:
        """Return what its open dimensions stand for; lengths stay inside of the range that the program was exported for."""
        dims = dims_of(list(self._inputs()), fixed)
        ranges = self.program.get("range_constraints") or {}
        most = [(ranges.get(name) or {}).get("max_val") for name in dims.length]
        longest = min((size for size in most if isinstance(size, int)), default=max(dims.lengths))
        if not dims.length or longest >= max(dims.lengths):
            return dims
        step = max(longest // 4, 1)
        return replace(dims, lengths=tuple(range(step, 4 * step + 1, step)))

    def notes(self) -> tuple[str, ...]:
        """Return what a reader must know of the file."""
        made = self.program.get("torch_version", "?")
        return (
            f"exported by torch {shown(str(made))}: a forward pass, priced op by op; weights were not loaded",
            f"numbers of the file are {OWN[self.dtype]}, in whose place the precision is",
        )

    def capture(self, fixed: Mapping[str, int], stated: frozenset[str], name: str) -> dict[str, Any]:
        """Return the program in the form of a capture; raises `SpecError` for sizes that cannot be priced."""
        del stated  # every op has results of known shapes: lowering refuses those without a rule
        dims = self.dims(fixed)
        dims.check_bound(self.source)
        points = dims.points()
        program = together([self._tape(dims, point, fixed) for point in points], points, self.source)
        if not program["ops"]:
            fail(self.source, "has no ops that run")
        return program | {
            "schema": SCHEMA,
            "name": name,
            "counted_in": dims.counted_in,
            "dtype": OWN[self.dtype],
            "symbols": {"batch": dims.batches, "length": dims.lengths},
            "parameters": parameters_of(program["tensors"]),
            "made_by": {"torch": shown(str(self.program.get("torch_version", "?")))},
        }

    def _tape(self, dims: Dims, point: Point, fixed: Mapping[str, int]) -> ExportTape:
        return _Pass(self, dims.values(point, fixed)).run()

    def sizes(self, name: str) -> tuple[Dim, ...]:
        """Return the sizes of a tensor: numbers, and expressions of open ones."""
        return tuple(_size(each) for each in self.graph["tensor_values"][name]["sizes"])

    def specs(self) -> Iterator[tuple[str, str, str]]:
        """Yield the inputs of the graph: name of the tensor, its kind, and the name of a parameter or buffer."""
        for spec in self.program["graph_module"]["signature"]["input_specs"]:
            kind, value = next(iter(spec.items()))
            if kind not in _ROLES:
                if kind != "constant_input":
                    fail(self.source, f"reads an input of the kind {shown(kind)}, which is not priced")
                continue
            arg = value["arg"]
            tensor = arg.get("as_tensor", arg) if isinstance(arg, dict) else {}
            if isinstance(tensor, dict) and tensor.get("name") in self.graph["tensor_values"]:
                given = value.get("parameter_name") or value.get("buffer_name") or value.get("tensor_constant_name")
                yield tensor["name"], kind, given or tensor["name"]

    def _inputs(self) -> Iterator[ProgramInput]:
        for name, kind, _ in self.specs():
            if kind == "user_input":
                dtype = TYPES.get(self.graph["tensor_values"][name]["dtype"], "")
                yield ProgramInput(name, dtype in _FLOATING, self.sizes(name))


class _Pass:
    """A walk through the graph of a program at one size."""

    def __init__(self, file: Pt2File, numbers: Mapping[str, int]) -> None:
        self.file = file
        self.numbers = numbers
        self.tape = ExportTape()
        self.made: dict[str, int] = {}

    def run(self) -> ExportTape:
        """Return the tape of all nodes."""
        for name, kind, given in self.file.specs():
            self.made[name] = self._tensor(name, role=_ROLES[kind], called=given)
        for node in self.file.graph["nodes"]:
            self._node(node)
        for out in self.file.graph["outputs"]:
            self.tape.outputs += [self.made[name] for name in _tensors_in(out) if name in self.made]
        return self.tape

    def _tensor(self, name: str, *, role: str = "activation", called: str = "", base: int | None = None) -> int:
        entry = self.file.graph["tensor_values"].get(name)
        if entry is None:
            fail(self.file.source, f"has the tensor {shown(name)!r} without a shape")
        dtype = TYPES.get(entry["dtype"])
        if dtype is None:
            fail(self.file.source, f"has the tensor {shown(name)!r} of type {entry['dtype']}, which is not priced")
        shape = self._numbers(entry["sizes"])
        return self.tape.tensor(shape, dtype, role=role, name=called, base=base)

    def _numbers(self, sizes: list[dict[str, Any]]) -> tuple[int, ...]:
        return tuple(size_at(_size(each), self.numbers, self.file.source) for each in sizes)

    def _node(self, node: dict[str, Any]) -> None:
        outputs = [name for out in node["outputs"] for name in _tensors_in(out)]
        if not outputs:
            return  # sizes and assertions, which the host works out
        target = str(node["target"])
        self.tape.module, self.tape.line = _place(node.get("metadata") or {})
        reads, given = [], {}
        for argument in node["inputs"]:
            named, value = argument["name"], argument["arg"]
            for name in _tensors_in(value):
                if name not in self.made:
                    fail(self.file.source, f"node {shown(target)!r} reads {shown(name)!r}, which nothing makes")
                reads.append(self.made[name])
            plain = next((value[kind] for kind in _PLAIN if kind in value), None)
            if plain is not None and plain != []:
                given[named] = plain
        op = _op_name(target)
        base = reads[0] if reads and self._shows(op, node, outputs) else None
        for name in outputs:
            self.made[name] = self._tensor(name, base=base)
        makes = [self.made[name] for name in outputs]
        if op in _WITH_INDICES:  # on a GPU it is the kernel that writes where the maxima are as well
            makes.append(self.tape.tensor(self.tape.tensors[makes[0]]["shape"], "int64"))
            op = _WITH_INDICES[op]
        self.tape.op(op, reads, makes, **given)

    def _shows(self, op: str, node: dict[str, Any], outputs: list[str]) -> bool:
        """Tell whether an op gives out the storage of what it reads first."""
        first = next(name for argument in node["inputs"] for name in _tensors_in(argument["arg"]))
        values = self.file.graph["tensor_values"]
        before, after = values[first], values[outputs[0]]
        return shows_its_input(
            op,
            self._numbers(before["sizes"]),
            self._numbers(before["strides"]),
            self._numbers(after["sizes"]),
        )


def read_pt2(path: Path) -> Pt2File:
    """Return the program of an archive.

    Raises
    ------
    SpecError
        For a file that is no such archive, or whose program is not of the form that `torch.export` writes.
    """
    program = program_in(path)
    try:
        file = Pt2File(str(path), program, "float32")
        if len(file.graph["nodes"]) > MOST_NODES:
            fail(str(path), f"has {len(file.graph['nodes']):,} nodes; at most {MOST_NODES:,} are read")
        amounts: Counter[str] = Counter()
        for name, kind, _ in file.specs():
            dtype = TYPES.get(file.graph["tensor_values"][name]["dtype"], "")
            if kind == "parameter" and dtype in OWN:
                amounts[dtype] += prod(size for size in file.sizes(name) if isinstance(size, int))
        whole = replace(file, dtype=amounts.most_common(1)[0][0]) if amounts else file
        whole.dims({})
    except (KeyError, TypeError, AttributeError, IndexError, StopIteration) as error:
        fail(
            str(path), f"holds a program that torch.export did not write so: {type(error).__name__} {str(error)[:100]}"
        )
    return whole


def _size(entry: dict[str, Any]) -> Dim:
    if "as_int" in entry:
        return int(entry["as_int"])
    text = str(entry["as_expr"]["expr_str"])
    names = names_in(text)
    return next(iter(names)) if len(names) == 1 and text.startswith("Symbol(") else text


def _tensors_in(value: dict[str, Any]) -> list[str]:
    """Return the names of the tensors in an argument or a result."""
    if "as_tensor" in value:
        return [value["as_tensor"]["name"]]
    if "as_tensors" in value:
        return [each["name"] for each in value["as_tensors"]]
    if "as_optional_tensors" in value:
        return [each["as_tensor"]["name"] for each in value["as_optional_tensors"] if "as_tensor" in each]
    return []


def _op_name(target: str) -> str:
    """Return the name of an op: ``torch.ops.aten.add.Tensor`` is ``aten.add``, ``torch.ops.my.op.default`` is ``my.op``."""
    parts = target.removeprefix("torch.ops.").split(".")
    return shown(".".join(parts[:2]))


def _place(metadata: dict[str, Any]) -> tuple[str, str]:
    """Return the module that a node was traced in, and the line of code."""
    stack = str(metadata.get("nn_module_stack", "")).split(";")[-1].split(",")
    module = stack[1] if len(stack) > 2 and not stack[1].startswith("_empty") else ""
    lines = [line for line in str(metadata.get("stack_trace", "")).splitlines() if line.strip().startswith("File ")]
    if not lines:
        return module, ""
    parts = lines[-1].strip().split(", ")
    file = parts[0].removeprefix("File ").strip('"')
    return module, f"{'/'.join(file.split('/')[-2:])}:{parts[1].removeprefix('line ')}" if len(parts) > 1 else file
