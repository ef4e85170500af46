"""Read the prices that a user pays (``h100=2.50``), and put them in the place of published ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError, UnitError
from roofsim.records import dataclass, replace
from roofsim.spec.settle.cards import earlier_override, read_cards
from roofsim.units import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from roofsim.spec.hardware.price import Price
    from roofsim.spec.reading.source import Document
    from roofsim.spec.resolve import Resolved
    from roofsim.spec.settle.cards import Card

_EXAMPLE: Final = "h100=2.50"
_MOST: Final = 10.0**6


@dataclass(frozen=True, kw_only=True)
class OwnPrice:
    """Dollars per hour of one card, or of one node."""

    card: Card
    hourly: float

    def of(self, card: Card) -> bool:
        """Tell whether an entry of a list is what this price is for: the card in any number, with the same changes if any."""
        own = self.card
        same = own.name == card.name if own.kind == card.kind else own.kind == "gpu" and own.name == card.gpu
        return same and (not own.override or own.override == card.override)


def price_settings(texts: Iterable[str], origin: str = "--price") -> dict[str, str]:
    """Return ``NAME=AMOUNT`` texts, which commas may join, as a mapping.

    >>> price_settings(["h100=2.50,a100=1.80"])
    {'h100': '2.50', 'a100': '1.80'}
    """
    amounts: dict[str, str] = {}
    for text in texts:
        for part in _parts(text):
            name, equals, amount = part.rpartition("=")
            if not equals or not name.strip() or not amount.strip():
                message = f"expected CARD=USD_PER_HOUR, for example {_EXAMPLE}; got {part.strip()[:60]!r}"
                raise SpecError(Problem(message, Place(origin)))
            if name.strip() in amounts:
                raise SpecError(Problem(f"{name.strip()} has two prices", Place(origin)))
            amounts[name.strip()] = amount.strip()
    return amounts


def _parts(text: str) -> list[str]:
    """Split at the commas outside braces."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if part.strip()]


def stated_of_one(document: Document) -> list[str]:
    """Return the paths of ``hardware.override`` at which a scenario states prices of its own card or node (``--price 2.50``)."""
    return [path for path in earlier_override(document) if path.split(".")[1:2] == ["price"]]


def price_of_one(document: Document, cards: Iterable[str]) -> None:
    """Refuse prices that a scenario states of one card where an answer is about several cards.

    Raises
    ------
    SpecError
        Where there are both.
    """
    paths = stated_of_one(document)
    names = list(dict.fromkeys(cards))
    if not paths or len(names) < 2:
        return
    value = str(earlier_override(document)[paths[0]])
    shown = f"{', '.join(names[:3])}{' ...' if len(names) > 3 else ''}"
    message = f"expected CARD=USD_PER_HOUR, for example {_EXAMPLE}; got {value[:60]!r}, and the cards are {shown}"
    hint = f"A price without a name is that of one card: --price {names[0]}={_bare(value)}."
    raise SpecError(Problem(message, Place("--price"), "", hint))


def _bare(text: str) -> str:
    return text.removesuffix("USD/h").strip()


def own_prices(given: Mapping[str, Any], cards: Sequence[Card], origin: str = "--price") -> tuple[OwnPrice, ...]:
    """Return the prices of cards that are compared.

    Raises
    ------
    SpecError
        For an unknown card, one that is not in the list, and for an amount that is none.
    """
    prices = []
    for name, amount in given.items():
        entries = read_cards(str(name), origin)
        if len(entries) != 1 or entries[0].count is not None:
            message = f"expected the name of one card or system before '='; got {str(name)[:60]!r}"
            hint = f"The price is that of one card, or of one node: {_EXAMPLE}."
            raise SpecError(Problem(message, Place(origin), "", hint))
        price = OwnPrice(card=entries[0], hourly=_amount(name, amount, origin))
        if not any(price.of(card) for card in cards):
            shown = ", ".join(dict.fromkeys(card.label() for card in cards))
            message = f"{name} stands for {entries[0].label()}, which is not compared"
            raise SpecError(Problem(message, Place(origin), "", f"Compared: {shown}."))
        prices.append(price)
    return tuple(prices)


def _amount(name: str, amount: Any, origin: str) -> float:
    """Read dollars per hour; a bare number is one, as nothing else is asked for."""
    value = math.nan
    text = str(amount).strip()
    try:
        value = float(text.removeprefix("$").removesuffix("/h")) if not isinstance(amount, bool) else math.nan
    except ValueError:
        try:
            value = parse(text, "USD/h")
        except UnitError:
            value = math.nan
    if _MOST < value < math.inf:
        message = f"expected at most {_MOST:,.0f} dollars per hour for {name}; got {text[:60]!r}"
        raise SpecError(Problem(message, Place(origin)))
    if not 0.0 < value <= _MOST:
        message = f"expected dollars per hour above zero for {name}, for example {_EXAMPLE}; got {text[:60]!r}"
        raise SpecError(Problem(message, Place(origin)))
    return value


def priced(resolved: Resolved, card: Card, prices: Sequence[OwnPrice]) -> Resolved:
    """Return a scenario with the user's price of its card or node, if there is one; that of the very entry goes first."""
    mine = [price for price in prices if price.of(card)]
    if not mine:
        return resolved
    best = max(mine, key=lambda price: (price.card.override == card.override, price.card.kind == card.kind))
    if best.card.kind == "gpu":
        return replace(resolved, gpu=resolved.gpu.model_copy(update={"price": _own(resolved.gpu.price, best.hourly)}))
    system = resolved.system.model_copy(update={"price": _own(resolved.system.price, best.hourly)})
    return replace(resolved, system=system)


def _own(price: Price, hourly: float) -> Price:
    changes = {
        "hourly": hourly,
        "hourly_kind": "own",
        "hourly_date": None,
        "hourly_seller": None,
        "hourly_region": None,
        "hourly_old": False,
    }
    return price.model_copy(update=changes)


def stated_prices(texts: Iterable[str], file: Path | None = None) -> dict[str, tuple[dict[str, Any], ...]]:
    """Return catalog name -> the prices that a user states: ``h100=2.50``, and those of a file, which come behind them.

    Raises
    ------
    SpecError
        For an unknown card or node, a card that is changed, and an amount that is none.
    """
    own: dict[str, tuple[dict[str, Any], ...]] = {}
    for name, amount in price_settings(texts).items():
        entries = read_cards(name, "--price")
        if len(entries) != 1 or entries[0].count is not None or entries[0].override:
            message = f"expected the name of one card or system of the catalog before '='; got {name[:60]!r}"
            raise SpecError(Problem(message, Place("--price"), "", f"For example {_EXAMPLE}."))
        own[entries[0].name] = ({"usd": _amount(name, amount, "--price"), "per": "hour", "kind": "own"},)
    if file is not None:
        from roofsim.spec.price_file import read_price_file

        for name, offers in read_price_file(file).items():
            own[name] = (*own.get(name, ()), *offers)
    return own
