"""State the work of fused kernels and of optimizer updates."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.base import AbstractOp, Kind
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.tensor import DType
    from roofsim.numeric import Real


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Fused(AbstractOp):
    """Several ops in one kernel: their FLOPs, but only the bytes that cross its border."""

    kind: ClassVar[Kind] = Kind.ELEMENTWISE

    parts: tuple[AbstractOp, ...]
    pattern: str = "pointwise"

    @property
    def group(self) -> Kind:
        order = (Kind.NORMALIZATION, Kind.SOFTMAX, Kind.LOSS, Kind.DROPOUT, Kind.REDUCTION)
        kinds = {part.group for part in self.parts}
        return next((kind for kind in order if kind in kinds), Kind.ELEMENTWISE)

    def flops(self) -> Real:
        total: Real = 0.0
        for part in self.parts:
            total = total + part.flops()
        return total

    def bytes_written(self) -> Real:
        views = {tensor for part in self.parts if part.kind is Kind.VIEW for tensor in part.outputs}
        written = {tensor.root: tensor for tensor in self.outputs if tensor not in views}
        total: Real = 0.0
        for tensor in written.values():
            total = total + tensor.bytes
        return total


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class OptimizerUpdate(AbstractOp):
    """Update `elements` parameters: the traffic of the optimizer's implementation, stated by the pass that adds it."""

    kind: ClassVar[Kind] = Kind.OPTIMIZER

    method: str
    implementation: str
    elements: Real
    read: Real
    written: Real
    launches: Real
    flops_per_element: float = 12.0
    extra_flops: Real = 0.0
    """Matmul FLOPs beside the elementwise ones (the Newton-Schulz iterations of Muon)."""
    stored: DType | None = None
    """Type of the parameters that it updates, as they are stored for the forward pass."""

    def flops(self) -> Real:
        return self.flops_per_element * self.elements + self.extra_flops

    def bytes_read(self) -> Real:
        return self.read

    def bytes_written(self) -> Real:
        return self.written

    def kernels(self) -> Real:
        return self.launches
