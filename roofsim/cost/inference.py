"""Change the kernels of a pass of inference to those that an engine puts together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.cost.kernels.priced_as import priced_as
from roofsim.cost.narrow_products import narrow_passes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.cost.kernels.work import KernelWork
    from roofsim.cost.serving import InferencePass
    from roofsim.graph.base import AbstractOp

Works = list[tuple[int, "KernelWork"]]


def served(ops: Sequence[AbstractOp], works: Works, serving: InferencePass) -> Works:
    """Return the kernels of a pass of inference with what the engine merges, converts and adds."""
    priced = dict(enumerate(work for _, work in works))
    ops_of = {place: priced_as(ops[index], work) for place, (index, work) in enumerate(works)}
    matmul = serving.engine.matmul
    if matmul.narrow_products != "wide":
        narrow_passes(ops_of, priced, matmul.narrow_products, matmul.narrow_product_launches)
    return [(index, priced[place]) for place, (index, _) in enumerate(works)]
