"""Find the market in which all cards of an answer have a price, so that their costs can be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.spec import catalog
from roofsim.spec.hardware.schema import Gpu
from roofsim.spec.reading.validate import validate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from roofsim.spec.hardware.price import Offer
    from roofsim.spec.prices import Market


def common_market(names: Iterable[str]) -> Market | None:
    """Return the market that has a price of every priced card, where the prices shown by default are of several; None: leave them.

    Published prices go before offers, then those of later dates, then those that the catalog names first. What the user pays
    is no market's.
    """
    gpus = [validate(Gpu, catalog.load("gpu", name)) for name in sorted({*names}) if catalog.has("gpu", name)]
    priced = [gpu for gpu in gpus if gpu.price.hourly is not None and gpu.price.hourly_kind != "own"]
    every = [_offers(gpu.price.offers) for gpu in priced]
    shown = {(gpu.price.hourly_kind, gpu.price.hourly_seller, gpu.price.hourly_region) for gpu in priced}
    if len(shown) < 2:
        return None
    common = [market for market in every[0] if all(market in offers for offers in every)]
    if not common:
        return None
    oldest = {market: min(offers[market].date or "" for offers in every) for market in common}
    return max(common, key=lambda market: (market[0] == "list", oldest[market], -common.index(market)))


def _offers(offers: Sequence[Offer]) -> dict[Market, Offer]:
    """Return market -> its price of an hour; old ones are left out."""
    hourly = [offer for offer in offers if offer.per == "hour" and not offer.old and offer.kind in ("list", "offer")]
    first: dict[Market, Offer] = {}
    for offer in hourly:
        if offer.market is not None:
            first.setdefault(offer.market, offer)
    return first
