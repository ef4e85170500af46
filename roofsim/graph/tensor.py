"""Describe tensors: element type, role, shape, and whose storage they share."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.numeric import Real, minimum, product
from roofsim.records import computed, dataclass, replace

if TYPE_CHECKING:
    from roofsim.graph.component import Component, Purpose


class Role(StrEnum):
    """What a tensor is for; the memory ledger groups by it."""

    INPUT = "input"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    GRADIENT = "gradient"
    GRADIENT_BUFFER = "gradient_buffer"
    OPTIMIZER_STATE = "optimizer_state"
    MASTER_PARAMETER = "master_parameter"
    ACTIVATION = "activation"
    TEMPORARY = "temporary"
    KEY_VALUE_CACHE = "key_value_cache"
    COMMUNICATION = "communication"


#: Roles of tensors that stand before a step begins: no op of the graph needs to produce them.
PERSISTENT: Final = frozenset(
    {
        Role.INPUT,
        Role.PARAMETER,
        Role.BUFFER,
        Role.GRADIENT_BUFFER,
        Role.OPTIMIZER_STATE,
        Role.MASTER_PARAMETER,
        Role.KEY_VALUE_CACHE,
    }
)


@dataclass(frozen=True)
class DType:
    """An element type: its name, the bytes of one element, and whether it is a floating-point type."""

    name: str
    itemsize: Real
    floating: bool = True
    rank: int = 0
    """Place in type promotion: the wider floating type wins."""
    packed: bool = False
    """Whether it only stores weights: kernels expand it to the type that they multiply in."""
    microscaled: bool = False
    """Whether blocks of elements share a scale of eight bits that is a power of two (OCP Microscaling Formats 1.0)."""

    @property
    def narrow(self) -> bool:
        """Whether it is a floating type of operands only: results are wider."""
        return self.floating and self.rank == 1

    def __str__(self) -> str:
        return self.name


FP32: Final = DType("fp32", 4.0, rank=3)
TF32: Final = DType("tf32", 4.0, rank=3)
FP16: Final = DType("fp16", 2.0, rank=2)
BF16: Final = DType("bf16", 2.0, rank=2)
FP8: Final = DType("fp8", 1.0, rank=1)
FP4: Final = DType("fp4", 0.5, rank=1)
#: Narrow types in blocks with a scale of eight bits: 32 elements each (OCP Microscaling Formats 1.0), nvfp4 16.
MXFP8: Final = DType("mxfp8", 1.03125, rank=1, microscaled=True)
MXFP4: Final = DType("mxfp4", 0.53125, rank=1, microscaled=True)
NVFP4: Final = DType("nvfp4", 0.5625, rank=1)
INT64: Final = DType("int64", 8.0, floating=False)
INT32: Final = DType("int32", 4.0, floating=False)
INT8: Final = DType("int8", 1.0, floating=False)
#: Keys and values in four bits, an fp16 scale and zero point per token and head of 128 (InternLM/lmdeploy, kv_quant.md).
INT4: Final = DType("int4", 0.53125, floating=False)
#: Keys and values in llama.cpp's blocks (-ctk, -ctv).
Q8_0: Final = DType("q8_0", 1.0625, floating=False)
Q4_0: Final = DType("q4_0", 0.5625, floating=False)
BOOL: Final = DType("bool", 1.0, floating=False)
#: Not decided yet: the precision pass replaces it by the compute (or parameter) type of the scenario.
AUTO: Final = DType("auto", 2.0)

DTYPES: Final = {
    dtype.name: dtype
    for dtype in (
        FP32,
        TF32,
        FP16,
        BF16,
        FP8,
        FP4,
        MXFP8,
        MXFP4,
        NVFP4,
        INT64,
        INT32,
        INT8,
        INT4,
        Q8_0,
        Q4_0,
        BOOL,
        AUTO,
    )
}


@dataclass(frozen=True, eq=False, slots=True)
class Tensor:
    """A value on an edge of the graph.

    Identity is equality: two tensors of the same shape are two tensors. Sizes are floats or float64 arrays.
    """

    name: str
    shape: tuple[Real, ...]
    dtype: DType = AUTO
    role: Role = Role.ACTIVATION
    base: Tensor | None = None
    """The tensor whose storage this one is a view of (or was written into in place)."""
    requires_grad: bool = False
    """Whether it is a trained parameter; what depends on one is found by the autograd pass."""
    place: str = "device"
    """Where it lies: ``device``, ``host`` or another place beyond it."""
    component: Component | None = None
    """The part of the model that it belongs to, of what a builder makes."""
    of: Tensor | None = None
    """What it is the gradient, the sum, a shard or a copy of; None: something of its own."""
    shows_more: bool = False
    """Whether it is more than the storage of its `base`, and all of it is touched: pieces one after another in the room of one,
    rows that are gathered for several readers."""
    numel: Real = computed("shape")

    def __post_init__(self) -> None:
        self.__dict__["numel"] = product(*self.shape)

    @property
    def bytes(self) -> Real:
        """Bytes that reading it touches: of a view what it shows, of an expanded one no more than its storage.

        Of one that `shows_more` all; of a copy in a wider type that is held to take no memory of its own, as many as its
        elements have.
        """
        own = self.numel * self.dtype.itemsize
        if self.base is None or self.shows_more:
            return own
        root = self.root
        return minimum(own, root.numel * max(root.dtype.itemsize, self.dtype.itemsize))

    @property
    def root(self) -> Tensor:
        """The tensor that owns the storage."""
        tensor = self
        while tensor.base is not None:
            tensor = tensor.base
        return tensor

    @property
    def owner(self) -> Tensor:
        """The tensor that it was derived from in the end: of a shard of a gradient the parameter, of most tensors itself."""
        tensor = self
        while tensor.of is not None:
            tensor = tensor.of
        return tensor

    @property
    def purpose(self) -> Purpose | None:
        """What its component is for."""
        return None if self.component is None else self.component.purpose

    def within(self, *purposes: Purpose) -> bool:
        """Tell whether it belongs to a component that is for one of some purposes, at any depth."""
        return self.component is not None and self.component.within(*purposes)

    @property
    def persistent(self) -> bool:
        """Whether it stands before the step begins."""
        return self.role in PERSISTENT

    @property
    def off_device(self) -> bool:
        """Whether it takes no device memory."""
        return self.place != "device"

    def renamed(self, name: str) -> Tensor:
        """Return a fresh tensor of the same kind under another name."""
        return replace(self, name=name)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(size_text(size) for size in self.shape)}]"


def size_text(size: Real) -> str:
    """Print a size: an integer where it is one, the range of an array otherwise.

    >>> size_text(4096.0)
    '4096'
    """
    if not isinstance(size, np.ndarray):
        return str(int(size)) if size == int(size) else f"{size:.6g}"
    low, high = float(size.min()), float(size.max())
    return f"{size_text(low)}..{size_text(high)}"
