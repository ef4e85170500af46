"""Make one kernel of several ops, in an order that respects what they read."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from roofsim.graph.base import Kind
from roofsim.graph.ops import Fused

if TYPE_CHECKING:
    from collections.abc import Collection

    from roofsim.graph.base import AbstractOp
    from roofsim.graph.tensor import Tensor
    from roofsim.numeric import Real

#: Patterns of kernels that a library wrote: no compiler merges anything into them.
LIBRARY: Final = frozenset({"cache_write", "attention_operator", "router", "order_tokens", "copy_rows", "sum_rows"})
#: What no kernel of light ops holds.
_APART: Final = frozenset({Kind.MATMUL, Kind.CONVOLUTION, Kind.ATTENTION, Kind.COLLECTIVE, Kind.HOST_TRANSFER})


def contracted(
    run: list[AbstractOp],
    members: Collection[AbstractOp],
    read_outside: Collection[Tensor],
    pattern: str,
    *,
    name: str | None = None,
    launches: Real = 1.0,
) -> list[AbstractOp]:
    """Return a run of ops with some of them, and all light ones between them, as one kernel.

    They stay apart where one of them needs what a product made of another one's result.

    Parameters
    ----------
    read_outside
        Tensors that something outside of the run reads.
    """
    members = set(members)
    between = _between(run, members)
    if not members or any(op.kind in _APART for op in between):
        return run
    group = [op for op in run if op in members or op in between]
    others = {tensor for op in run if op not in group for tensor in op.inputs + op.holds} | set(read_outside)
    outside = {tensor for op in group for tensor in op.outputs if tensor in others}
    order = {op: index for index, op in enumerate(run)}
    number = order[group[0]]
    group_of = order | dict.fromkeys(group, number)
    groups: dict[int, list[AbstractOp]] = {}
    for op in run:
        groups.setdefault(group_of[op], []).append(op)
    kernel = fused_kernel(group, outside, pattern, name=name, launches=launches)
    return in_order(groups, {number: kernel}, group_of)


def _between(run: list[AbstractOp], members: set[AbstractOp]) -> set[AbstractOp]:
    """Return the ops that need what some member makes and make what another one needs."""
    producer = {tensor: op for op in run for tensor in op.outputs}
    behind: set[AbstractOp] = set()
    for op in run:
        sources = {producer[tensor] for tensor in op.inputs + op.holds if tensor in producer}
        if sources & (members | behind):
            behind.add(op)
    before: set[AbstractOp] = set()
    for op in reversed(run):
        if op in members or op in before:
            before |= {producer[tensor] for tensor in op.inputs + op.holds if tensor in producer}
    return (behind & before) - members


def in_order(
    groups: dict[int, list[AbstractOp]], kernels: dict[int, AbstractOp], group_of: dict[AbstractOp, int]
) -> list[AbstractOp]:
    """Put groups into an order that respects their dependencies and stays close to the program's."""
    producer = {tensor: group_of[op] for members in groups.values() for op in members for tensor in op.outputs}
    waiting = {
        number: {
            producer[tensor]
            for op in members
            for tensor in op.inputs + op.holds
            if tensor in producer and producer[tensor] != number
        }
        for number, members in groups.items()
    }
    followers: dict[int, list[int]] = {}
    for number, before in waiting.items():
        for other in before:
            followers.setdefault(other, []).append(number)
    ready = [number for number, before in waiting.items() if not before]
    heapq.heapify(ready)
    result: list[AbstractOp] = []
    while ready:
        number = heapq.heappop(ready)
        result += [kernels[number]] if number in kernels else groups[number]
        for other in followers.get(number, ()):
            waiting[other].discard(number)
            if not waiting[other]:
                heapq.heappush(ready, other)
    return result


def fused_kernel(
    members: list[AbstractOp], outside: set[Tensor], pattern: str, *, name: str | None = None, launches: Real = 1.0
) -> Fused:
    """Return one kernel that reads what comes from outside and writes what is read outside."""
    made = {tensor for op in members for tensor in op.outputs}
    inputs = tuple(dict.fromkeys(t for op in members for t in op.inputs if t not in made))
    holds = tuple(dict.fromkeys(t for op in members for t in op.holds if t not in made and t not in inputs))
    roots = {t.root for t in outside}  # whoever reads a view outside needs the storage behind it
    outputs = tuple(dict.fromkeys(t for op in members for t in op.outputs if t in outside or t in roots))
    last = next((op for op in reversed(members) if op.kind is not Kind.VIEW), members[-1])
    return Fused(
        name=f"{last.name}.fused" if name is None else name,
        inputs=inputs,
        outputs=outputs,
        holds=holds,
        phase=last.phase,
        block=last.block,
        parts=tuple(members),
        pattern=pattern,
        origin=last.origin,
        share=last.share,
        component=last.component,
        launches=launches,
    )
