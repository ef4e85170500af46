"""Hold what a comparison found: a row for each card, and its plain-data forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.printed import Drawn, flattened
from roofsim.records import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roofsim.analyze.result import Result
    from roofsim.compare.instead import Alternative
    from roofsim.evaluate import Evaluation
    from roofsim.spec.hardware.price import Quote
    from roofsim.spec.settle.cards import Card

SCHEMA: Final = "roofsim/compare/1"


def unit_of(result: Result | None) -> str:
    """Return what throughput and cost are counted in: ``tokens``, or ``images`` (samples); nothing where nothing runs."""
    cost = {} if result is None else result.cost
    key = next((key for key in cost if key.startswith("usd_per_million_")), "")
    return key.removeprefix("usd_per_million_")


def rate_of(result: Result) -> float | None:
    """Return tokens or samples per second, of all cards together."""
    rate = result.throughput["tokens_per_second" if unit_of(result) == "tokens" else "samples_per_second"]
    return None if rate is None else float(rate)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One card, or one set of cards.

    Attributes
    ----------
    label
        The entry with catalog names, in the form in which it can be given again.
    asked
        How it was written; more than one where the same hardware was named more than once.
    result, evaluation
        None where it cannot run.
    reason
        Why it cannot run; None where it does.
    alternative
        What would run instead; None where nothing was found, or needed.
    relative
        Throughput over that of the first row that runs and fits; None where this row does not.
    relative_interval
        Ends of the 80 % interval of `relative`; None where no interval is known, and for the row that it is relative to.
    verdict
        ``faster``, ``about_equal`` where 1 lies inside that interval, or ``slower``; None where `relative` is.
    rank, cost_rank
        1 for the fastest, and the cheapest of its market; None for what does not fit, or has no price to compare.
    quote
        The price of one card; None where none is known.
    market
        What prices share that can be compared; None: this one with no other.
    unsold
        Whether the price is that of a card which is changed here, so that nobody sells it at that.
    """

    label: str
    card: Card
    asked: tuple[str, ...]
    result: Result | None = None
    evaluation: Evaluation | None = field(default=None, repr=False)
    reason: str | None = None
    alternative: Alternative | None = None
    relative: float | None = None
    relative_interval: tuple[float, float] | None = None
    verdict: str | None = None
    rank: int | None = None
    cost_rank: int | None = None
    quote: Quote | None = None
    market: tuple[str | None, ...] | None = None
    unsold: bool = False
    notes: tuple[str, ...] = ()

    @property
    def runs(self) -> bool:
        """Whether it runs, in time if not in memory."""
        return self.result is not None

    @property
    def fits(self) -> bool:
        """Whether it runs and fits in memory: only then is it ranked."""
        return self.result is not None and bool(self.result.memory.fits)

    @property
    def step_time(self) -> float | None:
        """Seconds of a step; None where it cannot run."""
        return None if self.result is None else float(self.result.step_time)

    @property
    def unit(self) -> str:
        """What throughput and cost are counted in: ``tokens``, or ``images`` (samples)."""
        return unit_of(self.result)

    @property
    def rate(self) -> float | None:
        """Tokens or samples per second, of all cards of the row together; None where it cannot run."""
        return None if self.result is None else rate_of(self.result)

    @property
    def units_per_dollar(self) -> float | None:
        """Tokens or samples for a dollar; None where no price is known."""
        cost = None if self.result is None else self.result.cost.get(f"usd_per_million_{self.unit}")
        return None if not cost else 10.0**6 / float(cost)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data: what concerns the comparison, and the whole result where there is one."""
        own = {
            "label": self.label,
            "asked": list(self.asked),
            "runs": self.runs,
            "feasible": self.fits,
            "reason": self.reason,
            "alternative": None if self.alternative is None else self.alternative.to_dict(),
            "rate": self.rate,
            "relative": self.relative,
            "relative_interval": None if self.relative_interval is None else list(self.relative_interval),
            "verdict": self.verdict,
            "rank": self.rank,
            "cost_rank": self.cost_rank,
            "units_per_usd": self.units_per_dollar,
            "price_of_card_unchanged": self.unsold,
            "notes": list(self.notes),
        }
        if self.result is None:
            hardware = {"gpu": self.card.gpu, "gpus": self.card.gpus}
            return own | {"step_time": None, "scenario": {"hardware": hardware}}
        return own | self.result.to_dict()


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison(Drawn):
    """The answer of `roofsim.compare`: rows in the order asked for, and who wins.

    Attributes
    ----------
    base
        The row that `relative` is relative to; None where no row fits.
    fastest
        Who is first by time; None where fewer than one row fits.
    cheapest
        Who is first by cost in each market of prices that can be compared.
    sentence
        Who wins, and whether the margin is inside the intervals.
    notes
        Rows that were merged, and what was changed of the scenario for a row.
    """

    rows: tuple[Row, ...]
    sort: str
    base: str | None
    fastest: Lead | None
    cheapest: tuple[Lead, ...]
    sentence: str
    notes: tuple[str, ...] = ()

    @property
    def results(self) -> list[Result]:
        """The results of the rows that run."""
        return [row.result for row in self.rows if row.result is not None]

    @property
    def unit(self) -> str:
        """What throughput is counted in."""
        return next((row.unit for row in self.rows if row.runs), "")

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: int | str) -> Row:
        """Return a row by its place, by its label, or as it was written."""
        if isinstance(key, int):
            return self.rows[key]
        chosen = next((row for row in self.rows if key == row.label or key in row.asked), None)
        if chosen is None:
            raise KeyError(f"no row {key!r}; rows: {', '.join(row.label for row in self.rows)}")
        return chosen

    def to_dict(self) -> dict[str, Any]:
        """Return plain data of schema roofsim/compare/1, in SI units and dollars."""
        return {
            "schema": SCHEMA,
            "unit": self.unit,
            "sort": self.sort,
            "base": self.base,
            "fastest": None if self.fastest is None else self.fastest.to_dict(),
            "cheapest": [lead.to_dict() for lead in self.cheapest],
            "sentence": self.sentence,
            "notes": list(self.notes),
            "rows": [row.to_dict() for row in self.rows],
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the rows as flat mappings of dotted keys."""
        return [flattened(row.to_dict()) for row in self.rows]


@dataclass(frozen=True, kw_only=True)
class Lead:
    """Who is first, and by how much.

    Attributes
    ----------
    market
        Of costs: the prices that were compared, in words.
    next, factor
        The second, and how many times its figure the first has; None where there is no second.
    interval
        Ends of the 80 % interval of `factor`; None where none is known.
    verdict
        ``faster``, or ``about_equal`` where 1 lies inside that interval; None where there is no second.
    inside_intervals
        Whether 1 lies inside that interval, so that the order may be the other way round; None where none is known.
    """

    label: str
    value: float
    market: str | None = None
    next: str | None = None
    factor: float | None = None
    interval: tuple[float, float] | None = None
    verdict: str | None = None
    inside_intervals: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return dict(self.__dict__)
