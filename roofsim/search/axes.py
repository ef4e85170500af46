"""Read the axes of a sweep: which keys of a scenario take which values, and the document of each point."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

from roofsim.errors import Place, Problem, SpecError, did_you_mean
from roofsim.records import dataclass, field
from roofsim.spec import catalog
from roofsim.spec.engine.facts import groups, names, path_of
from roofsim.spec.engine.schema import Engine
from roofsim.spec.hardware.schema import Gpu, System
from roofsim.spec.reading.quantity import unit_of
from roofsim.spec.reading.source import plain
from roofsim.spec.reading.validate import field_at, keys_at
from roofsim.spec.scenario.document import SECTIONS, section_path, with_override
from roofsim.spec.settle.cards import is_counted, read_cards

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from roofsim.schema.base import BaseModel
    from roofsim.spec.reading.source import Document
    from roofsim.spec.settle.cards import Card


_GPU: Final = ("hardware", "gpu")
_SYSTEM: Final = ("hardware", "system")
#: What the paths of ``hardware.override`` begin with.
_HARDWARE: Final[dict[str, type[BaseModel]]] = {"gpu": Gpu, "system": System}


@dataclass(frozen=True)
class Axis:
    """One key of a scenario and its values.

    Attributes
    ----------
    given
        The key as the caller wrote it.
    path
        Where it stands in a scenario.
    values
        What it takes, in order; None: what the scenario has without it.
    unit
        Of what a bare number is; None: the key is no quantity.
    cards
        Of an axis of cards: values that say more than a name (``8xa100``, ``dgx-h100``, ``a100{memory.bandwidth=2x}``).
    """

    given: str
    path: tuple[str, ...]
    values: tuple[Any, ...]
    unit: str | None = None
    cards: dict[str, Card] = field(default_factory=dict)

    def written(self, value: Any) -> Any:
        """Return a value as a scenario file has it: bare numbers of a quantity are in SI units."""
        plain_number = isinstance(value, int | float) and not isinstance(value, bool)
        return f"{value!r} {self.unit}" if plain_number and self.unit is not None else value

    def put(self, document: Document, value: Any) -> Document:
        """Return a scenario with a value of this axis; None leaves what it has.

        Raises
        ------
        SpecError
            When the key lies below a value that is no mapping.
        """
        if value is None:
            return document
        card = self.cards.get(value) if isinstance(value, str) else None
        return (
            with_override(document, self.given, self.written(value), self.origin) if card is None else card.on(document)
        )

    @property
    def origin(self) -> str:
        """What names the place of its values in messages."""
        return f"axis {self.given}"


@dataclass(frozen=True)
class AxisGrid:
    """All combinations of the values of some axes, counted with the last axis running fastest."""

    axes: tuple[Axis, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values of each axis."""
        return tuple(len(axis.values) for axis in self.axes)

    @property
    def size(self) -> int:
        """Number of points."""
        return math.prod(self.shape)

    def values(self, place: int) -> Iterator[tuple[Axis, Any]]:
        """Yield each axis with its value at a point."""
        stride = self.size
        for axis in self.axes:
            stride //= len(axis.values)
            yield axis, axis.values[place // stride % len(axis.values)]

    def document(self, base: Document, place: int) -> Document:
        """Return the scenario of a point.

        Raises
        ------
        SpecError
            When a key lies below a value that is no mapping.
        """
        for axis, value in self.values(place):
            base = axis.put(base, value)
        return base


def read_axes(given: Mapping[str, Iterable[Any]], keywords: Mapping[str, Any] | None = None) -> AxisGrid:
    """Read the axes of a sweep.

    Parameters
    ----------
    given
        Key of a scenario (``parallel.tensor``, ``hardware.gpu``, ``hardware.override.gpu.memory.bandwidth``, ``model.num_layers``,
        or a short key of the command line) -> its values.
    keywords
        Values that the caller gave for all points, by key with two underscores.

    Raises
    ------
    SpecError
        For a key that no scenario has, two axes of one key, values that are no list, or a key that has a keyword as well which no
        point would use: None among the values stands for the keyword's.
    """
    if not isinstance(given, Mapping):
        raise SpecError(
            Problem(f"expected a mapping of keys to lists of values; got {type(given).__name__}", path="axes")
        )
    axes = tuple(_axis(str(key), values) for key, values in given.items())
    seen: dict[tuple[str, ...], Axis] = {}
    for axis in axes:
        if axis.path in seen:
            message = f"{seen[axis.path].given} and {axis.given} are the same key; give one"
            raise SpecError(Problem(message, path="axes"))
        seen[axis.path] = axis
    for keyword, value in (keywords or {}).items():
        same = (
            None if value is None else seen.get(section_path(keyword.replace("__", "."), Place(f"override {keyword}")))
        )
        if same is not None and None not in same.values:
            message = f"the keyword {keyword}={value!r} gives the same key, and no point would use it"
            hint = "Leave one of them out, or put None among the values of the axis: it stands for the keyword's value."
            raise SpecError(Problem(message, Place(same.origin), hint=hint))
    return AxisGrid(axes)


def cards_of(axes: Iterable[Axis]) -> list[str]:
    """Return the cards of axes of cards and nodes, each once, with catalog names where they have one."""
    names: dict[str, None] = {}
    for axis in axes:
        for value in axis.values if axis.path in (_GPU, _SYSTEM) else ():
            card = axis.cards.get(value) if isinstance(value, str) else None
            names[_card_name(value, axis.path) if card is None else str(card.gpu)] = None
    return list(names)


def cards_asked(axes: Iterable[tuple[str, Sequence[Any]]]) -> list[str]:
    """Return the cards of keys with their values, as `cards_of`."""
    return cards_of(_axis(key, values) for key, values in axes)


def _card_name(value: Any, path: tuple[str, ...]) -> str:
    if value is None:
        return "its own"
    try:
        name = catalog.resolve_name("gpu" if path == _GPU else "system", str(value))
        return name if path == _GPU else str(catalog.load("system", name).data.get("gpu"))
    except SpecError:  # a file or a mapping; of an unknown name others say so
        return str(value)[:60]


def _axis(key: str, values: Any) -> Axis:
    place = Place(f"axis {key}")
    path = key_path(key, place)
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise SpecError(
            Problem(f"expected a list of values; got {values!r}", place, hint=f"For one value: [{values!r}].")
        )
    points = tuple(plain(value) for value in values)
    if not points:
        raise SpecError(Problem("has no values", place, hint="Give at least one, or leave the axis out."))
    return Axis(key, path, points, unit_at(path), _cards(points, place) if path == _GPU else {})


def _cards(values: tuple[Any, ...], place: Place) -> dict[str, Card]:
    """Return the values that are more than the name of a card: with a count or changes of its own, or a system."""
    systems = {*catalog.names("system"), *catalog.aliases("system")}
    more = [
        value for value in values if isinstance(value, str) and (is_counted(value) or "{" in value or value in systems)
    ]
    return {value: card for value in more for card in read_cards(value, place.source)}


def _unknown(path: tuple[str, ...], place: Place) -> Problem | None:
    """Return what is wrong with a key that no scenario has, or None; which fields a model has only the model itself says."""
    head, *rest = path
    if head not in SECTIONS:
        return None
    if path[:2] == ("workload", "engine_facts") and len(path) > 2:
        fact = ".".join(path[2:])
        if path_of(Engine, fact) is not None or fact in groups(Engine):
            return None
        return Problem(f"unknown engine fact {fact!r}", place, hint=did_you_mean(fact, names(Engine)))
    if field_at(SECTIONS[head], tuple(rest)) is not None:
        return None
    if head == "hardware" and rest[0] in _HARDWARE:
        part, *below = rest
        if field_at(_HARDWARE[part], tuple(below)) is not None:
            hint = f"The key of that number is hardware.override.{'.'.join(rest)}."
        else:
            close = did_you_mean(below[-1], keys_at(_HARDWARE[part], tuple(below[:-1])))
            hint = f"{close} Numbers of the {part} have keys that begin with hardware.override.{part}.".strip()
    else:
        hint = did_you_mean(rest[-1], keys_at(SECTIONS[head], tuple(rest[:-1])))
    return Problem(f"unknown key {'.'.join(rest)!r}", place, hint=hint)


def axis_unit(key: str) -> str | None:
    """Return the unit that bare numbers of a key are in (``B/s``); None: it is no quantity.

    Raises
    ------
    SpecError
        For a key that no scenario has.
    """
    return unit_at(key_path(key, Place(f"axis {key}")))


def key_path(key: str, place: Place) -> tuple[str, ...]:
    """Return where a key stands in a scenario.

    Raises
    ------
    SpecError
        For a key that no scenario has.
    """
    path = section_path(key, place)
    problem = _unknown(path, place)
    if problem is not None:
        raise SpecError(problem)
    return path


def unit_at(path: tuple[str, ...]) -> str | None:
    """Return the unit of the quantity that a key is, or None."""
    head, *rest = path
    if path[:2] == ("hardware", "override") and len(path) == 3:
        part, *rest = path[2].split(".")
        schema = _HARDWARE.get(part)
    else:
        schema = SECTIONS.get(head)
    field = None if schema is None else field_at(schema, tuple(rest))
    return (
        None
        if field is None
        else unit_of(Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation)
    )
