"""Find the market in which all cards of a comparison have a price, so that their costs can be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.records import replace
from roofsim.spec import catalog
from roofsim.spec.hardware.schema import Gpu, System
from roofsim.spec.reading.validate import validate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.spec.hardware.price import Offer
    from roofsim.spec.own_prices import OwnPrice
    from roofsim.spec.resolve import Resolved
    from roofsim.spec.settle.cards import Card

    Market = tuple[str | None, ...]


def common_market(cards: Sequence[Card], own: Sequence[OwnPrice] = ()) -> Market | None:
    """Return the market that has a price of every priced card, where the prices shown by default are of several; None: leave them.

    Published prices go before offers, then those of later dates, then those that the catalog names first.
    """
    names = {card.gpu for card in cards if card.gpu is not None and not any(price.of(card) for price in own)}
    nodes = [card for card in cards if card.kind != "gpu" and _node(card.name).price.hourly is not None]
    gpus = [gpu for gpu in map(_gpu, sorted(names)) if gpu.price.hourly is not None]
    every = [_offers(gpu.price.offers) for gpu in gpus]
    shown = {(gpu.price.hourly_kind, gpu.price.hourly_seller, gpu.price.hourly_region) for gpu in gpus}
    if nodes or len(shown) < 2:
        return None
    common = [market for market in every[0] if all(market in offers for offers in every)]
    if not common:
        return None
    oldest = {market: min(offers[market].date or "" for offers in every) for market in common}
    return max(common, key=lambda market: (market[0] == "list", oldest[market], -common.index(market)))


def in_market(resolved: Resolved, market: Market | None) -> Resolved:
    """Return a scenario with the price that its card has in a market; as it is where it has none there."""
    price = resolved.gpu.price
    offer = None if market is None or price.hourly_kind == "own" else _offers(price.offers).get(market)
    if offer is None:
        return resolved
    changes = {
        "hourly": offer.middle,
        "hourly_date": offer.date,
        "hourly_kind": offer.kind,
        "hourly_seller": offer.seller,
        "hourly_region": offer.region,
        "hourly_old": offer.old,
    }
    sources = {**resolved.gpu.sources, "price.hourly": offer.source or ""}
    gpu = resolved.gpu.model_copy(update={"price": price.model_copy(update=changes), "sources": sources})
    return replace(resolved, gpu=gpu)


def _offers(offers: Sequence[Offer]) -> dict[Market, Offer]:
    """Return market -> its price of an hour; old ones are left out."""
    hourly = [offer for offer in offers if offer.per == "hour" and not offer.old and offer.kind in ("list", "offer")]
    first: dict[Market, Offer] = {}
    for offer in hourly:
        if offer.market is not None:
            first.setdefault(offer.market, offer)
    return first


def _gpu(name: str) -> Gpu:
    return validate(Gpu, catalog.load("gpu", name))


def _node(name: str) -> System:
    return validate(System, catalog.load("system", name))
