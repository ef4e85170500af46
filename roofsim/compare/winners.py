"""Rank rows by time and by cost, and say who wins by how much, and how sure that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.analyze.ratio import interval_of_ratio
from roofsim.analyze.verdicts import ABOUT_EQUAL, pace_verdict
from roofsim.compare.rows import Lead
from roofsim.errors import Place, Problem, SpecError, did_you_mean
from roofsim.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roofsim.compare.rows import Row

    Value = Callable[[Row], float | None]

#: Margins below this share are called none.
_TIE: Final = 5e-4
AS_GIVEN: Final = "given"


def _cost(row: Row, key: str) -> float | None:
    cost = None if row.result is None else row.result.cost.get(key)
    return None if cost is None else float(cost)


def _least(value: Value) -> Value:
    """Return a value of which the largest comes first."""

    def negative(row: Row) -> float | None:
        amount = value(row)
        return None if amount is None else -amount

    return negative


#: Key of --sort -> what the order goes by, the largest first; those that do not have it come after those that do.
ORDERS: Final[dict[str, Value]] = {
    "speed": lambda row: row.rate,
    "step": _least(lambda row: row.step_time),
    "cost": lambda row: row.units_per_dollar,
    "price": _least(lambda row: _cost(row, "usd_per_hour")),
    "energy": _least(lambda row: _cost(row, f"kwh_per_million_{row.unit}")),
    "memory": _least(lambda row: None if row.result is None else float(row.result.memory.device_total)),
    "mfu": lambda row: None if row.result is None else float(row.result.mfu),
}
_SAME: Final = {
    "time": "step",
    "step_time": "step",
    "throughput": "speed",
    "rate": "speed",
    "tokens/s": "speed",
    "name": "label",
}
SORTS: Final = (AS_GIVEN, *ORDERS, "label")


def checked_sort(key: str | None, place: str = "--sort") -> str:
    """Return the name of an order.

    Raises
    ------
    SpecError
        For one that there is not.
    """
    if key is None:
        return AS_GIVEN
    name = str(key).strip().lower()
    name = _SAME.get(name, name)
    if name not in SORTS:
        raise SpecError(Problem(f"unknown order {str(key)[:60]!r}", Place(place), "", _orders(name)))
    return name


def _orders(name: str) -> str:
    near = did_you_mean(name, (*SORTS, *_SAME))
    return near if near.startswith("Did") else f"Known: {', '.join(SORTS)}."


def in_order(rows: Sequence[Row], sort: str) -> list[Row]:
    """Return rows in order: what fits, then what does not, then what cannot run; costs of one market together."""
    ordered = list(rows)
    if sort == AS_GIVEN:
        return ordered
    if sort == "label":
        ordered.sort(key=lambda row: row.label)
    elif sort == "cost":
        sizes = {row.market: sum(other.market == row.market and _priced(other) for other in rows) for row in rows}
        ordered.sort(
            key=lambda row: (row.market is None, -sizes[row.market], str(row.market), *_last(ORDERS[sort](row)))
        )
    else:
        ordered.sort(key=lambda row: _last(ORDERS[sort](row)))
    return sorted(ordered, key=lambda row: (not row.runs, not row.fits))


def _last(value: float | None) -> tuple[bool, float]:
    return value is None, 0.0 if value is None else -value


def _priced(row: Row) -> bool:
    return row.fits and row.units_per_dollar is not None


def ranked(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with their ranks, and their throughput relative to the first that fits."""
    base = next((row for row in rows if row.fits and row.rate), None)
    by_time = sorted((row for row in rows if row.fits and row.rate), key=lambda row: -(row.rate or 0.0))
    places = {row.label: place for place, row in enumerate(by_time, 1)}
    costs: dict[str, int] = {}
    for group in markets(rows):
        by_cost = sorted(group, key=lambda row: -(row.units_per_dollar or 0.0))
        costs |= {row.label: place for place, row in enumerate(by_cost, 1)}
    return [_against(replace(row, rank=places.get(row.label), cost_rank=costs.get(row.label)), base) for row in rows]


def _against(row: Row, base: Row | None) -> Row:
    """Return a row with its throughput relative to another's, and what its interval says of that."""
    if base is None or not (row.fits and row.rate and base.rate):
        return row
    relative = row.rate / base.rate
    if row.label == base.label:
        return replace(row, relative=relative, verdict=ABOUT_EQUAL)
    interval = _interval_of_ratio(row, base, relative)
    return replace(row, relative=relative, relative_interval=interval, verdict=pace_verdict(interval, relative))


def markets(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows that fit in groups of two or more whose prices can be compared, the largest first."""
    groups: dict[tuple[str | None, ...], list[Row]] = {}
    for row in rows:
        if row.market is not None and _priced(row):
            groups.setdefault(row.market, []).append(row)
    return sorted((group for group in groups.values() if len(group) > 1), key=lambda group: -len(group))


def fastest(rows: Sequence[Row]) -> Lead | None:
    """Return who is first by time per token or sample; None where nothing fits."""
    return _lead([row for row in rows if row.fits and row.rate], lambda row: row.rate)


def cheapest(rows: Sequence[Row]) -> list[Lead]:
    """Return who is first by cost in each market."""
    leads = []
    for group in markets(rows):
        lead, quote = _lead(group, lambda row: row.units_per_dollar), group[0].quote
        if lead is not None and quote is not None:
            leads.append(replace(lead, market=replace(quote, date=None).words()))
    return leads


def _lead(rows: Sequence[Row], value: Value) -> Lead | None:
    order = sorted(rows, key=lambda row: -(value(row) or 0.0))
    if not order:
        return None
    first = order[0]
    top = value(first) or 0.0
    if len(order) == 1:
        return Lead(label=first.label, value=top)
    second = order[1]
    factor = top / (value(second) or top)
    interval = _interval_of_ratio(first, second, factor)
    verdict = pace_verdict(interval, factor)
    return Lead(
        label=first.label,
        value=top,
        next=second.label,
        factor=factor,
        interval=interval,
        verdict=verdict,
        inside_intervals=None if interval is None else verdict == ABOUT_EQUAL,
    )


def _interval_of_ratio(first: Row, second: Row, factor: float) -> tuple[float, float] | None:
    """Return the 80 % interval of a factor between figures of two rows."""
    if first.result is None or second.result is None:
        return None
    return interval_of_ratio(first.result.interval_terms, second.result.interval_terms, factor)


# -- words --------------------------------------------------------------------------------------------------------------


def sentence(rows: Sequence[Row], unit: str) -> str:
    """Say who wins by time and by cost, and whether the margins are inside the intervals; nothing of a single row."""
    first = fastest(rows)
    if len(rows) < 2:
        return ""
    if first is None:
        runs = any(row.runs for row in rows)
        return "None of them fits in memory." if runs else "None of them runs this scenario."
    if first.next is None:
        return f"Only {first.label} runs this scenario and fits."
    return f"Fastest: {_margin(first, f'{unit}/s')}. {_by_cost(rows, unit)}"


def _by_cost(rows: Sequence[Row], unit: str) -> str:
    leads = cheapest(rows)
    if leads:
        said = "; ".join(f"by {_plural(lead.market or '')}, {_margin(lead, f'{unit} per dollar')}" for lead in leads)
        return f"Cheapest {said}."
    quotes = [row.quote for row in rows if row.fits and row.quote is not None and not row.unsold]
    if len(quotes) < 2:
        return "No rank by cost: fewer than two prices are known (--price sets your own)."
    kinds = dict.fromkeys(replace(quote, date=None).words() for quote in quotes)
    return f"No rank by cost: these prices cannot be compared ({'; '.join(kinds)})."


def _plural(market: str) -> str:
    head, space, rest = market.partition(" price")
    return f"{head}{space}s{rest}" if space else market.replace("offer of", "offers of", 1)


def _margin(lead: Lead, what: str) -> str:
    factor, second = lead.factor or 1.0, lead.next
    if factor < 1.0 + _TIE:
        return f"{lead.label} and {second}, with no margin between them"
    times = f"{factor:.3g}"
    ahead = f"{lead.label}, less than 0.5 % ahead of {second}"
    if times != "1":
        ahead = f"{lead.label}, {times} times the {what} of {second}"
    if lead.interval is None:
        return f"{ahead} (no interval is known)"
    low, high = lead.interval
    ends = f"80 % interval {low:.2f} .. {high:.2f}"
    if lead.verdict == ABOUT_EQUAL:
        return f"{ahead}; they are about equal, as the {ends} does not tell which is first"
    return f"{ahead}, {ends}"
