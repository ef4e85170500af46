"""Read an ONNX file into the form of a captured program."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from roofsim.importers.captured.form import SCHEMA
from roofsim.importers.exported.dims import Dims, dims_of
from roofsim.importers.exported.onnx.graph import MOST_NODES, OnnxWalk, inputs_of, numbers_of
from roofsim.importers.exported.onnx.nodes import kinds_of
from roofsim.importers.exported.onnx.rules import has_rule, write_node
from roofsim.importers.exported.onnx.values import TYPES
from roofsim.importers.exported.onnx.wire import without_weights
from roofsim.importers.exported.tape import OWN, ExportTape, fail, parameters_of, shown, together
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: The extra that reads these files.
EXTRA: Final = "ONNX files need onnx, which is not installed"
#: The oldest version of ONNX's ops that is read: shapes and axes became inputs with it.
OLDEST: Final = 7


@dataclass(frozen=True)
class OnnxFile:
    """A parsed ONNX file without its weights."""

    source: str
    model: Any
    opsets: dict[str, int]
    dtype: str
    ranks: int = 1

    def dims(self, fixed: Mapping[str, int]) -> Dims:
        """Return what its open dimensions stand for."""
        return replace(dims_of(inputs_of(self.model.graph), fixed), numbers=numbers_of(self.model.graph))

    def capture(self, fixed: Mapping[str, int], stated: frozenset[str], name: str) -> dict[str, Any]:
        """Return the program in the form of a capture.

        Raises
        ------
        SpecError
            For ops and sizes that cannot be priced; see `roofsim.importers.exported.onnx.graph`.
        """
        dims = self.dims(fixed)
        dims.check_bound(self.source)
        points = dims.points()
        unknown = {op: times for op, times in kinds_of(self.model.graph.node).items() if not has_rule(op)}
        tapes = [self._tape(dims.values(point, fixed), stated, unknown) for point in points]
        program = together(tapes, points, self.source)
        if not program["ops"]:
            fail(self.source, "has no ops that run: all that it gives out is constant")
        return program | {
            "schema": SCHEMA,
            "name": name,
            "counted_in": dims.counted_in,
            "dtype": OWN[self.dtype],
            "symbols": {"batch": dims.batches, "length": dims.lengths},
            "parameters": parameters_of(program["tensors"]),
            "made_by": self.made_by(),
        }

    def made_by(self) -> dict[str, str]:
        """Return who wrote the file."""
        maker = f"{self.model.producer_name} {self.model.producer_version}".strip()
        return {"onnx": f"opset {max(self.opsets.values(), default=0)}", "producer": shown(maker) or "unknown"}

    def notes(self) -> tuple[str, ...]:
        """Return what a reader must know of the file."""
        maker = ", ".join(f"{key} {value}" for key, value in self.made_by().items())
        return (
            f"{maker}: a forward pass, priced op by op; weights were not loaded",
            f"numbers of the file are {OWN[self.dtype]}, in whose place the precision is",
        )

    def _tape(self, numbers: Mapping[str, int], stated: frozenset[str], unknown: Mapping[str, int]) -> ExportTape:
        walk = OnnxWalk(self.source, self.opsets, numbers, ExportTape(), write_node, unknown, stated)
        walk.run(self.model.graph)
        return walk.tape


def read_onnx(path: Path) -> OnnxFile:
    """Return a file, its weights left where they are.

    Raises
    ------
    SpecError
        For a file that is no ONNX model, damaged, too large, or of a version that is not read; and where onnx is not installed.
    """
    try:
        import onnx
    except ImportError:
        fail(str(path), EXTRA, "pip install 'roofsim[onnx]'")
    from google.protobuf.message import DecodeError

    raw, model = without_weights(path), onnx.ModelProto()
    try:
        model.ParseFromString(raw)
    except (DecodeError, RecursionError, ValueError) as error:
        fail(str(path), f"is not an ONNX model, or was cut off: {error}", "Export or download it again.")
    if not model.graph.node:
        fail(str(path), "is not an ONNX model, or holds no graph: it has no nodes", "Export or download it again.")
    _check_size(model, str(path))
    opsets = {each.domain: int(each.version) for each in model.opset_import}
    own = max((version for domain, version in opsets.items() if domain in ("", "ai.onnx")), default=1)
    newest = onnx.defs.onnx_opset_version()
    if not OLDEST <= own <= newest:
        fail(
            str(path),
            f"has opset {own}; this roofsim, with onnx {onnx.__version__}, reads {OLDEST} to {newest}",
            "A newer onnx reads newer files: pip install -U onnx."
            if own > newest
            else "Export it again, with opset 17.",
        )
    if model.functions:
        model = _inlined(model, str(path))
    return OnnxFile(str(path), model, opsets, _type_of(model.graph))


def _check_size(model: Any, source: str) -> None:
    nodes = sum(kinds_of(model.graph.node).values())
    if nodes > MOST_NODES:
        fail(source, f"has {nodes:,} nodes; at most {MOST_NODES:,} are read")


def _inlined(model: Any, source: str) -> Any:
    from onnx import inliner

    try:
        return inliner.inline_local_functions(model)
    except Exception as error:
        fail(source, f"has functions that cannot be inlined: {' '.join(str(error).split())[:200]}")


def _type_of(graph: Any) -> str:
    """Return the type of most of a graph's floating weights; fp32 where it has none."""
    amounts: Counter[str] = Counter()
    for tensor in graph.initializer:
        name = TYPES.get(tensor.data_type, "")
        if name in OWN:
            count = 1
            for size in tensor.dims:
                count *= max(int(size), 0)
            amounts[name] += count
    return amounts.most_common(1)[0][0] if amounts else "float32"
