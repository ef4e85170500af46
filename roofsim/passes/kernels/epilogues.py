"""Put into GEMMs and convolutions of inference what an engine does not run behind them: norms, residual sums, activations."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from roofsim.graph.ops import Convolution, Elementwise, Matmul, Normalization, Pool
from roofsim.graph.rewire import Rewiring
from roofsim.numeric import same
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph
    from roofsim.spec.engine.kernels import ConvolutionFacts

#: Functions of one tensor that kernels of products apply to what they write.
ACTIVATIONS: Final = frozenset(
    (
        "relu",
        "relu6",
        "leaky_relu",
        "silu",
        "gelu",
        "gelu_new",
        "sigmoid",
        "tanh",
        "hardswish",
        "hardsigmoid",
        "mish",
        "elu",
    )
)


@dataclass(frozen=True, kw_only=True)
class MergeEpilogues:
    """Make one kernel of a product and what stands behind it, as far as an engine does so.

    A norm of running statistics is an affine map of channels: it becomes part of the weights and the bias. A sum with a residual
    is made by the later of the convolutions whose results it adds, which reads the other summand.

    Attributes
    ----------
    convolutions
        The engine's facts of convolutions: whether norms are folded, what the epilogue does, and whether max pools write the
        positions of what they find.
    products
        What GEMMs do to their result: ``none``, the ``activation`` behind them, or all ``pointwise`` ops whose other operands are
        there before the GEMM runs, but for sums that a norm reads, which belong to the norm's kernel.
    """

    name: ClassVar[str] = "merge_epilogues"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"epilogues"})

    convolutions: ConvolutionFacts
    products: str = "none"

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph without what products do."""
        return graph.replaced(_Writer(self, graph).run(), *self.ensures)


class _Writer:
    """Write the program with products in the place of themselves and what follows them."""

    def __init__(self, plan: MergeEpilogues, graph: OpGraph) -> None:
        self.plan = plan
        self.folds = plan.convolutions.norms == "folded"
        self.graph = graph
        self.order = {op: place for place, op in enumerate(graph)}
        self.handed = {leaving for block in graph.blocks for _, leaving in block.carries}

    def run(self) -> list[AbstractOp]:
        """Return the ops of the new program."""
        new = Rewiring()
        done: set[AbstractOp] = set()
        for op in self.graph:
            if op in done:
                continue
            behind = self._behind(op) if isinstance(op, Convolution | Matmul) else []
            if not behind:
                positions = isinstance(op, Pool) and not self.plan.convolutions.pool_positions and not op.backward
                new.add(replace(op, outputs=op.outputs[:1]) if positions else op)
                continue
            done.update(behind)
            made = {tensor for one in (op, *behind) for tensor in one.outputs}
            beside = (t for one in behind if isinstance(one, Elementwise) for t in one.inputs if t not in made)
            last = behind[-1].outputs[0]
            result = replace(last, base=None)
            new.add(replace(op, inputs=(*op.inputs, *beside), outputs=(result,)))
            new.put({last: result})
        return new.program()

    def _behind(self, op: Convolution | Matmul) -> list[AbstractOp]:
        """Return what follows a product inside its kernel, in order."""
        behind: list[AbstractOp] = []
        tensor = op.outputs[0]
        while tensor not in self.handed:
            readers = self.graph.readers.get(tensor, [])
            if len(readers) != 1 or readers[0].block is not op.block or not self._taken(readers[0], op, behind):
                break
            behind.append(readers[0])
            tensor = readers[0].outputs[0]
        return behind

    def _taken(self, op: AbstractOp, product: Convolution | Matmul, before: list[AbstractOp]) -> bool:
        """Tell whether the kernel of a product does an op as well, behind what it does already."""
        convolves = isinstance(product, Convolution)
        epilogue = self.plan.convolutions.epilogue if convolves else self.plan.products
        if isinstance(op, Normalization):
            return convolves and self.folds and not before and op.method == "batch" and not op.training
        if not isinstance(op, Elementwise) or epilogue == "none" or len(op.outputs) != 1:
            return False
        if any(isinstance(one, Elementwise) and one.function in ACTIVATIONS for one in before):
            return False
        if op.function in ACTIVATIONS:
            return len(op.inputs) == 1
        if epilogue == "pointwise":
            return not self._read_by_norm(op) and self._there_before(op, product, before)
        return epilogue == "residual" and self._adds_earlier(op, product, before)

    def _read_by_norm(self, op: AbstractOp) -> bool:
        return any(isinstance(reader, Normalization) for reader in self.graph.readers.get(op.outputs[0], []))

    def _there_before(self, op: Elementwise, product: AbstractOp, before: list[AbstractOp]) -> bool:
        """Tell whether all else that an op reads is there before the product runs."""
        result = (before[-1] if before else product).outputs[0]
        makers = (self.graph.producer.get(tensor) for tensor in op.inputs if tensor is not result)
        alike = same(op.outputs[0].numel, result.numel)
        return alike and all(maker is None or self.order[maker] < self.order[product] for maker in makers)

    def _adds_earlier(self, op: Elementwise, product: AbstractOp, before: list[AbstractOp]) -> bool:
        """Tell whether an op adds what is there before the product runs, element by element."""
        if op.function != "add" or len(op.inputs) != 2 or any(isinstance(one, Elementwise) for one in before):
            return False
        result = (before[-1] if before else product).outputs[0]
        others = [tensor for tensor in op.inputs if tensor is not result]
        if len(others) != 1 or not same(others[0].numel, op.outputs[0].numel):
            return False
        maker = self.graph.producer.get(others[0])
        return maker is None or self.order[maker] < self.order[product]
