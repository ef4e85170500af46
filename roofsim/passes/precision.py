"""Assign an element type to every tensor, and insert the casts that the scenario's precision brings."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, ClassVar, Final

from roofsim.errors import Problem, SpecError, UnsupportedOpError
from roofsim.graph.base import AbstractOp, Block
from roofsim.graph.opgraph import OpGraph
from roofsim.graph.ops import (
    STATE_STEPS,
    Attention,
    CacheAppend,
    Cast,
    Collective,
    Convolution,
    Copy,
    Dropout,
    Elementwise,
    Embedding,
    ExtraKernels,
    Fused,
    Gather,
    GroupedMatmul,
    HostCompute,
    HostTransfer,
    HostUpdate,
    Loss,
    Matmul,
    Normalization,
    OptimizerUpdate,
    Pool,
    Recurrence,
    Reduction,
    Resize,
    Scan,
    Softmax,
    Sort,
    StatedKernel,
    View,
)
from roofsim.graph.tensor import AUTO, FP32, DType, Role, Tensor
from roofsim.passes.stored import stored_types, weight_of
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.numeric import Real
    from roofsim.spec.precision.formats import WeightFormat

#: Policies of autocast: cast inputs to the low type, to fp32, to the widest input, or leave them alone.
LOW, WIDE, WIDEST, KEEP = "low", "wide", "widest", "keep"

#: Elementwise functions on autocast's fp32 list (torch.amp documentation, "CUDA Ops that autocast to float32").
WIDE_FUNCTIONS: Final = frozenset({"square", "cube", "pow", "rsqrt", "exp", "log", "reciprocal", "softplus", "angles"})


@singledispatch
def autocast_policy(op: AbstractOp) -> str:
    """Return what PyTorch's autocast does with the inputs of `op`."""
    raise UnsupportedOpError("autocast", op)


_POLICIES: Final[dict[str, tuple[type[AbstractOp], ...]]] = {
    LOW: (Matmul, GroupedMatmul, Attention, Convolution, Recurrence),
    WIDE: (Loss, Resize),
    WIDEST: (Copy, Fused),
    KEEP: (
        Collective,
        Dropout,
        Embedding,
        ExtraKernels,
        Gather,
        Pool,
        Scan,
        Sort,
        StatedKernel,
        View,
        Cast,
        CacheAppend,
        HostCompute,
        HostTransfer,
        HostUpdate,
        OptimizerUpdate,
        Reduction,
    ),
}
for _policy, _classes in _POLICIES.items():
    for _class in _classes:
        autocast_policy.register(_class, lambda _op, _policy=_policy: _policy)


@autocast_policy.register
def _(op: Elementwise) -> str:
    return WIDE if op.function in WIDE_FUNCTIONS else WIDEST


@autocast_policy.register
def _(op: Softmax) -> str:
    # The loss calls log_softmax with an explicit type, which autocast leaves alone.
    return KEEP if op.logarithm else WIDE


@autocast_policy.register
def _(op: Normalization) -> str:
    return KEEP if op.method in ("batch", "batch_statistics", "synchronised") else WIDE


@dataclass(frozen=True, kw_only=True)
class AssignPrecision:
    """Decide the types that lowering left open, as PyTorch's dispatcher would.

    Attributes
    ----------
    compute
        Type of activations and of arithmetic (with autocast: of the ops on its low-precision list).
    parameters
        Type in which parameters are stored for the forward pass.
    math
        Arithmetic of matmuls and convolutions where it is not the inputs' type: TF32 on fp32 data, a narrow format in
        the linear layers of blocks.
    operands
        Type that the operands of narrow arithmetic are converted to, scales included.
    autocast
        Keep parameters in fp32 and cast them, once per pass, where an op wants the low type.
    cache_type
        Type of the key-value cache.
    weights
        Format in which weights are stored, as in inference; None: as `parameters`, and narrow arithmetic casts them in
        every pass.
    narrow_weights
        Type in which training keeps the weights of narrow products; None: as `parameters`.
    weight_casts
        Share of the micro batches in which a weight is converted for narrow products; those after the first may find it kept.
    attention
        Type that the operands of fused attention are converted to, and in which it writes; None: they stay as they are.
    convolutions
        Whether narrow arithmetic covers convolutions too, inside of blocks and outside.
    """

    name: ClassVar[str] = "precision"
    requires: ClassVar[frozenset[str]] = frozenset()
    ensures: ClassVar[frozenset[str]] = frozenset({"typed"})

    compute: DType
    parameters: DType
    math: DType | None = None
    operands: DType | None = None
    autocast: bool = False
    cache_type: DType | None = None
    weights: WeightFormat | None = None
    narrow_weights: DType | None = None
    weight_casts: Real = 1.0
    attention: DType | None = None
    convolutions: bool = False

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with a type on every tensor, and the casts that this needs.

        Raises
        ------
        SpecError
            For attention in a narrow type where no fused kernel runs.
        """
        return graph.replaced(_Dispatch(self).run(graph), *self.ensures)


class _Dispatch:
    """Walk the program once; `env` says what each tensor of the old graph became."""

    def __init__(self, plan: AssignPrecision) -> None:
        self.plan = plan
        self.env: dict[Tensor, Tensor] = {}
        self.ops: list[AbstractOp] = []
        self.block: Block | None = None
        self.weight_casts: dict[Tensor, Tensor] = {}
        self.stored: dict[Tensor, DType] = {}

    def run(self, graph: OpGraph) -> list[AbstractOp]:
        if self.plan.weights is not None:
            self.stored = stored_types(graph, self.plan.weights, convolutions=self.plan.convolutions)
        elif self.plan.narrow_weights is not None:
            self.stored = dict.fromkeys(_multiplied_in_blocks(graph), self.plan.narrow_weights)
        for block, body in graph.segments():
            self.block = None if block is None else Block(block.name, block.repeat)
            for op in body:
                if isinstance(op, Cast):
                    self._cast_op(op)
                elif isinstance(op, Attention) and self.plan.attention is not None:
                    self._narrow_attention(op, self.plan.attention)
                else:
                    self._plain_op(op)
            if block is not None and self.block is not None:
                self.block.carries = [(self.tensor(a), self.tensor(b)) for a, b in block.carries]
        if self.plan.attention is not None and not any(isinstance(op, Attention) for op in self.ops):
            raise SpecError(
                Problem(
                    f"attention in {self.plan.attention} is a fused kernel's; nothing here runs in one",
                    path="workload.precision.attention",
                    hint="Leave it out, or set attention: flash.",
                )
            )
        cached = tuple(cast for cast in self.weight_casts.values() if not cast.dtype.narrow)
        if cached:
            # The cache of cast weights lives until the autocast context is left; narrow operands are cast per layer.
            self.ops.append(View(name="autocast.exit", holds=cached, function="forget_casts"))
        return self.ops

    # -- tensors ------------------------------------------------------------------------------------------------

    def tensor(self, old: Tensor) -> Tensor:
        """Return the typed twin of a tensor; sources get theirs on first sight."""
        new = self.env.get(old)
        if new is None:
            new = self.env[old] = self._source(old)
        return new

    def _source(self, old: Tensor) -> Tensor:
        if old.base is not None:
            return replace(old, dtype=self.tensor(old.base).dtype, base=self.tensor(old.base))
        if old.dtype is not AUTO:
            return old
        plan = self.plan
        if old.role is Role.KEY_VALUE_CACHE:
            return replace(old, dtype=plan.cache_type or plan.compute)
        if old.role in (Role.PARAMETER, Role.BUFFER):
            return replace(old, dtype=self.stored.get(old, plan.parameters))
        return replace(old, dtype=FP32 if plan.autocast else plan.compute)

    def _made(self, old: Tensor, dtype: DType) -> Tensor:
        base = None if old.base is None else self.tensor(old.base)
        if base is not None:
            dtype = base.dtype
        elif old.dtype is not AUTO:
            dtype = old.dtype
        new = self.env[old] = old if dtype is old.dtype and base is old.base else replace(old, dtype=dtype, base=base)
        return new

    # -- ops ----------------------------------------------------------------------------------------------------

    def _cast_op(self, op: Cast) -> None:
        source, out = self.tensor(op.inputs[0]), op.outputs[0]
        target = self.tensor(op.holds[0]).dtype if op.holds else out.dtype
        target = self.plan.compute if target is AUTO else target
        if source.dtype is target:
            self.env[out] = source
            return
        self.env[out] = self._converted(source, target, op.name, op)

    def _converted(
        self, tensor: Tensor, dtype: DType, name: str, op: AbstractOp, *, automatic: bool = False, share: Real = 1.0
    ) -> Tensor:
        out = Tensor(f"{tensor.name}.{dtype}", tensor.shape, dtype, requires_grad=False, of=tensor)
        self.ops.append(
            Cast(
                name=name,
                inputs=(tensor,),
                outputs=(out,),
                block=self.block,
                component=op.component,
                automatic=automatic,
                share=share,
            )
        )
        return out

    def _cast(self, tensor: Tensor, dtype: DType, op: AbstractOp, place: int = 0) -> Tensor:
        """Cast an input as autocast does: weights once per pass, everything else anew for each reader."""
        if tensor.dtype is dtype or not tensor.dtype.floating:
            return tensor
        weight = tensor.role is Role.PARAMETER
        if weight and tensor in self.weight_casts:
            return self.weight_casts[tensor]
        share = self.plan.weight_casts if weight and dtype.narrow else 1.0
        out = self._converted(tensor, dtype, f"{op.name}.cast{place}", op, automatic=True, share=share)
        if weight:
            self.weight_casts[tensor] = out
        return out

    def _plain_op(self, op: AbstractOp) -> None:
        inputs = tuple(self.tensor(tensor) for tensor in op.inputs)
        if self.plan.autocast:
            inputs = self._autocast(op, inputs)
        math = self._math(op)
        narrow = self.plan.operands
        if math is not None and narrow is not None:
            inputs = tuple(
                self._cast(tensor, narrow, op, place) if place < 2 else tensor for place, tensor in enumerate(inputs)
            )
        holds = tuple(self.tensor(tensor) for tensor in op.holds)
        dtype = self._result_type(op, inputs, holds)
        outputs = tuple(self._made(tensor, dtype) for tensor in op.outputs)
        self.ops.append(
            replace(op, inputs=inputs, outputs=outputs, holds=holds, block=self.block, math=op.math or math)
        )

    def _narrow_attention(self, op: Attention, narrow: DType) -> None:
        """Convert queries, keys and values, and the result back; backward keeps what the kernel reads and writes.

        Transformer Engine, attention/dot_product_attention/backends.py: FusedAttnFunc saves q, k, v and the result in fp8.
        """
        read, rest = op.inputs[:3], op.inputs[3:]
        cast: dict[Tensor, Tensor] = {}
        for place, old in enumerate(read):
            if old not in cast:
                cast[old] = self._cast(self.tensor(old), narrow, op, place)
        inputs = (*(cast[old] for old in read), *(self.tensor(old) for old in rest))
        wide = self._made(op.outputs[0], self.plan.compute)
        result = replace(wide, name=f"{wide.name}.{narrow}", dtype=narrow)
        outputs = (result, *(self._made(tensor, self.plan.compute) for tensor in op.outputs[1:]))
        holds = tuple(self.tensor(tensor) for tensor in op.holds)
        self.ops.append(replace(op, inputs=inputs, outputs=outputs, holds=holds, block=self.block, math=narrow))
        self.ops.append(
            Cast(
                name=f"{op.name}.widen",
                inputs=(result,),
                outputs=(wide,),
                block=self.block,
                component=op.component,
                automatic=True,
            )
        )

    def _autocast(self, op: AbstractOp, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        policy = autocast_policy(op)
        if policy == KEEP:
            return inputs
        if policy == WIDEST:
            # Elementwise kernels and concatenation read mixed types as they are.
            mixes = isinstance(op, Elementwise | Copy)
            return inputs if mixes else self._all(inputs, _widest(inputs) or FP32, op)
        wanted = self.plan.compute if policy == LOW else FP32
        if policy == WIDE and isinstance(op, Normalization):
            return (self._cast(inputs[0], wanted, op), *inputs[1:])
        return self._all(inputs, wanted, op)

    def _all(self, inputs: tuple[Tensor, ...], dtype: DType, op: AbstractOp) -> tuple[Tensor, ...]:
        return tuple(self._cast(tensor, dtype, op, place) for place, tensor in enumerate(inputs))

    def _math(self, op: AbstractOp) -> DType | None:
        math, narrow = self.plan.math, self.plan.operands is not None
        if narrow:
            if isinstance(op, Convolution):
                return math if self.plan.convolutions and not op.depthwise() else None
            weight = weight_of(op) if isinstance(op, Matmul | GroupedMatmul) else None
            kept = bool(self.stored) and weight not in self.stored  # a checkpoint may leave some layers wide
            return math if weight is not None and op.block is not None and not kept else None
        if math is None and isinstance(op, Matmul | GroupedMatmul) and self._expands(op):
            return self.plan.compute  # whatever later passes make of activations
        return math if isinstance(op, Attention | Matmul | Convolution | GroupedMatmul) else None

    def _expands(self, op: Matmul | GroupedMatmul) -> bool:
        """Whether a product reads packed weights, or a cache in a type that it does not multiply in."""
        scores = isinstance(op, Matmul) and op.scores and self.plan.cache_type is not None
        narrow_cache = scores and self.plan.cache_type is not self.plan.compute and not self.plan.autocast
        return narrow_cache or weight_of(op) in self.stored

    def _result_type(self, op: AbstractOp, inputs: tuple[Tensor, ...], holds: tuple[Tensor, ...]) -> DType:
        if isinstance(op, Matmul | GroupedMatmul | Convolution | Attention):
            low = inputs[0].dtype
            return self.plan.compute if low.narrow or not low.floating else low
        if isinstance(op, CacheAppend):
            return inputs[1].dtype
        if isinstance(op, Reduction) and self.plan.autocast and op.function == "sum":
            return FP32
        # What is made from nothing is made like a tensor that it holds.
        widest = _widest(inputs) or _widest(holds)
        if widest is not None:
            of_first = isinstance(op, Normalization | Scan)
            of_first = of_first or (isinstance(op, Elementwise) and op.function in STATE_STEPS)
            return inputs[0].dtype if of_first else widest
        return FP32 if self.plan.autocast else self.plan.compute


def _multiplied_in_blocks(graph: OpGraph) -> list[Tensor]:
    """Return the matrices of the linear layers of blocks, which narrow arithmetic multiplies."""
    matmuls = (op for op in graph if isinstance(op, Matmul | GroupedMatmul) and op.block is not None)
    return [weight for op in matmuls if (weight := weight_of(op)) is not None]


def _widest(tensors: tuple[Tensor, ...]) -> DType | None:
    types = [tensor.dtype for tensor in tensors if tensor.dtype.floating]
    return max(types, key=lambda dtype: dtype.rank) if types else None
