"""Find the lowest price of an hour of a card."""

from __future__ import annotations

import math
from functools import cache

from roofsim.spec import catalog
from roofsim.spec.hardware.price import Quote
from roofsim.spec.hardware.schema import Gpu
from roofsim.spec.prices import own_now
from roofsim.spec.reading.validate import validate


def price_of(name: str) -> tuple[float, str] | None:
    """Return the lowest price of an hour and whose it is: the user's own, else of clouds, else of offers; None: none is known."""
    return _price_of(name, own_now())


def lowest_price(name: str) -> float:
    """Return the lowest price of an hour; infinite where none is known."""
    price = price_of(name)
    return math.inf if price is None else price[0]


@cache
def _price_of(name: str, own: str) -> tuple[float, str] | None:
    del own  # tells apart which prices of the user are in force
    gpu = validate(Gpu, catalog.load("gpu", name))
    hourly = [offer for offer in gpu.price.offers if offer.per == "hour"]
    stated = [offer for offer in hourly if offer.kind == "own"][:1]
    listed = [offer for offer in hourly if offer.kind == "list" and not offer.old]
    offered = [offer for offer in hourly if not offer.old]
    cheapest = min(stated or listed or offered or hourly, key=lambda offer: offer.middle, default=None)
    if cheapest is None:
        return None
    quote = Quote(
        per_gpu=cheapest.middle,
        date=cheapest.date,
        kind=cheapest.kind,
        seller=cheapest.seller,
        region=cheapest.region,
        old=cheapest.old,
    )
    return cheapest.middle, quote.words()
