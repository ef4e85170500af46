"""Take note of what is computed from the numbers of a few points, so that it can be done again for any number of them.

Code that works on `Points` gets `TracedPoints` instead: a few sample points whose values are computed as always. Each operation on
them is noted in a `Trace`: the function, what it takes, and its result, equal ones once. Where code asks for a decision, on which
the samples must agree, the condition is noted with its outcome: a `Guard`. What comes out is a graph of numpy's functions that
`roofsim.replay` evaluates for other points, each operation on the few columns of numbers that it depends on.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import numpy as np

from roofsim.points import Diverged, Points
from roofsim.records import dataclass, fields, is_dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import NDArray

#: Numbers of sample points, tried in this order: no other axis of an array may have as many elements.
SAMPLES: Final = (53, 59, 61, 67, 71)
#: Functions whose second argument, or keyword, is a shape.
_SHAPED: Final = frozenset({np.ndarray.reshape, np.reshape, np.broadcast_to})
#: Words of an array's interface that say nothing of what is computed.
_IDLE: Final = frozenset({"casting", "order", "subok"})


class UntracedError(TypeError):
    """Code does something with sample points of which no note can be taken."""


class AmbiguousError(UntracedError):
    """An array has several axes, or none, of which each may be that of the sample points: other numbers of samples tell."""


class TraceDiverged(Diverged):
    """Sample points do not agree on what decides the structure.

    Attributes
    ----------
    node
        What they disagree on.
    """

    def __init__(self, labels: NDArray[Any], node: int) -> None:
        super().__init__(labels)
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


def _part_of(parts: tuple[Any, ...], place: int) -> Any:
    return parts[place]


class _Length:
    """Stands for the number of points in a shape."""

    def __repr__(self) -> str:
        return "points"


LENGTH: Final = _Length()
#: No options.
_NOTHING: Final[dict[str, Any]] = {}


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


class Trace:
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

    # -- leaves ---------------------------------------------------------------------------------------------------

    def column(self) -> int:
        """Return the bit of a new column."""
        self.columns += 1
        return 1 << (self.columns - 1)

    def leaf(self, values: Any, column: int) -> TracedPoints:
        """Return numbers of the sample points that depend on a column."""
        return self._made(Node(None, (), _NOTHING, column, (-1, *np.shape(values)[1:]), 0), np.asarray(values))

    # -- taking note ----------------------------------------------------------------------------------------------

    def call(self, function: Callable[..., Any], arguments: Sequence[Any], options: dict[str, Any]) -> Any:
        """Return what a function gives, and take note of it."""
        read = _Reader(self, shaped=function in _SHAPED)
        plain, taken = read.all(arguments)
        named = {name: read.one(value) for name, value in options.items() if name not in _IDLE}
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
            known = self._noted(ufunc(plain, right), ufunc, (kept, taken), _NOTHING, columns)
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
                self._noted(part, _part_of, (Ref(whole), place), {}, columns) for place, part in enumerate(result)
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
        made = values.view(TracedPoints)
        made.trace, made.node = self, len(self.nodes)
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
        return known  # type: ignore[no-any-return]

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
            _, labels = np.unique(rows, axis=0, return_inverse=True)
            raise TraceDiverged(np.ravel(labels), values.node)
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

    def __init__(self, trace: Trace, *, shaped: bool) -> None:
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
            base = value.base
            if isinstance(base, TracedPoints) and base.shape == value.shape and base.strides == value.strides:
                return self._traced(base)
            if self.trace.is_varied(value):
                raise UntracedError(f"a plain array of shape {value.shape} beside sample points")
            return value, self.trace.constant(value)
        if isinstance(value, tuple | list):
            plain, kept = self.all(value)
            return type(value)(plain), kept if isinstance(value, tuple) else list(kept)
        if is_dataclass(type(value)) and _trace_in(value) is not None:
            parts = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
            changed = {name: self.one(part) for name, part in parts.items() if _trace_in(part) is not None}
            plain = replace(value, **{name: part for name, (part, _) in changed.items()})
            return plain, Record(plain, {name: kept for name, (_, kept) in changed.items()})
        if self.shaped and isinstance(value, int) and value == self.trace.samples:
            return value, LENGTH
        return value, value.item() if isinstance(value, np.generic) else value

    def _traced(self, value: TracedPoints) -> tuple[Any, Any]:
        if value.node < 0 or value.trace is not self.trace:
            raise UntracedError("sample points of which nothing was noted")
        self.columns |= self.trace.nodes[value.node].columns
        return self.trace.values[value.node], Ref(value.node)

    def key(self, kept: Any) -> Hashable:
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
    return getattr(function, "__qualname__", None) or getattr(function, "__name__", repr(function))


class TracedPoints(Points):
    """Numbers of sample points; what is computed of them is noted."""

    trace: Trace
    node: int
    sampled: ClassVar[bool] = True

    def __array_finalize__(self, other: Any) -> None:
        self.node = -1

    @property
    def _noting(self) -> Trace:
        if self.node < 0:
            raise UntracedError("sample points of which nothing was noted")
        return self.trace

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "__call__" and not options and len(inputs) == 2:
            first, second = inputs
            kinds = type(first), type(second)
            if kinds in _FAST and self.node >= 0:
                same = _unchanged(ufunc, first, second)
                return self.trace.of_two(ufunc, first, second) if same is None else same
        out, where = options.pop("out", None), options.pop("where", True)
        if (out is not None and any(each is not None for each in out)) or where is not True:
            raise UntracedError(f"{ufunc.__name__} into an array that is there")
        trace = _trace_of(inputs)
        options = {name: value for name, value in options.items() if name == "axis" or not _is_usual(value)}
        return trace.call(ufunc if method == "__call__" else getattr(ufunc, method), inputs, options)

    def __array_function__(self, function: Any, types: Any, inputs: Any, options: Any) -> Any:
        del types
        own = _OWN.get(function)
        if own is not None:
            return own(*inputs, **options)
        return _trace_of(inputs).call(function, inputs, options)

    def settled(self) -> Any:
        """Return the value that all points have."""
        return self._noting.settled(self)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(("traced", self.node))

    def __getitem__(self, index: Any) -> Any:
        return self._noting.call(np.ndarray.__getitem__, (self, index), {})

    def __setitem__(self, index: Any, value: Any) -> None:
        raise UntracedError("an element of sample points is set")

    def __iter__(self) -> Any:
        return (self[place] for place in range(len(self)))

    def reshape(self, *shape: Any, **options: Any) -> Any:
        """Return it with another shape."""
        shape = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        if shape == self.shape:
            return self
        return self._noting.call(np.ndarray.reshape, (self, shape), {})

    def astype(self, dtype: Any, *more: Any, **options: Any) -> Any:
        """Return it as numbers of another type."""
        return self if self.dtype == dtype else self._noting.call(np.ndarray.astype, (self, dtype), {})

    def view(self, *kind: Any) -> Any:
        """Return it as it is, where nothing but the class of the array changes to `Points`."""
        return self if kind == (Points,) else super().view(*kind)

    def copy(self, *more: Any) -> Any:
        """Return it: nobody can change it."""
        return self

    def tobytes(self, *more: Any) -> Any:
        """Return what tells its values from others."""
        return b"node %d" % self.node

    def item(self, *more: Any) -> Any:
        """Return the value that all points have."""
        return self.settled()

    def tolist(self) -> Any:
        """Refuse: the values themselves are those of the samples alone."""
        raise UntracedError("the values of sample points as a list")


#: Kinds of two operands that need no reading.
_FAST: Final = frozenset({(TracedPoints, TracedPoints), (TracedPoints, float), (float, TracedPoints)})
#: The number that an operation leaves the other operand with, and operations in which it may be the first.
_NEUTRAL: Final = {np.multiply: 1.0, np.true_divide: 1.0, np.add: 0.0, np.subtract: 0.0}
_EITHER: Final = frozenset({np.multiply, np.add})


def _trace_in(value: Any) -> Trace | None:
    """Return the trace of sample points in a value, in its parts or fields; None where there are none."""
    if isinstance(value, TracedPoints):
        return value._noting
    if isinstance(value, tuple | list):
        parts = value
    elif isinstance(value, np.ndarray):
        return value.base._noting if isinstance(value.base, TracedPoints) else None
    elif is_dataclass(type(value)):
        parts = tuple(getattr(value, field.name) for field in fields(value) if field.init)
    else:
        return None
    return next((trace for part in parts if (trace := _trace_in(part)) is not None), None)


def _trace_of(inputs: Any) -> Trace:
    for one in inputs:
        if isinstance(one, TracedPoints):
            return one._noting
        if isinstance(one, tuple | list):
            for part in one:
                if isinstance(part, TracedPoints):
                    return part._noting
        if isinstance(one, np.ndarray) and isinstance(one.base, TracedPoints):
            return one.base._noting
    raise UntracedError("no sample points")


def _is_usual(value: Any) -> bool:
    """Tell whether an option is as if nobody had named it."""
    return value is None or value is False or value is np._NoValue


def _unchanged(ufunc: Any, first: Any, second: Any) -> Any:
    """Return the operand that an operation leaves as it is; None where it changes it."""
    neutral = _NEUTRAL.get(ufunc)
    if neutral is None:
        return None
    if type(second) is float:
        return first if second == neutral and first.dtype == np.float64 else None
    if type(first) is float and ufunc in _EITHER:
        return second if first == neutral and second.dtype == np.float64 else None
    return None


def keyed(value: Any) -> Any:
    """Return a number of which points have few values, though it follows from several others: of samples, as a column of its own.

    >>> keyed(2.0)
    2.0
    """
    return value._noting.keyed(value) if isinstance(value, TracedPoints) else value


def as_array(value: Any, dtype: Any = None) -> Any:
    """Return a value as a plain array; sample points stay what they are.

    >>> as_array(2.0), as_array([1, 2], dtype=np.float64)
    (array(2.), array([1., 2.]))
    """
    return value if isinstance(value, TracedPoints) else np.asarray(value, dtype=dtype)


def noted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Take note of a function as one operation: a pure one whose result has the axis of its arguments' points."""

    @wraps(function)
    def called(*arguments: Any) -> Any:
        trace = _trace_in(arguments)
        return function(*arguments) if trace is None else trace.call(function, arguments, {})

    return called


# -- functions of numpy that join or spread arrays -----------------------------------------------------------------


def _stack(values: Sequence[Any], axis: int = 0) -> Any:
    return _trace_of((values,)).call(stacked, (axis, *values), {})


def stacked(axis: int, *values: Any) -> Any:
    """Return arrays of any lengths that go together as one array with one more axis."""
    return np.stack(np.broadcast_arrays(*values), axis=axis)


def _concatenate(values: Sequence[Any], axis: int = 0) -> Any:
    return _trace_of((values,)).call(concatenated, (axis, *values), {})


def concatenated(axis: int, *values: Any) -> Any:
    """Return arrays one behind the other, spread along their other axes."""
    shape = np.broadcast_shapes(*(value.shape[:axis] + value.shape[axis + 1 :] for value in values))
    spread = [np.broadcast_to(value, (*shape[:axis], value.shape[axis], *shape[axis:])) for value in values]
    return np.concatenate(spread, axis=axis)


def _broadcast_to(value: Any, shape: Any, subok: bool = False) -> Any:
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if not isinstance(value, TracedPoints) or value.shape == shape:
        return value
    return _trace_of((value,)).call(np.broadcast_to, (value, shape), {})


def _broadcast_arrays(*values: Any, subok: bool = False) -> Any:
    shape = np.broadcast_shapes(*map(np.shape, values))
    return [
        _broadcast_to(value, shape) if isinstance(value, TracedPoints) else np.broadcast_to(np.asarray(value), shape)
        for value in values
    ]


def _refused(*_: Any, **__: Any) -> Any:
    raise UntracedError("all points are asked at once; `anywhere` and `everywhere` ask each for itself")


_OWN: Final[dict[Any, Callable[..., Any]]] = {
    np.stack: _stack,
    np.concatenate: _concatenate,
    np.broadcast_to: _broadcast_to,
    np.broadcast_arrays: _broadcast_arrays,
    np.shape: lambda value: value.shape,
    np.ndim: lambda value: value.ndim,
    np.size: lambda value: value.size,
}
