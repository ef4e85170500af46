"""Say what a search over layouts tries: axes of numbers and of words, and which rows belong to each combination of words."""

from __future__ import annotations

import hashlib
import itertools
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.errors import Place, RoofsimError
from roofsim.kept import remembered
from roofsim.numeric import real
from roofsim.records import dataclass, field
from roofsim.search.axes import AxisGrid, read_axes
from roofsim.search.families import Rows, ScenarioFamily, inner_of, numbers_of, tables_of
from roofsim.search.planning.rows import LAYOUT, divisors, doublings, joined_layouts
from roofsim.spec.scenario.document import section_path, with_override
from roofsim.spec.scenario.schedules import load_schedule, takes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from roofsim.search.axes import Axis
    from roofsim.search.planning.rows import Joined
    from roofsim.spec.engine.ranks import LayoutChoices
    from roofsim.spec.reading.source import Document
    from roofsim.spec.resolve import Resolved

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
#: Where nobody states a batch, the largest number of GPUs has so many micro batches of one sample each.
BATCHES: Final = 4
#: Tokens that a context rank has at least.
_LEAST_TOKENS: Final = 1024
#: Divisors of a batch that are all tried; of more, powers of two.
_MOST_DIVISORS: Final = 12
#: Samples of a micro batch of a stack of layers.
_MOST_SAMPLES: Final = 64


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
    """

    gpus: tuple[int, ...]
    cards: tuple[str, ...] = ()
    axes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    fixed: tuple[str, ...] = ()


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

    @property
    def places(self) -> dict[str, int]:
        """Where each axis stands, by the path of its key."""
        return {".".join(axis.path): place for place, axis in enumerate(self.grid.axes)}

    def described(self) -> dict[str, list[Any]]:
        """Return the values of each axis, as given."""
        return {axis.given: list(axis.values) for axis in self.grid.axes}

    @remembered
    def families(self) -> list[dict[int, int]]:
        """Return each combination of words that a scenario may have: axis -> which of its values."""
        inner = inner_of(numbers_of(self.document, self.grid), tables_of(self.grid))
        words = [place for place in range(len(self.grid.axes)) if place not in inner]
        sizes = [range(len(self.grid.axes[place].values)) for place in words]
        return [dict(zip(words, chosen, strict=True)) for chosen in itertools.product(*sizes)]

    def count(self, words: Mapping[int, int]) -> int:
        """Return how many layouts there are with some words, in which each word makes a difference."""
        return int(self._of_words(self._layouts(), words).sum()) * math.prod(
            len(self.grid.axes[place].values) for place in self._others()
        )

    def rows(self, words: Mapping[int, int]) -> Rows | None:
        """Return the layouts with some words, in which each word makes a difference; None where there are none."""
        numbers, tables, grid = self._numbers(), tables_of(self.grid), self.grid
        joined = self._crossed()
        joined = joined.kept(self._of_words(joined, words))
        if not len(joined):
            return None
        index = [np.broadcast_to(np.int64(words.get(place, 0)), len(joined)) for place in range(len(grid.axes))]
        inner = inner_of(numbers, tables)
        for place in inner:
            key = _key(grid.axes[place])
            index[place] = joined.places[_FIELD_OF.get(key, key)]
        usual = {place: int(index[place][0]) for place in inner}
        document = self.document
        for place, axis in enumerate(grid.axes):
            document = axis.put(document, axis.values[{**usual, **words}[place]])
        family = ScenarioFamily(document, grid, numbers, tables)
        return Rows(family, np.ravel_multi_index(index, grid.shape), tuple(index))

    @remembered
    def _numbers(self) -> dict[str, tuple[int, list[Any]]]:
        return numbers_of(self.document, self.grid)

    def _others(self) -> list[int]:
        """Return the axes of numbers that are none of a layout's: each value of them goes with each layout."""
        inner = inner_of(self._numbers(), tables_of(self.grid))
        return [place for place in inner if _key(self.grid.axes[place]) not in _FIELD_OF]

    @remembered
    def _crossed(self) -> Joined:
        """Return the layouts whose numbers go together, with each value of the other axes of numbers."""
        joined = self._layouts()
        for place in self._others():
            axis = self.grid.axes[place]
            joined = joined.crossed(_key(axis), list(range(len(axis.values))))
        return joined

    @remembered
    def _layouts(self) -> Joined:
        """Return the layouts whose numbers go together, whatever the words."""
        inner = inner_of(self._numbers(), tables_of(self.grid))
        keys = {place: _key(self.grid.axes[place]) for place in inner}
        axes = {_FIELD_OF[key]: self.grid.axes[place].values for place, key in keys.items() if key in _FIELD_OF}
        return joined_layouts(axes, batch=self.batch, depth=self.depth + 2, trains=self.trains)

    def word(self, words: Mapping[int, int], key: str) -> Any:
        """Return the value of an axis of words; None where the key is no axis."""
        place = self.places.get(key)
        return None if place is None else self.grid.axes[place].values[words[place]]

    def first(self, key: str) -> Any:
        """Return the first value of an axis; None where the key is no axis."""
        place = self.places.get(key)
        return None if place is None else self.grid.axes[place].values[0]

    def _of_words(self, rows: Joined, words: Mapping[int, int]) -> NDArray[np.bool_]:
        """Tell in which rows each word makes a difference: a layout that two combinations describe counts once."""
        kept = np.ones(len(rows), dtype=bool)
        value = {name: rows.values.get(name, np.ones(len(rows))) for name in LAYOUT}
        piped = value["pipeline"] > 1
        replicas = value["gpus"] / (value["tensor"] * value["pipeline"])
        sharding = self.word(words, "parallel.sharding")
        if sharding is not None and sharding != self.first("parallel.sharding"):
            kept &= replicas > 1
        if isinstance(sharding, dict):
            ranks = next(iter(sharding.values()))
            kept &= (value["tensor"] * ranks == self.node) & (replicas > ranks)
        if self.word(words, "parallel.sequence") is True and self.first("parallel.sequence") is not True:
            kept &= value["tensor"] > 1
        for end in ("embedding", "loss"):
            if self.word(words, f"parallel.account_for_{end}") is True:
                kept &= piped
        schedule = self.word(words, "parallel.schedule")
        if schedule is not None:
            taken = takes(load_schedule(schedule), value["virtual_stages"])
            kept &= np.where(piped, taken, schedule == self.first("parallel.schedule"))
        return kept


def space_of(document: Document, wish: Wish, resolve: Callable[[Document], Resolved]) -> PlanSpace:
    """Return what is searched for a scenario: what its engine lets users choose, where nobody says otherwise.

    Raises
    ------
    SpecError
        When the scenario itself is wrong, or an axis.
    """
    alone = document
    fixed = {".".join(section_path(key, Place("--fix"))) for key in wish.fixed}
    stated = {key: _stated(document, key) for key in (*ALONE, "parallel.offload")}
    for key, value in ALONE.items():
        alone = with_override(alone, key, value, "plan")
    if wish.cards:
        alone = with_override(alone, "hardware.gpu", wish.cards[0], "--gpu")
    resolved = resolve(_without(alone, "workload.global_batch_size"))
    trains = resolved.workload.phase == "train"
    if not trains:
        alone = with_override(alone, "parallel.sharding", None, "plan")
    batch, assumed = _batch(document, wish, trains=trains)
    axes: dict[str, list[Any]] = {"hardware.gpu": list(wish.cards)} if wish.cards else {}
    axes |= _words(resolved, trains=trains) | _numbers(resolved, wish, batch, trains=trains)
    for key in fixed:
        if key in axes and stated.get(key) is not None:
            axes[key] = [stated[key]]
        elif key not in axes and stated.get(key) is not None:
            alone = with_override(alone, key, stated[key], "--fix")
        else:
            axes.pop(key, None)
    given = read_axes(wish.axes)
    for axis in given.axes:
        axes[".".join(axis.path)] = list(axis.values)
    free = any(axis.path[-1] in ("micro_batch_size", "batch_size", "global_batch_size") for axis in given.axes)
    base = alone
    if trains and batch is not None:
        base = with_override(base, "workload.global_batch_size", batch, "plan")
    return PlanSpace(
        document=base,
        grid=read_axes(axes),
        batch=None if free and not trains else batch,
        trains=trains,
        depth=int(resolved.model.traits().depth) if resolved.model.stacked else 1,
        node=max(int(resolved.places), 1),
        assumed=assumed,
        state=_digest(alone, wish, resolve),
    )


def _digest(document: Document, wish: Wish, resolve: Callable[[Document], Resolved]) -> str:
    """Return a digest of all that a scenario stands for on each card: of model, card, engine and constants."""
    digest = hashlib.sha256()
    for card in wish.cards or ("",):
        try:
            said = repr(resolve(with_override(document, "hardware.gpu", card, "--gpu") if card else document))
        except RoofsimError as error:  # on this card nothing of the engine runs: its layouts say so
            said = error.reason
        digest.update(said.encode())
    return digest.hexdigest()


def _key(axis: Axis) -> str:
    return ".".join(axis.path)


def _stated(document: Document, key: str) -> Any:
    at: Any = document.data
    for part in key.split("."):
        at = at.get(part) if isinstance(at, dict) else None
    return at


def _without(document: Document, key: str) -> Document:
    return with_override(document, key, None, "plan") if _stated(document, key) is not None else document


def _batch(document: Document, wish: Wish, *, trains: bool) -> tuple[int, tuple[str, ...]]:
    """Return the samples of a step, the same for all layouts, and what had to be assumed for it."""
    if trains:
        stated = _stated(document, "workload.global_batch_size")
        if stated is not None:
            return int(real(stated)), ()
        batch = BATCHES * max(wish.gpus)
        return batch, (f"global_batch_size: {batch}, {BATCHES} samples per GPU of the largest number",)
    each = _stated(document, "workload.micro_batch_size") or _stated(document, "workload.batch_size") or 1
    replicas = _stated(document, "parallel.data") or 1
    return int(each) * int(replicas), ()


def _words(resolved: Resolved, *, trains: bool) -> dict[str, list[Any]]:
    """Return the axes of words: what the engine lets users choose."""
    if not trains:
        return {}
    choices, model = resolved.engine.layouts, resolved.model
    node = max(int(resolved.places), 1)
    axes: dict[str, list[Any]] = {
        "workload.recompute": list(choices.recompute),
        "parallel.sharding": _shardings(choices, node),
    }
    if "pipeline" in choices.degrees and model.stacked:
        axes["parallel.schedule"] = list(choices.schedules)
        if choices.counted_ends:
            axes |= {f"parallel.account_for_{end}": [False, True] for end in ("embedding", "loss")}
    if choices.sequence and "tensor" in choices.degrees and model.splits_sequence and model.splits_tensor:
        axes["parallel.sequence"] = [False, True]
    return axes


def _shardings(choices: LayoutChoices, node: int) -> list[Any]:
    values: list[Any] = []
    for name in choices.sharding:
        level, _, inside = name.partition("_")
        values += [{level: ranks} for ranks in divisors(node)[1:]] if inside else [name]
    return values


def _numbers(resolved: Resolved, wish: Wish, batch: int, *, trains: bool) -> dict[str, list[Any]]:
    """Return the axes of numbers: divisors of what they divide."""
    choices, model, traits = resolved.engine.layouts, resolved.model, resolved.model.traits()
    degrees = set(choices.degrees)
    node, depth = max(int(resolved.places), 1), int(traits.depth)
    shared = sorted({each for number in wish.gpus for each in divisors(number)})
    axes: dict[str, list[Any]] = {"hardware.gpus": sorted(wish.gpus)}
    if model.splits_tensor and "tensor" in degrees:
        axes["parallel.tensor"] = [each for each in shared if each <= node]
    if model.stacked and "pipeline" in degrees:
        axes["parallel.pipeline"] = [each for each in shared if each <= depth + 2]
        if trains and "virtual_stages" in degrees:
            axes["parallel.virtual_stages"] = _chunks(depth, axes["parallel.pipeline"], counted=choices.counted_ends)
    length = _length(resolved)
    if model.splits_sequence and "context" in degrees and length is not None:
        most = max(length // _LEAST_TOKENS, 1)
        axes["parallel.context"] = [each for each in doublings(most) if each in shared]
    if traits.experts and "expert" in degrees:
        axes["parallel.expert"] = [each for each in divisors(int(traits.experts)) if each in shared]
        if trains and "expert_tensor" in degrees and "parallel.tensor" in axes:
            axes["parallel.expert_tensor"] = list(axes["parallel.tensor"])
    return axes | {"workload.micro_batch_size": _micro_batches(batch, trains=trains, stacked=model.stacked)}


def _length(resolved: Resolved) -> int | None:
    """Return the tokens of a sequence that context ranks may share."""
    workload = resolved.workload
    if workload.phase in ("train", "forward"):
        return workload.sequence_length
    return workload.prompt_length if workload.phase == "prefill" else None


def _chunks(depth: int, pipelines: Sequence[int], *, counted: bool) -> list[int]:
    """Return the chunks per stage that some pipeline deals layers out to evenly."""
    sizes = range(depth, depth + (3 if counted else 1))
    known = {
        size // stages // each
        for size in sizes
        for stages in pipelines
        if size % stages == 0 and stages > 1
        for each in divisors(size // stages)
    }
    return sorted({1, *known} - {0})


def _micro_batches(batch: int, *, trains: bool, stacked: bool) -> list[int]:
    if not trains:
        return divisors(batch)  # one for each number of replicas
    known = [each for each in divisors(batch) if each <= _MOST_SAMPLES or not stacked]
    return known if len(known) <= _MOST_DIVISORS else [each for each in known if math.log2(each).is_integer()]
