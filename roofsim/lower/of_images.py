"""Lower a resolved scenario, and refuse images of sizes that its model does not take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.errors import Problem, SpecError
from roofsim.lower.dispatch import lower
from roofsim.points import anywhere

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.lower.call import Call
    from roofsim.numeric import Real
    from roofsim.spec.resolve import Resolved


def lowered(resolved: Resolved, call: Call) -> OpGraph:
    """Lower the model.

    Raises
    ------
    SpecError
        For images of a size at which a map vanishes or is no whole number.
    """
    return with_maps(resolved, lower(resolved.model, call))


def with_maps(resolved: Resolved, graph: OpGraph) -> OpGraph:
    """Return a graph; raises as `lowered` does."""
    size, extents = resolved.workload.image_size, resolved.model.traits().image_extents
    if size is not None or extents:
        for op in graph:
            for tensor in op.outputs:
                if any(anywhere((length < 1.0) | (length % 1.0 != 0.0)) for length in tensor.shape):
                    raise SpecError(
                        Problem(
                            f"{resolved.model.name} does not take {_shown(size)}: {op.name} would make {tensor}",
                            path="model.sizes" if size is None else "workload.image_size",
                            hint="Its usual size, or a multiple of what its stages divide by, fits.",
                            code="image-size",
                        )
                    )
    return graph


def _shown(size: Real | None) -> str:
    return "images of these sides" if size is None else f"images of {size:g} pixels"
