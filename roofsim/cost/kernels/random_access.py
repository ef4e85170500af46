"""Price rows at random places: what memory moves for them, by sectors, by how rows repeat and by what the cache holds.

Compute units ask for more than memory moves: rows that the cache holds too. What they draw is limited by the loads that they
keep in flight (Little's law), each as wide as the kernel's loads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roofsim.numeric import Real, divide, maximum, minimum, where
from roofsim.records import dataclass
from roofsim.traced.points import as_array

if TYPE_CHECKING:
    from roofsim.cost.device import Device
    from roofsim.graph.ops import Embedding, Gather
    from roofsim.graph.tensor import Tensor

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
    """Return the look-ups that memory serves, at most, of a cache that holds so many of the rows: the rest find theirs in it.

    The hottest rows are fetched once and found again; rows that are asked for less than once on average are fetched each time, as
    are those beyond what the cache holds.
    """
    asked = np.log(np.maximum(lookups / _sum_of_powers(rows, skew), 1.0)) / np.maximum(skew, _NEAR_ONE)
    kept = maximum(minimum(minimum(held, rows), np.exp(np.minimum(asked, np.log(rows)))), 1.0)
    hits = lookups * hottest_share(kept, rows, skew)
    return lookups - hits + minimum(kept, hits)


@dataclass(frozen=True)
class Moves:
    """Bytes that memory moves for a kernel, and bytes that its compute units ask for: rows that the cache holds as well."""

    moved: Real
    asked: Real

    def load(self, plain: Real, narrowness: Real = 1.0) -> Real:
        """Return the load of a compute unit (`unit_load`), of which `plain` is that of a kernel that asks for what memory moves.

        `narrowness` says how many times less a thread loads at once than those of simple kernels do.
        """
        return plain * narrowness * divide(self.asked, self.moved)


def table_moves(op: Embedding, device: Device) -> Moves:
    """Return the bytes of a table that memory reads for the rows that an op looks up, and those that compute units ask for.

    Where nobody states how rows repeat, each row is fetched once per look-up and no more than the whole table.
    """
    table = op.inputs[0]
    each = row_traffic(op.width * table.dtype.itemsize, device.constants.physics["memory_sector"])
    asked = op.lookups * each
    if op.skew is None:
        return Moves(minimum(asked, table.bytes), asked)
    entries = divide(table.bytes, op.width * table.dtype.itemsize)
    return Moves(missed(op.lookups, entries, _held(device, each), op.skew) * each, asked)


def state_moves(op: Embedding, device: Device) -> Moves:
    """Return the same of the optimizer state beside the rows, which a sparse update reads."""
    state = op.state()
    if state is None:
        return Moves(0.0, 0.0)
    asked = op.lookups * row_traffic(op.states * state.dtype.itemsize, device.constants.physics["memory_sector"])
    return Moves(minimum(asked, state.bytes), asked)


def _held(device: Device, row: Real) -> Real:
    """Return how many rows the cache holds."""
    return 0.0 * row if device.cache is None else device.cache / row


def gather_moves(op: Gather, rows: Real, device: Device) -> Moves:
    """Return what a kernel moves and asks for that collects so many rows at random places, or adds them up there.

    All rows are asked for alike. A sum reads what it adds in order; the caches add: memory reads and writes back the rows that
    they do not hold.
    """
    indices = sum(tensor.bytes for tensor in op.inputs if not tensor.dtype.floating)
    (far, near), passes = _sides(op), 1.0 if op.function == "index" else 2.0
    row = divide(near.bytes, rows)
    each = row_traffic(row, device.constants.physics["memory_sector"])
    in_order = near.bytes + indices
    # What streams past takes its share of the cache.
    held = _held(device, each) * divide(rows * each, rows * each + in_order)
    away = missed(rows, divide(far.bytes, row), held, 0.0)
    return Moves(in_order + passes * away * each, in_order + rows * each)


def _sides(op: Gather) -> tuple[Tensor, Tensor]:
    """Return the tensor at whose random places rows are read or added to, and the one that holds them in order."""
    if op.function == "index":
        return op.inputs[0], op.outputs[0]
    return op.outputs[0], [tensor for tensor in op.inputs if tensor.dtype.floating][-1]


def narrowness(op: Gather, rows: Real, loaded: float | None, device: Device) -> Real:
    """Return how many times less a thread loads at once than those of simple kernels do.

    `loaded` are the bytes that the engine's kernels collect at once where rows allow; None, and all sums: an element.
    """
    _, near = _sides(op)
    widest, element = device.constants.physics["vector_load"], float(near.dtype.itemsize)
    if op.function != "index" or loaded is None:
        return widest / element
    row, own = divide(near.bytes, rows), element + 0.0 * rows
    while element < min(loaded, widest):
        element *= 2.0
        own = where(row % element == 0.0, element, own)
    return widest / own
