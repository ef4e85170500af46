"""Keep the weights of routed experts off the device, and fetch them for each pass or let the host multiply with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.base import AbstractOp, Block
from roofsim.graph.ops import GroupedMatmul, HostCompute, HostTransfer
from roofsim.graph.tensor import Role, Tensor
from roofsim.numeric import any_above
from roofsim.passes.host.offload import fetching, units_of
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Real

Body = list[AbstractOp]


@dataclass(frozen=True, kw_only=True)
class OffloadExperts:
    """Keep the weights of routed experts in a place beyond the device; all else of a layer stays on it.

    Where the host computes, the tokens' rows go there, the products of the experts and what stands between them run at the pace
    of host memory, of which they read the experts that tokens chose, and the rows come back (llama.cpp's ``--cpu-moe``,
    KTransformers). Otherwise the weights of all experts of a layer are copied before it runs.

    Attributes
    ----------
    place
        A place of `roofsim.spec.scenario.offload`.
    share
        Not those of all layers, but of this share of them.
    leading
        Whether these are the first layers (``--n-cpu-moe`` of llama.cpp counts them), or as many of each block.
    computed
        Share of the passes in which the host computes: 0, 1, or an array of such.
    """

    name: ClassVar[str] = "offload_experts"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"parameters_offloaded"})

    place: str = "host"
    share: Real | None = None
    leading: bool = False
    computed: Real = 0.0

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with copies before the products of experts, or with these computed by the host."""
        ops: Body = []
        for at, (block, body, leaves) in enumerate(units_of(graph, self.share, self.place, leading=self.leading)):
            ops += self._unit(at, block, body) if leaves else body
        return graph.replaced(ops, *self.ensures)

    def _unit(self, at: int, block: Block | None, body: Body) -> Body:
        leaving = _of_experts(body)
        if not leaving:
            return body
        on_host, copied = any_above(self.computed, 0.0), any_above(1.0 - self.computed, 0.0)
        weights = {t: replace(t, place=self.place) for t in _weights(leaving)}
        if not on_host:
            return fetching(at, block, body, weights, self.place)
        if not copied:
            return self._computing(at, block, body, leaving, weights)
        chosen = set(leaving)
        seldom = [replace(op, share=op.share * (1.0 - self.computed)) if op in chosen else op for op in body]
        fetched = fetching(at, block, seldom, weights, self.place)
        fetched = [replace(op, share=1.0 - self.computed) if isinstance(op, HostTransfer) else op for op in fetched]
        send, work, back = self._there(at, block, leaving, weights, ())
        first = len(fetched) - len(body) + body.index(leaving[0])
        there = [replace(op, share=self.computed) for op in (send, replace(work, inputs=send.moved), back)]
        return [*fetched[:first], *there, *fetched[first:]]

    def _computing(
        self, at: int, block: Block | None, body: Body, leaving: Body, weights: dict[Tensor, Tensor]
    ) -> Body:
        """Return a unit whose products of experts the host computes."""
        chosen = set(leaving)
        kept = [op for op in body if op not in chosen]
        read = {t for op in kept for t in (*op.inputs, *op.holds)}
        read |= {t.root for t in read} | {t for _, t in (() if block is None else block.carries)}
        results = tuple(t for op in leaving for t in op.outputs if t in read or t.root in read)
        last = max(place for place, op in enumerate(body) if op in chosen)
        before = [op for op in body[:last] if op not in chosen]
        return [*before, *self._there(at, block, leaving, weights, results), *body[last + 1 :]]

    def _there(
        self, at: int, block: Block | None, leaving: Body, weights: dict[Tensor, Tensor], results: Sequence[Tensor]
    ) -> tuple[HostTransfer, HostCompute, HostTransfer]:
        """Return what goes to the host, its work, and what comes back."""
        made = {t for op in leaving for t in op.outputs}
        entering = tuple(
            t
            for t in dict.fromkeys(t for op in leaving for t in op.inputs)
            if t not in made and t.root not in made and t.root not in weights
        )
        bytes_read: Real = 0.0
        operations: Real = 0.0
        for op in leaving:
            operations = operations + op.flops() * op.share
            bytes_read = bytes_read + op.bytes_read() * op.share
        suffix = f"{'rest' if block is None else block.name}.{at}"
        moved = tuple(results) or tuple(t for t in leaving[-1].outputs)
        send = HostTransfer(
            name=f"offload.routed.{suffix}", direction="to_host", place=self.place, moved=entering, block=block
        )
        work = HostCompute(
            name=f"offload.experts.{suffix}",
            inputs=(*entering, *weights.values()),
            outputs=tuple(results),
            read=bytes_read,
            operations=operations,
            of_experts=True,
            block=block,
        )
        back = HostTransfer(
            name=f"offload.returned.{suffix}", direction="from_host", place=self.place, moved=moved, block=block
        )
        return send, work, back


def _weights(ops: Body) -> list[Tensor]:
    return list(dict.fromkeys(t.root for op in ops for t in op.inputs if t.root.role is Role.PARAMETER))


def _of_experts(body: Body) -> Body:
    """Return the products of experts with weights of their own, and what lies between the first and the last of them."""
    products = [op for op in body if isinstance(op, GroupedMatmul) and _weights([op])]
    behind: set[Tensor] = set()
    derived: Body = []
    for op in body:
        if op in products or any(t in behind for t in op.inputs):
            derived.append(op)
            behind |= set(op.outputs)
    wanted: set[Tensor] = set()
    between: Body = []
    for op in reversed(derived):
        if op in products or any(t in wanted for t in op.outputs):
            between.append(op)
            wanted |= {t for t in op.inputs if t in behind}
    return between[::-1]
