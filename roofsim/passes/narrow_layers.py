"""Refuse narrow arithmetic for a network none of whose layers an engine runs in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.errors import Problem, SpecError
from roofsim.graph.ops import Convolution, GroupedMatmul, Matmul

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roofsim.graph.opgraph import OpGraph
    from roofsim.spec.precision.roles import Precision


def check_narrow_layers(graphs: Iterable[OpGraph], precision: Precision) -> None:
    """Refuse 8-bit arithmetic that no layer of the networks of a program would run in, although they convolve.

    Raises
    ------
    SpecError
        When there is none.
    """
    if precision.operands is None:
        return
    products = [op for graph in graphs for op in graph if isinstance(op, Convolution | Matmul | GroupedMatmul)]
    if any(isinstance(op, Convolution) for op in products) and not any(
        str(op.math) == precision.math for op in products
    ):
        raise SpecError(
            Problem(
                f"no layer of this network would run in {precision.math}: the engine has no such kernels of convolutions",
                path="workload.precision",
                hint="Take 16 bits, or an engine that has them: tensorrt. If yours does, state "
                "workload.engine_facts.narrow_convolutions: true.",
            )
        )
