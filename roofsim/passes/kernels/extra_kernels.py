"""Launch what an engine launches in a layer beside the ops of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.ops import ExtraKernels
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph


@dataclass(frozen=True, kw_only=True)
class AddExtraKernels:
    """Put an op at the start of each layer that stands for kernels whose traffic nobody stated.

    Attributes
    ----------
    number
        Launches per layer.
    """

    name: ClassVar[str] = "extra_kernels"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"extra_kernels"})

    number: float

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with one such op in each block that has none."""
        ops: list[AbstractOp] = []
        for block, body in graph.segments():
            if block is not None and not any(isinstance(op, ExtraKernels) for op in body):
                ops.append(ExtraKernels(name=f"{block.name}.extra_kernels", block=block, number=self.number))
            ops += body
        return graph.replaced(ops, *self.ensures)
