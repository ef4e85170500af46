"""Fit sizes that were seen at several batches and lengths by polynomials with exact coefficients."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

#: Batch and length of a capture.
Point = tuple[int, int]

#: Powers of (batch, length) that a size may be a sum of, simplest first.
POWERS = ((0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2))


class CaptureError(Exception):
    """A program that cannot be captured as it is; the message says why, and what to do."""


def fitted(values: list[int], points: list[Point]) -> Any:
    """Return a size as an integer, or as terms ``[numerator, denominator, power of batch, power of length]``.

    The polynomial of fewest terms that gives every one of `values` at its point (batch, length) exactly.

    Raises
    ------
    CaptureError
        When no polynomial of degree one in the batch and two in the length does.
    """
    if len(set(values)) == 1:
        return values[0]
    usable = [power for power in POWERS if _varies(power, points) or power == (0, 0)]
    for number in range(1, min(len(usable), len(points) - 1) + 1):
        for chosen in _choices(usable, number):
            terms = _solved(values, points, chosen)
            if terms is not None:
                return terms
    seen = ", ".join(f"{value} at batch {b}, length {n}" for value, (b, n) in zip(values, points, strict=True))
    raise CaptureError(f"a size is no polynomial of batch and length: {seen}")


def _varies(power: Point, points: list[Point]) -> bool:
    return len({batch ** power[0] * length ** power[1] for batch, length in points}) > 1


def _choices(items: list[Point], number: int) -> list[list[Point]]:
    """Return all selections of so many items, in order."""
    if number == 0:
        return [[]]
    return [[items[at], *rest] for at in range(len(items)) for rest in _choices(items[at + 1 :], number - 1)]


def _solved(values: list[int], points: list[Point], powers: list[Point]) -> list[list[int]] | None:
    """Return the terms of the polynomial of these powers through all values; None: there is none."""
    rows = [
        [Fraction(b**i * n**j) for i, j in powers] + [Fraction(value)]
        for value, (b, n) in zip(values, points, strict=True)
    ]
    for column in range(len(powers)):
        pivot = next((row for row in rows[column:] if row[column] != 0), None)
        if pivot is None:
            return None
        rows.remove(pivot)
        pivot = [entry / pivot[column] for entry in pivot]
        rows = [[a - row[column] * b for a, b in zip(row, pivot, strict=True)] for row in rows]
        rows.insert(column, pivot)
    if any(row[-1] != 0 for row in rows[len(powers) :]):
        return None
    terms = [(rows[at][-1], power) for at, power in enumerate(powers)]
    return [[c.numerator, c.denominator, i, j] for c, (i, j) in terms if c != 0]


def sizes_of(given: list[Any], points: list[Point]) -> Any:
    """Return, for several captures' values at one place, the one form that gives them all; lists element by element."""
    if isinstance(given[0], (list, tuple)):
        if len({len(each) for each in given}) > 1:
            raise CaptureError(
                f"a list of sizes has {len(given[0])} or {len(given[1])} of them, by the size of the batch"
            )
        return [sizes_of([each[at] for each in given], points) for at in range(len(given[0]))]
    return fitted(list(given), points)
