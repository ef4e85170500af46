"""Hold the prices of an hour that an answer rests on, and say which of them can be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.records import dataclass
from roofsim.spec.hardware.price import Quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, kw_only=True)
class UsedPrice:
    """The price of an hour of one card.

    Attributes
    ----------
    comparable
        Whether it is of the kind, seller and region of the first price of the answer.
    """

    gpu: str
    quote: Quote
    comparable: bool

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; keys are those of the cost of a result."""
        quote = self.quote
        return {
            "gpu": self.gpu,
            "usd_per_hour": quote.per_gpu,
            "price": quote.words(),
            "price_kind": quote.kind,
            "price_seller": quote.seller,
            "price_region": quote.region,
            "price_date": quote.date,
            "price_old": quote.old,
            "price_source": quote.source,
            "comparable": self.comparable,
        }


def used_prices(named: Iterable[tuple[str, Quote | None]]) -> tuple[UsedPrice, ...]:
    """Return the prices of cards, each once, the one that others are compared with first."""
    used: dict[tuple[str, str], UsedPrice] = {}
    first: Quote | None = None
    for gpu, quote in named:
        if quote is not None:
            first = first or quote
            one = UsedPrice(gpu=gpu, quote=quote, comparable=quote is first or of_one_market(first, quote))
            used.setdefault((gpu, quote.words()), one)
    return tuple(used.values())


def of_one_market(first: Quote | None, second: Quote | None) -> bool:
    """Tell whether two prices can be compared: they are of one market, or one of them is not known."""
    return first is None or second is None or (first.market is not None and first.market == second.market)


def quote_in(cost: Mapping[str, Any], gpus: float) -> Quote | None:
    """Return the price of one card that the cost of a result rests on; None where none is known."""
    hourly = cost.get("usd_per_hour")
    if hourly is None:
        return None
    return Quote(
        per_gpu=float(hourly) / gpus,
        date=cost.get("price_date"),
        kind=cost.get("price_kind"),
        seller=cost.get("price_seller"),
        region=cost.get("price_region"),
        old=bool(cost.get("price_old")),
        source=cost.get("price_source"),
    )
