"""Run the activation of a gated layer inside the kernel that multiplies it with the other half."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from roofsim.graph.naming import in_place_of
from roofsim.graph.ops import Elementwise, View
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor

#: Activations of gated layers.
ACTIVATIONS: Final = frozenset({"silu", "gelu", "relu"})


@dataclass(frozen=True, kw_only=True)
class GateActivations:
    """Make one kernel of an activation and the multiplication that alone reads it.

    Where both operands are halves of one tensor, the kernel reads that. Runs before types are assigned: nothing stands
    between the two yet.
    """

    name: ClassVar[str] = "gate_activations"
    requires: ClassVar[frozenset[str]] = frozenset()
    ensures: ClassVar[frozenset[str]] = frozenset({"gated_activations"})

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with gated activations in one kernel each."""
        readers = graph.readers
        activations: dict[Tensor, Elementwise] = {}
        kernels: dict[AbstractOp, AbstractOp | None] = {}
        for op in graph:
            if not isinstance(op, Elementwise):
                continue
            if op.function in ACTIVATIONS and len(readers.get(op.outputs[0], ())) == 1:
                activations[op.outputs[0]] = op
            elif op.function == "mul" and (gate := _gate(op, activations)) is not None:
                kernels |= {gate: None, op: _kernel(op, gate, graph)}
        ops = [new for op in graph if (new := kernels.get(op, op)) is not None]
        return graph.replaced(_without_dead_views(ops, graph), *self.ensures)


def _gate(op: Elementwise, activations: dict[Tensor, Elementwise]) -> Elementwise | None:
    return next((activations[tensor] for tensor in op.inputs if tensor in activations), None)


def _kernel(op: Elementwise, gate: Elementwise, graph: OpGraph) -> Elementwise:
    """Return the one kernel of a gate and its multiplication."""
    (other,) = (tensor for tensor in op.inputs if tensor is not gate.outputs[0])
    halves = gate.inputs[0], other
    split = graph.producer.get(other)
    together = isinstance(split, View) and set(split.outputs) == set(halves)
    return Elementwise(
        name=in_place_of(op, "gated"),
        inputs=split.inputs if together and split else halves,
        outputs=op.outputs,
        holds=op.holds,
        phase=op.phase,
        block=op.block,
        component=op.component,
        function="gated",
    )


def _without_dead_views(ops: list[AbstractOp], graph: OpGraph) -> list[AbstractOp]:
    """Drop the views that nothing reads any longer."""
    read = {tensor for op in ops for tensor in op.inputs + op.holds}
    read |= {leaving for block in graph.blocks for _, leaving in block.carries}
    bases = {tensor.base for op in ops for tensor in op.outputs}
    return [
        op
        for op in ops
        if not (isinstance(op, View) and op.outputs)
        or any(tensor in read or tensor in bases for tensor in op.outputs)
        or not any(graph.readers.get(tensor) for tensor in op.outputs)
    ]
