"""Choose the experts of each token in one kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.base import Kind
from roofsim.graph.component import Purpose
from roofsim.graph.fuse import contracted
from roofsim.graph.ops import Fused
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor


@dataclass(frozen=True, kw_only=True)
class FuseRouters:
    """Make one kernel of what turns the scores of a router into the experts of each token and their weights."""

    name: ClassVar[str] = "fuse_routers"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"fused_routers"})

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with one op for each router beside its product."""
        ops: list[AbstractOp] = []
        for (_, body), outside in zip(graph.segments(), graph.read_by_segment(), strict=True):
            members = _choosing(body)
            name = f"{members[0].module.name}.router" if members else None
            ops += contracted(body, members, outside, "router", name=name)
        return graph.replaced(ops, *self.ensures)


def _choosing(body: list[AbstractOp]) -> list[AbstractOp]:
    """Return the light ops of a router that need its scores; what comes before its product converts its input."""
    scores: set[Tensor] = set()
    choosing: list[AbstractOp] = []
    for op in body:
        if not op.within(Purpose.ROUTER) or isinstance(op, Fused):
            continue
        if op.kind is Kind.MATMUL:
            scores.update(op.outputs)
        elif op.kind is not Kind.COLLECTIVE and any(tensor in scores for tensor in op.inputs):
            scores.update(op.outputs)
            choosing.append(op)
    return choosing
