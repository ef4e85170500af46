"""Give everything in a graph another name: nothing but what people read may change by that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from roofsim.graph.base import AbstractOp, Block
from roofsim.graph.component import Component
from roofsim.graph.tensor import Tensor
from roofsim.records import dataclass, field, fields, replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.graph.opgraph import OpGraph

T = TypeVar("T")


def renamed(graph: OpGraph, name: Callable[[str], str]) -> OpGraph:
    """Return a graph whose ops, tensors, blocks and components are called `name` of what they were called.

    Parameters
    ----------
    name
        Must give different ops different names.
    """
    renaming = _Renaming(name)
    return graph.replaced(renaming.of(op) for op in graph)


@dataclass
class _Renaming:
    """The twins so far, by what they are twins of."""

    name: Callable[[str], str]
    twins: dict[Any, Any] = field(default_factory=dict)

    def of(self, value: T) -> T:
        """Return the twin of an op, a tensor, a block or a component, of all in a tuple, or another value as it is."""
        if isinstance(value, tuple):
            return tuple(map(self.of, value))  # type: ignore[return-value]
        if not isinstance(value, AbstractOp | Tensor | Block | Component):
            return value
        if value not in self.twins:
            self.twins[value] = self._block(value) if isinstance(value, Block) else self._made(value)
        twin: T = self.twins[value]
        return twin

    def _made(self, value: Any) -> Any:
        own = {one.name: self.of(getattr(value, one.name)) for one in fields(value) if one.init}
        return replace(value, **own | {"name": self.name(value.name)})

    def _block(self, block: Block) -> Block:
        # What a block hands on may be made by its own ops, which name it.
        twin = self.twins[block] = replace(block, name=self.name(block.name), carries=[])
        twin.mirror = self.of(block.mirror)
        twin.carries = [(self.of(entering), self.of(leaving)) for entering, leaving in block.carries]
        return twin
