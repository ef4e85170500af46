"""Multiply the rows of each expert by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.expansion import packed_weight
from roofsim.graph.ops import GroupedMatmul
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph


@dataclass(frozen=True, kw_only=True)
class SeparateExperts:
    """State that a library multiplies the rows of each expert by themselves, but where packed weights are expanded on the way."""

    name: ClassVar[str] = "separate_experts"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"separate_experts"})

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with as many launches for the products of experts as experts are awake."""
        ops = [
            replace(op, separate=True) if isinstance(op, GroupedMatmul) and packed_weight(op) is None else op
            for op in graph
        ]
        return graph.replaced(ops, *self.ensures)
