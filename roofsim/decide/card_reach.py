"""Say which cards of the catalog reach a target, in the number of cards that a scenario has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.used_prices import of_one_market, quote_in
from roofsim.compare.rows import rate_of
from roofsim.decide.cards import on_every_card
from roofsim.records import dataclass, field, replace

if TYPE_CHECKING:
    from roofsim.analyze.result import Result
    from roofsim.decide.target import Target
    from roofsim.evaluate import Evaluation
    from roofsim.spec.hardware.price import Quote
    from roofsim.spec.reading.source import Document

REACHES: Final = "reaches"
UNDECIDED: Final = "undecided"
MISSES: Final = "misses"


@dataclass(frozen=True, kw_only=True)
class CardReach:
    """What a card of the catalog makes of a target, in the scenario's number.

    Attributes
    ----------
    allowed
        Seconds that its step may take; with a target of cost that depends on its price.
    verdict
        ``reaches`` or ``misses`` where the whole 80 % interval of the step does, else ``undecided``.
    quote, comparable
        The price of an hour of one card; whether it is of the market of the scenario's own, or of the first card's without one.
    """

    gpu: str
    step_time: float
    interval: tuple[float, float] | None
    allowed: float
    fits: bool
    usd_per_hour: float | None
    price: str | None
    quote: Quote | None = field(default=None, repr=False)
    comparable: bool = True

    @property
    def verdict(self) -> str:
        """Whether its step is short enough, as far as the interval tells."""
        return verdict_of(self.step_time, self.interval, self.allowed)

    @property
    def reached(self) -> bool:
        """Whether the predicted step is short enough, and it fits."""
        return self.fits and self.step_time <= self.allowed

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        own = {key: value for key, value in self.__dict__.items() if key not in ("quote", "comparable")}
        own["interval"] = None if self.interval is None else list(self.interval)
        return own | {"reached": self.reached, "verdict": self.verdict, "price_comparable": self.comparable}


def verdict_of(step: float, interval: tuple[float, float] | None, allowed: float) -> str:
    """Return whether a step is allowed to take its seconds: surely, surely not, or undecided by its interval."""
    low, high = (step, step) if interval is None else interval
    return REACHES if high <= allowed else MISSES if low > allowed else UNDECIDED


def cards_that_reach(
    document: Document, evaluation: Evaluation, now: Result, target: Target
) -> tuple[tuple[CardReach, ...], int]:
    """Return the cards of the catalog that reach a target, in the scenario's number, and how many of them run it."""
    work = (rate_of(now) or 0.0) * float(now.step_time)
    rows = on_every_card(document, ("step_time", "step_time_interval", "memory.fits", "cost"), evaluation.resolved)
    gpus = now.scenario["hardware"]["gpus"]
    cards = [card for row in rows if (card := _card(row, work, target, gpus)) is not None and card.reached]
    ordered = sorted(cards, key=lambda card: (card.usd_per_hour is None, card.usd_per_hour or 0.0, card.step_time))
    first = quote_in(now.cost, gpus) or next((card.quote for card in ordered), None)
    marked = (replace(card, comparable=of_one_market(first, card.quote)) for card in ordered)
    return tuple(marked), len(rows)


def _card(row: dict[str, Any], work: float, target: Target, gpus: int) -> CardReach | None:
    hourly, ends = row.get("cost.usd_per_hour"), row.get("step_time_interval")
    allowed = target.allowed(work, hourly)
    if allowed is None:
        return None
    return CardReach(
        gpu=row["hardware.gpu"],
        step_time=float(row["step_time"]),
        interval=None if ends is None else (float(ends[0]), float(ends[1])),
        allowed=allowed,
        fits=bool(row["memory.fits"]),
        usd_per_hour=None if hourly is None else float(hourly),
        price=row.get("cost.price"),
        quote=quote_in({key.removeprefix("cost."): value for key, value in row.items()}, gpus),
    )
