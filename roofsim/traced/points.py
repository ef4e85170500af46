"""Numbers of sample points: an array whose operations are noted."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from roofsim.points import Points, agreed
from roofsim.records import fields, is_dataclass
from roofsim.symbols import UntracedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from roofsim.traced.notes import Notes


class TracedPoints(Points):
    """Numbers of sample points; what is computed of them is noted."""

    notes: Notes
    node: int
    sampled: ClassVar[bool] = True

    def __array_finalize__(self, other: Any) -> None:
        self.node = -1

    @property
    def _noting(self) -> Notes:
        if self.node < 0:
            raise UntracedError("sample points of which nothing was noted")
        return self.notes

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "__call__" and not options and len(inputs) == 2:
            first, second = inputs
            kinds = type(first), type(second)
            if kinds in _FAST and self.node >= 0:
                same = _unchanged(ufunc, first, second)
                return self.notes.of_two(ufunc, first, second) if same is None else same
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

    def reshape(self, *shape: Any, **_: Any) -> Any:
        """Return it with another shape."""
        shape = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        if shape == self.shape:
            return self
        return self._noting.call(np.ndarray.reshape, (self, shape), {})

    def astype(self, dtype: Any, *_: Any, **__: Any) -> Any:
        """Return it as numbers of another type."""
        return self if self.dtype == dtype else self._noting.call(np.ndarray.astype, (self, dtype), {})

    def view(self, *kind: Any) -> Any:  # type: ignore[override]
        """Return it as it is, where nothing but the class of the array changes to `Points`."""
        return self if kind == (Points,) else super().view(*kind)

    def copy(self, *_: Any) -> Any:
        """Return it: nobody can change it."""
        return self

    def tobytes(self, *_: Any) -> Any:
        """Return what tells its values from others."""
        return b"node %d" % self.node

    def item(self, *_: Any) -> Any:
        """Return the value that all points have."""
        return self.settled()

    def tolist(self) -> Any:
        """Refuse: the values themselves are those of the samples alone."""
        raise UntracedError("the values of sample points as a list")


def _method(name: str) -> Callable[..., Any]:
    function = getattr(np.ndarray, name)

    def called(self: TracedPoints, *arguments: Any, **options: Any) -> Any:
        return self._noting.call(function, (self, *arguments), options)

    return called


for _name in ("argmin", "argmax", "take", "repeat", "cumsum", "transpose", "squeeze", "clip", "round", "swapaxes"):
    setattr(TracedPoints, _name, _method(_name))


#: Kinds of two operands that need no reading.
_FAST: Final = frozenset({(TracedPoints, TracedPoints), (TracedPoints, float), (float, TracedPoints)})
#: The number that an operation leaves the other operand with, and operations in which it may be the first.
_NEUTRAL: Final = {np.multiply: 1.0, np.true_divide: 1.0, np.add: 0.0, np.subtract: 0.0}
_EITHER: Final = frozenset({np.multiply, np.add})


def trace_in(value: Any) -> Notes | None:
    """Return the trace of sample points in a value, in its parts or fields; None where there are none."""
    if isinstance(value, TracedPoints):
        return value._noting
    if isinstance(value, tuple | list):
        parts = value
    elif is_dataclass(type(value)):
        parts = tuple(getattr(value, field.name) for field in fields(value) if field.init)
    else:
        return None
    return next((trace for part in parts if (trace := trace_in(part)) is not None), None)


def _trace_of(inputs: Any) -> Notes:
    for one in inputs:
        if isinstance(one, TracedPoints):
            return one._noting
        if isinstance(one, tuple | list):
            for part in one:
                if isinstance(part, TracedPoints):
                    return part._noting
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


#: Other points than samples have up to the next multiple of it.
_SPARE: Final = 2


def keyed(value: Any) -> Any:
    """Return a number of which points have few values, though it follows from several others: of samples, as a column of its own.

    >>> keyed(2.0)
    2.0
    """
    return value._noting.keyed(value) if isinstance(value, TracedPoints) else value


def as_array(value: Any, dtype: Any = None) -> NDArray[Any]:
    """Return a value as a plain array; sample points stay what they are.

    >>> as_array(2.0), as_array([1, 2], dtype=np.float64)
    (array(2.), array([1., 2.]))
    """
    return value if isinstance(value, TracedPoints) else np.asarray(value, dtype=dtype)


def widest(counts: Any) -> int:
    """Return the largest of some counts, or more, to decide how many columns of an array are worked out.

    Other points than samples may have more columns: up to a multiple of two of what samples have. Of others the trace says nothing.

    >>> widest(np.array([[1, 3], [2, 2]]))
    3
    """
    most = int(np.asarray(counts).max())
    if isinstance(counts, TracedPoints):
        most = -(-most // _SPARE) * _SPARE
        agreed(counts <= most)
    return most


def noted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Take note of a function as one operation: a pure one whose result has the axis of its arguments' points."""

    @wraps(function)
    def called(*arguments: Any) -> Any:
        trace = trace_in(arguments)
        return function(*arguments) if trace is None else trace.call(function, arguments, {})

    return called


# -- functions of numpy that join or spread arrays -----------------------------------------------------------------


def _stack(values: Sequence[Any], axis: int = 0) -> Any:
    return _trace_of((values,)).call(stacked, (axis, *values), {})


def stacked(axis: int, *values: Any) -> Any:
    """Return arrays of any lengths that go together as one array with one more axis."""
    if axis:
        return np.stack(np.broadcast_arrays(*values), axis=axis)
    shape = np.broadcast_shapes(*{value.shape for value in values})
    whole = np.empty((len(values), *shape), np.result_type(*{value.dtype for value in values}))
    for place, value in enumerate(values):
        whole[place] = value
    return whole


def _concatenate(values: Sequence[Any], axis: int = 0) -> Any:
    return _trace_of((values,)).call(concatenated, (axis, *values), {})


def concatenated(axis: int, *values: Any) -> Any:
    """Return arrays one behind the other, spread along their other axes."""
    shape = np.broadcast_shapes(*(value.shape[:axis] + value.shape[axis + 1 :] for value in values))
    spread = [np.broadcast_to(value, (*shape[:axis], value.shape[axis], *shape[axis:])) for value in values]
    return np.concatenate(spread, axis=axis)


def _broadcast_to(value: Any, shape: Any, **_: Any) -> Any:
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if not isinstance(value, TracedPoints) or value.shape == shape:
        return value
    return _trace_of((value,)).call(np.broadcast_to, (value, shape), {})


def _broadcast_arrays(*values: Any, **_: Any) -> Any:
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
