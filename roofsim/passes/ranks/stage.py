"""Cut one pipeline stage out of a forward graph: some of its layers, and what comes before or behind all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.errors import PassError
from roofsim.graph.base import AbstractOp, Block
from roofsim.graph.ops import Collective
from roofsim.graph.rewire import rewired
from roofsim.graph.tensor import Tensor
from roofsim.numeric import is_none
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Real


@dataclass(frozen=True, kw_only=True)
class TakeStage:
    """Keep some iterations of each repeated block; the first stage keeps the embedding, the last one head and loss.

    Activations arrive by a ``receive`` and leave by a ``send``. What layers read besides (rotary tables, masks) is
    computed on every stage, as pipeline engines do.

    Attributes
    ----------
    counts
        Iterations of each block that the stage keeps, in program order.
    first, last
        Whether it is the first or the last stage.
    ranks
        Number of stages.
    """

    name: ClassVar[str] = "stage"
    requires: ClassVar[frozenset[str]] = frozenset()
    ensures: ClassVar[frozenset[str]] = frozenset({"staged"})

    counts: tuple[Real, ...]
    first: bool
    last: bool
    ranks: Real

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph of the stage.

        Raises
        ------
        PassError
            When the blocks of the graph are no chain: a stage hands on one tensor only.
        """
        bodies = _chain(graph)
        kept = [(block, body, n) for (block, body), n in zip(bodies, self.counts, strict=True) if not is_none(n)]
        if not kept:
            raise PassError("stage: a stage without layers")
        before = list(graph)[: list(graph).index(bodies[0][1][0])]
        ops: list[AbstractOp] = []
        twin: dict[Tensor, Tensor] = {}
        arriving: list[AbstractOp] = []
        if not self.first:
            entry = _carried(kept[0][0])[0]
            received = Tensor("received", entry.shape, entry.dtype)
            # Tables that are made in the activations' type look at what arrives.
            twin = {entry: received, _carried(bodies[0][0])[0]: received}
            arriving = [self._message("receive", outputs=(received,))]
            before = [rewired(op, twin) for op in before]
        for block, body, count in kept:
            ops += _shortened(block, body, count, twin)
        leaving = _carried(kept[-1][0])[1]
        if self.last:
            behind = list(graph)[list(graph).index(bodies[-1][1][-1]) + 1 :]
            ops += [rewired(op, twin) for op in behind]
        else:
            ops.append(self._message("send", inputs=(twin.get(leaving, leaving),)))
        return graph.replaced([*arriving, *_needed(before, ops, whole=self.first), *ops], *self.ensures)

    def _message(self, function: str, inputs: tuple[Tensor, ...] = (), outputs: tuple[Tensor, ...] = ()) -> Collective:
        return Collective(
            name=function, inputs=inputs, outputs=outputs, function=function, group_of="pipeline", ranks=self.ranks
        )


def _chain(graph: OpGraph) -> list[tuple[Block, list[AbstractOp]]]:
    """Return the blocks and their bodies, which must follow one another and carry one tensor each."""
    segments = list(graph.segments())
    places = [at for at, (block, _) in enumerate(segments) if block is not None]
    if not places or places != list(range(places[0], places[-1] + 1)):
        raise PassError("stage: the layers of this model are no single stack, so a pipeline cannot cut it")
    chain = [(block, body) for block, body in segments if block is not None]
    for block, _ in chain:
        if len(block.carries) != 1:
            raise PassError(f"stage: block {block.name!r} hands on {len(block.carries)} tensors; a pipeline sends one")
    return chain


def _carried(block: Block) -> tuple[Tensor, Tensor]:
    return block.carries[0]


def _shortened(block: Block, body: list[AbstractOp], count: Real, twin: dict[Tensor, Tensor]) -> list[AbstractOp]:
    """Return the body in a block of `count` iterations that reads what the stage has."""
    ops = []
    new = Block(block.name, count)
    for op in body:
        current = replace(rewired(op, twin), block=new)
        twin.update((old, out) for old, out in zip(op.outputs, current.outputs, strict=True) if old is not out)
        ops.append(current)
    entering, leaving = _carried(block)
    new.carries = [(twin.get(entering, entering), twin.get(leaving, leaving))]
    return ops


def _needed(before: list[AbstractOp], ops: list[AbstractOp], *, whole: bool) -> list[AbstractOp]:
    """Return the ops before the layers that the stage runs: all of them, or those that its ops read."""
    if whole:
        return before
    wanted = {tensor for op in ops for tensor in (*op.inputs, *op.holds)}
    wanted |= {tensor.root for tensor in wanted}
    kept = []
    for op in reversed(before):
        if wanted.intersection(op.outputs):
            kept.append(op)
            for tensor in (*op.inputs, *op.holds):
                wanted |= {tensor, tensor.root}
    return kept[::-1]
