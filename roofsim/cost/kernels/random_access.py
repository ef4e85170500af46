"""Price look-ups of rows by index: what memory moves for them, by sectors, by how rows repeat, and by what the cache holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roofsim.numeric import Real, divide, maximum, minimum, where
from roofsim.traced.points import as_array

if TYPE_CHECKING:
    from roofsim.cost.device import Device
    from roofsim.graph.ops import Embedding

#: What stands for a skew of exactly one, at which sums of powers are logarithms.
_NEAR_ONE = 1e-9


def row_traffic(size: Real, sector: float) -> Real:
    """Return the bytes that memory moves for a row of `size` bytes at a random place: whole sectors.

    Rows begin at multiples of their largest power of two; those that fill no whole sectors share the first and the last.

    >>> row_traffic(512.0, 32.0), row_traffic(4.0, 32.0), row_traffic(36.0, 32.0)
    (512.0, 32.0, 64.0)
    """
    begins, part = 1.0 + 0.0 * size, 1.0
    while part < sector:
        part *= 2.0
        begins = where(size % part == 0.0, part, begins)
    return size + sector - begins


def hottest_share(held: Real, rows: Real, skew: Real) -> Real:
    """Return the share of look-ups that go to the hottest `held` of so many rows, whose popularity falls with rank^-skew.

    0: all rows alike; about 1: words of a language, items of a shop (Zipf's law).
    """
    return minimum(divide(_sum_of_powers(held, skew), _sum_of_powers(rows, skew)), 1.0)


def _sum_of_powers(count: Real, skew: Real) -> Real:
    """Return the sum of 1, 2^-skew ... count^-skew, by the formula of Euler and Maclaurin to its first derivative."""
    exponent = as_array(1.0 - skew)
    exponent = np.where(np.abs(exponent) < _NEAR_ONE, _NEAR_ONE, exponent)
    logarithm = np.log(np.maximum(count, 1.0))
    last, slope = np.exp(-skew * logarithm), np.exp(-(skew + 1.0) * logarithm)
    total: Real = np.expm1(exponent * logarithm) / exponent + (1.0 + last) / 2.0 + skew * (1.0 - slope) / 12.0
    return total


def missed(lookups: Real, rows: Real, held: Real, skew: Real) -> Real:
    """Return the look-ups that memory serves, of a cache that holds so many of the rows: the rest find theirs in it.

    Each row that the cache keeps is fetched once.
    """
    kept = maximum(minimum(held, rows), 1.0)
    hits = lookups * hottest_share(kept, rows, skew)
    return lookups - hits + minimum(kept, hits)


def table_traffic(op: Embedding, device: Device) -> Real:
    """Return the bytes that memory reads of a table for the rows that an op looks up.

    Where nobody states how rows repeat, each row is fetched once per look-up and no more than the whole table.
    """
    table = op.inputs[0]
    each = row_traffic(op.width * table.dtype.itemsize, device.constants.physics["memory_sector"])
    if op.skew is None:
        return minimum(op.lookups * each, table.bytes)
    entries = divide(table.bytes, op.width * table.dtype.itemsize)
    held = 0.0 * each if device.cache is None else device.cache / each
    return missed(op.lookups, entries, held, op.skew) * each
