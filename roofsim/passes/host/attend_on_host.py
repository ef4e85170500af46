"""Let the processors of the host attend to a cache that lies there."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.base import AbstractOp, Block
from roofsim.graph.ops import CacheAppend, HostCompute, HostTransfer
from roofsim.graph.tensor import Role, Tensor
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Real

Body = list[AbstractOp]


@dataclass(frozen=True, kw_only=True)
class AttendOnHost:
    """Keep keys and values on the host, which attends to them: queries and what is new go there, results come back.

    llama.cpp's --no-kv-offload (llama_context: offload_kqv), FlexGen's --cpu-cache-compute (arXiv 2303.06865, section 4).
    Whatever reads the cache before the next product with weights runs there, at the pace of host memory.
    """

    name: ClassVar[str] = "attend_on_host"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"cache_offloaded"})

    place: str = "host"

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with the ops between cache and next product computed by the host."""
        ops: Body = []
        for at, (block, body) in enumerate(graph.segments()):
            ops += self._attending(at, block, body)
        return graph.replaced(ops, *self.ensures)

    def _attending(self, at: int, block: Block | None, body: Body) -> Body:
        there = _reading_cache(body)
        if not there:
            return body
        leaving = [op for op in body if op in there]
        made = {t for op in leaving for t in op.outputs}
        caches = [
            t for t in dict.fromkeys(t.root for op in leaving for t in op.inputs) if t.role is Role.KEY_VALUE_CACHE
        ]
        entering = [
            t
            for t in dict.fromkeys(t for op in leaving for t in op.inputs)
            if t not in made and t.root not in caches and t.root not in made
        ]
        kept = [op for op in body if op not in there]
        read = {t for op in kept for t in (*op.inputs, *op.holds)} | {
            t for _, t in (() if block is None else block.carries)
        }
        results = tuple(t for t in made if t in read or t.root in read)
        bytes_read: Real = 0.0
        operations: Real = 0.0
        for op in leaving:
            operations = operations + op.flops() * op.share
            if not isinstance(op, CacheAppend) and any(t in made or t.root in caches for t in op.inputs):
                bytes_read = bytes_read + op.bytes_read() * op.share
        suffix = "" if block is None else f".{block.name}"
        send = HostTransfer(
            name=f"offload.attended{suffix}.{at}",
            direction="to_host",
            place=self.place,
            moved=tuple(entering),
            block=block,
        )
        work = HostCompute(
            name=f"offload.attention{suffix}.{at}",
            inputs=(*entering, *(replace(t, place=self.place) for t in caches)),
            outputs=results,
            read=bytes_read,
            operations=operations,
            block=block,
        )
        back = HostTransfer(
            name=f"offload.result{suffix}.{at}",
            direction="from_host",
            place=self.place,
            moved=results,
            block=block,
        )
        first = next(place for place, op in enumerate(body) if op in there)
        last = max(place for place, op in enumerate(body) if op in there)
        before = [op for op in body[:last] if op not in there]
        assert first <= last
        return [*before, send, work, back, *[op for op in body[last:] if op not in there]]


def _reading_cache(body: Body) -> set[AbstractOp]:
    """Return the ops that append to a cache, or read what comes of it, up to the next op with weights."""
    derived: set[Tensor] = set()
    readers: set[AbstractOp] = set()
    for op in body:
        roots = {t.root for t in op.inputs}
        if any(t.role is Role.PARAMETER for t in roots):
            continue
        if any(t.role is Role.KEY_VALUE_CACHE and not t.off_device for t in roots) or roots & derived:
            readers.add(op)
            derived |= {t.root for t in op.outputs} | set(op.outputs)
    return readers
