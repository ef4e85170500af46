"""Let norms and activations write their results in the narrow type of the GEMM behind them, as a library's kernels do."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from roofsim.graph.fuse import fused_kernel
from roofsim.graph.ops import Cast, Elementwise, Fused, Normalization
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor

#: Activation functions that libraries' kernels convert as well, and their gradients with the suffix.
ACTIVATIONS: Final = frozenset({"gated", "silu", "gelu", "gelu_new", "relu", "relu_squared"})
_GRADIENT: Final = "_backward"
#: What kernels are called that convert beside other work.
PATTERN: Final = "quantised"


@dataclass(frozen=True, kw_only=True)
class QuantiseResults:
    """Make one kernel of a norm or an activation and the conversion of its result to a narrow type.

    Runs after autograd, on forward and backward passes. What something else reads in the wide type is written in it as well.

    Attributes
    ----------
    norms, activations
        Whether kernels of norms, and of activations and their gradients, convert their results.
    """

    name: ClassVar[str] = "quantise_results"
    requires: ClassVar[frozenset[str]] = frozenset({"typed", "backward"})
    ensures: ClassVar[frozenset[str]] = frozenset({"quantised_results"})

    norms: bool
    activations: bool

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with conversions inside the kernels that make what they convert."""
        readers = _readers(graph)
        order = {op: place for place, op in enumerate(graph)}
        casts = {maker: op for op in graph if (maker := self._maker(graph, readers, order, op)) is not None}
        return graph.replaced(list(_merged(graph, readers, casts)), *self.ensures)

    def _maker(
        self,
        graph: OpGraph,
        readers: dict[Tensor, list[AbstractOp]],
        order: dict[AbstractOp, int],
        op: AbstractOp,
    ) -> AbstractOp | None:
        """Return the op whose kernel can do a conversion as well: nothing between the two reads what it makes."""
        cast = _parts(op)[0]
        if not isinstance(cast, Cast) or not cast.outputs[0].dtype.narrow:
            return None
        maker = graph.producer.get(cast.inputs[0])
        if maker is None or not self._converts(maker) or (maker.block, maker.phase) != (op.block, op.phase):
            return None
        first = min(order[reader] for tensor in maker.outputs for reader in readers.get(tensor, [op]))
        return maker if first >= order[op] else None

    def _converts(self, op: AbstractOp) -> bool:
        if isinstance(op, Elementwise):
            return self.activations and op.function.removesuffix(_GRADIENT) in ACTIVATIONS
        return self.norms and isinstance(op, Normalization) and not op.backward


def _parts(op: AbstractOp) -> tuple[AbstractOp, ...]:
    """Return a conversion with what its kernel does beside (the sum that is a bias's gradient), or an op alone."""
    return op.parts if isinstance(op, Fused) and op.pattern == PATTERN else (op,)


def _readers(graph: OpGraph) -> dict[Tensor, list[AbstractOp]]:
    """Return the ops that read each tensor; those that only hold it are none."""
    readers: dict[Tensor, list[AbstractOp]] = {}
    for op in graph:
        for tensor in dict.fromkeys(op.inputs):
            readers.setdefault(tensor, []).append(op)
    return readers


def _merged(
    graph: OpGraph, readers: dict[Tensor, list[AbstractOp]], casts: dict[AbstractOp, AbstractOp]
) -> Iterator[AbstractOp]:
    """Yield the ops with a kernel in the place of each conversion, and none in that of the op before it."""
    makers = {cast: maker for maker, cast in casts.items()}
    handed = {leaving for block in graph.blocks for _, leaving in block.carries}
    dropped: set[Tensor] = set()
    for op in graph:
        if op in casts:
            continue
        if op in makers:
            maker = makers[op]
            read = {t for t in maker.outputs if t in handed or any(one is not op for one in readers.get(t, []))}
            dropped.update(set(maker.outputs) - read)
            yield fused_kernel([maker, *_parts(op)], read | set(op.outputs), PATTERN, name=maker.name)
        elif dropped.intersection(op.holds):  # what is not written need not be kept
            yield replace(op, holds=tuple(tensor for tensor in op.holds if tensor not in dropped))
        else:
            yield op
