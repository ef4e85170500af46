"""Build a forward graph op by op, with scopes for names and blocks for what repeats."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from roofsim.graph.base import AbstractOp, Block
from roofsim.graph.component import Component, Purpose
from roofsim.graph.opgraph import OpGraph
from roofsim.graph.tensor import AUTO, DType, Role, Tensor
from roofsim.numeric import same

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
        self._frozen = False
        self._shared: dict[str, list[Tensor]] = {}
        self._noted: list[Tensor] | None = None
        self._again: Iterator[Tensor] | None = None

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
        """Return a parameter of the current scope.

        Raises
        ------
        ValueError
            When it stands for one of `sharing` that has another shape.
        """
        if self._again is not None:
            known = next(self._again, None)
            if known is None or len(known.shape) != len(shape) or not all(map(same, known.shape, shape)):
                raise ValueError(f"{self._dotted(leaf)} shares its weights with layers of another shape: {known}")
            return known
        trains = trained and not self._frozen
        made = Tensor(self._dotted(leaf), shape, dtype, Role.PARAMETER, requires_grad=trains, component=self.component)
        if self._noted is not None:
            self._noted.append(made)
        return made

    @contextmanager
    def freezing(self) -> Iterator[None]:
        """Let parameters that are built inside be none that are trained."""
        outer, self._frozen = self._frozen, True
        try:
            yield
        finally:
            self._frozen = outer

    @contextmanager
    def sharing(self, name: str) -> Iterator[None]:
        """Let parameters that are built inside be those that were built under this name before, in the same order."""
        outer = self._noted, self._again
        if name in self._shared:
            self._noted, self._again = None, iter(self._shared[name])
        else:
            self._noted, self._again = self._shared.setdefault(name, []), None
        try:
            yield
        finally:
            self._noted, self._again = outer

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Let parameters that are built inside be of their own, where those around them are shared."""
        outer, (self._noted, self._again) = (self._noted, self._again), (None, None)
        try:
            yield
        finally:
            self._noted, self._again = outer

    def buffer(self, leaf: str, *shape: Real, dtype: DType = AUTO) -> Tensor:
        """Return a tensor that belongs to the model but is not trained."""
        return Tensor(self._dotted(leaf), shape, dtype, Role.BUFFER, component=self.component)

    def input(self, leaf: str, *shape: Real, dtype: DType = AUTO) -> Tensor:
        """Return a tensor of the batch."""
        return Tensor(leaf, shape, dtype, Role.INPUT, component=self.component)

    def graph(self) -> OpGraph:
        """Return the verified graph."""
        return OpGraph(self.ops).verify()
