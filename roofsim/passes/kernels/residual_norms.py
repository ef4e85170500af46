"""Run residual sums inside the norm that follows them, be it that of the next layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.base import Block
from roofsim.graph.ops import Elementwise, Normalization, View
from roofsim.graph.rewire import Rewiring
from roofsim.numeric import Real, same
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor


@dataclass(frozen=True, kw_only=True)
class AddBeforeNorms:
    """Let a norm add what a branch of a layer returns to the residual stream, and write the sum beside its result.

    A sum at the end of a layer belongs to the norm at the start of the next one: an iteration hands on both summands, and
    what comes behind the last one adds them. The norm of the first layer has nothing to add.
    """

    name: ClassVar[str] = "add_before_norms"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"residual_norms"})

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph without the sums that norms make."""
        return graph.replaced(_NormWriter(graph).run(), *self.ensures)


@dataclass(frozen=True)
class _Sum:
    """A sum that nothing has computed yet: its op, both summands, and the share of the iterations that have two."""

    op: Elementwise
    branch: Tensor
    residual: Tensor
    share: Real = 1.0


class _NormWriter:
    """Write the program anew; `waiting` are sums by their old result, for whatever reads that first."""

    def __init__(self, graph: OpGraph) -> None:
        self.graph = graph
        self.new = Rewiring()
        self.waiting: dict[Tensor, _Sum] = {}

    def run(self) -> list[AbstractOp]:
        """Return the ops of the new program."""
        for block, body in self.graph.segments():
            if block is None:
                for op in body:
                    self._write(op, None)
            else:
                self._layers(block, body)
        return self.new.ops

    def _layers(self, old: Block, body: list[AbstractOp]) -> None:
        """Write a block: it hands on both summands of a last sum that the first norm of the next iteration can make."""
        late = {
            entry: waits for entry, leaving in old.carries if (waits := self._late(entry, leaving, body)) is not None
        }
        new = Block(old.name, old.repeat, mirror=old.mirror, leading=old.leading)
        for entry, _ in old.carries:
            if entry in self.waiting and entry not in late:  # what enters a block whole is made before it
                self._make(entry, None)
        entered = {
            entry: self.waiting.get(entry) or self._first(op, entry, old, number)
            for number, (entry, op) in enumerate(late.items())
        }
        self.waiting |= entered
        for op in body:
            if op not in late.values():
                self._write(op, new)
        for entry, leaving in old.carries:
            if entry not in late:
                new.carries.append((self.new.twin(entry), self.new.twin(leaving)))
                continue
            last = self._sum(late[entry])
            new.carries += [(entered[entry].branch, last.branch), (entered[entry].residual, last.residual)]
            self.waiting[leaving] = last

    def _late(self, entry: Tensor, leaving: Tensor, body: list[AbstractOp]) -> Elementwise | None:
        """Return the sum that leaves an iteration, if it can wait for the first norm of the next one; else None."""
        made = next((op for op in body if leaving in op.outputs), None)
        first = next((op for op in body if entry in (*op.inputs, *op.holds)), None)
        read = any(leaving in (*op.inputs, *op.holds) for op in body)
        if read or made is None or not _adds(made) or first is None or not _norms(first, entry):
            return None
        alike = all(tensor.dtype == entry.dtype and same(tensor.numel, entry.numel) for tensor in made.inputs)
        return made if alike and isinstance(made, Elementwise) else None

    def _first(self, op: Elementwise, entry: Tensor, block: Block, number: int) -> _Sum:
        """Return a sum of the first iteration, which has one summand; an empty place stands for the other.

        `number` counts the streams of the block that have one.
        """
        own, name = self.new.twin(entry), f"{block.name}.unsummed{number or ''}"
        empty = replace(own, name=name, base=None)
        self.new.add(View(name=name, inputs=(own,), outputs=(empty,), function="empty"))
        return _Sum(op, empty, own, share=1.0 - 1.0 / block.repeat)

    def _sum(self, op: Elementwise) -> _Sum:
        branch, residual = (self.new.twin(tensor) for tensor in op.inputs)
        return _Sum(op, branch, residual)

    def _write(self, op: AbstractOp, block: Block | None) -> None:
        """Write an op behind the sums that it reads, or with the one that it makes; or let it wait, if it is a sum."""
        for tensor in dict.fromkeys((*op.inputs, *op.holds)):
            if tensor not in self.waiting:
                continue
            if _norms(op, tensor):
                assert isinstance(op, Normalization)
                self._norm(op, tensor, block)
                return
            self._make(tensor, block)
        if _adds(op) and op.block is not None and self._normed(op.outputs[0], op.block):
            assert isinstance(op, Elementwise)
            self.waiting[op.outputs[0]] = self._sum(op)
            return
        self.new.add(op if block is None or op.block is None else replace(op, block=block))

    def _make(self, tensor: Tensor, block: Block | None) -> None:
        """Write the op of a sum that waited."""
        waiting = self.waiting.pop(tensor)
        self.new.ops.append(replace(waiting.op, inputs=(waiting.branch, waiting.residual), block=block))

    def _normed(self, tensor: Tensor, block: Block) -> bool:
        """Tell whether what reads a tensor first is a norm of the same block."""
        readers = self.graph.readers.get(tensor, [])
        return bool(readers) and _norms(readers[0], tensor) and readers[0].block is block

    def _norm(self, op: Normalization, tensor: Tensor, block: Block | None) -> None:
        """Write a norm that adds first; the sum takes the place of the residual stream where nothing else reads that."""
        waiting = self.waiting.pop(tensor)
        inputs = (waiting.branch, waiting.residual, *(self.new.twin(one) for one in op.inputs[1:]))
        outputs: tuple[Tensor, ...] = op.outputs
        if any(reader is not op for reader in self.graph.readers[tensor]):
            replaced = waiting.op.inputs[-1]
            free = not replaced.persistent and self.graph.readers[replaced][-1] is waiting.op
            total = replace(tensor, name=f"{op.name}.sum", base=waiting.residual if free else None)
            outputs += (total,)
            self.new.put({tensor: total})
        self.new.ops.append(replace(op, inputs=inputs, outputs=outputs, adds=waiting.share, block=block))


def _adds(op: AbstractOp) -> bool:
    """Tell whether an op adds two tensors of one size into a third."""
    whole = isinstance(op, Elementwise) and op.function == "add" and len(op.inputs) == 2 and op.outputs[0].base is None
    return whole and all(same(tensor.numel, op.outputs[0].numel) for tensor in op.inputs)


def _norms(op: AbstractOp, tensor: Tensor) -> bool:
    """Tell whether an op is the norm of rows of a tensor that makes no sum yet."""
    if not isinstance(op, Normalization) or op.method not in ("layer", "rms") or op.backward:
        return False
    return op.inputs[0] is tensor and same(op.adds, 0.0)
