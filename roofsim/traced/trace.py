"""Take note of operations on sample points, and of the decisions that they took part in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from roofsim.records import fields, is_dataclass, replace
from roofsim.symbols import UntracedError
from roofsim.traced.notes import (
    IDLE,
    LENGTH,
    NOTHING,
    SHAPED,
    AmbiguousError,
    Guard,
    Node,
    Record,
    Ref,
    TraceDiverged,
    part_of,
)
from roofsim.traced.points import TracedPoints, trace_in

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import NDArray


class SampleTrace:
    """What was computed of some sample points.

    Attributes
    ----------
    samples
        How many they are.
    nodes
        Operations, each behind what it takes.
    guards
        Conditions that decided how the code went on.
    """

    def __init__(self, samples: int) -> None:
        self.samples = samples
        self.nodes: list[Node] = []
        self.values: list[Any] = []
        """What each node gave of the samples, as plain arrays."""
        self.guards: list[Guard] = []
        self.columns = 0
        self.derived: dict[int, int] = {}
        """Columns that were made of what was computed: bit -> node."""
        self._single = (samples,)
        self._known: dict[Hashable, Any] = {}
        self._guarded: set[tuple[int, Any]] = set()
        self._kept: list[Any] = []
        """Arrays of constants: what they are told apart by is where they are."""

    def close(self) -> None:
        """Drop what nodes gave of the samples: of what is traced, operations alone are needed.

        Views of samples hold what they are views of where a search for garbage does not look, so that nothing else frees them.
        """
        self.values.clear()
        self._known.clear()
        self._kept.clear()

    # -- leaves ---------------------------------------------------------------------------------------------------

    def column(self) -> int:
        """Return the bit of a new column."""
        self.columns += 1
        return 1 << (self.columns - 1)

    def leaf(self, values: Any, column: int) -> TracedPoints:
        """Return numbers of the sample points that depend on a column."""
        return self._made(Node(None, (), NOTHING, column, (-1, *np.shape(values)[1:]), 0), np.asarray(values))

    # -- taking note ----------------------------------------------------------------------------------------------

    def call(self, function: Callable[..., Any], arguments: Sequence[Any], options: dict[str, Any]) -> Any:
        """Return what a function gives, and take note of it."""
        read = _Reader(self, shaped=function in SHAPED)
        plain, taken = read.all(arguments)
        named = {name: read.one(value) for name, value in options.items() if name not in IDLE}
        key = (function, read.key(taken), tuple((name, read.key(value[1])) for name, value in named.items()))
        known = self._known.get(key)
        if known is not None:
            return known
        result = function(*plain, **{name: value[0] for name, value in named.items()})
        made = self._noted(result, function, taken, {name: value[1] for name, value in named.items()}, read.columns)
        self._known[key] = made
        return made

    def of_two(self, ufunc: Any, first: Any, second: Any) -> Any:
        """Return what an operation gives of sample points and a number, or of two sample points, as `call` does."""
        one = first.node if type(first) is TracedPoints else (first,)
        other = second.node if type(second) is TracedPoints else (second,)
        key = (ufunc, one, other)
        known = self._known.get(key)
        if known is None:
            columns, values, nodes = 0, self.values, self.nodes
            if type(one) is int:
                plain, kept = values[one], Ref(one)
                columns = nodes[one].columns
            else:
                plain = kept = first
            if type(other) is int:
                right, taken = values[other], Ref(other)
                columns |= nodes[other].columns
            else:
                right = taken = second
            known = self._noted(ufunc(plain, right), ufunc, (kept, taken), NOTHING, columns)
            self._known[key] = known
        return known

    def _noted(
        self, result: Any, function: Callable[..., Any], taken: tuple[Any, ...], options: dict[str, Any], columns: int
    ) -> Any:
        if isinstance(result, tuple):
            whole = len(self.nodes)
            self.nodes.append(Node(function, taken, options, columns, (), -1))
            self.values.append(result)
            return tuple(
                self._noted(part, part_of, (Ref(whole), place), {}, columns) for place, part in enumerate(result)
            )
        if not isinstance(result, np.ndarray):
            raise UntracedError(f"{_named(function)} returns one {type(result).__name__} for all points")
        if result.shape == self._single:
            return self._made(Node(function, taken, options, columns, (-1,), 0), result)
        axes = [axis for axis, length in enumerate(result.shape) if length == self.samples]
        if len(axes) != 1:
            raise (AmbiguousError if axes else UntracedError)(
                f"{_named(function)} returns an array of shape {result.shape}: which of its axes has the {self.samples} points?"
            )
        shape = tuple(-1 if axis == axes[0] else length for axis, length in enumerate(result.shape))
        return self._made(Node(function, taken, options, columns, shape, axes[0]), result)

    def _made(self, node: Node, values: Any) -> TracedPoints:
        made: TracedPoints = values.view(TracedPoints)
        made.notes, made.node = self, len(self.nodes)
        self.nodes.append(node)
        self.values.append(values)
        return made

    def keyed(self, values: TracedPoints) -> TracedPoints:
        """Return numbers as a column of their own: what depends on them is worked out once for each of their values."""
        if self.nodes[values.node].columns in self.derived or values.ndim != 1:
            return values
        known = self._known.get(("keyed", values.node))
        if known is None:
            column = self.column()
            self.derived[column] = values.node
            known = self._known["keyed", values.node] = self.leaf(np.asarray(values), column)
        return cast("TracedPoints", known)

    def settled(self, values: TracedPoints) -> Any:
        """Return the value that all points have; points of another one do not belong to the trace.

        Raises
        ------
        TraceDiverged
            Where the samples have several.
        """
        rows = np.moveaxis(np.asarray(values), self.nodes[values.node].axis, 0).reshape(self.samples, -1)
        value = rows[0, 0].item()
        if not (rows == value).all():
            raise TraceDiverged(rows, values.node)
        if (values.node, value) not in self._guarded:
            self._guarded.add((values.node, value))
            self.guards.append(Guard(values.node, value))
        return value

    def is_varied(self, array: NDArray[Any]) -> bool:
        """Tell whether a plain array has an axis as long as that of the samples, along which its values differ."""
        return any(
            length == self.samples and array.strides[axis] != 0 and array.size
            for axis, length in enumerate(array.shape)
        )

    def constant(self, array: NDArray[Any]) -> Any:
        """Return a plain array as an argument of a node: one element where the axis of the samples only repeats."""
        if array.ndim == 0:
            return array.item()
        for axis, length in enumerate(array.shape):
            if length == self.samples and array.strides[axis] == 0:
                array = np.take(array, [0], axis=axis)
        return array


class _Reader:
    """Read arguments: as plain values to compute with, and as what a node keeps."""

    def __init__(self, trace: SampleTrace, *, shaped: bool) -> None:
        self.trace = trace
        self.shaped = shaped
        self.columns = 0

    def all(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return all arguments as plain values, and as what is kept of them."""
        read = [self.one(value) for value in values]
        return tuple(value for value, _ in read), tuple(kept for _, kept in read)

    def one(self, value: Any) -> tuple[Any, Any]:
        """Return one argument as a plain value, and as what is kept of it."""
        if isinstance(value, TracedPoints):
            return self._traced(value)
        if isinstance(value, np.ndarray):
            if self.trace.is_varied(value):
                raise UntracedError(f"a plain array of shape {value.shape} beside sample points")
            return value, self.trace.constant(value)
        if isinstance(value, tuple | list):
            plain, kept = self.all(value)
            return type(value)(plain), kept if isinstance(value, tuple) else list(kept)
        if is_dataclass(type(value)) and trace_in(value) is not None:
            parts = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
            changed = {name: self.one(part) for name, part in parts.items() if trace_in(part) is not None}
            plain = replace(value, **{name: part for name, (part, _) in changed.items()})
            return plain, Record(plain, {name: kept for name, (_, kept) in changed.items()})
        if self.shaped and isinstance(value, int) and value == self.trace.samples:
            return value, LENGTH
        return value, value.item() if isinstance(value, np.generic) else value

    def _traced(self, value: TracedPoints) -> tuple[Any, Any]:
        if value.node < 0 or value.notes is not self.trace:
            raise UntracedError("sample points of which nothing was noted")
        self.columns |= self.trace.nodes[value.node].columns
        return self.trace.values[value.node], Ref(value.node)

    def key(self, kept: Any) -> Hashable:  # noqa: PLR0911 - as `one`
        """Return what tells an argument from others."""
        if isinstance(kept, tuple | list):
            return (type(kept), *map(self.key, kept))
        if type(kept) is Ref:
            return kept.node
        if isinstance(kept, np.ndarray):
            return (kept.shape, kept.dtype.str, kept.tobytes())
        if isinstance(kept, slice):
            return ("slice", kept.start, kept.stop, kept.step)
        if isinstance(kept, Record):
            return (id(kept.value), *((name, self.key(part)) for name, part in kept.changed.items()))
        try:
            hash(kept)
        except TypeError:
            return (type(kept), id(kept))
        return (type(kept), kept)


def _named(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", None) or getattr(function, "__name__", repr(function)))
