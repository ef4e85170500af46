"""Cut repeated blocks in two: their first iterations, and the others, with tensors of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.base import AbstractOp, Block
from roofsim.graph.naming import inside_block
from roofsim.graph.rewire import rewired
from roofsim.graph.tensor import Role, Tensor
from roofsim.numeric import is_none
from roofsim.records import replace

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Real

#: A run of ops of one block, or of none, and whether it is one of the first iterations.
Unit = tuple[Block | None, list[AbstractOp], bool]


def split_blocks(graph: OpGraph, counts: list[Real], prefix: str) -> list[Unit]:
    """Return the runs of a graph, of whose blocks the first `counts` iterations stand as blocks of their own.

    These have parameters, buffers and caches of their own, and names that begin with `prefix`. Parts of fused kernels stay as
    they are: a graph of which gradients will be taken is not split.
    """
    runs: list[Unit] = []
    twin: dict[Tensor, Tensor] = {}
    left = iter(counts)
    for block, body in graph.segments():
        if block is None:
            runs.append((None, _moved(body, None, twin, twin), False))
            continue
        count = next(left)
        carries, inner = block.carries, dict(twin)
        rest = Block(block.name, block.repeat)
        whole = is_none(count) or is_none(block.repeat - count)
        if not whole:
            head, ops, made = _first(block, body, count, f"{prefix}.{block.name}", twin)
            runs.append((head, ops, True))
            rest = Block(block.name, block.repeat - count)
            inner |= {entry: made.get(leaving, leaving) for entry, leaving in carries}
        ops = _moved(body, rest, inner, twin)
        rest.carries = [(inner.get(entry, entry), twin.get(leaving, leaving)) for entry, leaving in carries]
        runs.append((rest, ops, whole and not is_none(count)))
    return runs


def _moved(
    body: list[AbstractOp], block: Block | None, inner: dict[Tensor, Tensor], behind: dict[Tensor, Tensor]
) -> list[AbstractOp]:
    """Return ops that read the twins of `inner`; what they make anew is added to it and to what ops `behind` read."""
    ops = []
    for op in body:
        new = replace(rewired(op, inner), block=block)
        changed = {old: out for old, out in zip(op.outputs, new.outputs, strict=True) if old is not out}
        inner |= changed
        behind |= changed
        ops.append(new)
    return ops


def _first(
    block: Block, body: list[AbstractOp], count: Real, name: str, twin: dict[Tensor, Tensor]
) -> tuple[Block, list[AbstractOp], dict[Tensor, Tensor]]:
    """Return the first iterations, and the twins of all that they read and make."""
    head, made = Block(name, count), dict(twin)
    ops: list[AbstractOp] = []
    for op in body:
        for tensor in (*op.inputs, *op.holds):
            _own(tensor, name, made)
        new = rewired(op, made)
        outputs = tuple(
            replace(t, name=f"{name}.{t.name}", base=None if t.base is None else _own(t.base, name, made))
            for t in op.outputs
        )
        made.update(zip(op.outputs, outputs, strict=True))
        ops.append(replace(new, name=f"{name}.{inside_block(op)}", block=head, outputs=outputs))
    head.carries = [(twin.get(entry, entry), made.get(leaving, leaving)) for entry, leaving in block.carries]
    return head, ops, made


def _own(tensor: Tensor, name: str, made: dict[Tensor, Tensor]) -> Tensor:
    """Return the block's own copy of what stands before a pass, and of views of it; other tensors as they are."""
    if tensor in made:
        return made[tensor]
    root = tensor.root
    if not root.persistent or root.role is Role.INPUT:
        return tensor
    base = None if tensor.base is None else _own(tensor.base, name, made)
    made[tensor] = replace(tensor, name=f"{name}.{tensor.name}", base=base)
    return made[tensor]
