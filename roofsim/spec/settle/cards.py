"""Read cards in a list: ``a100``, ``8xa100``, ``dgx-h100``, ``2x(dgx-h100)``, ``a100{memory.bandwidth=2x}``.

::

    list  = item {"," item}
    item  = [count "x"] (name | "(" name ")") ["{" path "=" value {"," path "=" value} "}"]

A name is a card or a system of the catalog; of systems all cards are meant. Paths begin at the card, or, where only the
system has such a key, at the system; ``gpu.`` and ``system.`` in front say which. Values are those of
``hardware.override``: a quantity, or a factor.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Literal

from roofsim.errors import Place, Problem, SpecError, UnknownNameError, near_matches, one_of
from roofsim.records import dataclass, replace
from roofsim.spec import catalog
from roofsim.spec.hardware.schema import Gpu, System
from roofsim.spec.reading.factor import factor_of, times
from roofsim.spec.reading.source import Document, parse_value
from roofsim.spec.scenario.document import with_override
from roofsim.spec.scenario.workload import HardwareChoice
from roofsim.spec.settle.hardware import find_hardware, flat_override

if TYPE_CHECKING:
    from roofsim.spec.reading.source import Path_

_COUNT: Final = re.compile(r"([+-]?\d[\d_.]*)\s*[xX\u00d7*]\s*(?=[^\s{},)=])")
#: Ways of others to write a count behind the name.
_COUNT_BEHIND: Final = re.compile(r"(.+?)\s*[:*]\s*(\d{1,9})|(.+?)\s*[x\u00d7](\d{1,9})")
_NAME: Final = re.compile(r"[^(){},]*")
_MOST: Final = 10**9
_EXAMPLES: Final = "a100, 8xa100, 2x(dgx-h100), a100{memory.bandwidth=2x}"


@dataclass(frozen=True, kw_only=True)
class Card:
    """One entry of a list of cards.

    Attributes
    ----------
    text
        As it was written.
    name
        Name in the catalog of GPUs, or of systems.
    count
        Cards, or systems; None: not stated.
    override
        Paths of ``hardware.override`` with their values, in the order given.
    """

    text: str
    kind: Literal["gpu", "system"]
    name: str
    gpu: str
    count: int | None = None
    per_system: int = 1
    override: tuple[tuple[str, Any], ...] = ()
    place: Place | None = None

    @property
    def gpus(self) -> int | None:
        """Cards in all; None: as many as the scenario says."""
        if self.kind == "system":
            return (self.count or 1) * self.per_system
        return self.count

    def label(self, gpus: int | None = None) -> str:
        """Return the entry in the form in which it can be written again, with catalog names.

        `gpus` says how many cards run where the entry does not.
        """
        count = self.count if self.count is not None or self.kind == "system" else gpus
        name = self.name
        if count is not None and count > 1:
            name = f"{count}x({name})" if self.kind == "system" else f"{count}x{name}"
        if not self.override:
            return name
        short = [f"{path.removeprefix(f'{self.kind}.')}={value}" for path, value in self.override]
        return f"{name}{{{','.join(short)}}}"

    @property
    def key(self) -> tuple[object, ...]:
        """What entries share that stand for the same hardware."""
        return self.kind, self.name, self.count, tuple(sorted((path, str(value)) for path, value in self.override))

    def on(self, document: Document) -> Document:
        """Return a scenario with this hardware in the place of its own.

        The scenario's system stays where it holds such cards; a factor on a number that the scenario overrides as well
        is one on the scenario's value.
        """
        changed = with_override(document, "hardware.gpu", self.gpu, self.text)
        if self.gpus is not None:
            changed = with_override(changed, "hardware.gpus", self.gpus, self.text)
        if self.kind == "system":
            changed = with_override(changed, "hardware.system", self.name, self.text)
        elif _of_another_card(document, self.gpu):
            changed = with_override(changed, "hardware.system", None, self.text)
        earlier = earlier_override(document)
        for path, value in self.override:
            place = self.place or Place(self.text)
            changed = with_hardware_number(changed, path, on_top(earlier.get(path), value), place)
        return changed


def earlier_override(document: Document) -> dict[str, Any]:
    """Return what a scenario changes of its hardware, by dotted path."""
    hardware = document.data.get("hardware") if isinstance(document.data, dict) else None
    given = hardware.get("override") if isinstance(hardware, dict) else None
    return dict(flat_override(given)) if isinstance(given, dict) else {}


def on_top(earlier: Any, value: Any) -> Any:
    """Return a value that takes the place of an earlier one; of a factor, the earlier one multiplied."""
    factor = factor_of(value)
    product = None if factor is None or earlier is None else times(earlier, factor)
    return value if product is None else product


def with_hardware_number(document: Document, path: str, value: Any, place: Place) -> Document:
    """Put a value into ``hardware.override``, in the place of one that stands there in nested form."""
    whole = {key: item for key, item in earlier_override(document).items() if key != path} | {path: value}
    places = {key: at for key, at in document.places.items() if key[:2] == ("hardware", "override")}
    changed = document.with_value(("hardware", "override"), whole, place)
    return replace(changed, places={**changed.places, **places, ("hardware", "override", path): place})


def without_numbers(document: Document, paths: Iterable[str]) -> Document:
    """Return a scenario that no longer changes some numbers of its hardware."""
    whole = {key: item for key, item in earlier_override(document).items() if key not in set(paths)}
    places = {key: at for key, at in document.places.items() if key[:2] == ("hardware", "override")}
    changed = document.with_value(("hardware", "override"), whole, document.place(("hardware", "override")))
    return replace(changed, places={**changed.places, **places})


def _of_another_card(document: Document, gpu: str) -> bool:
    """Tell whether the scenario's own file names a system that comes with another card: the list replaces the machine."""
    hardware = document.data.get("hardware") if isinstance(document.data, dict) else None
    system = hardware.get("system") if isinstance(hardware, dict) else None
    if not isinstance(system, str) or document.place(("hardware", "system")).source != document.source:
        return False
    own = catalog.load("system", system, document.place(("hardware", "system")), "hardware.system").data.get("gpu")
    return own is not None and own != gpu


def read_cards(texts: str | Iterable[str], origin: str = "cards") -> list[Card]:
    """Return the entries of one or several lists of cards; empty ones are passed over.

    Parameters
    ----------
    origin
        What to call the list in messages: ``--gpu``.

    Raises
    ------
    SpecError
        With the position of what is wrong.

    Examples
    --------
    >>> [card.label() for card in read_cards("a100, 2x(dgx-h100), 4xl40s{memory.bandwidth=+10%}")]
    ['a100-sxm4-80gb', '2x(dgx-h100)', '4xl40s{memory.bandwidth=+10%}']
    """
    cards: list[Card] = []
    for text in texts if isinstance(texts, Iterable) and not isinstance(texts, str) else [texts]:
        if not isinstance(text, str):
            raise SpecError(Problem(f"expected a card such as {_EXAMPLES}; got {text!r}", Place(origin)))
        cards += _CardReader(text, origin).cards()
    return cards


def is_counted(text: str) -> bool:
    """Tell whether a text begins with a number of cards: ``8xa100``."""
    return _COUNT.match(text.strip()) is not None


class _CardReader:
    """Read one text from left to right; `at` is where the next character stands."""

    def __init__(self, text: str, origin: str) -> None:
        self.text = text
        self.origin = origin
        self.at = 0

    def cards(self) -> list[Card]:
        cards: list[Card] = []
        while True:
            self._skip(", \t\n")
            if self.at >= len(self.text):
                return cards
            cards.append(self._card())
            self._skip(" \t\n")
            if self.at < len(self.text) and self.text[self.at] != ",":
                raise self._fault(
                    f"expected ',' or the end after {self._since(0)!r}; got {self.text[self.at]!r}", self.at
                )

    # -- parts of an entry ------------------------------------------------------------------------------------------

    def _card(self) -> Card:
        start = self.at
        count = self._count()
        kind, name = self._name()
        override, places = self._override(kind) if self._next("{") else ((), {})
        data = catalog.load(kind, name).data
        gpu = name if kind == "gpu" else data.get("gpu")
        text = self.text[start : self.at].strip()
        if gpu is None:
            hint = "Name the card, and the system with --system."
            raise self._fault(f"system {name} comes with no card of its own", start, hint)
        card = Card(
            text=text,
            kind=kind,
            name=name,
            gpu=str(gpu),
            count=count,
            override=override,
            per_system=int(data.get("gpus_per_node", 1)),
            place=self._place(start),
        )
        if override:
            _check(card, places)
        return card

    def _count(self) -> int | None:
        match = _COUNT.match(self.text, self.at)
        if match is None:
            return None
        digits = match.group(1)
        if not digits.isdecimal() or not 1 <= int(digits[:12]) <= _MOST or len(digits) > 12:
            raise self._fault(
                f"expected a whole number of cards from 1 to {_MOST:,} before 'x'; got {digits!r}", self.at
            )
        self.at = match.end()
        return int(digits)

    def _name(self) -> tuple[Literal["gpu", "system"], str]:
        opened = self.at if self._next("(") else None
        if opened is not None:
            self.at += 1
            self._skip(" \t\n")
        start = self.at
        match = _NAME.match(self.text, start)
        given = match.group().rstrip() if match else ""
        if not given:
            got = repr(self.text[start]) if start < len(self.text) else "the end"
            raise self._fault(f"expected the name of a card or a system; got {got}", start, f"For example {_EXAMPLES}.")
        self.at = start + len(given)
        if opened is not None:
            self._skip(" \t\n")
            self._expect(")", opened)
        known = _known(given)
        if known is None:
            raise self._unknown(given, start)
        return known

    def _override(self, kind: Literal["gpu", "system"]) -> tuple[tuple[tuple[str, Any], ...], dict[str, Place]]:
        opened = self.at
        self.at += 1
        overrides: dict[str, Any] = {}
        places: dict[str, Place] = {}
        while True:
            self._skip(" \t\n")
            start = self.at
            path, value = self._setting(opened)
            full = self._path(path, kind, start)
            if full in overrides:
                raise self._fault(f"{path!r} is set twice", start)
            overrides[full], places[full] = value, self._place(start)
            if self.text[self.at] == "}":
                self.at += 1
                return tuple(overrides.items()), places
            self.at += 1

    def _setting(self, opened: int) -> tuple[str, Any]:
        """Read ``path=value`` up to the comma or brace behind it."""
        start = self.at
        end = next((at for at in range(start, len(self.text)) if self.text[at] in ",}{"), None)
        if end is not None and self.text[end] == "{":
            raise self._fault("expected a plain value; got '{'", end)
        if end is None:
            raise self._fault(
                "'{' is not closed", opened, "An entry with changes looks like a100{memory.bandwidth=2x}."
            )
        path, equals, value = self.text[start:end].partition("=")
        if not equals or not path.strip() or not value.strip():
            example = "for example memory.bandwidth=2x"
            raise self._fault(f"expected PATH=VALUE, {example}; got {self.text[start:end].strip()!r}", start)
        self.at = end
        return path.strip(), parse_value(value.strip(), self.origin)

    def _path(self, path: str, kind: Literal["gpu", "system"], start: int) -> str:
        """Return a path from gpu. or system. on: an entry's own keys first, then the other's."""
        head, *rest = path.split(".")
        if head in ("gpu", "system") and rest:
            return path
        schemas: dict[str, type[Gpu | System]] = {"gpu": Gpu, "system": System}
        for owner in (kind, *(name for name in schemas if name != kind)):
            if head in schemas[owner].model_fields:
                return f"{owner}.{path}"
        close = near_matches(head, dict.fromkeys([*Gpu.model_fields, *System.model_fields]))
        hint = f"Did you mean {one_of(map(repr, close))}?" if close else "For example memory.bandwidth, peak.bf16, tdp."
        raise self._fault(f"neither a card nor a system has a key {head!r}", start, hint)

    # -- characters ---------------------------------------------------------------------------------------------------

    def _skip(self, characters: str) -> None:
        while self.at < len(self.text) and self.text[self.at] in characters:
            self.at += 1

    def _next(self, character: str) -> bool:
        return self.at < len(self.text) and self.text[self.at] == character

    def _expect(self, character: str, opened: int) -> None:
        if not self._next(character):
            raise self._fault("'(' is not closed after the name", opened, "Systems are written 2x(dgx-h100).")
        self.at += 1

    def _since(self, start: int) -> str:
        return self.text[start : self.at].rpartition(",")[2].strip()

    def _place(self, at: int) -> Place:
        return Place(self.origin, None, at + 1, self.text)

    def _fault(self, message: str, at: int, hint: str = "") -> SpecError:
        return SpecError(Problem(message, self._place(at), "", hint))

    def _unknown(self, given: str, start: int) -> SpecError:
        behind = _COUNT_BEHIND.fullmatch(given)
        known = [*catalog.names("gpu"), *catalog.aliases("gpu"), *catalog.names("system"), *catalog.aliases("system")]
        close = near_matches(catalog.normal(given), known)
        hint = f"Did you mean {one_of(map(repr, close))}?" if close else "`roofsim list gpus` and `systems` show all."
        if re.fullmatch(r"\d+\s*[xX\u00d7*]", given):
            hint = f"Write the name right after the count: {given}a100."
        elif len(given.split()) > 1 and all(_known(word) for word in given.split()):
            hint = f"Separate cards with commas: {','.join(given.split())}."
        elif "=" in given:
            hint = "Quote what has braces, or the shell takes it apart: 'a100{memory.bandwidth=2x}'."
        elif behind is not None and _known(behind.group(1) or behind.group(3)) is not None:
            name, number = (behind.group(1) or behind.group(3)), (behind.group(2) or behind.group(4))
            hint = f"A count comes before the name: {number}x{name.strip()}."
        return UnknownNameError(Problem(f"unknown gpu {given[:80]!r}", self._place(start), "", hint))


def _known(given: str) -> tuple[Literal["gpu", "system"], str] | None:
    """Return the kind and the catalog name that a name stands for; cards before systems."""
    kinds: tuple[Literal["gpu", "system"], ...] = ("gpu", "system")
    for kind in kinds:
        try:
            return kind, catalog.resolve_name(kind, given)
        except UnknownNameError:
            continue
    return None


def _check(card: Card, places: dict[str, Place]) -> None:
    """Refuse changes that the hardware's own files do not allow, where they stand."""
    whole = dict(card.override)
    system = card.name if card.kind == "system" else None
    at: dict[Path_, Place] = {("hardware", "override", path): place for path, place in places.items()}
    document = Document({"hardware": {"gpu": card.gpu, "override": whole}}, card.text, at)
    find_hardware(HardwareChoice(gpu=card.gpu, system=system, override=whole), document)
