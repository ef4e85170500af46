"""Keep gradients in a buffer across micro batches, or in a wider type than they are computed in."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.base import AbstractOp, Phase
from roofsim.graph.ops import Cast, Elementwise, GroupedMatmul, Matmul
from roofsim.graph.rewire import has_twins, twins_of
from roofsim.graph.tensor import DType, Role, Tensor
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Real


@dataclass(frozen=True, kw_only=True)
class AccumulateGradients:
    """Add each parameter's gradient to its buffer as soon as it is there.

    Attributes
    ----------
    share
        Share of the micro batches that add to earlier ones: 1 - 1/m; the first one's gradient is simply kept, unless
        `buffer_type` says that there is a buffer of another type from the start.
    buffer_type
        Type of a separate gradient buffer (Megatron's fp32 main gradients); None: gradients stay where they are.
    fused
        Whether the weight-gradient matmul adds into the buffer itself: no extra pass over the gradient.
    only_layers
        Whether only the matmuls of repeated layers do; another's gradient is made in the buffer's type and added.
    of_experts
        Whether the products of experts do as well.
    casts
        Whether a kernel of its own brings the gradient into the buffer's type before the sum.
    """

    name: ClassVar[str] = "accumulate"
    requires: ClassVar[frozenset[str]] = frozenset({"backward"})
    ensures: ClassVar[frozenset[str]] = frozenset({"accumulated"})

    share: Real = 0.0
    buffer_type: DType | None = None
    fused: bool = False
    only_layers: bool = False
    of_experts: bool = False
    casts: bool = False

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with gradients added into kept buffers."""
        last = _last_writer(graph)
        ops: list[AbstractOp] = []
        env: dict[Tensor, Tensor] = {}
        for op in graph:
            current = _rewired(op, env)
            finished = [tensor for tensor in op.outputs if last.get(tensor.root) is op]
            if finished and self.fused and self._multiplies(op):
                if op.block is not None or not self.only_layers:
                    ops.append(self._fused(current, op))
                    continue
                current = self._wide(current, env)
            ops.append(current)
            for tensor in finished:
                ops += self._added(op, tensor, env[tensor])
        return graph.replaced(ops, *self.ensures)

    def _multiplies(self, op: AbstractOp) -> bool:
        return isinstance(op, Matmul) or (self.of_experts and isinstance(op, GroupedMatmul))

    def _buffer(self, gradient: Tensor) -> Tensor:
        dtype = gradient.dtype if self.buffer_type is None else self.buffer_type
        return Tensor(f"{gradient.name}.buffer", gradient.shape, dtype, Role.GRADIENT_BUFFER, of=gradient)

    def _fused(self, current: AbstractOp, op: AbstractOp) -> AbstractOp:
        """Let the matmul read the buffer and write it back."""
        buffer = self._buffer(op.outputs[0])
        written = replace(buffer, name=f"{buffer.name}.sum", role=Role.TEMPORARY, base=buffer)
        return replace(current, inputs=(*current.inputs, buffer), outputs=(written,))

    def _wide(self, current: AbstractOp, env: dict[Tensor, Tensor]) -> AbstractOp:
        """Let the matmul write its result in the buffer's type."""
        dtype = self.buffer_type or current.outputs[0].dtype
        outputs = tuple(replace(tensor, dtype=dtype) for tensor in current.outputs)
        wider = dict(zip(current.outputs, outputs, strict=True))
        env.update({old: wider[new] for old, new in env.items() if new in wider})
        return replace(current, outputs=outputs)

    def _added(self, op: AbstractOp, gradient: Tensor, temporary: Tensor) -> list[AbstractOp]:
        if not self.casts or self.buffer_type is None:
            return [self._add(op, gradient, temporary)]
        wide = replace(temporary, name=f"{gradient.name}.wide", dtype=self.buffer_type, base=temporary)
        cast = Cast(
            name=f"{op.name}.widen.{gradient.name}",
            inputs=(temporary,),
            outputs=(wide,),
            phase=Phase.BACKWARD,
            block=op.block,
            origin=op.origin,
            component=op.component,
        )
        return [cast, self._add(op, gradient, wide)]

    def _add(self, op: AbstractOp, gradient: Tensor, temporary: Tensor) -> Elementwise:
        share = 1.0 if self.buffer_type is not None else self.share
        buffer = self._buffer(gradient)
        written = replace(buffer, name=f"{buffer.name}.sum", role=Role.TEMPORARY, base=buffer)
        return Elementwise(
            name=f"{op.name}.accumulate.{gradient.name}",
            inputs=(temporary, buffer),
            outputs=(written,),
            function="add",
            phase=Phase.BACKWARD,
            block=op.block,
            origin=op.origin,
            component=op.component,
            share=share,
        )


def _rewired(op: AbstractOp, env: dict[Tensor, Tensor]) -> AbstractOp:
    """Return `op` with the gradients of parameters as temporaries, which die once they are in the buffer."""
    outputs = []
    for tensor in op.outputs:
        base = None if tensor.base is None else env.get(tensor.base, tensor.base)
        if tensor.role is Role.GRADIENT or base is not tensor.base:
            env[tensor] = replace(tensor, role=Role.TEMPORARY, base=base)
        outputs.append(env.get(tensor, tensor))
    if not has_twins(op, env) and env.keys().isdisjoint(op.outputs):
        return op
    return replace(op, inputs=twins_of(op.inputs, env), holds=twins_of(op.holds, env), outputs=tuple(outputs))


def _last_writer(graph: OpGraph) -> dict[Tensor, AbstractOp]:
    """Return, for each gradient storage, the op that writes it last (shared weights are written twice)."""
    writer: dict[Tensor, AbstractOp] = {}
    for op in graph:
        for tensor in op.outputs:
            if tensor.root.role is Role.GRADIENT:
                writer[tensor.root] = op
    return writer
