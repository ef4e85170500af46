"""Describe what was computed of sample points: operations, what they take, and decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np

from roofsim.points import Diverged
from roofsim.records import dataclass
from roofsim.symbols import UntracedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

#: Numbers of sample points, tried in this order: no other axis of an array may have as many elements.
SAMPLES: Final = (61, 71, 83, 97, 113)
#: Functions whose second argument, or keyword, is a shape.
SHAPED: Final = frozenset({np.ndarray.reshape, np.reshape, np.broadcast_to})
#: Words of an array's interface that say nothing of what is computed.
IDLE: Final = frozenset({"casting", "order", "subok"})


class Notes(Protocol):
    """What takes note of operations on sample points."""

    def call(self, function: Callable[..., Any], arguments: Sequence[Any], options: dict[str, Any]) -> Any:
        """Return what a function gives, and take note of it."""

    def of_two(self, ufunc: Any, first: Any, second: Any) -> Any:
        """Return what an operation gives of sample points and a number, or of two sample points, as `call` does."""

    def keyed(self, values: Any) -> Any:
        """Return numbers as a column of their own: what depends on them is worked out once for each of their values."""

    def settled(self, values: Any) -> Any:
        """Return the value that all points have; points of another one do not belong to the trace."""


class AmbiguousError(UntracedError):
    """An array has several axes, or none, of which each may be that of the sample points: other numbers of samples tell."""


class TraceDiverged(Diverged):
    """Sample points do not agree on what decides the structure.

    Attributes
    ----------
    node
        What they disagree on.
    """

    def __init__(self, rows: NDArray[Any], node: int) -> None:
        super().__init__(rows)
        self.node = node


class Ref:
    """The result of a node, where it is an argument of another."""

    __slots__ = ("node",)

    def __init__(self, node: int) -> None:
        self.node = node

    def __repr__(self) -> str:
        return f"Ref({self.node})"


@dataclass(frozen=True)
class Record:
    """A record among the arguments of a node, some of whose fields are results of others."""

    value: Any
    changed: dict[str, Any]


def part_of(parts: tuple[Any, ...], place: int) -> Any:
    """Return one of several results of an operation."""
    return parts[place]


class _Length:
    """Stands for the number of points in a shape."""

    def __repr__(self) -> str:
        return "points"


LENGTH: Final = _Length()
#: No options.
NOTHING: Final[dict[str, Any]] = {}


class Node(NamedTuple):
    """One operation.

    Attributes
    ----------
    function, arguments, options
        What is called; `Ref` stands for the result of an earlier node, `LENGTH` for the number of points. A leaf has none.
    columns
        The columns that it depends on, one bit each.
    shape
        Shape of the result; -1 on the axis of the points.
    axis
        Which axis that is.
    """

    function: Callable[..., Any] | None
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    columns: int
    shape: tuple[int, ...]
    axis: int


@dataclass(frozen=True)
class Guard:
    """What points must say to belong to a trace: the value of a node is this one."""

    node: int
    value: Any
