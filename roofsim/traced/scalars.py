"""Describe operations on single numbers of a point."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from roofsim.points import quotient
from roofsim.records import dataclass

#: Functions that work on each number by itself, besides numpy's of that kind and those that divide.
EACH: Final = frozenset({np.where, np.isclose})


class Sym(int):
    """The number of an operation, where it is an argument of another; other numbers are constants."""

    __slots__ = ()


@dataclass(frozen=True)
class Scalar:
    """One operation on numbers of a point.

    Attributes
    ----------
    function
        What is called; None of a leaf. `weighted` stands for a sum of multiples.
    arguments
        `Sym` or a constant each.
    columns
        The columns that it depends on, one bit each.
    """

    function: Any
    arguments: tuple[Any, ...]
    columns: int


@quotient
def divided(a: Any, b: Any) -> Any:
    """Return a quotient; 0 where nothing is divided."""
    with np.errstate(divide="ignore", invalid="ignore"):
        made = np.divide(a, b)
        return np.where(np.equal(a, 0.0), 0.0, made) if np.isnan(made).any() else made


def weighted(*terms: Any) -> Any:
    """Return a sum of multiples: of a number and a coefficient in turn."""
    total: Any = 0.0
    for value, coefficient in zip(terms[::2], terms[1::2], strict=True):
        total = total + value * coefficient
    return total


def picked(*given: Any) -> Any:
    """Return one of several numbers: of conditions and numbers, the number behind the last condition that holds.

    The first number has no condition.
    """
    chosen, *rest = given
    for condition, value in zip(rest[::2], rest[1::2], strict=True):
        chosen = np.where(condition, value, chosen)
    return chosen


@dataclass(frozen=True)
class Choice:
    """One of several numbers: `leaves[0]`, or that of the last of the conditions which holds."""

    conditions: tuple[Sym, ...]
    leaves: tuple[Any, ...]
