"""Regroup the layers of a block: several layers become one repeated unit, so that a policy can treat them differently."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.errors import PassError
from roofsim.graph.base import AbstractOp, Block
from roofsim.graph.naming import inside_block
from roofsim.graph.ops import Fused
from roofsim.graph.tensor import Role, Tensor
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.graph.opgraph import OpGraph


@dataclass(frozen=True, kw_only=True)
class Regroup:
    """Write out `size` consecutive iterations of every block that repeats; the unit repeats n / size times.

    What does not fill a unit stands behind it as a block of its own that runs once. Totals do not change. With `leading`,
    the first so many iterations (over all blocks, in program order) become leading blocks of their own.
    """

    name: ClassVar[str] = "regroup"
    requires: ClassVar[frozenset[str]] = frozenset()
    ensures: ClassVar[frozenset[str]] = frozenset({"regrouped"})

    size: int = 1
    leading: int | None = None

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with its layers in units of `size`."""
        if self.size == 1 and self.leading is None:
            return graph
        writer = _RegroupWriter(self.size, self.leading)
        for block, body in graph.segments():
            if block is None:
                writer.ops += [writer.renamed(op) for op in body]
            else:
                writer.block(block, body)
        return graph.replaced(writer.ops, *self.ensures)


class _RegroupWriter:
    def __init__(self, size: int, leading: int | None) -> None:
        self.size = size
        self.leading = leading
        self.ops: list[AbstractOp] = []
        self.env: dict[Tensor, Tensor] = {}
        self.copies: dict[Tensor, list[Tensor]] = {}

    def find(self, tensor: Tensor) -> Tensor:
        return self.env.get(tensor, tensor)

    def renamed(self, op: AbstractOp) -> AbstractOp:
        """Return an op outside of blocks that reads what the regrouped blocks left."""
        outputs = tuple(t if t.base is None else replace(t, base=self.find(t.base)) for t in op.outputs)
        self.env.update((old, new) for old, new in zip(op.outputs, outputs, strict=True) if old is not new)
        holds = tuple(copy for tensor in op.holds for copy in self.copies.get(tensor, [self.find(tensor)]))
        moved = replace(op, inputs=tuple(map(self.find, op.inputs)), holds=holds, outputs=outputs)
        return _with_parts(moved, self.find)

    def block(self, block: Block, body: list[AbstractOp]) -> None:
        times = block.repeat
        if type(times) is not float:
            raise PassError(f"regroup: block {block.name!r} repeats an array of times; layers per unit need one number")
        if self.leading is not None:
            first = min(self.leading, int(times))
            self.leading -= first
            if first:
                self._unit(Block(f"leading.{block.name}", float(first), leading=True), block, body, 1)
            if times > first:
                self._unit(Block(block.name, times - first), block, body, 1)
            return
        whole, rest = divmod(int(times), self.size)
        if whole:
            self._unit(Block(block.name, float(whole)), block, body, self.size)
        if rest:
            self._unit(Block(f"{block.name}_rest", 1.0), block, body, rest)

    def _unit(self, unit: Block, old: Block, body: list[AbstractOp], copies: int) -> None:
        entering = {entry: self.find(entry) for entry, _ in old.carries}
        step = dict(entering)
        for index in range(copies):
            made: dict[Tensor, Tensor] = {}
            for op in body:
                self._copy(op, unit, index, step, made)
            step = {entry: made[leaving] for entry, leaving in old.carries}
            # Ops behind the block read what its last iteration made, and may hold what all of them did.
            self.env |= {tensor: copy for tensor, copy in made.items() if not tensor.persistent}
            for tensor, copy in made.items():
                self.copies.setdefault(tensor, []).append(copy)
        for entry, leaving in old.carries:
            self.copies.pop(leaving, None)  # behind the block it is what the last iteration left
            if step[entry] is not entering[entry]:
                unit.carries.append((entering[entry], step[entry]))
            self.env[leaving] = self.env[entry] = step[entry]

    def _copy(
        self, op: AbstractOp, unit: Block, index: int, step: dict[Tensor, Tensor], made: dict[Tensor, Tensor]
    ) -> None:
        def find(tensor: Tensor) -> Tensor:
            if tensor in made:
                return made[tensor]
            if tensor in step:
                return step[tensor]
            if tensor.persistent and tensor.role is not Role.INPUT:
                made[tensor] = replace(tensor, name=f"{unit.name}.{index}.{tensor.name}")
                return made[tensor]
            return self.find(tensor)

        inputs, holds = tuple(map(find, op.inputs)), tuple(map(find, op.holds))
        outputs = tuple(
            replace(t, name=f"{t.name}.{index}", base=None if t.base is None else find(t.base)) for t in op.outputs
        )
        made.update(zip(op.outputs, outputs, strict=True))
        name = f"{unit.name}.{index}.{inside_block(op)}"
        copy = replace(op, name=name, block=unit, layer_of_unit=index, inputs=inputs, holds=holds, outputs=outputs)
        self.ops.append(_with_parts(copy, find))


def _with_parts(op: AbstractOp, find: Callable[[Tensor], Tensor]) -> AbstractOp:
    """Let the parts of a fused kernel, from which its gradient is taken, read and make what the kernel does.

    What they hand to one another inside the kernel becomes a tensor of this copy's own.
    """
    if not isinstance(op, Fused):
        return op
    inside: dict[Tensor, Tensor] = {}

    def own(tensor: Tensor) -> Tensor:
        return inside.get(tensor) or find(tensor)

    parts = []
    for part in op.parts:
        for tensor in part.outputs:
            if find(tensor) is tensor and tensor not in op.outputs:
                inside[tensor] = replace(tensor, base=None if tensor.base is None else own(tensor.base))
        groups = [tuple(map(own, group)) for group in (part.inputs, part.holds, part.outputs)]
        parts.append(replace(part, inputs=groups[0], holds=groups[1], outputs=groups[2]))
    return replace(op, parts=tuple(parts))
