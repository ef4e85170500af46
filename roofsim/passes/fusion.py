"""Merge ops whose intermediates need not reach memory: a compiler's pointwise kernels, a library's hand-written ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from roofsim.graph.base import AbstractOp, Kind, Phase
from roofsim.graph.fuse import LIBRARY, fused_kernel, in_order
from roofsim.graph.ops import CacheAppend, Cast, Dropout, Elementwise, ExtraKernels, Fused, View
from roofsim.graph.tensor import Role
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor

#: What a pointwise compiler merges between two heavy ops.
FUSIBLE: Final = frozenset(
    {
        Kind.ELEMENTWISE,
        Kind.CAST,
        Kind.DROPOUT,
        Kind.NORMALIZATION,
        Kind.SOFTMAX,
        Kind.REDUCTION,
        Kind.COPY,
        Kind.LOSS,
        Kind.VIEW,
    }
)


@dataclass(frozen=True, kw_only=True)
class FusePointwise:
    """Make one kernel of all connected pointwise and reduction ops between the same two heavy ops.

    Runs after autograd on both passes: everything that the backward pass reads of the forward pass is written. What the
    backward pass computes again (`Partition`) becomes part of the kernels that read it.

    Attributes
    ----------
    only_layers
        Whether only repeated blocks are compiled, and not what stands before and behind them.
    """

    name: ClassVar[str] = "fuse_pointwise"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"fused"})

    only_layers: bool = False

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with chains of pointwise ops merged."""
        readers = _readers(graph)
        late = _without_gradients(graph) if "partitioned" in graph.facts else frozenset()
        ops: list[AbstractOp] = []
        for block, body in graph.segments():
            if self.only_layers and block is None:
                ops += body
                continue
            for phase_run in _phase_runs(body):
                ops += _fused_run(phase_run, readers, late)
        return graph.replaced(ops, *self.ensures)


@dataclass(frozen=True, kw_only=True)
class FuseDropoutAdd:
    """Merge a dropout with the residual addition behind it, as Megatron's bias-dropout-add kernel does.

    Runs before autograd; the backward is that of the dropout.
    """

    name: ClassVar[str] = "fuse_dropout_add"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"dropout_add"})

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with the pieces of pattern ops merged."""
        return graph.replaced(_join(list(graph), _readers(graph)), *self.ensures)


def _only_adder(op: AbstractOp, readers: dict[Tensor, list[AbstractOp]]) -> AbstractOp | None:
    if not isinstance(op, Dropout) or op.backward:
        return None
    users = readers.get(op.outputs[0], [])
    if len(users) == 1 and isinstance(users[0], Elementwise) and users[0].function == "add":
        return users[0]
    return None


def _join(ops: list[AbstractOp], readers: dict[Tensor, list[AbstractOp]]) -> list[AbstractOp]:
    """Replace each dropout by nothing and its addition by the fused kernel."""
    adders = {adder: op for op in ops if (adder := _only_adder(op, readers)) is not None}
    dropped = set(adders.values())
    result: list[AbstractOp] = []
    for op in ops:
        if op in dropped:
            continue
        if op in adders:
            dropout = adders[op]
            result.append(fused_kernel([dropout, op], {op.outputs[0], dropout.outputs[1]}, "bias_dropout_add"))
        else:
            result.append(op)
    return result


def _readers(graph: OpGraph) -> dict[Tensor, list[AbstractOp]]:
    readers: dict[Tensor, list[AbstractOp]] = {}
    for op in graph:
        for tensor in dict.fromkeys(op.inputs + op.holds):
            readers.setdefault(tensor, []).append(op)
    for block in graph.blocks:
        for _, leaving in block.carries:
            readers.setdefault(leaving, []).append(graph.ops[-1])
    return readers


def _without_gradients(graph: OpGraph) -> frozenset[AbstractOp]:
    """Return the ops of the backward pass that read nothing but what the forward pass has made."""
    backward = [op for op in graph if op.phase is Phase.BACKWARD]
    made = {tensor: op for op in backward for tensor in op.outputs}
    free: set[AbstractOp] = set()
    for op in backward:
        # The first gradient belongs to no op of the forward pass; what a block hands on is made by a later op.
        if op.origin is not None and all(tensor not in made or made[tensor] in free for tensor in op.inputs):
            free.add(op)
    return frozenset(free)


def _phase_runs(body: list[AbstractOp]) -> list[list[AbstractOp]]:
    runs: list[list[AbstractOp]] = []
    for op in body:
        if not runs or runs[-1][-1].phase is not op.phase:
            runs.append([])
        runs[-1].append(op)
    return runs


def _fusible(op: AbstractOp) -> bool:
    # An append writes rows into a cache that stays where it is; fused, the whole cache would be its output.
    # A library's kernel writes quantised weights out: no compiler sees into it.
    opaque = isinstance(op, CacheAppend | ExtraKernels) or (isinstance(op, Cast) and op.dequantises)
    opaque = opaque or (isinstance(op, Fused) and op.pattern in LIBRARY)
    opaque = opaque or (isinstance(op, View) and op.function == "gather")  # whoever reads it gathers
    return op.kind in FUSIBLE and op.phase is not Phase.OPTIMIZER and not opaque


def _levels(run: list[AbstractOp], late: frozenset[AbstractOp]) -> dict[AbstractOp, int]:
    """Return, for each op, how many heavy ops stand on the longest way to it.

    What could run at any time before (`late`) counts as if it ran beside the first op that reads it.
    """
    producer = {tensor: op for op in run for tensor in op.outputs}
    levels: dict[AbstractOp, int] = {}
    for op in run:
        before = [producer[tensor] for tensor in op.inputs + op.holds if tensor in producer]
        levels[op] = max((levels[other] + (not _fusible(other)) for other in before), default=0)
    first: dict[Tensor, int] = {}
    for op in reversed(run if late else []):
        if op in late and _fusible(op):
            levels[op] = max(levels[op], min((first[t] for t in op.outputs if t in first), default=0))
        for tensor in op.inputs:
            first[tensor] = min(first.get(tensor, levels[op]), levels[op])
    return levels


def _fused_run(
    run: list[AbstractOp], readers: dict[Tensor, list[AbstractOp]], late: frozenset[AbstractOp]
) -> list[AbstractOp]:
    group_of = _connected_groups(run, readers, late)
    groups: dict[int, list[AbstractOp]] = {}
    for op in run:
        groups.setdefault(group_of[op], []).append(op)
    kernels: dict[int, AbstractOp] = {}
    for number, members in groups.items():
        if len(members) == 1 or all(op.kind is Kind.VIEW for op in members):
            continue
        outside = {
            tensor
            for op in members
            for tensor in op.outputs
            if _stays(op, tensor) or any(reader not in members for reader in readers.get(tensor, ()))
        }
        kernels[number] = fused_kernel(members, outside, "pointwise")
    return in_order(groups, kernels, group_of)


def _stays(op: AbstractOp, tensor: Tensor) -> bool:
    """Whether an op writes what outlives the graph although nothing in it reads that: a gradient, or a sum into its buffer."""
    return op.kind is not Kind.VIEW and tensor.root.role in (Role.GRADIENT, Role.GRADIENT_BUFFER)


def _connected_groups(
    run: list[AbstractOp], readers: dict[Tensor, list[AbstractOp]], late: frozenset[AbstractOp]
) -> dict[AbstractOp, int]:
    """Return numbered groups: fusible ops of one level that exchange or share tensors."""
    levels, order = _levels(run, late), {op: index for index, op in enumerate(run)}
    parent = dict(order)

    def find(op: AbstractOp) -> int:
        root = parent[op]
        while root != parent[run[root]]:
            root = parent[run[root]]
        return root

    for op in run:
        if not _fusible(op):
            continue
        for tensor in op.outputs:
            for reader in readers.get(tensor, ()):
                if reader in order and _fusible(reader) and levels[reader] == levels[op]:
                    low, high = sorted((find(op), find(reader)))
                    parent[run[high]] = low
    return {op: find(op) for op in run}
