"""Name the nodes of ONNX graphs: their ops with their domains, and the modules that they were exported from."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from roofsim.importers.exported.tape import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Domains of ONNX's own ops, by whose schemas onnx infers shapes.
OWN: Final = ("", "ai.onnx")
#: Ops that run a graph of their own several times.
LOOPS: Final = ("Loop", "Scan")
#: ONNX's number of an attribute that is a graph.
GRAPH: Final = 5


def module_of(node: Any) -> str | None:
    """Return the path of the module that a node was exported from, as exporters of PyTorch write it.

    The older one has it in the node's name, ``/encoder/layer.0/attention/MatMul``; the newer one in its metadata. None: it is not
    said, as of nodes that an optimizer made, which stand among those of the module before them.
    """
    scopes = next((each.value for each in node.metadata_props if each.key == "pkg.torch.onnx.name_scopes"), "")
    if scopes:
        parts = scopes.strip("[]").replace("'", "").replace('"', "").split(", ")
        return parts[-2] if len(parts) > 1 else ""
    if not node.name.startswith("/"):
        return None
    path: list[str] = []
    for part in node.name.split("/")[1:-1]:
        if path and part.startswith(f"{path[-1]}."):
            path[-1] = part
        else:
            path.append(part)
    return ".".join(path)


def kinds_of(nodes: Iterable[Any]) -> Counter[str]:
    """Return how often each op occurs in a graph, those of its subgraphs included."""
    times: Counter[str] = Counter()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        times[op_name(node)] += 1
        for attribute in node.attribute:
            if attribute.type == GRAPH:
                waiting += attribute.g.node
    return times


def op_name(node: Any) -> str:
    """Return the name of an op with its domain: ``onnx::MatMul``, ``com.microsoft::FusedMatMul``."""
    return f"{'onnx' if node.domain in OWN else shown(node.domain)}::{shown(node.op_type)}"
