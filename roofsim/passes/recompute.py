"""Drop saved activations and run their producers again before the backward ops that read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.base import AbstractOp, Block, Phase
from roofsim.graph.component import Purpose
from roofsim.graph.ops import Attention, Cast, Matmul
from roofsim.graph.rewire import rewired
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor


@dataclass(frozen=True, kw_only=True)
class Recompute:
    """Checkpoint the repeated blocks.

    Attributes
    ----------
    policy
        ``full``: a block keeps its inputs only. ``core_attention``: only what lies between the query, key and value
        projections and the output projection is run again. ``every_second_matmul``: the outputs of attention and of
        every second matmul are kept, everything else is run again.
    first_of_unit
        With ``full`` on regrouped blocks: only the first layer of each unit is checkpointed; else the whole unit is one
        checkpoint.
    only_leading
        Treat only the blocks that `Regroup` set apart as leading.
    early_stop
        Stop running again once everything that backward reads is there (PyTorch's non-reentrant checkpoint); the
        reentrant one runs the whole block.
    """

    name: ClassVar[str] = "recompute"
    requires: ClassVar[frozenset[str]] = frozenset({"backward"})
    ensures: ClassVar[frozenset[str]] = frozenset({"recomputed"})

    policy: str = "full"
    first_of_unit: bool = False
    only_leading: bool = False
    early_stop: bool = True

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with the dropped part of the forward run again before its backward."""
        forward = {block: body for block, body in graph.segments() if block is not None and block.mirror is None}
        ops: list[AbstractOp] = []
        for block, body in graph.segments():
            source = None if block is None else block.mirror
            if source is None or block is None or not self._wanted(source):
                ops += body
            else:
                ops += self._rewritten(block, body, forward[source])
        return graph.replaced(ops, *self.ensures)

    def _wanted(self, block: Block) -> bool:
        return not self.only_leading or block.leading

    def _region(self, forward: list[AbstractOp]) -> list[AbstractOp]:
        """Return which forward ops of a block are run again."""
        if self.policy == "core_attention":
            return _core_attention(forward)
        if self.first_of_unit:
            return [op for op in forward if op.layer_of_unit == 0]
        return forward

    def _rewritten(self, block: Block, body: list[AbstractOp], forward: list[AbstractOp]) -> list[AbstractOp]:
        assert block.mirror is not None
        region = self._region(forward)
        members = set(region)
        kept = self._kept(region)
        made = {tensor for op in region for tensor in op.outputs} - kept
        readers = [op for op in body if op.origin in members]
        needed = {tensor for op in readers for tensor in op.inputs + op.holds if tensor in made}
        again, twin = self._clones(region, made, needed, block)
        result: list[AbstractOp] = []
        pending = again
        for op in body:
            if op.origin in members:
                result += pending
                pending = []
                result.append(rewired(op, twin))
                twin.update(
                    (old, new) for old, new in zip(op.outputs, result[-1].outputs, strict=True) if old is not new
                )
            else:
                result.append(op)
        return _holding(result, [*_entered(again), *kept], members)

    def _kept(self, region: list[AbstractOp]) -> set[Tensor]:
        """Return what the policy stores, whether or not backward reads it (torch.utils.checkpoint's cached ops)."""
        if self.policy != "every_second_matmul":
            return set()
        matmuls = [op for op in region if isinstance(op, Matmul)]
        kept = matmuls[::2] + [op for op in region if isinstance(op, Attention)]
        return {tensor for op in kept for tensor in op.outputs}

    def _clones(
        self, region: list[AbstractOp], made: set[Tensor], needed: set[Tensor], block: Block
    ) -> tuple[list[AbstractOp], dict[Tensor, Tensor]]:
        """Return copies of the ops to run again, in program order, and the twin of each tensor they make."""
        run = [op for op in region if any(tensor in made for tensor in op.outputs)]
        if self.early_stop or self.policy != "full":
            last = max((at for at, op in enumerate(run) if needed.intersection(op.outputs)), default=-1)
            run = run[: last + 1]
        if self.policy == "every_second_matmul":
            run = _ancestors(run, needed)
        twin: dict[Tensor, Tensor] = {}
        clones = []
        for op in run:
            for tensor in op.outputs:
                base = None if tensor.base is None else twin.get(tensor.base, tensor.base)
                twin[tensor] = replace(tensor, name=f"{tensor.name}.again", base=base)
            current = rewired(op, twin)
            outputs = tuple(twin[tensor] for tensor in op.outputs)
            clones.append(
                replace(
                    current,
                    name=f"{op.name}.again",
                    outputs=outputs,
                    phase=Phase.RECOMPUTE,
                    block=block,
                    origin=op,
                )
            )
        return clones, twin


def _entered(again: list[AbstractOp]) -> list[Tensor]:
    """Return what a checkpoint was called with."""
    made = {tensor for op in again for tensor in op.outputs}
    return list(dict.fromkeys(t for op in again for t in op.inputs if t not in made and not t.root.persistent))


def _holding(body: list[AbstractOp], tensors: list[Tensor], members: set[AbstractOp]) -> list[AbstractOp]:
    """Let the last backward op of a checkpoint hold what it was called with and what it stored: all is freed together."""
    last = max((at for at, op in enumerate(body) if op.origin in members), default=None)
    if last is None or not tensors:
        return body
    holds = tuple(dict.fromkeys((*body[last].holds, *tensors)))
    return [*body[:last], replace(body[last], holds=holds), *body[last + 1 :]]


def _core_attention(forward: list[AbstractOp]) -> list[AbstractOp]:
    """Return the ops between the projections; casts of what enters stay outside, so that the narrow copy is kept."""
    region: list[AbstractOp] = []
    made: set[Tensor] = set()
    for op in forward:
        entering = isinstance(op, Cast) and not made.intersection(op.inputs)
        if op.within(Purpose.ATTENTION) and not entering:
            region.append(op)
            made.update(op.outputs)
    return region


def _ancestors(run: list[AbstractOp], needed: set[Tensor]) -> list[AbstractOp]:
    """Keep the ops on which something needed depends."""
    wanted = set(needed)
    kept = []
    for op in reversed(run):
        if wanted.intersection(op.outputs):
            kept.append(op)
            wanted.update(op.inputs)
    return kept[::-1]
