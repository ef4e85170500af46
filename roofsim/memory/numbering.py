"""Number the storages of a pass with its blocks written out: when each is allocated, and when it is free again.

The same liveness as in `roofsim.memory.profile`, storage by storage instead of in sums: an iteration of a block finds
what the one before handed on, a backward block what the forward iteration that it undoes has made. `OpGraph.unrolled`
writes the ops out; here numbers suffice.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from roofsim.graph.ops import CacheAppend, OptimizerUpdate, parts_of
from roofsim.graph.tensor import Role
from roofsim.records import dataclass, field

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp, Block
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import DType, Tensor
    from roofsim.numeric import Real


@dataclass
class Storages:
    """The storages of one pass, numbered in order of appearance. Sizes in bytes, at the last context of a decode.

    Attributes
    ----------
    sizes
        Bytes of each storage.
    persistent, caches, inputs
        Storages that no op makes: parameters and the like, the key-value cache, what comes with every batch.
    born, dies
        What each op allocates, and what is free after it.
    kept
        Gradients that the pass leaves behind.
    adopted
        Gradients that stay where there is none yet to add them to.
    replaced
        Caches that are written anew: new storage -> the old one that goes at once.
    trained
        Elements of each trained parameter, by type.
    updates
        The updates of the parameters, one a type and kind of update.
    """

    sizes: list[int] = field(default_factory=list)
    persistent: list[int] = field(default_factory=list)
    caches: list[int] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    born: list[list[int]] = field(default_factory=list)
    dies: list[list[int]] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    adopted: set[int] = field(default_factory=set)
    replaced: dict[int, int] = field(default_factory=dict)
    trained: dict[DType, list[float]] = field(default_factory=dict)
    updates: list[OptimizerUpdate] = field(default_factory=list)


def numbered(graph: OpGraph) -> Storages:
    """Return the storages of a pass whose sizes are single numbers (or arrays along the contexts of a decode)."""
    return _Numbering(graph).run()


def countable(graph: OpGraph) -> bool:
    """Tell whether every block repeats a whole number of times."""
    return all(type(block.repeat) is float and block.repeat == int(block.repeat) for block in graph.blocks)


class _Numbering:
    def __init__(self, graph: OpGraph) -> None:
        self.graph = graph
        self.storages = Storages()
        self.last: list[int] = []
        """Op after which each storage is free; -1: never."""
        self.made: dict[Tensor, tuple[Block | None, list[int]]] = {}
        """Every tensor so far: the block that made it (None: outside of blocks), its storage in each iteration."""
        self.special = {op for op in graph.ops if _concatenates(op) or _accumulates(op)}

    def run(self) -> Storages:
        self.storages.updates = [op for op in self.graph.ops if isinstance(op, OptimizerUpdate)]
        for block, body in self.graph.segments():
            if block is None:
                step: dict[Tensor, int] = {}
                for op in body:
                    if not isinstance(op, OptimizerUpdate):
                        self._number(op, step, None, 0)
                made = {tensor for op in body for tensor in op.outputs}
                self.made.update({tensor: (None, [number]) for tensor, number in step.items() if tensor in made})
            else:
                self._repeat(block, body)
        self._bury()
        return self.storages

    def _repeat(self, block: Block, body: list[AbstractOp]) -> None:
        carries = block.carries
        entries = {entry: self._find(entry, block, 0) for entry, _ in carries}
        steps = []
        for index in range(int(block.repeat)):  # whole: see `countable`
            step = dict(entries)
            for op in body:
                self._number(op, step, block, index)
            steps.append(step)
            entries = {entry: step[leaving] for entry, leaving in carries}
        if steps:
            self.made.update({tensor: (block, [step[tensor] for step in steps]) for tensor in steps[0]})

    def _number(self, op: AbstractOp, step: dict[Tensor, int], block: Block | None, index: int) -> None:
        """Take in what an op makes, and note that it is the last so far to need what it reads and holds."""
        at = len(self.storages.born)
        for tensor in op.inputs:
            number = step.get(tensor)
            if number is None:
                number = step[tensor] = self._find(tensor, block, index)
            if self.last[number] >= 0:
                self.last[number] = at
        for tensor in op.holds:
            for number in self._held(tensor, step, block, index):
                if self.last[number] >= 0:
                    self.last[number] = at
        born: list[int] = []
        self.storages.born.append(born)
        for tensor in op.outputs:
            base = tensor.base
            if base is None:
                step[tensor] = self._new(tensor, at, born)
            else:
                step[tensor] = step[base] if base in step else self._find(base, block, index)
        if op in self.special:
            self._special(op, step)

    def _held(self, tensor: Tensor, step: dict[Tensor, int], block: Block | None, index: int) -> list[int]:
        """Return what is held: outside of blocks, of what a block made, every iteration's."""
        number = step.get(tensor)
        if number is None:
            number = step[tensor] = self._find(tensor, block, index)
        if block is not None or tensor not in self.made:
            return [number]
        return self.made[tensor][1]

    def _find(self, tensor: Tensor, block: Block | None, index: int) -> int:
        """Return the storage that an iteration sees of a tensor made before it, or that stands from the start."""
        made = self.made.get(tensor)
        if made is not None:
            maker, numbers = made
            if maker is not None and block is not None and block.mirror is maker:
                return numbers[len(numbers) - 1 - index]
            return numbers[-1]
        base = tensor.base
        number = self._source(tensor) if base is None else self._find(base, block, index)
        own = block is not None and tensor.persistent and tensor.role is not Role.INPUT
        if not own:
            self.made[tensor] = (None, [number])
        return number

    def _source(self, tensor: Tensor) -> int:
        """Take in what stands before the pass."""
        storages, role = self.storages, tensor.role
        number = self._sized(tensor, -1)
        if role is Role.INPUT:
            storages.inputs.append(number)
        elif role is Role.KEY_VALUE_CACHE:
            storages.caches.append(number)
        elif role is not Role.GRADIENT_BUFFER:  # of which `_special` decides
            storages.persistent.append(number)
        if role is Role.PARAMETER and tensor.requires_grad:
            storages.trained.setdefault(tensor.dtype, []).append(_last(tensor.numel))
        return number

    def _new(self, tensor: Tensor, at: int, born: list[int]) -> int:
        if tensor.persistent:
            return self._find(tensor, None, 0)
        kept = tensor.role is Role.GRADIENT
        number = self._sized(tensor, -1 if kept else at)
        born.append(number)
        if kept:
            self.storages.kept.append(number)
        return number

    def _sized(self, tensor: Tensor, last: int) -> int:
        self.storages.sizes.append(0 if tensor.off_device else math.ceil(_last(tensor.numel) * tensor.dtype.itemsize))
        self.last.append(last)
        return len(self.last) - 1

    def _special(self, op: AbstractOp, step: dict[Tensor, int]) -> None:
        """Let a cache be written anew; a gradient become its own buffer, or find one that stands from the start."""
        if _concatenates(op):
            self.storages.replaced[step[op.outputs[0]]] = step[op.inputs[1]]
            return
        buffers = {tensor: step[tensor] for tensor in op.inputs if tensor.role is Role.GRADIENT_BUFFER}
        if _last(op.share) == 1.0:
            self.storages.persistent += buffers.values()
        else:
            self.storages.adopted.update(step[tensor] for tensor in op.inputs if tensor not in buffers)

    def _bury(self) -> None:
        """Sort storages by the op after which they are free."""
        dies: list[list[int]] = [[] for _ in self.storages.born]
        for number, at in enumerate(self.last):
            if at >= 0:
                dies[at].append(number)
        self.storages.dies = dies


def _concatenates(op: AbstractOp) -> bool:
    return any(isinstance(part, CacheAppend) and part.concatenates for part in parts_of(op))


def _accumulates(op: AbstractOp) -> bool:
    return any(tensor.role is Role.GRADIENT_BUFFER for tensor in op.inputs)


def _last(value: Real) -> float:
    """Return a number, or the last of several: the longest context of a decode."""
    return value if type(value) is float else float(np.ravel(value)[-1])
