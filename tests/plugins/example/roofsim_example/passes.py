"""A what-if: every normalization hands on what it is given, as if a kernel before it did the work for nothing."""

from typing import ClassVar

from roofsim.graph.opgraph import OpGraph
from roofsim.graph.ops import Normalization
from roofsim.graph.rewire import Rewiring
from roofsim.passes.plugged import PlacedPass
from roofsim.spec.resolve import Resolved


class WithoutNorms:
    name: ClassVar[str] = "without-norms"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"without_norms"})

    def __call__(self, graph: OpGraph) -> OpGraph:
        writing = Rewiring()
        for op in graph:
            if isinstance(op, Normalization) and op.inputs[0].dtype is op.outputs[0].dtype:
                writing.put({op.outputs[0]: writing.twin(op.inputs[0])})
            else:
                writing.add(op)
        return graph.replaced(writing.ops, *self.ensures)


def without_norms(resolved: Resolved) -> WithoutNorms:
    return WithoutNorms()


WITHOUT_NORMS = PlacedPass(
    make=without_norms,
    phases=frozenset({"train", "forward", "prefill", "decode"}),
    after=("precision",),
    before=("autograd", "fuse_pointwise"),
)
