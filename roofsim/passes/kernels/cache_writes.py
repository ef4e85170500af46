"""Rotate queries and keys and write the cache in as many kernels as the engine has for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.component import Purpose
from roofsim.graph.fuse import contracted
from roofsim.graph.ops import Attention, CacheAppend, Elementwise, Fused
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor


@dataclass(frozen=True, kw_only=True)
class MergeCacheWrites:
    """Make one kernel of what a layer rotates and appends to its cache, or let the attention operator do all that.

    Attributes
    ----------
    number
        Launches per layer; 0: those of the attention operator, where a fused kernel attends.
    """

    name: ClassVar[str] = "merge_cache_writes"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"merged_cache_writes"})

    number: float

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with the rotations and cache writes of each layer in one op."""
        ops: list[AbstractOp] = []
        for (_, body), outside in zip(graph.segments(), graph.read_by_segment(), strict=True):
            ops += self._layer(body, outside)
        return graph.replaced(ops, *self.ensures)

    def _layer(self, body: list[AbstractOp], outside: set[Tensor]) -> list[AbstractOp]:
        members = [op for op in body if _writes(op)]
        if not members:
            return body
        if self.number > 0.0:
            name = f"{members[0].module.name}.cache_write"
            return contracted(body, members, outside, "cache_write", name=name, launches=self.number)
        attention = _reader(body, members)
        if attention is None:
            return body
        return contracted(body, [*members, attention], outside, "attention_operator", name=f"{attention.name}.operator")


def _writes(op: AbstractOp) -> bool:
    """Tell whether an op appends to a cache or rotates, in one kernel or as one of a chain of small ones."""
    rotates = isinstance(op, Elementwise) and op.function == "rotary"
    return not isinstance(op, Fused) and (
        isinstance(op, CacheAppend) or rotates or op.within(Purpose.ROTATE_QUERY, Purpose.ROTATE_KEY)
    )


def _reader(body: list[AbstractOp], members: list[AbstractOp]) -> Attention | None:
    """Return the fused attention kernel that reads what was appended; None: products of their own attend."""
    made = {tensor.root for op in members for tensor in op.outputs}
    readers = (op for op in body if isinstance(op, Attention) and any(tensor.root in made for tensor in op.inputs))
    return next(readers, None)
