"""Hold an op graph: ops in program order, wrapped around a networkx graph; group, sum and verify it."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from roofsim.errors import GraphError
from roofsim.graph.tensor import size_text
from roofsim.numeric import Real, same

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    import networkx as nx

    from roofsim.graph.base import AbstractOp, Block
    from roofsim.graph.tensor import Tensor

K = TypeVar("K", bound="Hashable")
T = TypeVar("T")


class OpGraph:
    """Ops in the order in which a program issues them; edges are the tensors between them.

    Ops that repeat belong to a `Block` and stand here once: totals multiply by its repeat count. Immutable: a pass
    builds a new graph from the ops it keeps.
    """

    def __init__(self, ops: Iterable[AbstractOp], facts: frozenset[str] = frozenset()) -> None:
        self.ops: tuple[AbstractOp, ...] = tuple(ops)
        self.facts = facts

    def __iter__(self) -> Iterator[AbstractOp]:
        return iter(self.ops)

    def __len__(self) -> int:
        return len(self.ops)

    @cached_property
    def kept(self) -> dict[str, Any]:
        """What was worked out about the graph as a whole, by name: it never changes."""
        return {}

    def once(self, name: str, ask: Callable[[OpGraph], T]) -> T:
        """Return what a function says of the graph as a whole; asked once, under its name."""
        if name not in self.kept:
            self.kept[name] = ask(self)
        known: T = self.kept[name]
        return known

    @cached_property
    def producer(self) -> dict[Tensor, AbstractOp]:
        """The op that makes each tensor."""
        return {tensor: op for op in self.ops for tensor in op.outputs}

    @cached_property
    def readers(self) -> dict[Tensor, list[AbstractOp]]:
        """The ops that read or hold each tensor, in program order; of what leaves a block as well, as if its last op did."""
        readers: dict[Tensor, list[AbstractOp]] = {}
        for op in self.ops:
            for tensor in dict.fromkeys(op.inputs + op.holds):
                readers.setdefault(tensor, []).append(op)
        last = {op.block: op for op in self.ops}
        for block in self.blocks:
            for _, leaving in block.carries:
                readers.setdefault(leaving, []).append(last[block])
        return readers

    @cached_property
    def digraph(self) -> nx.DiGraph[AbstractOp]:
        """The dependencies as a networkx graph; each edge carries its `tensors`."""
        import networkx as nx

        graph: nx.DiGraph[AbstractOp] = nx.DiGraph()
        graph.add_nodes_from(self.ops)
        producer = self.producer
        edges: dict[tuple[AbstractOp, AbstractOp], list[Tensor]] = {}
        for op in self.ops:
            for tensor in op.inputs + op.holds:
                source = producer.get(tensor)
                if source is not None:
                    edges.setdefault((source, op), []).append(tensor)
        graph.add_edges_from((source, op, {"tensors": tensors}) for (source, op), tensors in edges.items())
        return graph

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The repeated blocks, in program order."""
        return tuple(dict.fromkeys(op.block for op in self.ops if op.block is not None))

    @cached_property
    def sources(self) -> dict[Tensor, AbstractOp]:
        """Tensors that no op makes (parameters, inputs, buffers), each with the op that reads it first."""
        sources: dict[Tensor, AbstractOp] = {}
        producer = self.producer
        for op in self.ops:
            for tensor in op.inputs + op.holds:
                root = tensor.root
                if root not in producer:
                    sources.setdefault(root, op)
        return sources

    def replaced(self, ops: Iterable[AbstractOp], *facts: str) -> OpGraph:
        """Return a graph with other ops and, added to this one's, new facts."""
        return OpGraph(ops, self.facts | frozenset(facts))

    def total(self, amount: Callable[[AbstractOp], Real]) -> Real:
        """Sum an amount over all ops, each times its repeat count, in program order."""
        total: Real = 0.0
        for op in self.ops:
            total = total + amount(op) * op.count
        return total

    def grouped(self, key: Callable[[AbstractOp], K], amount: Callable[[AbstractOp], Real]) -> dict[K, Real]:
        """Sum an amount over ops by a key, in order of first appearance."""
        totals: dict[K, Real] = {}
        for op in self.ops:
            name = key(op)
            totals[name] = totals.get(name, 0.0) + amount(op) * op.count
        return totals

    def parameters(self) -> dict[Tensor, Real]:
        """Return each parameter with the number of copies that its block's repetition makes of it."""
        from roofsim.graph.tensor import Role

        return {
            tensor: op.repeats
            for tensor, op in self.sources.items()
            if tensor.role in (Role.PARAMETER, Role.MASTER_PARAMETER)
        }

    def segments(self) -> Iterator[tuple[Block | None, list[AbstractOp]]]:
        """Iterate over maximal runs of ops of one block (or of none)."""
        for block, run in groupby(self.ops, attrgetter("block")):
            yield block, list(run)

    def read_by_segment(self) -> list[set[Tensor]]:
        """Return, for each of `segments`, the tensors that something outside of it reads, or that leave its iterations."""
        bodies = list(self.segments())
        uses: Counter[Tensor] = Counter()
        own = [{tensor for op in body for tensor in op.inputs + op.holds} for _, body in bodies]
        for tensors in own:
            uses.update(tensors)
        return [
            {tensor for op in body for tensor in op.outputs if uses[tensor] > (tensor in tensors)}
            | {leaving for _, leaving in (() if block is None else block.carries)}
            for (block, body), tensors in zip(bodies, own, strict=True)
        ]

    def ancestors(self, op: AbstractOp) -> set[AbstractOp]:
        """Return every op that `op` depends on."""
        ancestors: set[AbstractOp] = set()
        waiting = [op]
        while waiting:
            reader = waiting.pop()
            for tensor in reader.inputs + reader.holds:
                source = self.producer.get(tensor)
                if source is not None and source not in ancestors:
                    ancestors.add(source)
                    waiting.append(source)
        return ancestors

    def verify(self) -> OpGraph:
        """Check the graph's own rules and return it.

        Raises
        ------
        GraphError
            A cycle, an input that nobody makes or that is made later, a name or tensor made twice, an op whose
            dimensions disagree with its tensors, a block in two pieces or whose carried tensors differ in size.
        """
        names = Counter(op.name for op in self.ops)
        repeated = [name for name, times in names.items() if times > 1]
        if repeated:
            raise GraphError(f"op names must be unique; repeated: {', '.join(repeated[:5])}")
        made: set[Tensor] = set()
        entering = {inner for block in self.blocks for inner, _ in block.carries}
        backwards = False
        for op in self.ops:
            for tensor in op.inputs + op.holds:
                if tensor in made or tensor.root.persistent:
                    continue
                if tensor not in entering:
                    raise GraphError(f"{op.name!r} reads {tensor}, which nothing makes before it{self._context(op)}")
                backwards = True
            for tensor in op.outputs:
                if tensor in made:
                    raise GraphError(f"{op.name!r} makes {tensor} a second time")
                made.add(tensor)
            op.check()
        self._verify_blocks(made)
        # Where every edge goes forward there is no cycle.
        if backwards:
            self._verify_acyclic()
        return self

    def _verify_acyclic(self) -> None:
        import networkx as nx

        if not nx.is_directed_acyclic_graph(self.digraph):
            cycle = " -> ".join(edge[0].name for edge in nx.find_cycle(self.digraph))
            raise GraphError(f"the graph has a cycle: {cycle}")

    def _verify_blocks(self, made: set[Tensor]) -> None:
        pieces = Counter(id(block) for block, _ in self.segments() if block is not None)
        for block in self.blocks:
            if pieces[id(block)] > 1:
                raise GraphError(f"block {block.name!r} is interrupted by ops of another block")
            for entering, leaving in block.carries:
                if entering not in made and not entering.root.persistent:
                    raise GraphError(f"block {block.name!r}: nothing makes {entering}, which enters it")
                if not same(entering.numel, leaving.numel) or entering.dtype != leaving.dtype:
                    raise GraphError(f"block {block.name!r}: {entering} enters but {leaving} leaves")

    def _context(self, op: AbstractOp) -> str:
        at = self.ops.index(op)
        lines = [f"    {other.name}" for other in self.ops[max(0, at - 5) : at + 6]]
        return "; around it:\n" + "\n".join(lines)

    def summary(self) -> dict[str, Any]:
        """Return how large the graph is: ops, tensors, blocks."""
        return {
            "ops": len(self.ops),
            "tensors": len(self.producer),
            "blocks": [f"{block.name} x{size_text(block.repeat)}" for block in self.blocks],
        }
