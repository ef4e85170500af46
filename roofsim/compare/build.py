"""Answer a comparison: a row for each entry of a list of cards, whatever stops one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.analyze.money import quote_of
from roofsim.analyze.throughput import counted_in
from roofsim.compare.rows import Comparison, Row
from roofsim.compare.winners import cheapest, checked_sort, fastest, in_order, ranked, sentence
from roofsim.errors import NoDataError, SpecError
from roofsim.evaluate import evaluate
from roofsim.records import dataclass, field, replace
from roofsim.spec import catalog, usual
from roofsim.spec.hardware.schema import System
from roofsim.spec.markets import common_market
from roofsim.spec.own_prices import own_prices, price_of_one, price_settings, priced
from roofsim.spec.prices import of_market
from roofsim.spec.reading.validate import validate
from roofsim.spec.settle.cards import read_cards
from roofsim.spec.settle.hardware import flat_override

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from roofsim.analyze.result import Result
    from roofsim.evaluate import Evaluation
    from roofsim.spec.own_prices import OwnPrice
    from roofsim.spec.prices import Market
    from roofsim.spec.reading.source import Document
    from roofsim.spec.resolve import Resolved
    from roofsim.spec.settle.cards import Card

Refusal = SpecError | NoDataError


def compare_document(
    document: Document,
    cards: Sequence[Card],
    resolve: Callable[[Document], Resolved],
    answer: Callable[[Evaluation], Result],
    *,
    sort: str | None = None,
    prices: Mapping[str, Any] | str | None = None,
    progress: Callable[[Sequence[Card]], Iterable[Card]] = iter,
) -> Comparison:
    """Answer a request; see `roofsim.compare`.

    Raises
    ------
    SpecError
        When the request itself is wrong: an order or a price that there is not, or what no card could run.
    """
    cards = list(cards) or read_cards(usual.CARDS)
    order = checked_sort(sort)
    own = own_prices(price_settings([prices]) if isinstance(prices, str) else prices or {}, cards)
    price_of_one(document, [card.gpu for card in cards if card.gpu is not None])
    table = _Table(document, resolve, answer, own)
    with of_market(_market(cards, own)):
        for card in progress(cards):
            table.add(card)
        rows = ranked(in_order(table.rows(), order))
    unit = _unit(rows)
    return Comparison(
        rows=tuple(rows),
        sort=order,
        base=next((row.label for row in rows if row.relative is not None), None),
        fastest=fastest(rows),
        cheapest=tuple(cheapest(rows)),
        sentence=sentence(rows, unit),
        notes=tuple(table.notes),
    )


def _market(cards: Sequence[Card], own: Sequence[OwnPrice]) -> Market | None:
    """Return the market of cards without a price of the user's; None where whole nodes with a price are among them."""
    nodes = [validate(System, catalog.load("system", card.name)) for card in cards if card.kind != "gpu"]
    if any(node.price.hourly is not None for node in nodes):
        return None
    return common_market(card.gpu for card in cards if card.gpu and not any(price.of(card) for price in own))


def _unit(rows: Sequence[Row]) -> str:
    """Return what the sentence counts: as the heads of the columns do."""
    row = next((row for row in rows if row.result is not None), None)
    if row is None or row.result is None:
        return ""
    scenario = row.result.scenario
    counted = counted_in(row.unit, scenario["model"]["family"], scenario["workload"]["phase"])
    return counted.removeprefix("denoising ")


@dataclass
class _Table:
    """Rows as they are added, each hardware once."""

    document: Document
    resolve: Callable[[Document], Resolved]
    answer: Callable[[Evaluation], Result]
    prices: tuple[OwnPrice, ...]
    made: dict[tuple[object, ...], Row] = field(default_factory=dict)
    refused: dict[tuple[object, ...], tuple[Document, Refusal]] = field(default_factory=dict)
    aliases: dict[tuple[object, ...], tuple[object, ...]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, card: Card) -> None:
        """Answer one entry, or merge it with the row that it repeats."""
        if card.key in self.aliases:
            self._merge(self.aliases[card.key], card)
            return
        document = card.on(self.document)
        try:
            resolved = self.resolve(document)
            key = _hardware(resolved)
            self.aliases[card.key] = key
            if key in self.made:
                self._merge(key, card)
                return
            self.made[key] = self._row(card, resolved, document)
        except (SpecError, NoDataError) as error:
            key = self.aliases.setdefault(card.key, card.key)
            self.made[key] = Row(label=card.label(), card=card, asked=(card.text,), reason=error.reason)
            self.refused[key] = document, error

    def rows(self) -> list[Row]:
        """Return the rows, with what would run where one does not.

        Raises
        ------
        SpecError, NoDataError
            The one complaint of all rows, where no card has to do with it.
        """
        if not self.refused:
            return list(self.made.values())
        from roofsim.compare.instead import instead  # most comparisons need none

        errors = [error for _, error in self.refused.values()]
        if len(errors) == len(self.made) and len({_complaint(error) for error in errors}) == 1:
            document, error = next(iter(self.refused.values()))
            alternative = instead(document, error, self._result)
            if alternative is None or alternative.only_leaves_out:
                raise error
        for key, (document, error) in self.refused.items():
            alternative = instead(document, error, self._result)
            reason = error.reason if alternative is None else error.reason.split(". ")[0].rstrip(".")
            self.made[key] = replace(self.made[key], alternative=alternative, reason=reason)
        return list(self.made.values())

    def _row(self, card: Card, resolved: Resolved, document: Document) -> Row:
        resolved = priced(resolved, card, self.prices)
        evaluation = evaluate(resolved)
        quote = quote_of(resolved.gpu, resolved.system, resolved.gpus)
        stated = any(price.of(card) and price.card.override == card.override for price in self.prices)
        unsold = quote is not None and resolved.hardware_changed and not stated
        return Row(
            label=card.label(resolved.gpus),
            card=card,
            asked=(card.text,),
            result=self.answer(evaluation),
            evaluation=evaluation,
            quote=quote,
            market=None if quote is None or unsold else quote.market,
            unsold=unsold,
            notes=_notes(self.document, document, resolved),
        )

    def _result(self, document: Document) -> Result:
        return self.answer(evaluate(self.resolve(document)))

    def _merge(self, key: tuple[object, ...], card: Card) -> None:
        row = self.made[key]
        if card.text in row.asked:
            note = f"{card.text} is named more than once"
        else:
            note = f"{row.asked[0]} and {card.text} are the same hardware ({row.label}): one row"
            self.made[key] = replace(row, asked=(*row.asked, card.text))
        if note not in self.notes:
            self.notes.append(note)


def _hardware(resolved: Resolved) -> tuple[object, ...]:
    """Return what makes two rows the same."""
    changes = tuple(sorted((path, str(value)) for path, value in flat_override(resolved.override)))
    return resolved.gpu.name, resolved.gpus, resolved.system.name, changes


def _notes(own: Document, document: Document, resolved: Resolved) -> tuple[str, ...]:
    """Say where the scenario's own system was left for the card's usual one."""
    before = (own.data.get("hardware") or {}).get("system") if isinstance(own.data, dict) else None
    after = document.data["hardware"].get("system")
    if before is None or after is not None:
        return ()
    return (f"on {resolved.system.name}, as the scenario's {before} holds other cards",)


def _complaint(error: Refusal) -> str:
    if isinstance(error, NoDataError):
        return str(error)
    return "\n".join(f"{problem.path}: {problem.message}" for problem in error.problems)
