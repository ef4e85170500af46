"""Write down how objects whose numbers are symbols are made of other numbers: what to create, and what to fill it with."""

from __future__ import annotations

from enum import Enum
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.graph.base import AbstractOp, Block, Phase
from roofsim.graph.tensor import Role, Tensor
from roofsim.records import fields, is_dataclass
from roofsim.schema.base import BaseModel
from roofsim.symbols import Symbol, UntracedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: Gives a new record all its values at once, frozen or not.
_give: Final = object.__setattr__
#: What identity tells apart, so that each program has its own.
_OWN: Final = (AbstractOp, Tensor, Block)
_PLAIN: Final = (str, int, float, bool, type(None), bytes, type, Enum, np.ndarray)
#: Types of values that need no look.
_SIMPLE: Final = frozenset({str, int, float, bool, type(None), Phase, Role})
_COLLECTIONS: Final = (tuple, list, dict, set, frozenset)


class Recipe:
    """How some objects are made of the values of a trace.

    Ops, tensors and blocks are made anew, and all else that holds symbols; what holds none is shared. Objects of the classes
    `apart` are left to whoever asks: `make` takes what to put in their places, which are the objects `left`, in their order.
    """

    def __init__(self, wanted: Sequence[Any], slots: int, apart: tuple[type, ...] = ()) -> None:
        self.left: list[Any] = []
        self._writer = writer = _RecipeWriter(slots, apart, self.left)
        self._wanted = [writer.place(value) for value in wanted]
        self._fillings = list(writer.fillings())
        self._collections = writer.collections
        self._template = writer.template
        self._created = [(place - slots, type(record)) for place, record in writer.records]
        self._left = writer.left_places
        self._slots = slots
        del self._writer

    def make(self, values: list[Any], left: Sequence[Any] = ()) -> list[Any]:
        """Return the objects that were wanted, of the values of a trace."""
        template = self._template.copy()
        for at, cls in self._created:
            template[at] = object.__new__(cls)
        pool = values[: self._slots] + template
        for place, one in zip(self._left, left, strict=True):
            pool[place] = one
        for place, build in self._collections:
            pool[place] = build(pool)
        for place, constant, names, read in self._fillings:
            filled = constant.copy()
            filled.update(zip(names, read(pool), strict=True))
            _give(pool[place], "__dict__", filled)
        return [pool[place] for place in self._wanted]


class _RecipeWriter:
    """Gives every object a place behind the slots of a trace, and notes how it gets there."""

    def __init__(self, slots: int, apart: tuple[type, ...], left: list[Any]) -> None:
        self.slots, self.apart, self.left = slots, apart, left
        self.template: list[Any] = []
        self.left_places: list[int] = []
        self.records: list[tuple[int, Any]] = []
        self.collections: list[tuple[int, Callable[[list[Any]], Any]]] = []
        self.constants: set[int] = set()
        self._places: dict[int, int] = {}
        self._met: list[Any] = []  # as long as they are here, their ids are their own
        self._same: dict[Any, int] = {}

    def place(self, value: Any) -> int:
        """Return where a value stands in the pool."""
        if type(value) is Symbol:
            return value.slot
        place = self._places.get(id(value))
        if place is None:
            place = self._placed(value)
            self._places[id(value)] = place
            self._met.append(value)
        return place

    def _placed(self, value: Any) -> int:
        if isinstance(value, self.apart):
            self.left.append(value)
            self.left_places.append(self._new(None))
            return self.left_places[-1]
        if isinstance(value, _OWN) or (is_dataclass(type(value)) and not self._is_constant(value)):
            place = self._new(None)
            self.records.append((place, value))
            return place
        if isinstance(value, _COLLECTIONS):
            return self._collection(value)
        if isinstance(value, BaseModel):
            if not self._is_constant(value):
                raise UntracedError(f"{type(value).__name__} with symbols")
        elif not isinstance(value, _PLAIN) and not is_dataclass(type(value)):
            raise UntracedError(type(value).__name__)
        return self._constant(value)

    def _collection(self, value: Any) -> int:
        parts = [*value, *value.values()] if isinstance(value, dict) else list(value)
        places = [self.place(part) for part in parts]
        if self.constants.issuperset(places) and isinstance(value, tuple | frozenset):
            return self._constant(value)
        key = (tuple, *places)
        if isinstance(value, tuple) and key in self._same:
            return self._same[key]
        place = self._new(None)
        self.collections.append((place, _builder(type(value), places)))
        if isinstance(value, tuple):
            self._same[key] = place
        return place

    def fillings(self) -> Iterator[tuple[int, dict[str, Any], tuple[str, ...], Callable[[list[Any]], tuple[Any, ...]]]]:
        """Yield what records are filled with: constants, and of what else to read which names; meets what they refer to."""
        for place, record in self.records:  # which grow meanwhile
            values = record.__dict__
            own = {name: values[name] for name in type(record).__record_fields__}
            names, places = [], []
            for name, value in own.items():
                if type(value) in _SIMPLE or value == ():
                    continue
                at = self.place(value)
                if at not in self.constants:
                    names.append(name)
                    places.append(at)
            yield place, own, tuple(names), _reader(places)

    def _is_constant(self, value: Any) -> bool:
        """Tell whether no symbol is in a value, nor anything that each program has of its own."""
        if type(value) is Symbol or isinstance(value, (*_OWN, *self.apart)):
            return False
        if isinstance(value, dict):
            return all(map(self._is_constant, (*value, *value.values())))
        if isinstance(value, _COLLECTIONS):
            return all(map(self._is_constant, value))
        if isinstance(value, BaseModel):
            return all(self._is_constant(part) for _, part in value)
        if is_dataclass(type(value)):
            return all(self._is_constant(getattr(value, field.name)) for field in fields(value))
        return True

    def _constant(self, value: Any) -> int:
        place = self._new(value)
        self.constants.add(place)
        return place

    def _new(self, value: Any) -> int:
        self.template.append(value)
        return self.slots + len(self.template) - 1


def _reader(places: list[int]) -> Callable[[list[Any]], tuple[Any, ...]]:
    """Return what reads several places of a list at once."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda pool: tuple(pool[place] for place in places)


def _builder(cls: Any, places: list[int]) -> Callable[[list[Any]], Any]:
    """Return what makes a collection of what stands in some places, of a dictionary first the keys, then the values."""
    read = _reader(places)
    if issubclass(cls, dict):
        half = len(places) // 2
        return lambda pool: dict(zip(read(pool)[:half], read(pool)[half:], strict=True))
    if cls is tuple:
        return read
    return (lambda pool: cls(*read(pool))) if hasattr(cls, "_fields") else lambda pool: cls(read(pool))
