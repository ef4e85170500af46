"""Keep the input of a gated activation in a narrow type until its backward."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.ops import Cast, Elementwise
from roofsim.graph.tensor import FP8, DType, Tensor
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph


@dataclass(frozen=True, kw_only=True)
class StoreActivationInputs:
    """Cast what a gated activation reads to a narrow type; its backward reads that copy, cast back, and the wide one dies.

    Megatron-LM, megatron/core/fusions/fused_bias_swiglu.py (fp8_input_store): the copy is made in forward by a kernel of its
    own, and restored by another. Runs on typed tensors, before autograd, whose rule of gated activations reads what they hold.
    """

    name: ClassVar[str] = "store_activation_inputs"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"activation_inputs_stored"})

    dtype: DType = FP8

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with a narrow copy of the inputs of each gated activation."""
        ops: list[AbstractOp] = []
        for op in graph:
            if not isinstance(op, Elementwise) or op.function != "gated":
                ops.append(op)
                continue
            copies = tuple(Tensor(f"{tensor.name}.{self.dtype}", tensor.shape, self.dtype) for tensor in op.inputs)
            for place, (tensor, copy) in enumerate(zip(op.inputs, copies, strict=True)):
                name = f"{op.name}.store{place}"
                ops.append(Cast(name=name, inputs=(tensor,), outputs=(copy,), block=op.block, component=op.component))
            ops.append(replace(op, holds=(*op.holds, *copies)))
        return graph.replaced(ops, *self.ensures)
