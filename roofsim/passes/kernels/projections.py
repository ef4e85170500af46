"""Multiply projections of one input at once, as engines do that hold their weights as one matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.component import MERGED, Component, Purpose
from roofsim.graph.naming import moved, name_of_layer
from roofsim.graph.ops import Matmul, View
from roofsim.graph.rewire import Rewiring
from roofsim.graph.tensor import DType, Role, Tensor
from roofsim.numeric import Real, same
from roofsim.passes.stored import stored_types
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.graph.base import Block
    from roofsim.graph.opgraph import OpGraph
    from roofsim.spec.precision.formats import WeightFormat

#: What projections must have in common to be one product: block, input, merged part, stored type, and whether it is trained.
Key = tuple["Block | None", Tensor, Purpose, "DType | None", bool]


@dataclass(frozen=True, kw_only=True)
class MergeProjections:
    """Make one product of those that read the same tensor and are parts of one merged projection.

    Their weights become one matrix, of which each part is rows, and so do their biases; the parts of the result are views
    of one buffer. Runs on the graph as it was built, so that types, adapters, gradients and recomputation see the merged
    product only. Weights that a format stores in different types stay apart: no kernel multiplies them at once.

    Attributes
    ----------
    into
        The merged projections that the engine has.
    weights
        Format in which weights are stored; None: all in one type.
    """

    name: ClassVar[str] = "merge_projections"
    requires: ClassVar[frozenset[str]] = frozenset()
    ensures: ClassVar[frozenset[str]] = frozenset({"merged_projections"})

    into: frozenset[Purpose]
    weights: WeightFormat | None = None

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with one product for each set of projections."""
        stored = {} if self.weights is None else stored_types(graph, self.weights)
        sets: dict[Key, list[Matmul]] = {}
        for op in graph:
            if isinstance(op, Matmul) and (key := self._key(op, stored)) is not None:
                sets.setdefault(key, []).append(op)
        merged = {key: ops for key, ops in sets.items() if len(ops) > 1}
        firsts = {ops[0]: key for key, ops in merged.items()}
        dropped = {op for ops in merged.values() for op in ops}
        writer = Rewiring()
        whole: dict[tuple[Tensor, ...], Tensor] = {}
        for op in graph:
            if op in firsts:
                key = firsts[op]
                _write(writer, merged[key], key[2], whole)
            elif op not in dropped:
                writer.add(op)
        return graph.replaced(writer.program(), *self.ensures)

    def _key(self, op: Matmul, stored: dict[Tensor, DType]) -> Key | None:
        """Return what an op shares with those that it is merged with; None: with none."""
        part = next((whole for whole in self.into if op.purpose in MERGED[whole]), None)
        weight = op.inputs[1]
        if part is None or weight.role is not Role.PARAMETER or weight.base is not None or not same(op.batch, 1.0):
            return None
        return op.block, op.inputs[0], part, stored.get(weight), weight.requires_grad


def _write(writer: Rewiring, ops: list[Matmul], part: Purpose, whole: dict[tuple[Tensor, ...], Tensor]) -> None:
    """Write the product that stands for several, and the view that shows their results in its own.

    `whole` holds the matrix of each set of weights, which layers may share.
    """
    first, name = ops[0], "_".join(str(op.purpose) for op in ops)
    own = first.component
    assert own is not None
    component = Component(name, part, own.parent)
    width = _total([op.n for op in ops])

    def resized(tensor: Tensor, *shape: Real) -> Tensor:
        called = moved(tensor.name, own, component)
        return replace(tensor, name=called, shape=shape, component=component)

    def joined(parts: list[Tensor], *shape: Real) -> Tensor:
        return whole.setdefault(tuple(parts), resized(parts[0], *shape))

    inputs = [first.inputs[0], joined([op.inputs[1] for op in ops], width, first.k)]
    biases = [op.inputs[2] for op in ops if len(op.inputs) > 2]
    if biases:
        inputs.append(joined(biases, _total([bias.numel for bias in biases])))
    both = resized(first.outputs[0], *first.outputs[0].shape[:-1], width)
    product = replace(
        first,
        name=moved(first.name, own, component),
        inputs=tuple(inputs),
        outputs=(both,),
        n=width,
        component=component,
        repeated=width / _total([op.n / op.repeated for op in ops]),
        merges=tuple((op.purpose, op.n) for op in ops if op.purpose is not None),
    )
    shown = {op.outputs[0]: replace(op.outputs[0], base=both) for op in ops}
    writer.add(product)
    writer.add(
        View(
            name=f"{name_of_layer(product)}.split",
            inputs=(both,),
            outputs=tuple(shown.values()),
            block=first.block,
            component=component,
            function="split",
        )
    )
    writer.put(shown)


def _total(sizes: list[Real]) -> Real:
    total: Real = 0.0
    for size in sizes:
        total = total + size
    return total
