"""Hold the prices of two cards side by side: at a market that has both, where there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.analyze.money import quote_of
from roofsim.analyze.used_prices import of_one_market
from roofsim.api import resolve_document
from roofsim.decide.cards import of_any_card
from roofsim.records import dataclass
from roofsim.spec.markets import common_market
from roofsim.spec.prices import of_market
from roofsim.spec.scenario.document import with_override

if TYPE_CHECKING:
    from roofsim.spec.hardware.price import Quote
    from roofsim.spec.prices import Market
    from roofsim.spec.reading.source import Document


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """Prices of an hour of one card: of the hardware now, and of what takes its place; None where none is known."""

    now: Quote | None
    then: Quote | None

    @property
    def comparable(self) -> bool:
        """Whether both are of one market, or one of them is not known."""
        return of_one_market(self.now, self.then)

    @property
    def ratio(self) -> float | None:
        """Dollars of an hour then over those now, for as many cards; None where one is not known."""
        return None if self.now is None or self.then is None else self.then.per_gpu / self.now.per_gpu


def priced(prices: SideBySide, gpus: float, speed: float) -> dict[str, Any]:
    """Return what `Advice` holds of prices, for so many cards of which each is so many times as fast."""
    now, then, ratio = prices.now, prices.then, prices.ratio
    return {
        "usd": None if now is None or then is None else (then.per_gpu - now.per_gpu) * gpus,
        "usd_per_hour_now": None if now is None else now.per_gpu * gpus,
        "cost_ratio": None if ratio is None else ratio / speed,
        "price": None if then is None else then.words(),
        "comparable": prices.comparable,
    }


class Prices:
    """Prices of the card of a scenario beside those of others; each market is asked once.

    Parameters
    ----------
    document
        The scenario on its own card.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        self._elsewhere, _ = of_any_card(document)
        self._own: dict[Market | None, Quote | None] = {}
        self.name = resolve_document(document).gpu.name

    def beside(self, name: str, shown: Quote | None) -> SideBySide:
        """Return both prices; `shown` is the one that the other card has by default, which stays where no market has both."""
        market = common_market((self.name, name))
        then = shown if market is None else self._quote(self._elsewhere, market, name)
        if market not in self._own:
            self._own[market] = self._quote(self._document, market)
        return SideBySide(now=self._own[market], then=then)

    def _quote(self, document: Document, market: Market | None, name: str | None = None) -> Quote | None:
        asked = document if name is None else with_override(document, "hardware.gpu", name, "cards")
        with of_market(market):
            resolved = resolve_document(asked)
        return quote_of(resolved.gpu, resolved.system, resolved.gpus)
