"""Run biases, masks and reductions as kernels of their own, as plain frameworks do."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from roofsim.graph.ops import Convolution, Elementwise, Matmul, Normalization, Softmax
from roofsim.graph.rewire import Rewiring
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor

#: Kernels of a softmax or a norm whose two reductions and last pass run one by one, each reading its input.
PARTS: Final = 3.0


@dataclass(frozen=True, kw_only=True)
class SplitPlainKernels:
    """Take out of kernels what an engine runs beside them.

    Attributes
    ----------
    biases, convolution_biases
        Whether biases of products and of convolutions are added in place by a kernel behind.
    masks
        Whether a kernel adds the mask of unfused attention in place before each softmax.
    reductions
        Whether both reductions and the last pass of softmax and norms are a kernel each.
    """

    name: ClassVar[str] = "plain_kernels"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"plain_kernels"})

    biases: bool = False
    convolution_biases: bool = False
    masks: bool = False
    reductions: bool = False

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with the kernels apart."""
        writer = Rewiring()
        for op in graph:
            if (self.biases and isinstance(op, Matmul)) or (self.convolution_biases and isinstance(op, Convolution)):
                _without_bias(op, writer)
            elif isinstance(op, Softmax | Normalization):
                self._reduced(op, writer, graph)
            else:
                writer.add(op)
        return graph.replaced(writer.program(), *self.ensures)

    def _reduced(self, op: Softmax | Normalization, writer: Rewiring, graph: OpGraph) -> None:
        source = graph.producer.get(op.inputs[0])
        masked = isinstance(source, Elementwise) and source.function == "mask"
        if self.masks and isinstance(op, Softmax) and not masked:
            x = writer.twin(op.inputs[0])
            writer.put({op.inputs[0]: _in_place(op, "mask", (x,), x, writer)})
        writer.add(replace(op, passes=PARTS) if self.reductions else op)


def _without_bias(op: Matmul | Convolution, writer: Rewiring) -> None:
    """Write a product without its bias, and the kernel that adds it."""
    if len(op.inputs) < 3 or not op.outputs:
        writer.add(op)
        return
    written = writer.add(replace(op, inputs=op.inputs[:2]))
    out = written.outputs[0]
    writer.put({op.outputs[0]: _in_place(op, "bias", (out, op.inputs[2]), out, writer)})


def _in_place(op: AbstractOp, leaf: str, inputs: tuple[Tensor, ...], target: Tensor, writer: Rewiring) -> Tensor:
    """Write a kernel that changes a tensor where it is, and return the tensor that it leaves there."""
    out = replace(target, name=f"{op.name}.{leaf}", base=target)
    function = "mask" if leaf == "mask" else "add"
    writer.ops.append(
        Elementwise(
            name=f"{op.name}.{leaf}",
            inputs=inputs,
            outputs=(out,),
            block=op.block,
            component=op.component,
            phase=op.phase,
            function=function,
        )
    )
    return out
