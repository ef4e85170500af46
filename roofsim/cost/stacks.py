"""Price many kernels in one expression: those of one phase whose numbers have the same axes, with a leading axis of kernels."""

from __future__ import annotations

from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.cost.columns import PLAIN, column
from roofsim.numeric import axes_of
from roofsim.points import by_value
from roofsim.records import dataclass, replace
from roofsim.traced.points import as_array

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from roofsim.cost.kernels.work import KernelWork
    from roofsim.graph.base import Phase
    from roofsim.numeric import Array, Real

#: Numbers of a kernel that its price depends on.
FIELDS: Final = (
    "flops", "flop_peak", "compute_share", "traffic", "bandwidth_share", "launches", "on_tensor", "energy", "load", "limit",
    "floor", "norm", "heat", "apart", "host", "by_units", "by_vectors", "by_memory", "flat",
)  # fmt: skip
#: The numbers of a kernel, in that order.
NUMBERS_OF: Final = attrgetter(*FIELDS)
#: Numbers of one expression: as many as stay in a processor's cache.
MOST_ELEMENTS: Final = 65_536
#: Numbers from which on sums of runs are faster one by one than in one call.
_MANY: Final = 2_048


@dataclass(frozen=True, kw_only=True)
class KernelStack:
    """Kernels whose numbers have the same axes; equal kernels of a phase are one row.

    Attributes
    ----------
    kinds
        Of each row, the phase of the graph and whether it is attention; equal ones stand together.
    apart
        How many rows, the first, are held to the power limit on their own, if they are long.
    places
        Which of the graph's kernels each row stands for.
    shape
        The axes of each kernel's numbers: none for one configuration, those of points and contexts otherwise.
    work
        The kernels' numbers, (kernels, *shape) or broadcastable to it.
    """

    kinds: tuple[tuple[Phase, bool], ...]
    apart: int
    places: tuple[tuple[int, ...], ...]
    shape: tuple[int, ...]
    work: KernelWork

    def spread(self, rows: Sequence[Any], first: int = 0) -> Iterator[tuple[int, Any]]:
        """Yield each kernel with what is its own of figures of rows, those from `first` on."""
        for places, row in zip(self.places[first:], rows, strict=False):
            for place in places:
                yield place, row

    def runs(self, part: slice) -> tuple[list[int], list[tuple[Phase, bool]]]:
        """Return where runs of equal `kinds` begin in some of the rows, and their kinds."""
        kinds = self.kinds[part]
        starts = [place for place, kind in enumerate(kinds) if place == 0 or kind != kinds[place - 1]]
        return starts, [kinds[place] for place in starts]

    def slices(self, axes: int, elements: int) -> Iterator[tuple[slice, KernelWork]]:
        """Yield the kernels a few at a time, with room behind their axis for as many axes in front of those of `shape`.

        Parameters
        ----------
        axes
            Rank of the numbers that they are multiplied by.
        elements
            How many those are.
        """
        each = max(elements, 1) * int(np.prod(self.shape))
        step = max(MOST_ELEMENTS // max(each, 1), 1)
        room = (1,) * max(axes - len(self.shape), 0)
        for first in range(0, len(self.places), step):
            part = slice(first, first + step)
            columns: dict[str, Any] = {name: _with_room(getattr(self.work, name)[part], room) for name in FIELDS}
            yield part, replace(self.work, **columns)

    @cached_property
    def rows(self) -> dict[int, int]:
        """The row of each of the kernels."""
        return {place: row for row, places in enumerate(self.places) for place in places}

    def times(self, counts: Mapping[int, Real]) -> Array:
        """Return how often the kernels of each row run, from how often some of the kernels do, the others never."""
        times: list[Real] = [0.0] * len(self.places)
        rows = self.rows
        for place, count in counts.items():
            row = rows.get(place)
            if row is not None:
                times[row] = times[row] + count
        return column(times, len(self.shape))


def _with_room(column: Array, room: tuple[int, ...]) -> Array:
    return column.reshape(len(column), *room, *column.shape[1:]) if room else column


def stacks_of(
    works: Sequence[KernelWork], counts: Sequence[Real], kinds: Sequence[tuple[Phase, bool]], outside: Sequence[Real]
) -> list[KernelStack]:
    """Return kernels in stacks.

    Parameters
    ----------
    works, counts, kinds
        The kernels in program order, and of each how often it runs, its phase and whether it is attention.
    outside
        Other numbers that enter every price: the card's.
    """
    around = axes_of(*outside)
    order = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
    groups: dict[tuple[int, ...], dict[tuple[Any, ...], list[int]]] = {}
    for place, (work, count, kind) in enumerate(zip(works, counts, kinds, strict=True)):
        numbers = NUMBERS_OF(work)
        if type(count) is float and PLAIN.issuperset(map(type, numbers)):
            shape, row = around, (not work.apart, order[kind], *numbers)
        else:
            shape, row = _shape(numbers, count, around), (not np.any(work.apart), order[kind], *by_value(numbers))
        groups.setdefault(shape, {}).setdefault(row, []).append(place)
    return [_stack(works, kinds, shape, rows) for shape, rows in groups.items()]


def _stack(
    works: Sequence[KernelWork],
    kinds: Sequence[tuple[Phase, bool]],
    shape: tuple[int, ...],
    rows: dict[tuple[Any, ...], list[int]],
) -> KernelStack:
    keys = sorted(rows, key=lambda row: row[:2])
    places = [rows[key] for key in keys]
    return KernelStack(
        kinds=tuple(kinds[row[0]] for row in places),
        apart=sum(not key[0] for key in keys),
        places=tuple(map(tuple, places)),
        shape=shape,
        work=_stacked([works[row[0]] for row in places], len(shape)),
    )


def _shape(numbers: tuple[Any, ...], count: Real, around: tuple[int, ...]) -> tuple[int, ...]:
    shapes = {value.shape for value in (count, *numbers) if isinstance(value, np.ndarray)} | {around}
    return np.broadcast_shapes(*shapes) if len(shapes) > 1 else around


def _stacked(works: list[KernelWork], rank: int) -> KernelWork:
    by_field = zip(FIELDS, zip(*map(NUMBERS_OF, works), strict=True), strict=True)
    columns: dict[str, Any] = {name: column(values, rank) for name, values in by_field}
    return replace(works[0], **columns)


def sums(values: Any, counts: Array, starts: list[int]) -> Any:
    """Return the sums of the kernels' numbers, each as often as it runs, over runs of rows that begin at `starts`."""
    weighted = as_array(values) * counts
    if weighted.size < _MANY:
        return np.add.reduceat(weighted, starts, axis=0)
    ends = [*starts[1:], len(weighted)]
    return [weighted[start:end].sum(axis=0) for start, end in zip(starts, ends, strict=True)]
