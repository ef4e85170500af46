"""Let the kernels that make the parts of a concatenation write them into their places."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.base import Kind
from roofsim.graph.ops import Copy, View
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph


@dataclass(frozen=True, kw_only=True)
class WriteParts:
    """Drop the copies of concatenations all of whose parts a kernel of the same network makes, each for one place.

    An engine that plans its memory lays the parts out as the whole before anything runs.
    """

    name: ClassVar[str] = "write_parts"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"parts_written"})

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with concatenations that launch nothing."""
        placed: set[object] = set()
        ops: list[AbstractOp] = []
        for op in graph:
            written = self._written(op, graph, placed)
            placed.update(part.root for part in op.inputs if written)
            ops.append(_placed(op) if written else op)
        return graph.replaced(ops, *self.ensures)

    def _written(self, op: AbstractOp, graph: OpGraph, placed: set[object]) -> bool:
        """Tell whether the kernels that make the parts of a concatenation can write them into it."""
        if not isinstance(op, Copy) or op.function != "concat":
            return False
        makers = [graph.producer.get(part.root) for part in op.inputs]
        return len({part.root for part in op.inputs}) == len(op.inputs) and all(
            maker is not None and maker.kind is not Kind.VIEW and part.root not in placed
            for maker, part in zip(makers, op.inputs, strict=True)
        )


def _placed(op: AbstractOp) -> View:
    """Return what stands for a copy whose parts are where they belong."""
    return View(
        name=op.name, inputs=op.inputs, outputs=op.outputs, block=op.block, component=op.component, function="concat"
    )
