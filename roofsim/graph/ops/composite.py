"""State the work of fused kernels and of optimizer updates."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.base import AbstractOp, Kind
from roofsim.graph.ops.indexed import CacheAppend
from roofsim.graph.ops.light import Normalization, Softmax
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.graph.tensor import DType
    from roofsim.numeric import Real


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Fused(AbstractOp):
    """Several ops in one kernel: their FLOPs, but only the bytes that cross its border.

    Attributes
    ----------
    pattern
        What merges them: a compiler (``pointwise``), or a library whose kernel no compiler sees into.
    launches
        Kernels that do all of it, where a library has more than one.
    """

    kind: ClassVar[Kind] = Kind.ELEMENTWISE

    parts: tuple[AbstractOp, ...]
    pattern: str = "pointwise"
    launches: Real = 1.0

    @property
    def heavy(self) -> AbstractOp | None:
        """The fused attention kernel around which the others run, if it is one operator with it."""
        return next((part for part in self.parts if part.kind is Kind.ATTENTION), None)

    @property
    def group(self) -> Kind:
        if self.heavy is not None:
            return self.heavy.group
        order = (Kind.NORMALIZATION, Kind.SOFTMAX, Kind.LOSS, Kind.DROPOUT, Kind.REDUCTION)
        kinds = {part.group for part in self.parts}
        return next((kind for kind in order if kind in kinds), Kind.ELEMENTWISE)

    def flops(self) -> Real:
        return self._sum(lambda part: part.flops())

    def model_flops(self) -> Real:
        return self._sum(lambda part: part.model_flops())

    def needed_flops(self) -> Real:
        return self._sum(lambda part: part.needed_flops())

    def hardware_flops(self) -> Real:
        return self._sum(lambda part: part.hardware_flops())

    def executed_flops(self) -> Real:
        return self._sum(lambda part: part.executed_flops())

    def _sum(self, amount: Callable[[AbstractOp], Real]) -> Real:
        total: Real = 0.0
        for part in self.parts:
            total = total + amount(part)
        return total

    def bytes_read(self) -> Real:
        if self.heavy is not None:  # its kernels hand on what they make through memory
            return self._sum(lambda part: part.bytes_read())
        total: Real = 0.0
        written_into = {
            part.inputs[1] for part in self.parts if isinstance(part, CacheAppend) and not part.concatenates
        }
        for tensor in dict.fromkeys(self.inputs):
            total = total if tensor in written_into else total + tensor.bytes
        return total + (self.passes - 1.0) * self.inputs[0].bytes if self.inputs else total

    def bytes_written(self) -> Real:
        if self.heavy is not None:
            return self._sum(lambda part: part.bytes_written())
        views = {tensor for part in self.parts if part.kind is Kind.VIEW for tensor in part.outputs}
        appends = {part.outputs[0]: part for part in self.parts if isinstance(part, CacheAppend)}
        written = {tensor.root: tensor for tensor in self.outputs if tensor not in views}
        total: Real = 0.0
        for tensor in written.values():
            total = total + (appends[tensor].bytes_written() if tensor in appends else tensor.bytes)
        return total

    def kernels(self) -> Real:
        return self.launches * self.passes

    @property
    def passes(self) -> float:
        """Kernels of a softmax or norm among its parts, each of which reads the input."""
        return max((part.passes for part in self.parts if isinstance(part, Softmax | Normalization)), default=1.0)


def parts_of(op: AbstractOp) -> tuple[AbstractOp, ...]:
    """Return the ops that a kernel is made of: itself, if it is not fused."""
    return op.parts if isinstance(op, Fused) else (op,)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class ExtraKernels(AbstractOp):
    """Kernels that an engine launches beside those of the model, whose traffic nobody stated: `number` launches."""

    kind: ClassVar[Kind] = Kind.COPY

    number: Real

    def kernels(self) -> Real:
        return self.number


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class StatedKernel(AbstractOp):
    """A kernel of the user's own, whose work the user states: FLOPs of matrix units, and bytes of memory, of one call."""

    kind: ClassVar[Kind] = Kind.MATMUL

    stated_flops: Real
    stated_bytes: Real
    backward: bool = False

    def flops(self) -> Real:
        return self.stated_flops

    def bytes_read(self) -> Real:
        return self.stated_bytes

    def bytes_written(self) -> Real:
        return 0.0


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
    listed: Real = 0.0
    """Parameter tensors that the host hands to kernels over many, counted once for each of these kernels."""

    def flops(self) -> Real:
        return self.flops_per_element * self.elements + self.extra_flops

    def bytes_read(self) -> Real:
        return self.read

    def bytes_written(self) -> Real:
        return self.written

    def kernels(self) -> Real:
        return self.launches
