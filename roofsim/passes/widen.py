"""Keep what flows between products in fp32, as engines do whose elementwise kernels know no other type."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.base import Block
from roofsim.graph.ops import Cast, Matmul
from roofsim.graph.tensor import FP32, Role, Tensor
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph


@dataclass(frozen=True, kw_only=True)
class WidenActivations:
    """Make 16-bit activations fp32; weights and the cache stay as they are.

    Attributes
    ----------
    converts
        Whether products run in a 16-bit library, between a conversion of their inputs and one of their result; else
        their kernels read fp32 beside 16-bit weights, and write it.
    """

    name: ClassVar[str] = "widen_activations"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"wide_activations"})

    converts: bool = True

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with wide activations and the casts that they bring."""
        return graph.replaced(_Widening(self.converts).run(graph), *self.ensures)


class _Widening:
    """Walk the program once; `env` says what each tensor of the old graph became."""

    def __init__(self, converts: bool) -> None:
        self.converts = converts
        self.env: dict[Tensor, Tensor] = {}
        self.ops: list[AbstractOp] = []

    def run(self, graph: OpGraph) -> list[AbstractOp]:
        for old, body in graph.segments():
            block = None if old is None else Block(old.name, old.repeat)
            for op in body:
                self._op(op, block)
            if old is not None and block is not None:
                block.carries = [(self.tensor(a), self.tensor(b)) for a, b in old.carries]
        return self.ops

    def tensor(self, old: Tensor) -> Tensor:
        """Return what a tensor became."""
        new = self.env.get(old)
        if new is None:
            base = None if old.base is None else self.tensor(old.base)
            dtype = FP32 if _narrow(old) else old.dtype
            changed = base is not old.base or dtype is not old.dtype
            new = self.env[old] = replace(old, dtype=dtype, base=base) if changed else old
        return new

    def _op(self, op: AbstractOp, block: Block | None) -> None:
        inputs, outputs, holds = (tuple(map(self.tensor, group)) for group in (op.inputs, op.outputs, op.holds))
        if not isinstance(op, Matmul):
            self.ops.append(replace(op, inputs=inputs, outputs=outputs, holds=holds, block=block))
            return
        math = op.math or op.inputs[0].dtype
        if not self.converts:
            self.ops.append(replace(op, inputs=inputs, outputs=outputs, holds=holds, block=block, math=math))
            return
        narrow = tuple(
            self._cast(new, old, f"{op.name}.convert{place}", block, op)
            for place, (old, new) in enumerate(zip(op.inputs, inputs, strict=True))
        )
        result = replace(outputs[0], name=f"{outputs[0].name}.narrow", dtype=op.outputs[0].dtype)
        self.ops.append(replace(op, inputs=narrow, outputs=(result,), holds=holds, block=block, math=math))
        self.ops.append(
            Cast(name=f"{op.name}.convert", inputs=(result,), outputs=outputs, block=block, component=op.component)
        )

    def _cast(self, new: Tensor, old: Tensor, name: str, block: Block | None, op: AbstractOp) -> Tensor:
        if new.dtype is old.dtype:
            return new
        out = Tensor(f"{new.name}.{name}", new.shape, old.dtype)
        self.ops.append(Cast(name=name, inputs=(new,), outputs=(out,), block=block, component=op.component))
        return out


def _narrow(tensor: Tensor) -> bool:
    """Whether a tensor is an activation in 16 bits."""
    root = tensor.root
    kept = root.persistent or root.role in (Role.KEY_VALUE_CACHE, Role.PARAMETER, Role.BUFFER)
    return tensor.dtype.floating and tensor.dtype.itemsize == 2.0 and not kept
