"""Turn an op graph into a networkx graph of plain attributes, which every writer of networkx takes as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.graph.base import Kind
from roofsim.graph.tensor import size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import networkx as nx

    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor
    from roofsim.numeric import Real

    #: Ops by identifier, as `Diagram.nodes[identifier]`; edges are what passes between them.
    Diagram = nx.DiGraph[str]
    #: Text, an amount, or a count: what GraphML and GEXF can store.
    Plain = str | float | int


def empty(**facts: Plain) -> Diagram:
    """Return a graph without nodes that says something of itself."""
    import networkx as nx  # heavy: only for who asks for a graph

    diagram: Diagram = nx.DiGraph()
    diagram.graph.update(facts)
    return diagram


def add_ops(
    diagram: Diagram,
    graph: OpGraph,
    nodes: Mapping[AbstractOp, tuple[str, dict[str, Plain]]],
    number: Callable[[Real], float],
) -> None:
    """Add ops and what passes between them.

    An op without an identifier is passed through: whoever reads what it makes reads what it was made of. Views are such.

    Parameters
    ----------
    nodes
        Identifier and attributes of each op that becomes a node.
    number
        Makes one number of an amount, which may be an array over the contexts of a decode.
    """
    for identifier, attributes in nodes.values():
        diagram.add_node(identifier, **attributes)
    makers = _Makers(graph, nodes)
    for op, (identifier, _) in nodes.items():
        passed: dict[str, list[Tensor]] = {}
        for tensor in dict.fromkeys(op.inputs):
            for maker in makers.of(tensor):
                passed.setdefault(nodes[maker][0], []).append(tensor)
        for source, tensors in passed.items():
            diagram.add_edge(source, identifier, **_edge(tensors, number))


class _Makers:
    """The nodes that make a tensor, through whatever is no node."""

    def __init__(self, graph: OpGraph, nodes: Mapping[AbstractOp, object]) -> None:
        self.producer = graph.producer
        self.nodes = nodes
        self.makers: dict[Tensor, tuple[AbstractOp, ...]] = {}

    def of(self, tensor: Tensor) -> tuple[AbstractOp, ...]:
        if tensor not in self.makers:
            op = self.producer.get(tensor)
            if op is None:
                self.makers[tensor] = ()
            elif op in self.nodes:
                self.makers[tensor] = (op,)
            else:
                self.makers[tensor] = tuple(dict.fromkeys(maker for read in op.inputs for maker in self.of(read)))
        return self.makers[tensor]


def _edge(tensors: list[Tensor], number: Callable[[Real], float]) -> dict[str, Plain]:
    """Return what passes along an edge; of several tensors a list."""
    return {
        "tensor": ", ".join(tensor.name for tensor in tensors),
        "dtype": ", ".join(dict.fromkeys(str(tensor.dtype) for tensor in tensors)),
        "shape": ", ".join(shape_text(tensor) for tensor in tensors),
        "bytes": sum(number(tensor.bytes) for tensor in tensors),
    }


def shape_text(tensor: Tensor) -> str:
    """Return the sizes of a tensor: ``1x4096x11008``."""
    return "x".join(size_text(size) for size in tensor.shape) or "1"


def is_node(op: AbstractOp) -> bool:
    """Tell whether an op does something: views, which launch nothing, do not."""
    return op.kind is not Kind.VIEW


def part_of(diagram: Diagram, **wanted: str | None) -> Diagram:
    """Return the nodes whose attributes are as wanted (None: whatever they are), and the edges between them."""
    chosen = {key: value for key, value in wanted.items() if value is not None}
    if not chosen:
        return diagram
    kept = [node for node, has in diagram.nodes(data=True) if all(has[key] == value for key, value in chosen.items())]
    return diagram.subgraph(kept).copy()


def rows_of(diagram: Diagram) -> list[dict[str, Any]]:
    """Return the attributes of the nodes, in program order, each with the nodes that it reads from."""
    return [{**has, "reads": ", ".join(diagram.predecessors(node))} for node, has in diagram.nodes(data=True)]


def generations(diagram: Diagram, among: Iterable[str]) -> Iterator[list[str]]:
    """Iterate over rows of nodes: each reads only from nodes of rows before its own."""
    import networkx as nx

    yield from nx.topological_generations(diagram.subgraph(among))
