"""Say what a search over layouts tries: axes of numbers and of words, and which rows belong to each combination of words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.kept import remembered
from roofsim.records import dataclass, field
from roofsim.search.families import Rows, ScenarioFamily, inner_of, numbers_of, tables_of
from roofsim.search.planning.choices import ENGINE
from roofsim.search.planning.rows import LAYOUT, Numbered, joined_layouts, usual_width
from roofsim.spec.scenario.schedules import load_schedule, takes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from roofsim.search.axes import Axis, AxisGrid
    from roofsim.search.planning.rows import Joined
    from roofsim.spec.reading.source import Document

#: Key of the scenario that holds each number of a layout.
KEY_OF: Final = {
    "gpus": "hardware.gpus",
    "tensor": "parallel.tensor",
    "pipeline": "parallel.pipeline",
    "context": "parallel.context",
    "micro_batch_size": "workload.micro_batch_size",
    "virtual_stages": "parallel.virtual_stages",
    "expert": "parallel.expert",
    "expert_tensor": "parallel.expert_tensor",
}
#: The number of a layout that each of these keys holds.
_FIELD_OF: Final = {key: name for name, key in KEY_OF.items()}
#: What a layout on one GPU has; every key of it that is no axis keeps this.
ALONE: Final[dict[str, Any]] = {
    "hardware.gpus": None,
    "parallel.data": None,
    "parallel.tensor": 1,
    "parallel.pipeline": 1,
    "parallel.context": 1,
    "parallel.expert": 1,
    "parallel.expert_tensor": None,
    "parallel.expert_imbalance": 1.0,
    "parallel.redundant_experts": 0,
    "parallel.virtual_stages": 1,
    "parallel.schedule": "1f1b",
    "parallel.stage_layers": None,
    "parallel.sequence": False,
    "parallel.account_for_embedding": False,
    "parallel.account_for_loss": False,
    "parallel.sharding": "none",
    "workload.batch_size": None,
    "workload.micro_batch_size": 1,
}


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What a caller asks of a space.

    Attributes
    ----------
    gpus
        Numbers of GPUs.
    cards
        Names of cards; none: that of the scenario.
    axes
        Key of the scenario -> values: restricts an axis of the search, or adds one.
    fixed
        Keys that keep what the scenario says.
    also
        What is tried beside the usual: names of `roofsim.search.planning.choices.ALSO`.
    """

    gpus: tuple[int, ...]
    cards: tuple[str, ...] = ()
    axes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    fixed: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PlanSpace:
    """The layouts that are searched.

    Attributes
    ----------
    document
        The scenario without its layout.
    grid
        All axes, words and numbers; a layout's place in it is its number.
    batch
        Sequences or images of a step; None: an axis.
    trains, depth
        Whether a step trains; the layers of the model.
    assumed
        What the scenario left open that decides what is compared.
    offers
        What each value of the axis of engines lets its users choose: key -> values. Other keys are the caller's own.
    state
        What model, cards, engine and constants were when the space was made, as a digest.
    """

    document: Document
    grid: AxisGrid
    batch: int | None
    trains: bool
    depth: int
    node: int
    assumed: tuple[str, ...] = ()
    state: str = ""
    offers: tuple[Mapping[str, Sequence[Any]], ...] = ()

    @property
    def places(self) -> dict[str, int]:
        """Where each axis stands, by the path of its key."""
        return {".".join(axis.path): place for place, axis in enumerate(self.grid.axes)}

    def described(self) -> dict[str, list[Any]]:
        """Return the values of each axis, as given."""
        return {axis.given: list(axis.values) for axis in self.grid.axes}

    def count(self, words: Mapping[int, int]) -> int:
        """Return how many layouts there are with some words, in which each word makes a difference."""
        return len(self.numbered(self.of_words(words)))

    def rows(self, words: Mapping[int, int]) -> Rows | None:
        """Return the layouts with some words, in which each word makes a difference; None where there are none."""
        chosen = self.numbered(self.of_words(words))
        return self.rows_at(words, chosen[:]) if len(chosen) else None

    def rows_at(self, words: Mapping[int, int], chosen: NDArray[np.int64]) -> Rows:
        """Return some layouts by their numbers (`numbered`), with some words."""
        grid, others = self.grid, self._others()
        index = [np.broadcast_to(np.int64(words.get(place, 0)), len(chosen)) for place in range(len(grid.axes))]
        which, rest = np.divmod(chosen, self.each)
        for place in inner_of(self._numbers(), tables_of(grid)):
            if place not in others:
                index[place] = self.joined().places[_FIELD_OF[_key(grid.axes[place])]][which].astype(np.int64)
        if others:
            sizes = [len(grid.axes[place].values) for place in others]
            for place, own in zip(others, np.unravel_index(rest, sizes), strict=True):
                index[place] = own
        family = self._family(tuple(sorted(words.items())))
        return Rows(family, np.ravel_multi_index(index, grid.shape), tuple(index))

    @remembered
    def _family(self, words: tuple[tuple[int, int], ...]) -> ScenarioFamily:
        """Return the family with some words: axis -> value; its scenario has the first of each number."""
        numbers, document = self._numbers(), self.document
        first = {
            place: next((at for at, one in enumerate(read) if one is not None), 0) for place, read in numbers.values()
        }
        for place, axis in enumerate(self.grid.axes):
            document = axis.put(document, axis.values[{**first, **dict(words)}.get(place, 0)])
        return ScenarioFamily(document, self.grid, numbers, tables_of(self.grid))

    def of_words(self, words: Mapping[int, int]) -> NDArray[np.bool_]:
        """Tell in which of `joined` each word makes a difference: a layout that two combinations describe counts once."""
        kept, engine = np.ones(len(self.joined()), dtype=bool), self.engine_of(words)
        for place, value in words.items():
            kept &= self.of_word(place, value, engine)
        return kept

    def engine_of(self, words: Mapping[int, int]) -> int | None:
        """Return which value of the axis of engines some words have; None where nothing depends on it."""
        return words.get(self.places[ENGINE]) if self.offers else None

    def choices(self, place: int, engine: int | None) -> list[int]:
        """Return which values of an axis of words an engine lets its users choose: all of a caller's own axis."""
        axis = self.grid.axes[place]
        every, key = list(range(len(axis.values))), _key(axis)
        if engine is None or key == ENGINE or not any(key in offer for offer in self.offers):
            return every
        offered = self.offers[engine].get(key)
        if offered is None:
            usual = ALONE.get(key)
            return [axis.values.index(usual) if usual in axis.values else 0]
        return [axis.values.index(value) for value in offered]

    @remembered
    def of_word(self, place: int, value: int, engine: int | None = None) -> NDArray[np.bool_]:
        """Tell in which of `joined` one value of an axis of words makes a difference, with one of the engines."""
        axis, choices = self.grid.axes[place], self.choices(place, engine)
        if value not in choices:
            return np.zeros(len(self.joined()), dtype=bool)
        kept = self._of_word(_key(axis), axis.values[value], axis.values[choices[0]])
        return kept & self._split(self.offers[value]) if self.offers and _key(axis) == ENGINE else kept

    def _split(self, offer: Mapping[str, Sequence[Any]]) -> NDArray[np.bool_]:
        """Tell which rows have degrees that an engine lets its users choose."""
        rows = self.joined()
        kept = np.ones(len(rows), dtype=bool)
        limited = {key for one in self.offers for key in one}
        for name in rows.values:
            if (key := KEY_OF[name]) in offer:
                kept &= np.isin(rows.values[name], offer[key])
            elif key in limited:
                kept &= rows.values[name] == (usual_width(rows) if name == "expert_tensor" else 1.0)
        return kept

    def groups(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return of some layouts, by number, the place of their GPUs among the numbers of GPUs that are searched."""
        places = self.joined().places.get("gpus")
        return np.zeros(len(chosen), dtype=np.int64) if places is None else places[chosen // self.each].astype(np.int64)

    def group_names(self, words: Sequence[tuple[int, int]]) -> dict[float, str]:
        """Return a name of each number of GPUs with a card's words, where the front is of several; in the order of `groups`."""
        gpus, cards = (self.places.get(key) for key in ("hardware.gpus", "hardware.gpu"))
        axes = self.grid.axes
        numbers = axes[gpus].values if gpus is not None else []
        if len(numbers) * (1 if cards is None else len(axes[cards].values)) < 2:
            return {}
        card = dict(words).get(cards, 0) if cards is not None else 0
        return {float(number): f"{card}:{place}" for place, number in enumerate(numbers)}

    @remembered
    def _numbers(self) -> dict[str, tuple[int, list[Any]]]:
        return numbers_of(self.document, self.grid)

    @remembered
    def _others(self) -> list[int]:
        """Return the axes of numbers that are none of a layout's: each value of them goes with each layout."""
        inner = inner_of(self._numbers(), tables_of(self.grid))
        return [place for place in inner if _key(self.grid.axes[place]) not in _FIELD_OF]

    @property
    def each(self) -> int:
        """How many layouts have the same numbers of `LAYOUT`: one for each value of the other axes of numbers."""
        return math.prod(len(self.grid.axes[place].values) for place in self._others())

    def numbered(self, kept: NDArray[np.bool_]) -> Numbered:
        """Return the numbers of the layouts of some of `joined`, each with each value of the other axes of numbers."""
        return Numbered(np.flatnonzero(kept).astype(np.int32), self.each)

    @remembered
    def joined(self) -> Joined:
        """Return the numbers of `LAYOUT` that go together, whatever the words and the other axes of numbers."""
        inner = inner_of(self._numbers(), tables_of(self.grid))
        keys = {place: _key(self.grid.axes[place]) for place in inner}
        axes = {_FIELD_OF[key]: self.grid.axes[place].values for place, key in keys.items() if key in _FIELD_OF}
        return joined_layouts(axes, batch=self.batch, depth=self.depth + 2, trains=self.trains)

    def _of_word(self, key: str, word: Any, first: Any) -> NDArray[np.bool_]:
        """Tell which rows a word makes a difference in; `first` is the one that stands for all where none does."""
        rows = self.joined()
        value = {name: rows.values.get(name, np.ones(len(rows))) for name in LAYOUT}
        piped = value["pipeline"] > 1
        replicas = value["gpus"] / (value["tensor"] * value["pipeline"])
        kept: NDArray[np.bool_] = np.ones(len(rows), dtype=bool)
        if key == "workload.recompute" and isinstance(word, dict) and word.get("layers") is not None:
            kept = word["layers"] * value["pipeline"] < self.depth  # of a stage; of all its layers it is `full`
        elif key == "parallel.sharding" and word != first:
            kept = replicas > 1
        elif key == "parallel.sequence" and word is True and first is not True:
            kept = value["tensor"] > 1
        elif key in ("parallel.account_for_embedding", "parallel.account_for_loss") and word is True:
            kept = piped
        elif key == "parallel.schedule" and word is not None:
            taken = takes(load_schedule(word), value["virtual_stages"])
            kept = np.where(piped, taken, word == first)
        if key == "parallel.sharding" and isinstance(word, dict):
            ranks = next(iter(word.values()))
            kept = kept & (value["tensor"] * ranks == self.node) & (replicas > ranks)
        return kept


def _key(axis: Axis) -> str:
    return ".".join(axis.path)
