"""Keep what data parallelism has beside gradients: FSDP1's whole ones between micro batches, the buckets of DDP."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.base import AbstractOp, Block, Phase
from roofsim.graph.ops import Collective, View
from roofsim.graph.tensor import Role, Tensor
from roofsim.numeric import where
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Real


@dataclass(frozen=True, kw_only=True)
class KeepWholeGradients:
    """Give each unit with a trained parameter one flat gradient of all its parameters, frozen ones too.

    Gradients of micro batches are summed there and reduced after the last one (torch.distributed.fsdp, no_sync).

    Attributes
    ----------
    share
        Share of the micro batches that find it filled by earlier ones.
    """

    name: ClassVar[str] = "whole_gradients"
    requires: ClassVar[frozenset[str]] = frozenset({"sharded"})
    ensures: ClassVar[frozenset[str]] = frozenset()

    share: Real

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with a reader of each flat gradient in the backward pass of its unit."""
        trained = {tensor.owner for tensor in graph.sources if tensor.requires_grad}
        gathers = [op for op in graph if isinstance(op, Collective) and op.function == "all_gather"]
        gathered = {tensor for op in gathers for tensor in op.whole}
        ops: list[AbstractOp] = []
        rest_is_kept = False
        for block, body in graph.segments():
            backward = body[0].phase in (Phase.BACKWARD, Phase.RECOMPUTE)
            if backward and not (block is None and rest_is_kept):
                unit = _rest(graph) if block is None else body
                ops += self._kept(unit, block, trained, gathered)
                rest_is_kept = rest_is_kept or block is None
            ops += body
        return graph.replaced(ops, *self.ensures)

    def _kept(
        self, unit: list[AbstractOp], block: Block | None, trained: set[Tensor], gathered: set[Tensor]
    ) -> list[AbstractOp]:
        whole = list(dict.fromkeys(t.root for op in unit for t in op.inputs if t.root in gathered))
        if not any(tensor.owner in trained for tensor in whole):
            return []
        numel: Real = 0.0
        for tensor in whole:
            numel = numel + tensor.numel
        name = f"whole_gradients.{'rest' if block is None else block.name}"
        flat = Tensor(name, (numel,), whole[0].dtype, Role.GRADIENT_BUFFER)
        seen = Tensor(f"{name}.view", (numel,), whole[0].dtype, Role.TEMPORARY, base=flat)
        return [
            View(
                name=name,
                inputs=(flat,),
                outputs=(seen,),
                function="reshape",
                phase=Phase.BACKWARD,
                block=block,
                share=self.share,
            )
        ]


@dataclass(frozen=True, kw_only=True)
class CopyIntoBuckets:
    """Give replicas the buckets into which DistributedDataParallel copies gradients: as many bytes as those, always there.

    Attributes
    ----------
    ranks
        How many ranks hold the same parameters; one alone has no buckets.
    """

    name: ClassVar[str] = "buckets"
    requires: ClassVar[frozenset[str]] = frozenset({"backward"})
    ensures: ClassVar[frozenset[str]] = frozenset()

    ranks: Real

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with a reader of the buckets at the end of the backward pass."""
        numel: Real = 0.0
        for tensor, copies in graph.parameters().items():
            if tensor.requires_grad:
                numel = numel + tensor.numel * copies
        dtypes = [tensor.dtype for tensor in graph.parameters() if tensor.requires_grad]
        numel = numel * where(self.ranks > 1.0, 1.0, 0.0)
        buckets = Tensor("buckets", (numel,), dtypes[0], Role.GRADIENT_BUFFER)
        seen = Tensor("buckets.view", (numel,), dtypes[0], Role.TEMPORARY, base=buckets)
        last = max(at for at, op in enumerate(graph.ops) if op.phase is Phase.BACKWARD and op.block is None)
        view = View(name="buckets", inputs=(buckets,), outputs=(seen,), function="reshape", phase=Phase.BACKWARD)
        return graph.replaced([*graph.ops[: last + 1], view, *graph.ops[last + 1 :]], *self.ensures)


def _rest(graph: OpGraph) -> list[AbstractOp]:
    return [op for op in graph if op.block is None]
