"""Read changes of a scenario (``memory.bandwidth=2x``, ``gpu=h200``, ``micro_batch_size=+50%``), and make them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError
from roofsim.records import dataclass
from roofsim.search.axes import key_path, unit_at
from roofsim.search.written_axes import listed, single_value
from roofsim.spec.reading.factor import factor_of, times
from roofsim.spec.scenario.document import with_override
from roofsim.spec.settle.cards import earlier_override, on_top, read_cards, with_hardware_number

if TYPE_CHECKING:
    from decimal import Decimal

    from roofsim.spec.reading.source import Document

    Changes = Mapping[str, Any] | str | Iterable[str]

_GPU: Final = ("hardware", "gpu")
_OVERRIDE: Final = ("hardware", "override")
#: Keys of the workload that stand for the same number: the first is what a resolved scenario calls it.
_SAME: Final[dict[tuple[str, ...], tuple[str, ...]]] = {("workload", "batch_size"): ("workload", "micro_batch_size")}
_EXAMPLE: Final = "For example memory.bandwidth=2x, gpu=h200, precision=fp8 or micro_batch_size=+50%."


@dataclass(frozen=True, kw_only=True)
class KeyChange:
    """One key of a scenario and its other value.

    Attributes
    ----------
    text
        As it is written on the command line.
    key
        As the caller wrote it.
    path
        Where it stands in a scenario.
    value
        The value, or a factor on the one before (``2x``, ``+10%``).
    origin
        What messages call the place.
    """

    text: str
    key: str
    path: tuple[str, ...]
    value: Any
    origin: str

    @property
    def place(self) -> Place:
        """Where it was said."""
        return Place(f"{self.origin} {self.key}")

    def on(self, document: Document, stated: Mapping[str, Any]) -> Document:
        """Return a scenario with this change.

        Parameters
        ----------
        stated
            The scenario as it was resolved before any change: what a factor is a factor on.

        Raises
        ------
        SpecError
            For a factor on nothing, or on what is no number.
        """
        if self.path == _GPU and isinstance(self.value, str | int):
            cards = read_cards(str(self.value), self.origin)
            if len(cards) != 1:
                message = f"expected one card; got {self.value!r}"
                raise SpecError(Problem(message, self.place, hint="`roofsim compare` holds several side by side."))
            return cards[0].on(document)
        try:
            factor = factor_of(self.value)
        except ValueError as error:
            raise SpecError(Problem(str(error), self.place)) from None
        if self.path[:2] == _OVERRIDE and len(self.path) > 2:
            number = ".".join(self.path[2:])
            value = on_top(earlier_override(document).get(number), self.value)
            return with_hardware_number(document, number, value, self.place)
        path = _as_written(document, self.path)
        value = self.value if factor is None else self._scaled(stated, path, factor)
        return with_override(document, ".".join(path), value, f"{self.origin} {self.key}")

    def _scaled(self, stated: Mapping[str, Any], path: tuple[str, ...], factor: Decimal) -> Any:
        """Return the number that the scenario has, multiplied."""
        now = _at(stated, path)
        product = times(now, factor)
        if product is None:
            said = "has no value" if now is None else "is no number"
            message = f"expected a value; {'.'.join(path)} {said} here, so {self.value} of it has no meaning"
            raise SpecError(Problem(message, self.place))
        if isinstance(now, int) and not isinstance(product, int):
            if product != round(product):
                message = f"expected a whole number; {self.value} of {now} is {product:g}"
                raise SpecError(Problem(message, self.place))
            product = round(product)
        return product


def _at(stated: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    at: Any = stated
    for part in _SAME.get(path, path):
        at = at.get(part) if isinstance(at, Mapping) else None
    return at


def _as_written(document: Document, path: tuple[str, ...]) -> tuple[str, ...]:
    """Return a path as the scenario writes it, where two keys mean the same."""
    workload = document.data.get("workload") if isinstance(document.data, dict) else None
    for pair in _SAME.items():
        other = next((key for key in pair if path in pair and key != path), None)
        if other is not None and isinstance(workload, dict) and workload.get(other[-1]) is not None:
            return other
    return path


def read_changes(given: Changes, origin: str = "changes") -> tuple[KeyChange, ...]:
    """Read changes that are made together.

    Parameters
    ----------
    given
        Key -> value, one text ``KEY=VALUE,KEY=VALUE``, or several.
    origin
        What messages call the place: ``--set``.

    Raises
    ------
    SpecError
        For a text without a key or value, a key that no scenario has, or one that stands twice.
    """
    if isinstance(given, Mapping):
        pairs = [(str(key), value, _text(value)) for key, value in given.items()]
    elif isinstance(given, str | bytes) or not isinstance(given, Iterable):
        pairs = list(_written(given, origin))
    else:
        pairs = [pair for text in given for pair in _written(text, origin)]
    changes: dict[tuple[str, ...], KeyChange] = {}
    for key, value, text in pairs:
        place = Place(f"{origin} {key}")
        path = key_path(key, place)
        unit = unit_at(path)
        if isinstance(value, int | float) and not isinstance(value, bool) and unit is not None:
            value = f"{value!r} {unit}"  # noqa: PLW2901  # a bare number of Python is in SI units
        same = _SAME.get(path, path)
        if same in changes:
            message = f"{changes[same].key} and {key} are the same key" if changes[same].key != key else "is set twice"
            raise SpecError(Problem(message, place, hint="Give one; `--also` shows another what-if beside this one."))
        changes[same] = KeyChange(text=f"{key}={text}", key=key, path=path, value=value, origin=origin)
    return tuple(changes.values())


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def _written(text: object, origin: str) -> Iterable[tuple[str, Any, str]]:
    """Yield key, value and text of each part of a comma list; a part without ``=`` belongs to the value before it."""
    if not isinstance(text, str):
        raise SpecError(Problem(f"expected KEY=VALUE; got {text!r}", Place(origin), hint=_EXAMPLE))
    parts: list[str] = []
    for part in listed(text):
        if "=" in part.partition("{")[0] or not parts:
            parts.append(part)
        else:
            parts[-1] += f",{part}"
    for part in parts:
        key, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not key or not value:
            raise SpecError(Problem(f"expected KEY=VALUE; got {part.strip()[:80]!r}", Place(origin), hint=_EXAMPLE))
        place = Place(f"{origin} {key}")
        yield key, single_value(value, unit_at(key_path(key, place)), place), value


def with_changes(document: Document, changes: Iterable[KeyChange], stated: Mapping[str, Any]) -> Document:
    """Return a scenario with some changes: the card first, as factors on its numbers are on those of the other card."""
    for change in sorted(changes, key=lambda change: change.path != _GPU):
        document = change.on(document, stated)
    return document
