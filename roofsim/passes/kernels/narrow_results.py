"""Let the kernels between 8-bit products read what these write and write what the next ones read, without conversions."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from roofsim.graph.base import Kind
from roofsim.graph.fuse import fused_kernel
from roofsim.graph.ops import (
    Attention,
    CacheAppend,
    Cast,
    Collective,
    Convolution,
    Fused,
    GroupedMatmul,
    Matmul,
    Normalization,
    View,
    parts_of,
)
from roofsim.graph.rewire import Rewiring
from roofsim.graph.tensor import INT32, DType, Tensor
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roofsim.graph.base import AbstractOp, Block
    from roofsim.graph.opgraph import OpGraph

#: Bytes of an element of a wide activation, and of one that the next product reads.
WIDE: Final = 2.0
READ: Final = 1.0
#: What reads its operands in the type that it computes in: no kernel between converts them.
_HEAVY: Final = (Attention, CacheAppend, Collective, Convolution, Matmul, GroupedMatmul)
#: Norms whose kernels read and write 8 bits; those of groups take their statistics of 16.
_NARROW_NORMS: Final = ("layer", "rms", "batch")


@dataclass(frozen=True, kw_only=True)
class NarrowResults:
    """Give what 8-bit products write, and what lies between them, the types that an engine's kernels have.

    Attributes
    ----------
    written
        ``int32``: products write sums of 32 bits for the kernels behind them, which write 8 bits for the next product beside 16
        for the residual stream; ``narrow``: all that lies between products has 8 bits, the residual stream included; in a
        network with norms of groups of channels what 8-bit products alone read.
    launches
        Launches of such a product.
    """

    name: ClassVar[str] = "narrow_results"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"narrow_results"})

    written: str
    launches: float = 1.0

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph without conversions between 8-bit products; as it is, if it has no such products."""
        narrow = {op.inputs[0].dtype for op in graph if _narrow(op)}
        if not narrow or self.ensures <= graph.facts:
            return graph
        if self.written == "int32":
            graph = graph.replaced(_converting(graph))
            types = dict.fromkeys(_results(graph), INT32) | _read_narrow(graph)
        else:
            types = dict.fromkeys(_between(graph), narrow.pop())
        return graph.replaced(_Retyping(types, self.launches).run(graph), *self.ensures)


def _narrow(op: AbstractOp) -> bool:
    return isinstance(op, Matmul | Convolution) and op.inputs[0].dtype.itemsize == READ


def _converts(op: AbstractOp) -> bool:
    """Tell whether an op converts an activation to what a product reads."""
    return isinstance(op, Cast) and not op.dequantises and op.outputs[0].dtype.itemsize == READ


def _wide(tensor: Tensor) -> bool:
    return tensor.dtype.floating and tensor.dtype.itemsize == WIDE and not tensor.root.persistent


def _results(graph: OpGraph) -> set[Tensor]:
    """Return the storages of results of 8-bit products that light kernels read, and nothing else."""
    results = {op.outputs[0].root for op in graph if _narrow(op)}
    results -= _roots(op for op in graph if isinstance(op, _HEAVY) and not _narrow(op))
    handed = [(entering, leaving) for block in graph.blocks for entering, leaving in block.carries]
    # What the first iteration finds in the place of a result is empty.
    results |= {
        enters.root for enters, leaves in handed if leaves.root in results and _empty(graph.producer.get(enters))
    }
    return _agreeing(results, graph)


def _empty(op: AbstractOp | None) -> bool:
    return isinstance(op, View) and op.function == "empty"


def _between(graph: OpGraph) -> set[Tensor]:
    """Return the storages of all that layers make and hand on, but for what ranks exchange.

    A network of convolutions has layers outside of blocks too. One with norms of groups, whose kernels read 16 bits, keeps
    them in all that more than 8-bit products read.
    """
    whole = any(isinstance(op, Convolution) and _narrow(op) for op in graph)
    made = {tensor for op in graph if whole or op.block is not None for tensor in _made(op)}
    carried = {tensor for block in graph.blocks for pair in block.carries for tensor in pair}
    exchanged = _roots(op for op in graph if isinstance(op, Collective))
    exchanged |= {tensor.root for op in graph if isinstance(op, Collective) for tensor in op.outputs}
    if any(
        isinstance(part, Normalization) and part.method not in _NARROW_NORMS for op in graph for part in parts_of(op)
    ):
        exchanged |= _roots(op for op in graph if not _narrow(op) and not _converts(op) and op.kind is not Kind.VIEW)
    return _agreeing({tensor.root for tensor in made | carried if _wide(tensor.root)} - exchanged, graph)


def _agreeing(roots: set[Tensor], graph: OpGraph) -> set[Tensor]:
    """Return storages without those that an iteration hands on in the place of one that is not among them."""
    handed = [(entering.root, leaving.root) for block in graph.blocks for entering, leaving in block.carries]
    while apart := {root for pair in handed if len(roots.intersection(pair)) < len(set(pair)) for root in pair} & roots:
        roots = roots - apart
    return roots


def _made(op: AbstractOp) -> Iterable[Tensor]:
    return (tensor for part in (op, *parts_of(op)) for tensor in part.outputs)


def _roots(ops: Iterable[AbstractOp]) -> set[Tensor]:
    """Return the storages that ops read."""
    return {tensor.root for op in ops for part in parts_of(op) for tensor in part.inputs}


def _converting(graph: OpGraph) -> list[AbstractOp]:
    """Return the program with conversions inside the light kernels before them, where others read the wide result as well."""
    conversions: dict[AbstractOp, list[AbstractOp]] = {}
    for op in graph:
        maker = graph.producer.get(op.inputs[0]) if _converts(op) else None
        light = maker is not None and not isinstance(maker, _HEAVY) and maker.kind is not Kind.VIEW
        if maker is not None and light and maker.block is op.block:
            conversions.setdefault(maker, []).append(op)
    inside = {maker: casts for maker, casts in conversions.items() if not all(map(_converts, _readers(maker, graph)))}
    dropped = {cast for casts in inside.values() for cast in casts}
    writer = Rewiring()
    for op in graph:
        if op in inside:
            first, *others = inside[op]
            group, outside = [*parts_of(op), first], {*op.outputs, *first.outputs}
            writer.add(fused_kernel(group, outside, "narrow_results", name=op.name))
            writer.put({other.outputs[0]: first.outputs[0] for other in others})
        elif op not in dropped:
            writer.add(op)
    return writer.program()


def _readers(op: AbstractOp, graph: OpGraph) -> list[AbstractOp]:
    return [reader for tensor in op.outputs for reader in graph.readers.get(tensor, [])]


def _read_narrow(graph: OpGraph) -> dict[Tensor, DType]:
    """Return the storages of which all that is read is converted, and to what."""
    wanted: dict[Tensor, set[DType | None]] = {}
    for op in graph:
        for tensor in (*op.inputs, *op.holds):
            if op.kind is not Kind.VIEW:
                wanted.setdefault(tensor.root, set()).add(op.outputs[0].dtype if _converts(op) else None)
    leaving = {tensor.root for block in graph.blocks for pair in block.carries for tensor in pair}
    narrow: dict[Tensor, DType] = {}
    for root, types in wanted.items():
        (dtype, *others) = types
        if dtype is not None and not others and root in graph.producer and root not in leaving and _wide(root):
            narrow[root] = dtype
    return narrow


class _Retyping:
    """Write a program with other types: of storages, of all that shows them, and without conversions to the type at hand."""

    def __init__(self, types: dict[Tensor, DType], launches: float) -> None:
        self.types = types
        self.launches = launches
        self.twins: dict[Tensor, Tensor] = {}

    def run(self, graph: OpGraph) -> list[AbstractOp]:
        """Return the ops of the new program."""
        ops: list[AbstractOp] = []
        for old, body in graph.segments():
            written = [self._op(op) for op in body if not self._needless(op)]
            if (
                old is not None
                and (carries := [(self.tensor(a), self.tensor(b)) for a, b in old.carries]) != old.carries
            ):
                block: Block = replace(old, carries=carries)
                written = [replace(op, block=block) for op in written]
            ops += written
        return ops

    def tensor(self, old: Tensor) -> Tensor:
        """Return what a tensor became."""
        if old not in self.twins:
            base = None if old.base is None else self.tensor(old.base)
            dtype = self.types.get(old.root, old.dtype)
            changed = base is not old.base or (dtype is not old.dtype and _wide(old))
            self.twins[old] = replace(old, base=base, dtype=dtype if _wide(old) else old.dtype) if changed else old
        return self.twins[old]

    def _needless(self, op: AbstractOp) -> bool:
        """Tell whether an op converts to the type that its input has by now, and let that stand for its result."""
        if not _converts(op):
            return False
        source = self.tensor(op.inputs[0])
        if source.dtype is op.outputs[0].dtype:
            self.twins[op.outputs[0]] = source
            return True
        return False

    def _op(self, op: AbstractOp) -> AbstractOp:
        inputs, outputs, holds = (tuple(map(self.tensor, group)) for group in (op.inputs, op.outputs, op.holds))
        if isinstance(op, Fused):
            parts = tuple(self._op(part) for part in op.parts)
            return replace(op, inputs=inputs, outputs=outputs, holds=holds, parts=parts)
        if (inputs, outputs, holds) == (op.inputs, op.outputs, op.holds) and not _narrow(op):
            return op
        changed = replace(op, inputs=inputs, outputs=outputs, holds=holds)
        if isinstance(op, _HEAVY) and inputs and inputs[0].dtype is not op.inputs[0].dtype:
            changed = replace(changed, math=op.math or op.inputs[0].dtype)  # it computes as it did
        return replace(changed, launches=self.launches) if isinstance(changed, Matmul) and _narrow(op) else changed
