"""Convert a tensor to a type once, whatever number of kernels read it in that type."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.ops import Cast
from roofsim.graph.rewire import Rewiring
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.base import Block
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import DType, Tensor


@dataclass(frozen=True, kw_only=True)
class ShareConversions:
    """Let all that read a tensor in another type read the first conversion of it.

    Engines that merge the projections of a layer convert what these read, and so what the router and shared experts beside
    them read, once.
    """

    name: ClassVar[str] = "share_conversions"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"shared_conversions"})

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph without further conversions of a tensor to a type."""
        first: dict[tuple[Block | None, Tensor, DType], Tensor] = {}
        writer = Rewiring()
        for op in graph:
            if not isinstance(op, Cast) or op.dequantises or len(op.inputs) != 1:
                writer.add(op)
                continue
            key = op.block, writer.twin(op.inputs[0]), op.outputs[0].dtype
            if key in first:
                writer.put({op.outputs[0]: first[key]})
            else:
                writer.add(op)
                first[key] = op.outputs[0]
        return graph.replaced(writer.program(), *self.ensures)
