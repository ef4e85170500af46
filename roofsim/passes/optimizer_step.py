"""Add the parameter update: its state, its traffic, its launches and its temporaries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from roofsim.errors import PassError
from roofsim.graph.base import Phase
from roofsim.graph.ops import OptimizerUpdate
from roofsim.graph.tensor import FP32, DType, Role, Tensor
from roofsim.numeric import Real, ceil, maximum, minimum

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph

#: Elements that one multi-tensor launch covers: 320 blocks of 65,536 (PyTorch, ATen/native/cuda/MultiTensorApply.cuh).
ELEMENTS_PER_LAUNCH: Final = 320.0 * 65536.0
#: Tensors that one multi-tensor launch of three lists covers (same file: depth 3 takes 48).
TENSORS_PER_LAUNCH: Final = 48.0
#: Quintic Newton-Schulz steps of Muon (Keller Jordan, 2024).
MUON_STEPS: Final = 5.0


@dataclass(frozen=True, kw_only=True)
class Method:
    """What one optimizer reads and writes per parameter, counted kernel by kernel from its reference code.

    `parameter_*`, `gradient_*` and `state_*` are passes over tensors of these kinds; a fused kernel makes one of each.
    """

    states: int
    kernels: float
    parameter_reads: float
    parameter_writes: float
    gradient_reads: float
    state_reads: float
    state_writes: float
    flops: float
    temporaries: float = 0.0
    """Extra parameter-sized tensors that live during the update."""
    source: str = ""


#: (method, implementation) -> its passes. ``foreach`` runs each elementary step as one multi-tensor kernel, ``loop`` as
#: one kernel per tensor; the passes are the same.
METHODS: Final[dict[tuple[str, str], Method]] = {
    ("adamw", "fused"): Method(
        states=2, kernels=1.0, parameter_reads=1, parameter_writes=1, gradient_reads=1, state_reads=2, state_writes=2,
        flops=16.0, source="torch.optim fused kernel: parameter, gradient, two moments once each",
    ),
    ("adamw", "foreach"): Method(
        states=2, kernels=8.0, parameter_reads=2, parameter_writes=2, gradient_reads=2, state_reads=7, state_writes=7,
        flops=16.0, temporaries=1.0,
        source="torch.optim foreach: decay, lerp, mul, addcmul, sqrt, div, add, addcdiv; the denominator is a temporary",
    ),
    ("adamw", "bert_adam"): Method(
        states=2, kernels=14.0, parameter_reads=3, parameter_writes=1, gradient_reads=4, state_reads=12, state_writes=11,
        flops=20.0, temporaries=1.0,
        source="google-research and huggingface BertAdam, kernel by kernel: norm and clip, two moments, square root, "
        "quotient, decay, update; 31 passes in a loop over tensors",
    ),
    ("lamb", "fused"): Method(
        states=2, kernels=4.0, parameter_reads=2, parameter_writes=1, gradient_reads=2, state_reads=3, state_writes=3,
        flops=24.0, temporaries=0.0, source="apex fused LAMB: two stages and two norms",
    ),
    ("sgd", "foreach"): Method(
        states=0, kernels=2.0, parameter_reads=2, parameter_writes=1, gradient_reads=2, state_reads=0, state_writes=1,
        flops=4.0, temporaries=1.0, source="torch.optim foreach: weight decay into a temporary, add",
    ),
    ("sgd-momentum", "foreach"): Method(
        states=1, kernels=4.0, parameter_reads=2, parameter_writes=1, gradient_reads=2, state_reads=3, state_writes=3,
        flops=6.0, temporaries=1.0, source="torch.optim foreach: weight decay, momentum scale, add, update",
    ),
    ("lion", "fused"): Method(
        states=1, kernels=1.0, parameter_reads=1, parameter_writes=1, gradient_reads=1, state_reads=1, state_writes=1,
        flops=8.0, source="arXiv 2302.06675, one fused kernel",
    ),
    ("adam8bit", "fused"): Method(
        states=2, kernels=1.0, parameter_reads=1, parameter_writes=1, gradient_reads=1, state_reads=2, state_writes=2,
        flops=24.0, source="bitsandbytes block-wise kernel (arXiv 2110.02861): one byte a state, one scale per 256",
    ),
    ("adafactor", "loop"): Method(
        states=0, kernels=12.0, parameter_reads=2, parameter_writes=1, gradient_reads=4, state_reads=5, state_writes=6,
        flops=20.0, temporaries=0.0, source="transformers' Adafactor without momentum, kernel by kernel",
    ),
    ("muon", "loop"): Method(
        states=1, kernels=40.0, parameter_reads=1, parameter_writes=1, gradient_reads=2, state_reads=3, state_writes=3,
        flops=8.0, source="momentum and update around the Newton-Schulz products",
    ),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class AddOptimizerStep:
    """Append the update of all trained parameters and the state it keeps.

    Attributes
    ----------
    method, implementation
        A row of `METHODS`; ``loop`` takes the passes of ``foreach``, one launch per tensor and step.
    state_type
        Type of the moments (one byte and a scale per 256 for adam8bit).
    master_type
        Type of the master copy of the parameters; None: there is none.
    gradient_type
        Type in which the update reads gradients.
    loss_scaling
        Whether gradients are first freed of a loss scale and searched for infinities (torch.amp.GradScaler; with master
        parameters into an fp32 copy).
    clipping
        Whether the norm of all gradients is taken and they are scaled by it.
    """

    name: ClassVar[str] = "optimizer_step"
    requires: ClassVar[frozenset[str]] = frozenset({"backward"})
    ensures: ClassVar[frozenset[str]] = frozenset({"optimizer"})

    method: str
    implementation: str
    state_type: DType = FP32
    master_type: DType | None = None
    gradient_type: DType | None = None
    loss_scaling: bool = False
    clipping: bool = False

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with one update of every trained parameter behind it."""
        trained = {tensor: copies for tensor, copies in graph.parameters().items() if tensor.requires_grad}
        if not trained:
            raise PassError("optimizer_step: the graph has no trained parameters")
        return graph.replaced([*graph.ops, *self._updates(trained)], *self.ensures)

    def _row(self) -> Method:
        key = (self.method, self.implementation)
        if key not in METHODS and self.implementation == "loop":
            key = (self.method, "foreach")
        if key not in METHODS:
            raise PassError(f"optimizer_step: no row for {self.method} ({self.implementation})")
        return METHODS[key]

    def _updates(self, trained: dict[Tensor, Real]) -> list[OptimizerUpdate]:
        """Return one op per parameter type (nearly always one in all)."""
        by_type: dict[DType, dict[Tensor, Real]] = {}
        for tensor, copies in trained.items():
            by_type.setdefault(tensor.dtype, {})[tensor] = copies
        return [self._update(dtype, group) for dtype, group in by_type.items()]

    def _update(self, dtype: DType, group: dict[Tensor, Real]) -> OptimizerUpdate:
        row = self._row()
        elements, tensors, largest = _extent(group)
        states = self._state_tensors(row, elements, group)
        master = self._master(elements)
        stored = dtype.itemsize if self.master_type is None else self.master_type.itemsize
        gradient = dtype.itemsize if self.gradient_type is None else self.gradient_type.itemsize
        state = stored if not states else states[0].dtype.itemsize
        read = elements * (row.parameter_reads * stored + row.gradient_reads * gradient + row.state_reads * state)
        written = elements * (row.parameter_writes * stored + row.state_writes * state)
        if self.master_type is not None:
            written = written + elements * dtype.itemsize  # the low-precision copy
        before_read, before_written, before = self._before(gradient, stored)
        read, written = read + elements * before_read, written + elements * before_written
        temporary = self._temporary(row, dtype, elements, largest)
        return OptimizerUpdate(
            name=f"optimizer.{dtype.name}",
            phase=Phase.OPTIMIZER,
            inputs=(*states, *master),
            outputs=temporary,
            method=self.method,
            implementation=self.implementation,
            elements=elements,
            read=read,
            written=written,
            launches=self._launches(row, elements, tensors) + before * self._multi_tensor(elements, tensors),
            flops_per_element=row.flops,
            extra_flops=_newton_schulz(group) if self.method == "muon" else 0.0,
            stored=dtype,
        )

    def _state_tensors(self, row: Method, elements: Real, group: dict[Tensor, Real]) -> tuple[Tensor, ...]:
        if self.method == "adafactor":
            factors = _factored(group)
            return (Tensor("optimizer.factored_second_moment", (factors,), FP32, Role.OPTIMIZER_STATE),)
        dtype = DType("int8+scale", 1.0 + 4.0 / 256.0) if self.method == "adam8bit" else self.state_type
        return tuple(
            Tensor(f"optimizer.state{index}", (elements,), dtype, Role.OPTIMIZER_STATE) for index in range(row.states)
        )

    def _master(self, elements: Real) -> tuple[Tensor, ...]:
        if self.master_type is None:
            return ()
        return (Tensor("optimizer.master_parameters", (elements,), self.master_type, Role.MASTER_PARAMETER),)

    def _temporary(self, row: Method, dtype: DType, elements: Real, largest: Real) -> tuple[Tensor, ...]:
        """Return what lives only during the update: parameter-sized with foreach, twice the largest tensor in a loop."""
        wide = dtype if self.master_type is None else self.master_type
        if self.implementation == "loop":
            return (Tensor("optimizer.temporary", (2.0 * largest,), wide, Role.TEMPORARY),)
        if row.temporaries == 0.0:
            return ()
        return (Tensor("optimizer.temporary", (row.temporaries * elements,), wide, Role.TEMPORARY),)

    def _launches(self, row: Method, elements: Real, tensors: Real) -> Real:
        if self.implementation == "loop":
            return row.kernels * tensors
        return row.kernels * self._multi_tensor(elements, tensors)

    @staticmethod
    def _multi_tensor(elements: Real, tensors: Real) -> Real:
        """Return the launches of one multi-tensor kernel over all tensors."""
        return maximum(ceil(elements / ELEMENTS_PER_LAUNCH), ceil(tensors / TENSORS_PER_LAUNCH))

    def _before(self, gradient: float, stored: float) -> tuple[float, float, float]:
        """Return bytes read and written per parameter, and kernels, of what happens to gradients before the update."""
        read, written, kernels = 0.0, 0.0, 0.0
        if self.loss_scaling:
            read, written, kernels = read + gradient, written + max(gradient, stored), kernels + 1.0
            gradient = max(gradient, stored)
        if self.clipping:  # one pass for the norm, one for the scale
            read, written, kernels = read + 2.0 * gradient, written + gradient, kernels + 2.0
        return read, written, kernels


def _extent(group: dict[Tensor, Real]) -> tuple[Real, Real, Real]:
    """Return elements, tensors, and the elements of the largest tensor."""
    elements: Real = 0.0
    tensors: Real = 0.0
    largest: Real = 0.0
    for tensor, copies in group.items():
        elements = elements + tensor.numel * copies
        tensors = tensors + copies
        largest = maximum(largest, tensor.numel)
    return elements, tensors, largest


def _factored(group: dict[Tensor, Real]) -> Real:
    """Return the elements of Adafactor's second moment: a row and a column per matrix, everything for vectors."""
    total: Real = 0.0
    for tensor, copies in group.items():
        if len(tensor.shape) < 2:
            total = total + tensor.numel * copies
        else:
            total = total + (tensor.numel / tensor.shape[-1] + tensor.numel / tensor.shape[-2]) * copies
    return total


def _newton_schulz(group: dict[Tensor, Real]) -> Real:
    """Return FLOPs of Muon's orthogonalisation: per step 4 m^2 n + 2 m^3 for an m x n matrix with m <= n."""
    total: Real = 0.0
    for tensor, copies in group.items():
        if len(tensor.shape) == 2:
            rows, columns = tensor.shape
            m, n = minimum(rows, columns), maximum(rows, columns)
            total = total + MUON_STEPS * (4.0 * m * m * n + 2.0 * m * m * m) * copies
    return total
