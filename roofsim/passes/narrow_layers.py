"""Refuse arithmetic that no library has kernels for: narrow, of a network that convolves, or converted, of convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.errors import Problem, SpecError
from roofsim.graph.ops import Convolution, GroupedMatmul, Matmul

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roofsim.graph.opgraph import OpGraph
    from roofsim.spec.hardware.architecture import Architecture
    from roofsim.spec.precision.roles import Precision


def check_converted_layers(graphs: Iterable[OpGraph], precision: Precision, architecture: Architecture) -> None:
    """Refuse convolutions of a format that the card has no units for, and that libraries convert for matrix products alone.

    Raises
    ------
    SpecError
        When there are such convolutions.
    """
    kernels = {str(name): those for name, those in architecture.converted.items()}.get(precision.compute)
    if kernels is None or precision.math == precision.compute or "convolutions" in kernels:
        return
    if any(isinstance(op, Convolution) for graph in graphs for op in graph):
        raise SpecError(
            Problem(
                f"libraries have no {precision.compute} convolutions for cards of architecture {architecture.name}; they convert "
                "operands of matrix products alone",
                path="workload.precision",
                hint="Take fp16 or fp32.",
            )
        )


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
