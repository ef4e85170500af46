"""Pack queries, keys and values in a kernel of its own before fused attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.ops import Attention, Copy
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph


@dataclass(frozen=True, kw_only=True)
class PackHeads:
    """Copy what a fused attention kernel reads into the layout that it wants, once for all three."""

    name: ClassVar[str] = "pack_heads"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"packed_heads"})

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with a copy before each fused attention that has none."""
        ops: list[AbstractOp] = []
        for op in graph:
            attends = isinstance(op, Attention) and not op.backward and not _packed(op, graph)
            ops += _with_copy(op) if attends else [op]
        return graph.replaced(ops, *self.ensures)


def _with_copy(op: AbstractOp) -> list[AbstractOp]:
    packed = tuple(replace(tensor, name=f"{tensor.name}.packed", base=None) for tensor in op.inputs[:3])
    copy = Copy(
        name=f"{op.name}.pack",
        inputs=op.inputs[:3],
        outputs=packed,
        block=op.block,
        component=op.component,
        function="pack",
    )
    return [copy, replace(op, inputs=(*packed, *op.inputs[3:]))]


def _packed(op: AbstractOp, graph: OpGraph) -> bool:
    source = graph.producer.get(op.inputs[0])
    return isinstance(source, Copy) and source.function == "pack"
