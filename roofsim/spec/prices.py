"""Put the published prices of cards and nodes, or the user's own, into entries of the catalog."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from roofsim.spec.reading.source import Document, read_kept

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    Offers = tuple[dict[str, Any], ...]
    #: Kind, seller and region of prices that can be compared.
    Market = tuple[str | None, ...]
    #: Prices of the user, and the market whose prices go before others.
    Force = tuple[tuple[tuple[str, Offers], ...], Market | None]

#: Months after which a price is old.
OLD_AFTER: Final = 18
#: Name -> prices that go before the published ones: the user's.
_OWN: Final[ContextVar[tuple[tuple[str, Offers], ...]]] = ContextVar("own prices", default=())
#: The market whose prices are shown where a card has one there; None: the first that the catalog names.
_MARKET: Final[ContextVar[Market | None]] = ContextVar("market", default=None)
#: Names whose own prices somebody asked for.
_ASKED: Final[ContextVar[set[str] | None]] = ContextVar("asked", default=None)
#: Keys of a price that tell its market.
_MARKET_KEYS: Final = ("kind", "seller", "region")
#: Keys of a page that each of its prices has.
_SHARED: Final = ("per", "kind", "seller", "region", "date", "old", "source")


def with_prices(document: Document, name: str, table: Path) -> Document:
    """Return a card or node with the prices that are known of it; as it is where it states prices itself, or none is known."""
    own = dict(_OWN.get()).get(name, ())
    asked = _ASKED.get()
    if own and asked is not None:
        asked.add(name)
    offers = (*own, *_published(table).get(name, ()))
    if not offers or ("price" in document.data and not own):
        return document
    market = None if any(offer["per"] == "hour" for offer in own) else _MARKET.get()
    return document.once(("prices", repr(own), market), lambda: _merged(document, offers, market))


def _merged(document: Document, offers: Offers, market: Market | None) -> Document:
    price: dict[str, Any] = {**document.data.get("price", {}), "offers": [dict(offer) for offer in offers]}
    sources = dict(document.data.get("sources") or {})
    for per, key, unit in (("hour", "hourly", "USD/h"), ("purchase", "purchase", "USD")):
        shown = _shown([offer for offer in offers if offer["per"] == per], market)
        if shown is None:
            continue
        price[key] = f"{middle(shown):.10g} {unit}"
        facts = ("date", "kind", "seller", "old") + (("region",) if key == "hourly" else ())
        for fact in facts:
            price.pop(f"{key}_{fact}", None)
            if shown.get(fact) is not None:
                price[f"{key}_{fact}"] = shown[fact]
        sources[f"price.{key}"] = shown.get("source") or ""
    data = {**document.data, "price": price, "sources": sources}
    return Document(data, document.source, document.places, {})


def _shown(offers: Sequence[dict[str, Any]], market: Market | None) -> dict[str, Any] | None:
    """Return the price of a market, if there is one that is not old; else the first of all."""
    there = [one for one in offers if tuple(one.get(key) for key in _MARKET_KEYS) == market and not one.get("old")]
    return next(iter((*there, *offers)), None)


def middle(offer: Mapping[str, Any]) -> float:
    """Return dollars, the middle of a range."""
    high = offer.get("usd_high")
    return float(offer["usd"]) if high is None else 0.5 * (float(offer["usd"]) + float(high))


@cache
def _published(table: Path) -> dict[str, Offers]:
    """Return name -> published prices, in the order of the file."""
    return by_name(read_kept(table).data["pages"]) if table.is_file() else {}


def by_name(pages: list[Any]) -> dict[str, Offers]:
    """Return name -> its prices, in the order of the pages."""
    offers: dict[str, list[dict[str, Any]]] = {}
    for page in pages:
        shared = {key: page[key] for key in _SHARED if page.get(key) is not None}
        if "date" in shared:
            shared["date"] = str(shared["date"])
        for name, amount in page["usd"].items():
            low, high = amount if isinstance(amount, list | tuple) else (amount, None)
            own = {"usd": float(low)} if high is None else {"usd": float(low), "usd_high": float(high)}
            offers.setdefault(str(name), []).append(shared | own)
    return {name: tuple(known) for name, known in offers.items()}


@contextmanager
def put_first(own: Mapping[str, Offers]) -> Iterator[set[str]]:
    """Put prices before the published ones while this lasts: those of ``--price`` and ``--price-file``; others stay behind them.

    Yields the names whose prices were asked for, as they are.
    """
    outer, known = dict(_OWN.get()), _ASKED.get()
    asked: set[str] = set() if known is None else known
    whole = outer | {name: (*offers, *outer.get(name, ())) for name, offers in own.items()}
    tokens = _OWN.set(tuple(whole.items())), _ASKED.set(asked)
    try:
        yield asked
    finally:
        _OWN.reset(tokens[0])
        _ASKED.reset(tokens[1])


@contextmanager
def of_market(market: Market | None) -> Iterator[None]:
    """Show the prices of a market while this lasts, of what has one there that is not old and none of the user's."""
    token = _MARKET.set(market)
    try:
        yield
    finally:
        _MARKET.reset(token)


def in_force() -> Force:
    """Return which prices are shown here, for another process."""
    return _OWN.get(), _MARKET.get()


@contextmanager
def forced(force: Force) -> Iterator[None]:
    """Show the prices of another process while this lasts."""
    token = _OWN.set(force[0])
    try:
        with of_market(force[1]):
            yield
    finally:
        _OWN.reset(token)


def own_now() -> str:
    """Return what tells the user's prices that are in force from others."""
    return repr(_OWN.get())


def is_old(stated: str, today: date) -> bool:
    """Tell whether a date (YYYY, YYYY-MM or YYYY-MM-DD) is more than 18 months ago; of a year or month, its first day counts.

    >>> is_old("2025-04", date(2026, 11, 23)), is_old("2025-06", date(2026, 11, 23))
    (True, False)
    """
    year, month, day = (*(int(part) for part in stated.split("-")), 1, 1)[:3]
    months = (today.year - year) * 12 + today.month - month
    return (months, today.day - day) > (OLD_AFTER, 0)
