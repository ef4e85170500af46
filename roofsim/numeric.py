"""Compute on plain floats and float64 arrays alike; the only place that tells them apart.

A `Real` is a Python float or a float64 array, nothing else: integers are converted at the border, because an int64
product wraps silently past 9.2e18 and a numpy call on a scalar costs twenty times a Python operation.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from roofsim.points import Points, anywhere, everywhere, like, quotient
from roofsim.symbols import PLAIN_FUNCTIONS, Symbol
from roofsim.traced.points import noted, trace_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Array: TypeAlias = NDArray[np.float64]
Real: TypeAlias = float | Array
#: Types of one number; a `Symbol` stands for one.
_ONE_NUMBER = frozenset({float, Symbol})

#: Where the distribution of the largest of many is integrated, in standard deviations, and in how many pieces.
_REACH: Final = 10.0
_PIECES: Final = 2000
#: Exponents whose powers are so many squares, or square roots (negative) -> how many.
_TURNS: Final = {2.0**turns: turns for turns in range(-4, 5)}


def real(value: Any) -> Real:
    """Convert an int, float, list or array to a float or a float64 array.

    >>> real(3)
    3.0
    """
    if type(value) is float:
        return value
    if isinstance(value, int | float | np.floating | np.integer):
        return float(value)
    if type(value) is Symbol:
        return cast("float", value.real())
    if value is None:
        raise TypeError("a size is missing: expected a number, got None")
    return cast("Array", np.asanyarray(value, dtype=np.float64))


def product(*factors: Real) -> Real:
    """Multiply in float64, from left to right.

    >>> product(4096.0, 4096.0, 2.0)
    33554432.0
    """
    return math.prod(factors, start=1.0)


def maximum(a: Real, b: Real) -> Real:
    """Return the larger of two numbers, elementwise."""
    if type(a) is float and type(b) is float:
        return a if a >= b else b
    return cast("Array", np.maximum(a, b))


def raised(base: Real, exponent: Real) -> Real:
    """Return a power of a number that is not negative.

    Of exponents 2, 4, 8 and 16, and 1/2, 1/4, 1/8 and 1/16, it is made of products and square roots: these are rounded alike for
    numbers, arrays and compiled code, and take less time than a power.

    >>> raised(3.0, 4.0), raised(81.0, 0.25), round(raised(2.0, 3.5), 6)
    (81.0, 3.0, 11.313708)
    """
    turns = _TURNS.get(exponent) if type(exponent) is float else None
    if turns is None:
        return base**exponent
    for _ in range(turns):
        base = base * base
    for _ in range(-turns):
        base = math.sqrt(base) if type(base) is float else cast("Array", np.sqrt(base))
    return base


def smooth_maximum(a: Real, b: Real, norm: Real) -> Real:
    """Return ``(a^p + b^p)^(1/p)`` of numbers that are not negative, without overflow.

    >>> smooth_maximum(3.0, 0.0, 6.0)
    3.0
    """
    return smooth_shares(a, b, norm)[0]


def smooth_shares(a: Real, b: Real, norm: Real) -> tuple[Real, Real]:
    """Return ``(a^p + b^p)^(1/p)`` and the share of it that is due to `a`: its logarithmic derivative by `a`.

    >>> smooth_shares(2.0, 2.0, 1.0)
    (4.0, 0.5)
    """
    if type(a) is float and type(b) is float and type(norm) is float:
        return _smooth_shares(a, b, norm)
    larger = maximum(a, b)
    lesser = raised(divide(minimum(a, b), larger), norm)
    both = 1.0 + lesser
    total: Real = larger * raised(both, 1.0 / norm)
    return total, where(a >= b, 1.0, lesser) / both


def _smooth_shares(a: float, b: float, norm: float) -> tuple[Real, Real]:
    larger, smaller = (a, b) if a >= b else (b, a)
    lesser = 0.0 if smaller == 0.0 else raised(smaller / larger, norm)
    total = larger * raised(1.0 + lesser, 1.0 / norm)
    return total, (1.0 if a >= b else lesser) / (1.0 + lesser)


def minimum(a: Real, b: Real) -> Real:
    """Return the smaller of two numbers, elementwise."""
    if type(a) is float and type(b) is float:
        return a if a <= b else b
    return cast("Array", np.minimum(a, b))


def ceil(a: Real) -> Real:
    """Round up, elementwise; stays a float."""
    return float(math.ceil(a)) if type(a) is float else cast("Array", np.ceil(a))


def floor(a: Real) -> Real:
    """Round down, elementwise; stays a float."""
    return float(math.floor(a)) if type(a) is float else cast("Array", np.floor(a))


def where(condition: Any, a: Real, b: Real) -> Real:
    """Choose `a` where the condition holds, else `b`; both are evaluated."""
    if isinstance(condition, bool) or type(condition) is np.bool_:
        return a if condition else b
    return cast("Array", like(np.where(condition, a, b), condition, a, b))


def share_of(condition: Any) -> Real:
    """Return 1 where a condition holds and 0 elsewhere: one number where it is the same for all sizes. Of `Points`, all must agree.

    >>> share_of(np.array([True, True])), share_of(np.array([True, False]))
    (1.0, array([1., 0.]))
    """
    if np.ndim(condition) == 0 or isinstance(condition, Points):
        return 1.0 if everywhere(condition) else 0.0
    if np.all(condition) or not np.any(condition):
        return 1.0 if np.all(condition) else 0.0
    return where(condition, 1.0, 0.0)


def divide(a: Real, b: Real) -> Real:
    """Divide, giving 0 for 0/0 so that an absent resource costs nothing.

    >>> divide(0.0, 0.0)
    0.0
    """
    if type(a) in _ONE_NUMBER and type(b) in _ONE_NUMBER:
        return 0.0 if a == 0.0 else a / b
    return cast("Array", like(_divided(a, b), a, b))


@noted
@quotient
def _divided(a: Any, b: Any) -> Any:
    above, below = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    nothing = above == 0.0
    if not nothing.any():
        return above / below
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(nothing, 0.0, above / below)


def round_up(a: Real, granule: float) -> Real:
    """Round up to a multiple of `granule`.

    >>> round_up(513.0, 512.0)
    1024.0
    """
    return ceil(a / granule) * granule


def is_scalar(*values: Real) -> bool:
    """Tell whether every value is one number."""
    return all(type(value) in _ONE_NUMBER for value in values)


def axes_of(*values: Any) -> tuple[int, ...]:
    """Return the axes that numbers have together; none where each is one number.

    >>> axes_of(2.0, np.ones((3, 1)), np.ones(4))
    (3, 4)
    """
    shapes = {np.shape(value) for value in values if type(value) not in _ONE_NUMBER}
    return np.broadcast_shapes(*shapes) if shapes else ()


def is_none(count: Real) -> bool:
    """Return whether nothing happens in any configuration: a count is zero (or below). Of `Points`, all must agree."""
    return False if _is_plain_array(count) else bool(count <= 0.0)


def exactly(value: Real, number: float) -> bool:
    """Tell whether a size is this number in every configuration: then what depends on it is not built. Of `Points`, all must agree.

    >>> exactly(1.0, 1.0), exactly(np.array([1.0, 2.0]), 1.0)
    (True, False)
    """
    return False if _is_plain_array(value) else bool(value == number)


def _is_plain_array(value: Real) -> bool:
    """Tell whether a value is an array whose elements decide nothing."""
    return isinstance(value, np.ndarray) and not isinstance(value, Points)


def any_above(a: Real, b: Real) -> bool:
    """Tell whether `a` exceeds `b` anywhere: for structure that the largest element decides (of `Points`, each point's own).

    >>> any_above(2048.0, 4096.0)
    False
    """
    return anywhere(a > b)


#: Kinds of sizes of which nothing is noted.
_NUMBERS: Final = frozenset({float, int, np.ndarray, Points})


def same(a: Real, b: Real) -> bool:
    """Tell whether two sizes agree to rounding, over all elements."""
    if type(a) is float and type(b) is float:
        return a == b or abs(a - b) <= 1e-9 * max(abs(a), abs(b))
    if type(a) not in _NUMBERS or type(b) not in _NUMBERS:
        return everywhere(like(np.isclose(a, b, rtol=1e-9, atol=0.0), a, b))
    # What `np.isclose` says of sizes, in a fraction of its time: a graph asks this of each of its ops.
    x, y = np.asarray(a), np.asarray(b)
    return everywhere(like(abs(x - y) <= 1e-9 * abs(y), a, b))


@cache
def _normal() -> tuple[Any, Any]:
    """Return points and the normal distribution at them."""
    at = np.linspace(-_REACH, _REACH, _PIECES + 1)
    below = np.array([0.5 * math.erfc(-x / math.sqrt(2.0)) for x in at])
    return at, below


@cache
def _largest_of(ranks: float) -> float:
    at, below = _normal()
    # E[max] = integral over x > 0 of 1 - P(x)^n, less that over x < 0 of P(x)^n.
    inner = np.where(at >= 0.0, 1.0 - below**ranks, -(below**ranks))
    width = float(at[1] - at[0])
    # The trapezoid left of zero ends at the right branch, which is larger by one.
    return float(np.sum((inner[1:] + inner[:-1]) / 2.0)) * width - width / 2.0


def largest_of(ranks: Real) -> Real:
    """Return the expected largest of so many independent standard normal numbers.

    >>> round(largest_of(2.0), 3), round(largest_of(1000.0), 2)
    (0.564, 3.24)
    """
    if isinstance(ranks, float):
        return 0.0 if ranks <= 1.0 else _largest_of(ranks)
    return cast("Real", like(_largest_of_each(ranks), ranks))


@noted
def _largest_of_each(ranks: Any) -> Any:
    values, back = np.unique(ranks, return_inverse=True)
    return np.array([largest_of(float(value)) for value in values])[back].reshape(np.shape(ranks))


PLAIN_FUNCTIONS.update(
    {np.maximum: maximum, np.minimum: minimum, np.ceil: ceil, np.floor: floor, np.isclose: same, "same": same}
)


def soft_minimum(a: Real, b: Real, norm: float) -> Real:
    """Return a soft minimum of numbers that are not negative; 0 where one of them is."""
    small, large = minimum(a, b), maximum(a, b)
    ratio = divide(small, where(large > 0.0, large, 1.0 + 0.0 * large))
    lesser: Real = small / raised(1.0 + raised(ratio, norm), 1.0 / norm)
    return lesser


#: Points from which on it is looked whether some are alike.
_MANY: Final = 256


def on_distinct(function: Callable[..., Array], numbers: Sequence[Any]) -> Array:
    """Return what a function gives for points, worked out once for those that agree in all its numbers.

    Parameters
    ----------
    function
        Takes each number or array of `numbers`; its result for a point (last axis) depends on that point's numbers alone.

    Examples
    --------
    >>> sizes = np.repeat([2.0, 3.0], 256)
    >>> seen = []
    >>> def squared(size, factor):
    ...     seen.append(size.size)
    ...     return size * size * factor
    >>> squares = on_distinct(squared, [sizes, 10.0])
    >>> squares[[0, -1]].tolist(), squares.size, seen
    ([40.0, 90.0], 512, [2])
    """
    if trace_in(numbers) is not None:
        return cast("Array", noted(function)(*numbers))
    points = max((np.shape(each)[-1] for each in numbers if np.ndim(each)), default=1)
    varying = [at for at, each in enumerate(numbers) if np.ndim(each) and np.shape(each)[-1] == points]
    alike = _alike_points([np.asarray(numbers[at]).reshape(-1, points) for at in varying]) if points >= _MANY else None
    if alike is None:
        return function(*numbers)
    first, where = alike
    few = [np.asarray(each)[..., first] if at in varying else each for at, each in enumerate(numbers)]
    return np.take(function(*few), where, axis=-1)


def _alike_points(columns: Sequence[NDArray[Any]]) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
    """Return the points that differ, and which of them each is like; None where most of them do."""
    rows = [row for column in columns for row in column]
    weighted: Any = 0.0
    for weight, row in zip(np.sqrt(np.arange(2.0, len(rows) + 2.0)), rows, strict=True):
        weighted = weighted + weight * row
    _, first, where = np.unique(weighted, return_index=True, return_inverse=True)
    if 2 * len(first) > len(where) or not all((row[first][where] == row).all() for row in rows):
        return None
    return first, where
