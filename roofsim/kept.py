"""Keep what took long to make, under a key that says all it depends on: a few, the latest, for every thread."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from roofsim.records import fields, is_dataclass, replace
from roofsim.schema.base import BaseModel
from roofsim.schema.fields import form_in

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

T = TypeVar("T")

_PLAIN: Final = (str, int, float, bool, type(None))


class NoKeyError(TypeError):
    """A value that is no key, because it holds an array or something else that is not compared by value."""


def key_of(*values: Any) -> Hashable:
    """Return a key that is equal for equal values: schemas, records, mappings, lists and plain values.

    Raises
    ------
    NoKeyError
        For anything else, arrays of numbers in particular.
    """
    return tuple(map(_form, values))


def _form(value: Any) -> Hashable:
    kind = type(value)
    if kind in _PLAIN:
        return (kind, value) if kind is bool else value
    if isinstance(value, BaseModel):
        return form_in(value, _form)  # type: ignore[no-any-return]
    if kind in (list, tuple):
        return (kind, *map(_form, value))
    if kind is dict:
        return (kind, *((_form(key), _form(each)) for key, each in value.items()))
    if is_dataclass(kind):
        return (kind, *(_form(getattr(value, field.name)) for field in fields(value)))
    raise NoKeyError(kind.__name__)


def parted(value: Any, numbers: list[Any]) -> Hashable:
    """Return a key of all of a value but its numbers, which are added to `numbers`; values of one key differ in these alone.

    >>> numbers: list[float] = []
    >>> parted({"width": 8, "names": ("a", None)}, numbers) == parted({"width": 9, "names": ("a", None)}, numbers), numbers
    (True, [8, 9])
    """
    kind = type(value)
    if kind is int or kind is float:
        numbers.append(value)
        return (kind,)
    if kind in _PLAIN:
        return (kind, value)
    if isinstance(value, BaseModel):
        return (kind, *[parted(part, numbers) for _, part in value])
    if kind in (list, tuple):
        return (kind, *[parted(part, numbers) for part in value])
    if kind is dict:
        return (kind, *[(_form(key), parted(part, numbers)) for key, part in value.items()])
    if is_dataclass(kind):
        return (kind, *[parted(getattr(value, field.name), numbers) for field in fields(value) if field.init])
    raise NoKeyError(kind.__name__)


def joined(value: Any, numbers: Iterator[Any]) -> Any:
    """Return a value with other numbers, in the order in which `parted` gives them."""
    kind = type(value)
    if kind is int or kind is float:
        return next(numbers)
    if kind in _PLAIN:
        return value
    if isinstance(value, BaseModel):
        return value.model_copy(update={name: joined(part, numbers) for name, part in value})
    if kind is dict:
        return {key: joined(part, numbers) for key, part in value.items()}
    if kind in (list, tuple):
        return kind(joined(part, numbers) for part in value)
    own = {field.name: joined(getattr(value, field.name), numbers) for field in fields(value) if field.init}
    return replace(value, **own)


def remembered(method: Callable[..., T]) -> Callable[..., T]:
    """Let a method of a frozen record remember with the record what it returned, by its arguments; these can be hashed.

    >>> class Ways:
    ...     @remembered
    ...     def squared(self, number):
    ...         print("worked out")
    ...         return number * number
    >>> ways = Ways()
    >>> ways.squared(3), ways.squared(3)
    worked out
    (9, 9)
    """
    name = f"_remembered_{method.__name__}"

    def ask(self: Any, *arguments: Any) -> T:
        try:
            answer: T = self.__dict__[name][arguments]
        except KeyError:
            answer = method(self, *arguments)
            self.__dict__.setdefault(name, {})[arguments] = answer
        return answer

    ask.__name__, ask.__qualname__, ask.__doc__ = method.__name__, method.__qualname__, method.__doc__
    return ask


class Kept(Generic[T]):
    """What was made under the latest keys; safe to use from several threads. What it returns is shared and must not be changed.

    Parameters
    ----------
    most
        How many are kept, or how much they may weigh together.
    weigh
        What one of them weighs; the latest is kept, whatever it weighs.
    """

    def __init__(self, most: int, weigh: Callable[[T], int] = lambda made: 1) -> None:  # noqa: ARG005
        self.most, self.weigh = most, weigh
        self._weight = 0
        self._made: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what was made under a key, or make it."""
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                return self._made[key]
        made = make()
        with self._lock:
            if key in self._made:  # another thread was faster
                self._weight -= self.weigh(self._made[key])
            self._made[key] = made
            self._made.move_to_end(key)
            self._weight += self.weigh(made)
            while self._weight > self.most and len(self._made) > 1:
                self._weight -= self.weigh(self._made.popitem(last=False)[1])
        return made

    def known(self, key: Hashable) -> T | None:
        """Return what was made under a key; None: nothing."""
        with self._lock:
            return self._made.get(key)

    def get_all(self, keys: Sequence[Hashable], make: Callable[[list[int]], Iterable[T]]) -> list[T]:
        """Return what was made under each of some keys; `make` makes all that is missing at once, by its places in `keys`."""
        with self._lock:
            known = {key: self._made[key] for key in keys if key in self._made}
        places = {key: place for place, key in enumerate(keys) if key not in known}
        if places:
            known |= zip(places, make(list(places.values())), strict=True)
        return [self.get(key, lambda key=key: known[key]) for key in keys]  # type: ignore[misc]

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._made.clear()
            self._weight = 0

    def __len__(self) -> int:
        return len(self._made)
