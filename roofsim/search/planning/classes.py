"""Deal the families of a space out to classes whose layers take the same: a class is bounded at once, words beside rows."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.kept import remembered
from roofsim.records import dataclass
from roofsim.search.families import inner_of, numbers_of, tables_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roofsim.search.planning.rows import Numbered
    from roofsim.search.planning.space import PlanSpace
    from roofsim.spec.scenario.workload import Parallel

#: Words that what a layer takes alone does not depend on.
NOT_OF_LAYERS: Final = (
    "parallel.sharding",
    "parallel.schedule",
    "parallel.account_for_embedding",
    "parallel.account_for_loss",
    "parallel.offload",
)
#: Combinations of numbers that are held against all families together.
_TOGETHER: Final = 4096


@dataclass(frozen=True, kw_only=True)
class FamilyClass:
    """Families of a space whose layers take the same.

    Attributes
    ----------
    own
        Axis -> value of each word that layers depend on.
    free
        The other axes of words.
    """

    space: PlanSpace
    own: tuple[tuple[int, int], ...]
    free: tuple[int, ...]

    @remembered
    def families(self) -> list[dict[int, int]]:
        """Return the words of each family: axis -> value."""
        free = (zip(self.free, chosen, strict=True) for chosen in itertools.product(*self.values()))
        return [dict(sorted([*self.own, *each])) for each in free]

    @remembered
    def values(self) -> list[list[int]]:
        """Return of each free axis the values that the engine of the class lets its users choose."""
        return [self.space.choices(place, self._engine) for place in self.free]

    @property
    def _engine(self) -> int | None:
        return self.space.engine_of(dict(self.own))

    @remembered
    def layouts(self) -> list[Parallel]:
        """Return the layout of each family, of which only the words count.

        Raises
        ------
        SpecError
            When a word is none.
        """
        axes, usual = self.space.grid.axes, self.usual
        base = self._layout(usual)
        known = {
            (place, value): getattr(self._layout(usual | {place: value}), axes[place].path[-1])
            for place, values in zip(self.free, self.values(), strict=True)
            for value in values
        }
        return [
            base.model_copy(update={axes[place].path[-1]: known[place, words[place]] for place in self.free})
            for words in self.families()
        ]

    def _layout(self, words: dict[int, int]) -> Parallel:
        return self.space.rows_at(words, self.rows()[:1]).family.row("", 0)[1].parallel

    @property
    def usual(self) -> dict[int, int]:
        """The words of the first family."""
        return self.families()[0]

    @remembered
    def rows(self) -> Numbered:
        """Return the numbers of the layouts of the space that some family of the class has."""
        return self.space.numbered(self._times() > 0)

    def times(self, rows: NDArray[np.int64], chosen: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Return how many families, or of those that are `chosen`, have each of some layouts."""
        times = self._times() if chosen is None else self._times_of(tuple(chosen.tolist()))
        return times[rows // self.space.each]

    def count(self) -> int:
        """Return how many layouts the families have."""
        return int(self._times().sum(dtype=np.int64)) * self.space.each

    @remembered
    def _times(self) -> NDArray[np.int64]:
        times: NDArray[Any] = self.space.of_words(dict(self.own)).astype(np.int32)
        for place, values in zip(self.free, self.values(), strict=True):
            held = np.zeros(len(times), dtype=np.int32)
            for value in values:
                held += self.space.of_word(place, value, self._engine)
            times *= held
        return times

    @remembered
    def _times_of(self, chosen: tuple[bool, ...]) -> NDArray[np.int64]:
        times, some = np.zeros(len(self._times()), dtype=np.int64), np.array(chosen)
        for first in range(0, len(times), _TOGETHER):
            own = slice(first, first + _TOGETHER)
            times[own] = self.holds(np.arange(len(times))[own] * self.space.each)[some].sum(axis=0)
        return times

    def holds(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which family (first axis) has which of some layouts (second axis)."""
        shape, which = list(map(len, self.values())), rows // self.space.each
        held = np.ones((*shape, len(rows)), dtype=bool)
        for at, (place, values) in enumerate(zip(self.free, self.values(), strict=True)):
            own = np.array([self.space.of_word(place, value, self._engine)[which] for value in values])
            held &= own.reshape([shape[at] if axis == at else 1 for axis in range(len(shape))] + [len(rows)])
        return held.reshape(math.prod(shape), len(rows))


def classes_of(space: PlanSpace) -> list[FamilyClass]:
    """Return the classes of a space."""
    axes = space.grid.axes
    inner = inner_of(numbers_of(space.document, space.grid), tables_of(space.grid))
    words = [place for place in range(len(axes)) if place not in inner]
    free = tuple(place for place in words if ".".join(axes[place].path) in NOT_OF_LAYERS)
    own = [place for place in words if place not in free]
    sizes = [range(len(axes[place].values)) for place in own]
    return [
        FamilyClass(space=space, own=tuple(zip(own, chosen, strict=True)), free=free)
        for chosen in itertools.product(*sizes)
    ]


def layouts_of(space: PlanSpace) -> int:
    """Return how many layouts a space has."""
    return sum(one.count() for one in classes_of(space))
