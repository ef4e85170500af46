"""Multiply with packed weights as an engine does: expanded inside the product, or written out for a library before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.expansion import Expansion, packed_weight
from roofsim.graph.naming import name_of_layer
from roofsim.graph.ops import Cast, GroupedMatmul, Matmul, Reduction
from roofsim.graph.tensor import Role, Tensor
from roofsim.numeric import exactly, is_scalar, share_of
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Real
    from roofsim.spec.engine.matmul import WeightOnly


@dataclass(frozen=True)
class _Way:
    """One of the ways to multiply: its kernels (None: a library's, behind the expansion), and the share of sizes that take it."""

    kernels: WeightOnly | None
    share: Real
    name: str


@dataclass(frozen=True, kw_only=True)
class ExpandWeights:
    """State the kernels of products with packed weights: what expands these, what multiplies, what adds parts of sums up.

    Where rows are arrays and differ in what runs, each way is there with the share of the sizes that take it, 1 or 0.

    Attributes
    ----------
    kernels
        The engine's kernels that expand weights inside.
    written_from
        Rows from which the weights are written out and a library multiplies; None: never.
    """

    name: ClassVar[str] = "packed_weights"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"expanded_weights"})

    kernels: WeightOnly
    written_from: int | None = None

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with the kernels of each such product."""
        ops: list[AbstractOp] = []
        for op in graph:
            packed = isinstance(op, Matmul | GroupedMatmul) and op.expansion is None and packed_weight(op) is not None
            ops += self._ways(op) if isinstance(op, Matmul | GroupedMatmul) and packed else [op]
        return graph.replaced(ops, *self.ensures)

    def _ways(self, op: Matmul | GroupedMatmul) -> list[AbstractOp]:
        """Return a product in each way that some size takes; later ones write where the first does."""
        rows = op.m if isinstance(op, Matmul) else op.rows / op.experts_touched()
        ops: list[AbstractOp] = []
        for way in self._chosen(rows):
            out = (
                replace(op.outputs[0], name=f"{op.outputs[0].name}{way.name}", base=op.outputs[0])
                if ops
                else op.outputs[0]
            )
            one = replace(op, outputs=(out, *op.outputs[1:]), share=op.share * way.share)
            one = replace(one, name=f"{op.name}{way.name}") if ops else one
            ops += _written(one, way) if way.kernels is None else _inside(one, way.kernels, way.share)
        return ops

    def _chosen(self, rows: Real) -> list[_Way]:
        written = 0.0 if self.written_from is None else share_of(rows >= self.written_from)
        few = 0.0 if self.kernels.few_rows is None else share_of(rows <= float(self.kernels.few_rows.rows))
        ways = [
            _Way(None, written, ".written_out"),
            _Way(self.kernels.for_few_rows(), (1.0 - written) * few, ".few_rows"),
            _Way(self.kernels, (1.0 - written) * (1.0 - few), ".many_rows"),
        ]
        return [way for way in ways if not (is_scalar(way.share) and way.share == 0.0)]


def _written(op: Matmul | GroupedMatmul, way: _Way) -> list[AbstractOp]:
    """Return the kernel that writes the weight out in the type of the other operand, and the library's product with it."""
    weight, dtype = op.inputs[1], op.inputs[0].dtype
    wide = Tensor(f"{op.name}.{weight.name}.{dtype}", weight.shape, dtype, Role.TEMPORARY, of=weight)
    wide = _in_turn(wide, op, way.share)
    expansion = Cast(
        name=f"{name_of_layer(op)}.dequantise",
        inputs=(weight,),
        outputs=(wide,),
        block=op.block,
        phase=op.phase,
        component=op.component,
        share=op.share,
        dequantises=True,
    )
    return [expansion, replace(op, inputs=(op.inputs[0], wide, *op.inputs[2:]))]


def _inside(op: Matmul | GroupedMatmul, kernels: WeightOnly, share: Real) -> list[AbstractOp]:
    """Return the kernel that expands the weight itself, and the one that adds up the parts of its sums."""
    tile_rows = None if kernels.tile_rows is None else float(kernels.tile_rows)
    stated = replace(
        op, launches=kernels.kernels, expansion=Expansion(tile_rows=tile_rows, slots=kernels.expansion_slots)
    )
    if kernels.parts == 1.0:
        return [stated]
    out = op.outputs[0]
    parts = Tensor(f"{op.name}.parts", (kernels.parts, *out.shape), out.dtype, Role.TEMPORARY)
    parts = _in_turn(parts, op, share)
    total = Reduction(
        name=f"{op.name}.sum_parts",
        inputs=(parts,),
        outputs=(out,),
        block=op.block,
        phase=op.phase,
        component=op.component,
        share=op.share,
        function="sum",
    )
    return [replace(stated, parts=kernels.parts, outputs=(parts, *op.outputs[1:])), total]


def _in_turn(tensor: Tensor, op: Matmul | GroupedMatmul, share: Real) -> Tensor:
    """Return a tensor in the room that it takes: experts are multiplied one after another, and some sizes have none of it."""
    taken = share / op.experts if isinstance(op, GroupedMatmul) else share
    if exactly(taken, 1.0):
        return tensor
    room = replace(tensor, name=f"{tensor.name}.room", shape=(taken * tensor.numel,))
    return replace(tensor, base=room, shows_more=True)
