"""Say where a tensor is split over the ranks of a tensor group, and where it is after its elements were put into another shape."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.importers.captured.form import CapturedSize

#: A batch and a length, large primes, at which sizes are compared: polynomials that agree here are the same ones.
_BATCH: Final = 1_000_003
_LENGTH: Final = 1_000_000_007
#: More than the matrices that a weight stacks, and less than a batch at which sizes are compared.
MOST_PARTS: Final = 1000


class CannotSplitError(Exception):
    """An op that cannot take what the plan splits; the message says why."""


@dataclass(frozen=True)
class Split:
    """How the ranks of a tensor group divide a tensor.

    Attributes
    ----------
    dim
        The dimension that they divide.
    outer
        What stands before the divided size in this dimension: samples, where these and their tokens became one dimension, or the
        matrices that a weight stacks.
    rows
        Whether it divides the rows of a table of embeddings, which ranks may share unevenly.
    """

    dim: int
    outer: Fraction = Fraction(1)
    rows: bool = False


def value(size: CapturedSize) -> Fraction:
    """Return a size at a batch and a length that tell sizes apart.

    >>> value(768), value(((1, 2, 0, 1),))
    (Fraction(768, 1), Fraction(1000000007, 2))
    """
    if isinstance(size, int):
        return Fraction(size)
    return sum((Fraction(a, b) * _BATCH**i * _LENGTH**j for a, b, i, j in size), Fraction(0))


def values(shape: Sequence[CapturedSize]) -> list[Fraction]:
    """Return the sizes of a shape by `value`."""
    return [value(size) for size in shape]


def reshaped(split: Split, before: Sequence[CapturedSize], after: Sequence[CapturedSize]) -> Split:
    """Return where elements are divided once their shape is another; the first dimension is the outermost.

    >>> reshaped(Split(2), (2, 5, 768), (2, 5, 12, 64)).dim
    2
    >>> reshaped(Split(1), (2, 5, 768), (10, 768))
    Split(dim=0, outer=Fraction(2, 1), rows=False)

    Raises
    ------
    CannotSplitError
        Where no dimension of the other shape is divided so.
    """
    start = split.outer
    for size in values(before)[: split.dim]:
        start *= size
    passed = Fraction(1)
    for dim, size in enumerate(values(after)):
        if size != 1 and passed <= start < passed * size:
            outer = start / passed
            if outer.denominator != 1 or (size / outer).denominator != 1:
                break
            return Split(dim, outer, split.rows)
        passed *= size
    raise CannotSplitError("puts the elements of several ranks into one dimension")


def aligned(split: Split, before: Sequence[CapturedSize], after: Sequence[CapturedSize]) -> Split:
    """Return where a tensor is divided that is broadcast to another shape."""
    return Split(split.dim + len(after) - len(before), split.outer, split.rows)
