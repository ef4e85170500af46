"""Decide, as a compiler does, what the forward pass keeps for the backward pass and what that computes again."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.base import Phase
from roofsim.passes.partition.choice import chosen
from roofsim.passes.partition.functional import traced
from roofsim.passes.partition.joint import Joint
from roofsim.passes.partition.rewrite import partitioned
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.base import Block
    from roofsim.graph.opgraph import OpGraph


@dataclass(frozen=True, kw_only=True)
class Partition:
    """Cut the joint graph of forward and backward pass where the least has to be kept (torch.compile's min-cut partitioner).

    Between heavy ops, whose operands are kept, the backward pass computes again what costs no more than reading it would:
    conversions, activations, normalised rows, softmax from its input, its largest and its sum. Checkpointed blocks keep what
    their checkpoint says.

    Attributes
    ----------
    only_layers
        Whether each repeated block is compiled by itself, and not what stands before and behind.
    """

    name: ClassVar[str] = "partition"
    requires: ClassVar[frozenset[str]] = frozenset({"backward"})
    ensures: ClassVar[frozenset[str]] = frozenset({"partitioned", "recomputed"})

    only_layers: bool = False

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph whose backward pass begins from what is kept."""
        graph = traced(graph, self._compiled_blocks(graph))
        blocks = self._compiled_blocks(graph)
        joint = Joint(graph, blocks)
        return graph.replaced(partitioned(graph, joint, chosen(joint), blocks), *self.ensures)

    def _compiled_blocks(self, graph: OpGraph) -> frozenset[Block | None]:
        """Return the blocks whose ops are compiled together; None: what stands between them."""
        again = {op.block for op in graph if op.phase is Phase.RECOMPUTE and op.block is not None}
        apart = again | {block.mirror for block in again}
        together: set[Block | None] = {block for block in graph.blocks if block not in apart}
        return frozenset(together if self.only_layers else together | {None})
