"""Build a forward graph op by op, with scopes for names and blocks for what repeats."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from roofsim.graph.base import AbstractOp, Block
from roofsim.graph.component import Component, Purpose
from roofsim.graph.opgraph import OpGraph
from roofsim.graph.tensor import AUTO, DType, Role, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roofsim.numeric import Real

O = TypeVar("O", bound=AbstractOp)  # noqa: E741


class Builder:
    """Collect ops in program order; names are made unique by their scope."""

    def __init__(self) -> None:
        self.ops: list[AbstractOp] = []
        self.block: Block | None = None
        self.component: Component | None = None
        self._used: Counter[str] = Counter()

    def name(self, leaf: str) -> str:
        """Return a unique dotted name inside the current scope."""
        base = self._dotted(leaf)
        self._used[base] += 1
        return base if self._used[base] == 1 else f"{base}.{self._used[base]}"

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Let everything built inside belong to a component of this name, which has a purpose where the name is one."""
        outer, self.component = self.component, self._inside(name)
        try:
            yield
        finally:
            self.component = outer

    def _inside(self, name: str) -> Component:
        return Component(name, name if isinstance(name, Purpose) else None, self.component)

    def _dotted(self, leaf: str) -> str:
        return f"{leaf}" if self.component is None else f"{self.component}.{leaf}"

    @contextmanager
    def repeat(self, name: str, times: Real) -> Iterator[Block]:
        """Build the body of a block that repeats `times`; `carry` says what one iteration hands to the next."""
        if self.block is not None:
            raise ValueError(f"block {name!r} inside block {self.block.name!r}")
        self.block = Block(name, times)
        try:
            with self.scope(name):
                yield self.block
        finally:
            self.block = None

    def carry(self, entering: Tensor, leaving: Tensor) -> Tensor:
        """Say that `leaving` becomes the next iteration's `entering`; returns what stands after the last one."""
        if self.block is None:
            raise ValueError("carry outside of a block")
        if entering is not leaving:
            self.block.carries.append((entering, leaving))
        return leaving

    def emit(self, op_class: type[O], leaf: str, /, **fields: object) -> O:
        """Add an op of `op_class` under a name made from `leaf`; a purpose makes it a component of its own."""
        component = self._inside(leaf) if isinstance(leaf, Purpose) else self.component
        op = op_class(name=self.name(leaf), block=self.block, component=component, **fields)  # type: ignore[arg-type]
        self.ops.append(op)
        return op

    def tensor(self, leaf: str, *shape: Real, dtype: DType = AUTO, base: Tensor | None = None) -> Tensor:
        """Return a new activation."""
        return Tensor(self._dotted(leaf), shape, dtype, base=base, component=self.component)

    def parameter(self, leaf: str, *shape: Real, dtype: DType = AUTO, trained: bool = True) -> Tensor:
        """Return a parameter of the current scope."""
        return Tensor(self._dotted(leaf), shape, dtype, Role.PARAMETER, requires_grad=trained, component=self.component)

    def buffer(self, leaf: str, *shape: Real, dtype: DType = AUTO) -> Tensor:
        """Return a tensor that belongs to the model but is not trained."""
        return Tensor(self._dotted(leaf), shape, dtype, Role.BUFFER, component=self.component)

    def input(self, leaf: str, *shape: Real, dtype: DType = AUTO) -> Tensor:
        """Return a tensor of the batch."""
        return Tensor(leaf, shape, dtype, Role.INPUT, component=self.component)

    def graph(self) -> OpGraph:
        """Return the verified graph."""
        return OpGraph(self.ops).verify()
