"""Hold the values of several points of a sweep, and notice where code would decide for all of them by one.

A structure (which graph, which kernels, which stages) is decided in plain Python: ``if degree > 1``. Where the values of several
points are worked on together, such a decision is right for all of them or for none: `Points` makes it where they agree and raises
`Diverged` where they do not, with what each point says, so that the sweep can part them and go on.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray


#: Functions that divide their first argument by their second.
QUOTIENTS: Final[set[Any]] = {np.true_divide}


def quotient(function: Callable[..., Any]) -> Callable[..., Any]:
    """Say that a function divides its first argument by its second."""
    QUOTIENTS.add(function)
    return function


class Diverged(Exception):  # noqa: N818 - not an error: the points that disagree are evaluated apart
    """The points of a group do not agree on what decides the structure.

    Attributes
    ----------
    rows
        What each point has: those that have the same agree.
    """

    def __init__(self, rows: NDArray[Any]) -> None:
        super().__init__("points of one group differ in what decides the structure of their program")
        self.rows = rows

    @cached_property
    def labels(self) -> NDArray[Any]:
        """One number per point: points with the same number agree. Most of those who ask whether points agree need none."""
        return np.ravel(np.unique(self.rows, axis=0, return_inverse=True)[1])


class Points(np.ndarray[Any, Any]):
    """Numbers of several points; the first axis counts them.

    >>> batches = points([1.0, 2.0, 4.0])
    >>> bool(batches > 0.0)
    True
    >>> bool(batches > 1.0)
    Traceback (most recent call last):
    ...
    roofsim.points.Diverged: points of one group differ in what decides the structure of their program
    """

    #: Whether they are samples that stand for other points as well.
    sampled: ClassVar[bool] = False

    def __bool__(self) -> bool:
        return bool(agreed(self != 0.0))

    def __float__(self) -> float:
        return float(agreed(self))

    def __int__(self) -> int:
        return int(agreed(self))

    def __index__(self) -> int:
        value = agreed(self)
        if value != int(value):
            raise TypeError(f"{value} is not a whole number")
        return int(value)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(float(self))

    def __ceil__(self) -> Any:
        return np.ceil(self)

    def __floor__(self) -> Any:
        return np.floor(self)

    def __trunc__(self) -> Any:
        return np.trunc(self)

    def __round__(self, digits: int = 0) -> Any:
        return np.round(self, digits)

    def __format__(self, form: str) -> str:
        return format(float(self), form)

    def settled(self) -> Any:
        """Return the value that all points have.

        Raises
        ------
        Diverged
            Where they have several.
        """
        return _agreed(self)


def points(values: Any) -> Any:
    """Return numbers, one per point along the first axis, as `Points`.

    >>> points([1, 2]) * 2.0
    Points([2., 4.])
    """
    return np.asarray(values, dtype=np.float64).view(Points)


def together(values: Sequence[Any]) -> Any:
    """Return a number of each point: one float where they are the same, else `Points`.

    >>> together([2.0, 2.0]), together([1.0, 2.0])
    (2.0, Points([1., 2.]))
    """
    if isinstance(values, Points):
        return values if values.sampled or (values != values[0]).any() else float(values[0])
    first = values[0]
    return first if all(value == first for value in values) else points(values)


def number_at(values: Points, place: int) -> Any:
    """Return the number of one point; a whole number as an int.

    >>> number_at(points([1.0, 2.5]), 0), number_at(points([1.0, 2.5]), 1)
    (1, 2.5)
    """
    value = np.asarray(values)[place].item()
    return int(value) if value == int(value) else value


def by_value(form: Any) -> Any:
    """Return what tells a value from others, in a set or as a key: of arrays their numbers, of points that agree the one number.

    Parts of a tuple are taken one by one.

    >>> by_value((2.0, points([3.0, 3.0])))
    (2.0, 3.0)
    """
    if type(form) is tuple:
        return tuple([by_value(part) for part in form])
    if not isinstance(form, np.ndarray):
        return form
    numbers = form.tobytes()
    if type(form) is Points and form.size and numbers == numbers[: form.itemsize] * form.size:
        return form.item(0)
    return np.ndarray, form.shape, numbers


def agreed(values: Any) -> Any:
    """Return the value that all points have.

    Raises
    ------
    Diverged
        Where they have several.
    """
    return values.settled() if isinstance(values, Points) else _agreed(values)


def _agreed(values: Any) -> Any:
    rows = np.asarray(values)
    if rows.size == 1:
        return rows.item()
    rows = rows.reshape(len(rows), -1)
    if not rows.size:
        raise ValueError("no points")
    if (rows == rows[0, 0]).all():
        return rows[0, 0].item()
    raise Diverged(rows)


def anywhere(condition: Any) -> bool:
    """Tell whether a condition holds for any of several contexts or sizes; of points, each for itself, and all must agree.

    >>> anywhere(np.array([False, True])), anywhere(False)
    (True, False)
    """
    if isinstance(condition, bool):
        return condition
    if isinstance(condition, Points) and condition.ndim:
        return bool(agreed(condition if condition.ndim == 1 else condition.reshape(len(condition), -1).any(axis=1)))
    return bool(np.any(condition))


def everywhere(condition: Any) -> bool:
    """Tell whether a condition holds for all of several contexts or sizes; of points, each for itself, and all must agree.

    >>> everywhere(np.array([False, True])), everywhere(True)
    (False, True)
    """
    if isinstance(condition, bool):
        return condition
    if isinstance(condition, Points) and condition.ndim:
        return bool(agreed(condition if condition.ndim == 1 else condition.reshape(len(condition), -1).all(axis=1)))
    return bool(np.all(condition))


def surely(condition: Any) -> bool:
    """Tell whether a condition is known to hold everywhere, so that what is for elsewhere need not be worked out.

    Of points that are samples of others it never is. Nothing is decided by it: code must be right where the answer is no.

    >>> surely(np.array([True, True])), surely(np.array([True, False]))
    (True, False)
    """
    return not getattr(condition, "sampled", False) and bool(np.all(condition))


def possibly(condition: Any) -> bool:
    """Tell whether a condition may hold somewhere, as `surely`.

    >>> possibly(np.array([True, False])), possibly(np.array([False, False]))
    (True, False)
    """
    return getattr(condition, "sampled", False) or bool(np.any(condition))


def of_first(condition: Any) -> bool:
    """Return what the first of several points says of a condition that only texts depend on; of samples of others, no.

    >>> of_first(np.array([True, False]))
    True
    """
    return not getattr(condition, "sampled", False) and bool(np.ravel(condition)[0])


def decided(condition: Any) -> bool | None:
    """Return what all points say of a condition; None where it is one of arrays with more axes, whose elements may differ.

    >>> decided(points([1.0, 2.0]) > 0.0), decided(np.array([True, False]))
    (True, None)
    """
    if isinstance(condition, Points) and condition.ndim == 1:
        return bool(condition)
    return bool(condition) if np.ndim(condition) == 0 else None


def like(result: Any, *given: Any) -> Any:
    """Return an array as `Points` where one of those that it was made of is.

    numpy's functions that choose and join (``where``, ``stack``) return plain arrays.
    """
    if isinstance(result, np.ndarray):
        for one in given:
            if isinstance(one, Points):
                return result.view(Points)
    return result


def whole(value: Any) -> int:
    """Return a number as an int, the same for all points.

    Raises
    ------
    Diverged
        Where points have several.
    """
    return int(float(value))
