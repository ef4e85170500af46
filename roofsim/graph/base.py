"""Define what every op has: name, tensors, place in the program, and the three ways it states its work."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from roofsim.errors import GraphError
from roofsim.numeric import Real, exactly, same
from roofsim.records import dataclass, field

if TYPE_CHECKING:
    from roofsim.graph.component import Component, Purpose
    from roofsim.graph.tensor import DType, Tensor


class Phase(StrEnum):
    """When in a step an op runs."""

    FORWARD = "forward"
    BACKWARD = "backward"
    RECOMPUTE = "recompute"
    OPTIMIZER = "optimizer"


class Kind(StrEnum):
    """Classes of ops that share kernels and so share efficiency constants; results group by them."""

    MATMUL = "matmul"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    ELEMENTWISE = "elementwise"
    NORMALIZATION = "normalization"
    SOFTMAX = "softmax"
    DROPOUT = "dropout"
    REDUCTION = "reduction"
    LOSS = "loss"
    EMBEDDING = "embedding"
    GATHER = "gather"
    SORT = "sort"
    POOLING = "pooling"
    RESIZE = "resize"
    COPY = "copy"
    CAST = "cast"
    SCAN = "scan"
    VIEW = "view"
    COLLECTIVE = "collective"
    HOST_TRANSFER = "host_transfer"
    OPTIMIZER = "optimizer"


#: Classes whose FLOPs are those of the model; FLOPs of the others are vector work beside it.
HEAVY_KINDS = frozenset({Kind.MATMUL, Kind.CONVOLUTION, Kind.ATTENTION})


@dataclass(eq=False, slots=True)
class Block:
    """A run of ops that repeats: the layers of a transformer, the equal blocks of a CNN stage.

    One iteration hands its `carries` on to the next: the tensor that enters, and the one that leaves as it.
    """

    name: str
    repeat: Real
    carries: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    mirror: Block | None = None
    """Of a backward block: the forward block whose iterations it undoes, last first."""
    leading: bool = False
    """Whether it holds the first layers of a model, which a policy treats differently from the rest."""

    @property
    def once(self) -> bool:
        """Whether it is known to run once, so that what dies in it dies at its last op."""
        return exactly(self.repeat, 1.0)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class AbstractOp:
    """One kernel launch (or a view, which is none), counted once per iteration of its block.

    Subclasses are final. Identity is equality. The three work methods are the only place where work is counted;
    one multiply-add is two FLOPs.
    """

    kind: ClassVar[Kind]

    name: str
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    holds: tuple[Tensor, ...] = ()
    """Tensors that must stay alive until this op has run although it does not read them."""
    phase: Phase = Phase.FORWARD
    block: Block | None = None
    math: DType | None = None
    """Number format of the arithmetic units, where it is not that of the inputs (TF32, FP8)."""
    origin: AbstractOp | None = None
    """Of a backward or recomputed op: the forward op that it belongs to, as it was when gradients were taken."""
    component: Component | None = None
    """The part of the model that it belongs to; of a backward op that of its forward. None: a pass's own work."""
    layer_of_unit: int = 0
    """Of a block whose iterations are several layers each: in which of them it runs."""
    share: Real = 1.0
    """Share of the passes in which it runs (the first micro batch adds no gradients to earlier ones)."""

    @property
    def group(self) -> Kind:
        """The class under which its work is reported."""
        return self.kind

    @property
    def repeats(self) -> Real:
        """Iterations of its block: how many copies there are of what belongs to it."""
        return 1.0 if self.block is None else self.block.repeat

    @property
    def count(self) -> Real:
        """How often it runs in one pass."""
        return self.repeats * self.share

    @property
    def purpose(self) -> Purpose | None:
        """What its component is for."""
        return None if self.component is None else self.component.purpose

    def within(self, *purposes: Purpose) -> bool:
        """Tell whether it belongs to a component that is for one of some purposes, at any depth."""
        return self.component is not None and self.component.within(*purposes)

    @property
    def module(self) -> Block | Component | AbstractOp:
        """The block it repeats with, or the outermost component that it belongs to; itself if it belongs to nothing."""
        if self.block is not None:
            return self.block
        return self if self.component is None else self.component.root

    @property
    def layer(self) -> str:
        """What people call its module; an update belongs to no module of the model, but to the optimizer."""
        return str(self.phase) if self.phase is Phase.OPTIMIZER else self.module.name

    def flops(self) -> Real:
        """FLOPs of one launch."""
        return 0.0

    def model_flops(self) -> Real:
        """FLOPs of the model by the usual formulas: a causal mask in full, nothing that the kernel computes a second time."""
        return self.flops()

    def needed_flops(self) -> Real:
        """Return `model_flops` without what a mask hides: what has to be computed, whatever the kernel does."""
        return self.model_flops()

    def hardware_flops(self) -> Real:
        """Return the FLOPs that kernels of the ranks run on average: without what they skip of what a mask hides."""
        return self.flops()

    def executed_flops(self) -> Real:
        """FLOPs that the kernel really runs, on the rank that has most of them."""
        return self.flops()

    def bytes_read(self) -> Real:
        """Bytes of all distinct inputs."""
        total: Real = 0.0
        for tensor in dict.fromkeys(self.inputs):
            total = total + tensor.bytes
        return total

    def bytes_written(self) -> Real:
        """Bytes of all outputs."""
        total: Real = 0.0
        for tensor in self.outputs:
            total = total + tensor.bytes
        return total

    def kernels(self) -> Real:
        """Return the number of kernels launched."""
        return 1.0

    def check(self) -> None:
        """Raise `GraphError` when dimensions and tensors disagree."""

    def expect(self, what: str, actual: Real, expected: Real) -> None:
        """Raise `GraphError` unless two sizes agree."""
        if not same(actual, expected):
            raise GraphError(f"{type(self).__name__} {self.name!r}: {what} is {actual}, expected {expected}")
