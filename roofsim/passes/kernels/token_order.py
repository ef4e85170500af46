"""Bring tokens into the order of their experts and back with the kernels of an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.base import Kind
from roofsim.graph.component import Purpose
from roofsim.graph.fuse import contracted
from roofsim.graph.ops import Cast, Fused, Gather, GroupedMatmul, View
from roofsim.graph.rewire import Rewiring
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor
    from roofsim.numeric import Real


@dataclass(frozen=True, kw_only=True)
class OrderTokens:
    """Sort tokens by expert in one op, copy their rows in another (or not at all), and weigh and sum results in a third.

    Attributes
    ----------
    rows
        ``copied``: a kernel copies each token's row for each of its experts, and converts it on the way; ``gathered``: the
        products read the rows of converted tokens where they are.
    number
        Launches of all together; None: one for each of the three that there is.
    """

    name: ClassVar[str] = "order_tokens"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"ordered_tokens"})

    rows: str
    number: float | None = None

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with these kernels in each layer of experts."""
        if self.rows == "gathered":
            graph = graph.replaced(_gathered(graph))
        ops: list[AbstractOp] = []
        for (_, body), outside in zip(graph.segments(), graph.read_by_segment(), strict=True):
            ops += self._layer(body, outside)
        return graph.replaced(ops, *self.ensures)

    def _layer(self, body: list[AbstractOp], outside: set[Tensor]) -> list[AbstractOp]:
        ways = [op for op in body if _light(op) and op.within(Purpose.PERMUTE, Purpose.COMBINE)]
        returned = _derived(body)
        copies = [op for op in ways if isinstance(op, Gather) and op.purpose is Purpose.ROWS]
        rows = {tensor for op in copies for tensor in op.outputs}
        copying = [*copies, *(op for op in body if isinstance(op, Cast) and op.inputs[0] in rows)]
        summing = [op for op in ways if op in returned and op.kind is not Kind.VIEW]
        sorting = [op for op in ways if op not in returned and op not in copies and op.kind is not Kind.VIEW]
        if not summing or not sorting:
            return body
        if self.rows == "modules":
            copying, sorting = [], [*sorting, *copies]
        label = sorting[0].module.name
        single = 1.0 + (1.0 if copying else 0.0)
        few = self.number is not None and self.number <= single
        each: Real = 1.0 if not few or self.number is None else self.number / (single + 1.0)
        rest: Real = 1.0 if self.number is None else each if few else self.number - single
        body = contracted(body, sorting, outside, "order_tokens", name=f"{label}.order_tokens", launches=rest)
        body = contracted(body, copying, outside, "copy_rows", name=f"{label}.copy_rows", launches=each)
        return contracted(body, summing, outside, "sum_rows", name=f"{label}.sum_rows", launches=each)


def _light(op: AbstractOp) -> bool:
    return op.kind not in (Kind.COLLECTIVE, Kind.MATMUL) and not isinstance(op, Fused)


def _derived(body: list[AbstractOp]) -> set[AbstractOp]:
    """Return the ops that need what experts made, up to the next product."""
    made: set[Tensor] = set()
    derived: set[AbstractOp] = set()
    for op in body:
        if isinstance(op, GroupedMatmul):
            made |= set(op.outputs)
        elif op.kind is not Kind.MATMUL and any(tensor in made for tensor in op.inputs):
            made |= set(op.outputs)
            derived.add(op)
    return derived


def _gathered(graph: OpGraph) -> list[AbstractOp]:
    """Return the program without copies of rows: conversions of them become conversions of the tokens."""
    sources = {op.outputs[0]: op.inputs[0] for op in graph if isinstance(op, Gather) and op.purpose is Purpose.ROWS}
    sent = {tensor for op in graph if op.kind is Kind.COLLECTIVE for tensor in op.inputs}
    writer = Rewiring()
    for op in graph:
        if op.outputs and op.outputs[0] in sources and isinstance(op, Gather):
            _show(writer, op, writer.twin(op.inputs[0]), sent)
        elif isinstance(op, Cast) and op.inputs[0] in sources:
            tokens = writer.twin(sources[op.inputs[0]])
            narrow = replace(op.outputs[0], name=f"{op.outputs[0].name}.tokens", shape=tokens.shape)
            writer.ops.append(replace(op, inputs=(tokens,), outputs=(narrow,)))
            _show(writer, op, narrow, sent)
        else:
            writer.add(op)
    return writer.program()


def _show(writer: Rewiring, op: AbstractOp, tokens: Tensor, sent: set[Tensor]) -> None:
    """Write what shows the rows of tokens in the order of experts; those that ranks send have room of their own."""
    (rows,) = op.outputs
    shown = rows if rows in sent else replace(rows, base=tokens, shows_more=True)
    writer.ops.append(
        View(
            name=f"{op.name}.gathered",
            inputs=(tokens,),
            outputs=(shown,),
            block=op.block,
            component=op.component,
            function="gather",
        )
    )
    writer.put({rows: shown})
