"""Write blocks out in full: the expanded graph has the same totals as the counted one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.errors import GraphError
from roofsim.graph.tensor import Role
from roofsim.records import replace

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp, Block
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor


def unroll(graph: OpGraph) -> OpGraph:
    """Return `graph` with every block copied as often as it repeats.

    What a forward block made is matched iteration by iteration with the backward block that mirrors it, the last
    first; anywhere else its last copy is meant.

    Raises
    ------
    GraphError
        When a repeat count is not a whole number.
    """
    return written_out(graph)[0]


def written_out(graph: OpGraph) -> tuple[OpGraph, dict[AbstractOp, tuple[AbstractOp, int]]]:
    """Return what `unroll` does, and of which op each of its ops is a copy, in which iteration."""
    unroller = _Unroller()
    for block, body in graph.segments():
        if block is None:
            unroller.straight(body)
        else:
            unroller.repeated(block, body)
    return graph.replaced(unroller.ops), unroller.copy_of


class _Unroller:
    """Copies of every tensor so far: by the block that made them (None: outside of blocks) and by iteration."""

    def __init__(self) -> None:
        self.ops: list[AbstractOp] = []
        self.copy_of: dict[AbstractOp, tuple[AbstractOp, int]] = {}
        self.made: dict[Tensor, tuple[Block | None, dict[int, Tensor]]] = {}

    def straight(self, body: list[AbstractOp]) -> None:
        step: dict[Tensor, Tensor] = {}
        for op in body:
            self._copy(op, step, None, 0)
        made = {old for op in body for old in op.outputs}
        self.made.update({old: (None, {0: new}) for old, new in step.items() if old in made})

    def repeated(self, block: Block, body: list[AbstractOp]) -> None:
        times = block.repeat
        if type(times) is not float or times != int(times):
            raise GraphError(f"cannot unroll block {block.name!r}: it repeats {times} times")
        entries = {entry: self._find(entry, block, 0) for entry, _ in block.carries}
        copies: dict[Tensor, dict[int, Tensor]] = {}
        for index in range(int(times)):
            step = dict(entries)
            for op in body:
                self._copy(op, step, block, index)
            for old, new in step.items():
                copies.setdefault(old, {})[index] = new
            entries = {entry: step[leaving] for entry, leaving in block.carries}
        self.made.update({old: (block, by_index) for old, by_index in copies.items()})

    def _find(self, tensor: Tensor, block: Block | None, index: int) -> Tensor:
        if tensor not in self.made:
            return tensor
        maker, copies = self.made[tensor]
        if maker is not None and block is not None and block.mirror is maker:
            return copies[len(copies) - 1 - index]
        return copies[max(copies)]

    def _copies(self, tensor: Tensor, last: Tensor) -> tuple[Tensor, ...]:
        _, copies = self.made.get(tensor, (None, {0: last}))
        return tuple(dict.fromkeys(copies.values()))

    def _copy(self, op: AbstractOp, step: dict[Tensor, Tensor], block: Block | None, index: int) -> None:
        def find(tensor: Tensor) -> Tensor:
            if tensor not in step:
                twin = self._find(tensor, block, index)
                own = block is not None and twin is tensor and tensor.persistent and tensor.role is not Role.INPUT
                step[tensor] = replace(tensor, name=f"{tensor.name}[{index}]") if own else twin
            return step[tensor]

        suffix = "" if block is None else f"[{index}]"
        inputs, holds = tuple(map(find, op.inputs)), tuple(map(find, op.holds))
        if block is None:  # an op outside of blocks holds what every iteration made, not the last alone
            holds = tuple(copy for tensor in op.holds for copy in self._copies(tensor, find(tensor)))
        outputs = tuple(
            replace(old, name=f"{old.name}{suffix}", base=None if old.base is None else find(old.base))
            for old in op.outputs
        )
        step.update(zip(op.outputs, outputs, strict=True))
        copy = replace(op, name=f"{op.name}{suffix}", block=None, inputs=inputs, holds=holds, outputs=outputs)
        self.copy_of[copy] = op, index
        self.ops.append(copy)
