"""Write the operations of a trace on arrays as operations on single numbers, from the columns on that many points depend on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.points import QUOTIENTS
from roofsim.traced.forms import refs
from roofsim.traced.notes import LENGTH, Node, Ref
from roofsim.traced.points import concatenated, stacked
from roofsim.traced.scalar_graph import ScalarGraph
from roofsim.traced.scalars import EACH, Sym

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

#: Functions that only say which numbers of arrays stand where.
_VIEWS: Final = frozenset({np.ndarray.reshape, np.ndarray.__getitem__, np.broadcast_to, stacked, concatenated})
#: Operations beyond which single numbers are not worth it.
MOST_SCALARS: Final = 60_000


class NotScalarError(Exception):
    """An operation on arrays is none on their single numbers."""


class Unrolled:
    """A `ScalarGraph` of what some operations of a trace give.

    Parameters
    ----------
    nodes
        The trace's operations.
    columns_of
        Number of an operation -> the columns that it depends on.
    is_large
        As that of `ScalarGraph`: what does not depend on so much is a leaf, to be worked out as the trace has it.

    Raises
    ------
    NotScalarError
        Where an operation is none on single numbers.
    """

    def __init__(
        self,
        nodes: Mapping[int, Node],
        columns_of: Callable[[int], int],
        is_large: Callable[[int], bool],
        wanted: Iterable[int],
        alias: Mapping[int, int],
    ) -> None:
        self.nodes, self.columns_of, self.alias = nodes, columns_of, alias
        self.graph = ScalarGraph(is_large)
        self._held: dict[int, NDArray[Any]] = {}
        """Operation -> its numbers; one along the axis of the points."""
        self.results = {}
        for number in wanted:
            (self.results[number],) = self.numbers(number).ravel().tolist()

    def numbers(self, number: int) -> NDArray[Any]:
        """Return the numbers of an operation."""
        todo = [number]
        while todo:
            at = todo[-1]
            missing = [] if at in self._held or not self._is_large(at) else self._missing(at)
            if missing:
                todo += missing
                continue
            todo.pop()
            if at not in self._held:
                self._held[at] = self._worked_out(at)
                if len(self.graph.nodes) > MOST_SCALARS:
                    raise NotScalarError("too many numbers")
        return self._held[number]

    def _is_large(self, number: int) -> bool:
        return self.graph.is_large(self.columns_of(number))

    def _missing(self, number: int) -> list[int]:
        if number in self.alias:
            return [self.alias[number]] if self.alias[number] not in self._held else []
        node = self.nodes[number]
        return [ref for ref in {*refs(node.arguments), *refs(node.options)} if ref not in self._held]

    def _worked_out(self, number: int) -> NDArray[Any]:
        node = self.nodes[number]
        shape = tuple(1 if length < 0 else length for length in node.shape)
        if not self._is_large(number):
            if node.axis < 0:
                raise NotScalarError(f"{node.function} gives several arrays")
            columns, made = self.columns_of(number), np.empty(shape, dtype=object)
            made.ravel()[:] = [self.graph.leaf((number, place), columns) for place in range(made.size)]
            return made
        if number in self.alias:
            return self._held[self.alias[number]]
        if node.function is None:
            return np.array([self.graph.leaf((number, 0), self.columns_of(number))], dtype=object)
        made = self._of_arrays(node, [self._filled(one) for one in node.arguments])
        if made.shape != shape:
            raise NotScalarError(f"{node.function} gives {made.shape}, not {shape}")
        return made

    def _filled(self, argument: Any) -> Any:
        kind = type(argument)
        if kind is Ref:
            return self._held[argument.node]
        if kind is tuple or kind is list:
            return kind(self._filled(one) for one in argument)
        return 1 if argument is LENGTH else argument

    def _of_arrays(self, node: Node, given: list[Any]) -> NDArray[Any]:
        function, options = node.function, node.options
        if function in _VIEWS and not options:
            own = [_objects(one) if isinstance(one, np.ndarray) else one for one in given]
            return np.asarray(function(*own), dtype=object)
        if isinstance(function, np.ufunc) or function in EACH or function in QUOTIENTS:
            if options:
                raise NotScalarError(f"{function} with {options}")
            return self._each(function, given)
        ufunc, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
        if ufunc is np.add and name in ("reduce", "reduceat") and set(options) == {"axis"} and options["axis"] == 0:
            return self._added(_objects(given[0]), given[1] if name == "reduceat" else None)
        raise NotScalarError(f"{function} of arrays")

    def _each(self, function: Any, given: list[Any]) -> NDArray[Any]:
        arrays = np.broadcast_arrays(*(_objects(one) for one in given))
        made = np.empty(arrays[0].shape, dtype=object)
        columns = zip(*(array.ravel().tolist() for array in arrays), strict=True)
        made.ravel()[:] = [self.graph.make(function, numbers) for numbers in columns]
        return made

    def _added(self, values: NDArray[Any], firsts: Any) -> NDArray[Any]:
        """Return sums along the first axis: of all, or of those from each of some places on."""
        bounds = [0] if firsts is None else [int(first) for first in firsts]
        sums = [
            [
                self.graph.sum([(one, 1.0) for one in column])
                for column in values[first:stop].reshape(stop - first, -1).T
            ]
            for first, stop in zip(bounds, [*bounds[1:], len(values)], strict=True)
        ]
        made = np.empty((len(bounds), *values.shape[1:]), dtype=object)
        made.reshape(len(bounds), -1)[:] = sums
        return made[0] if firsts is None else made


def _objects(value: Any) -> NDArray[Any]:
    """Return numbers as an array of Python's own."""
    if isinstance(value, np.ndarray):
        return value.astype(object) if value.dtype != object else value
    made = np.empty((), dtype=object)
    made[()] = value if type(value) is Sym or not isinstance(value, np.generic) else value.item()
    return made
