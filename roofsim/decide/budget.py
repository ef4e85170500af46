"""Say what a budget buys: the most work in so many days for so many dollars, on which card and how many, and the largest model."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.money import MILLION, SECONDS_PER_HOUR
from roofsim.analyze.printed import Printed
from roofsim.api import resolve_document
from roofsim.decide.affordable import HOURS, Purse, affordable, as_rented, none_runs, priced_rows, some, within_reach
from roofsim.decide.assumptions import assumption, read_number
from roofsim.decide.cards import left_out, of_any_card, stated_of
from roofsim.decide.lowest import price_of
from roofsim.errors import NoDataError, Place, Problem, SpecError
from roofsim.records import dataclass, field
from roofsim.spec import catalog
from roofsim.spec.own_prices import price_of_one, stated_of_one
from roofsim.spec.prices import put_first
from roofsim.spec.scenario.document import load_scenario, with_override
from roofsim.spec.settle.cards import read_cards

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from roofsim.analyze.result import Result
    from roofsim.decide.assumptions import Assumption
    from roofsim.spec.reading.source import Document
    from roofsim.spec.scenario.workload import Scenario

SCHEMA: Final = "roofsim/budget/1"
#: GPUs that are tried at most, where nothing else is said.
MOST: Final = 1024
#: Times as many GPUs on which larger models are tried.
_MORE: Final = 4


@dataclass(frozen=True, kw_only=True)
class Bought:
    """What the budget buys on one card, with the number of GPUs that does the most.

    Attributes
    ----------
    work, work_low, work_high
        Tokens or samples, and the ends of the 80 % interval of the step.
    days, usd
        Spent: all of one of them.
    limited_by
        ``usd`` or ``days``: what is spent.
    usd_per_million
        Dollars per million tokens or samples.
    """

    gpu: str
    gpus: int
    sharding: str | None
    work: float
    work_low: float
    work_high: float
    days: float
    usd: float
    limited_by: str
    usd_per_million: float
    price: str
    parameters: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return dict(self.__dict__)


@dataclass(frozen=True, kw_only=True)
class LargestTrained:
    """The largest model of the family that the budget trains, of those in the catalog.

    Attributes
    ----------
    wanted
        Tokens that it is trained on.
    next
        The next larger one, which the budget does not train; None where there is none.
    """

    model: str
    parameters: float
    wanted: float
    bought: Bought
    next: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {**self.__dict__, "bought": self.bought.to_dict()}


@dataclass(frozen=True, kw_only=True, repr=False)
class Budget(Printed):
    """The answer of `roofsim.budget`.

    Attributes
    ----------
    cards
        What each card does, those that do their work for the least money first.
    best
        What does the most work; None where nothing runs.
    rivals
        Cards whose intervals overlap that of the best: they may do more.
    largest
        The largest model; None where the model is of no family of the catalog, or none is reached.
    run
        The scenario on the best, in its number; where nothing fits, on the first that was priced.
    refused
        Card -> why it is not in the table.
    """

    model: str
    usd: float
    days: float
    counted: str
    cards: tuple[Bought, ...]
    best: Bought | None
    rivals: tuple[str, ...]
    largest: LargestTrained | None
    run: Result
    refused: Mapping[str, str] = field(default_factory=dict)
    assumptions: tuple[Assumption, ...] = ()
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "schema": SCHEMA,
            "model": self.model,
            "usd": self.usd,
            "days": self.days,
            "counted": self.counted,
            "scenario": self.run.scenario,
            "assumed": list(self.run.assumed),
            "best": None if self.best is None else self.best.to_dict(),
            "rivals": list(self.rivals),
            "cards": [card.to_dict() for card in self.cards],
            "largest": None if self.largest is None else self.largest.to_dict(),
            "refused": dict(self.refused),
            "assumptions": [one.to_dict() for one in self.assumptions],
            "notes": list(self.notes),
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row for each card."""
        return [card.to_dict() for card in self.cards]


def budget(
    scenario: str | Path | dict[str, Any] | Scenario,
    *,
    usd: float | str,
    days: float | str,
    gpu: Iterable[str] | str | None = None,
    most: int = MOST,
    tokens_per_parameter: float | str | None = None,
    **overrides: Any,
) -> Budget:
    """Return what a budget buys: the most tokens or samples, the best card and number, and the largest model of the family.

    Parameters
    ----------
    usd, days
        What may be spent; ``"50k"`` is a number too.
    gpu
        Cards to choose among; every card of the catalog whose price is known, if left out. Powers of two of each are tried.
    most
        GPUs to rent at most.
    tokens_per_parameter
        What a model of the family must be trained on to count as trained.

    Returns
    -------
    Budget
        Rows of cards, the best first: dollars, days and tokens or samples, with their ranges.

    Raises
    ------
    SpecError
        For a budget that is none, and where no card runs the scenario.
    """
    document = load_scenario(scenario, overrides)
    return budget_document(
        document, usd=usd, days=days, cards=gpu, most=most, stated={"tokens_per_parameter": tokens_per_parameter}
    )


def budget_document(
    document: Document,
    *,
    usd: Any,
    days: Any,
    cards: Iterable[str] | str | None = None,
    most: int = MOST,
    stated: Mapping[str, Any] | None = None,
) -> Budget:
    """Return what a budget buys; see `budget`."""
    money, time = read_number(usd, "--usd"), read_number(days, "--days")
    names = _names(cards)
    price_of_one(document, names)
    with put_first(_own_price(document, names)):
        return _answered(document, names, (money, time, most), stated)


def _own_price(document: Document, names: Sequence[str]) -> dict[str, tuple[dict[str, Any], ...]]:
    """Return the price of an hour that a scenario states, as that of the one card that is asked about."""
    if not stated_of_one(document):
        return {}
    alone = with_override(
        with_override(document, "hardware.gpu", names[0], "budget"), "hardware.system", None, "budget"
    )
    return stated_of(resolve_document(alone))


def _answered(
    document: Document, names: Sequence[str], asked: tuple[float, float, int], stated: Mapping[str, Any] | None
) -> Budget:
    money, time, most = asked
    document, dropped = of_any_card(document)
    priced = [name for name in names if price_of(name) is not None]
    refused = {name: "no price of an hour is known" for name in names if name not in priced}
    counts, alone = within_reach(document, {name: affordable(name, money, most) for name in priced})
    rows = priced_rows(document, priced, counts, Purse(usd=money, days=time))
    if not rows:
        raise none_runs(document, priced, [name for name in names if name not in priced])
    counted = "tokens" if rows[0]["throughput.tokens_per_second"] else "samples"
    bought = _best_of_each(rows, money, time, counted, priced, refused)
    best = max(bought, key=lambda one: one.work, default=None)
    rivals = (
        () if best is None else tuple(one.gpu for one in bought if one is not best and one.work_high > best.work_low)
    )
    ratio = assumption("tokens_per_parameter", stated)
    largest = None if best is None or counted != "tokens" else _largest(document, best, money, time, most, ratio.value)
    return Budget(
        model=_model_name(document),
        usd=money,
        days=time,
        counted=counted,
        cards=tuple(sorted(bought, key=lambda one: one.usd_per_million)),
        best=best,
        rivals=rivals,
        largest=largest,
        run=_run(document, best, rows[0]),
        refused=refused,
        assumptions=() if largest is None else (ratio,),
        notes=(
            *left_out(dropped),
            *_of_one_node(alone, {one.gpu for one in bought}),
            "failures, checkpoints and evaluations are not counted: `roofsim run --tokens` does",
        ),
    )


def _run(document: Document, best: Bought | None, row: Mapping[str, Any]) -> Result:
    """Return the run that the answer rests on; where nothing fits, that of a row."""
    if best is not None:
        return as_rented(document, best.gpu, best.gpus, best.sharding)
    return as_rented(document, row["hardware.gpu"], int(row["hardware.gpus"]), row.get("sharding"))


def _of_one_node(alone: Sequence[str], shown: Iterable[str]) -> tuple[str, ...]:
    """Return the note about cards that are tried in one node alone; nothing where there are none."""
    named = [name for name in alone if name in shown]
    if not named:
        return ()
    return (f"{some(named)}: no more than one node of each is tried, as no network between such nodes is known",)


def _names(cards: Iterable[str] | str | None) -> list[str]:
    if cards is None:
        return list(catalog.names("gpu"))
    entries = read_cards(cards, "--gpu")
    for entry in entries:
        if entry.kind != "gpu" or entry.count is not None or entry.override:
            raise SpecError(
                Problem(f"expected the name of a card, without a number; got {entry.text[:60]!r}", Place("--gpu"))
            )
    return list(dict.fromkeys(entry.name for entry in entries))


def _best_of_each(
    rows: Sequence[Mapping[str, Any]],
    usd: float,
    days: float,
    counted: str,
    names: Sequence[str],
    refused: dict[str, str],
) -> list[Bought]:
    """Return for each card the number of GPUs that does the most within the budget."""
    every = []
    for name in names:
        own = [row for row in rows if row["hardware.gpu"] == name]
        fitting = [_bought(row, usd, days, counted) for row in own if row["memory.fits"]]
        if fitting:
            every.append(max(fitting, key=lambda one: (one.work, -one.gpus)))
        else:
            refused[name] = "does not fit in memory" if own else "does not run this"
    return every


def _bought(row: Mapping[str, Any], usd: float, days: float, counted: str) -> Bought:
    price = price_of(row["hardware.gpu"])
    assert price is not None
    rate, hourly = float(row[f"throughput.{counted}_per_second"]), price[0] * int(row["hardware.gpus"])
    affordable = usd / hourly / HOURS
    spent = min(days, affordable)
    work = rate * spent * HOURS * SECONDS_PER_HOUR
    low, high = (float(end) for end in row["step_time_interval"] or (row["step_time"], row["step_time"]))
    step = float(row["step_time"])
    return Bought(
        gpu=row["hardware.gpu"],
        gpus=int(row["hardware.gpus"]),
        sharding=row.get("sharding"),
        work=work,
        work_low=work * step / high,
        work_high=work * step / low,
        days=spent,
        usd=spent * HOURS * hourly,
        limited_by="usd" if affordable < days else "days",
        usd_per_million=hourly / SECONDS_PER_HOUR / rate * MILLION,
        price=price[1],
        parameters=float(row["parameters.total"]),
    )


def _largest(
    document: Document, best: Bought, usd: float, days: float, most: int, ratio: float
) -> LargestTrained | None:
    """Return the largest model of the catalog's family that is trained on enough tokens on the card that does the most.

    Larger ones are tried on as many GPUs and on up to four times as many, which have room for more.
    """
    names, cards = _family(_model_name(document)), [best.gpu]
    more = [each for each in affordable(best.gpu, usd, most) if best.gpus <= each <= _MORE * best.gpus]
    counts, _ = within_reach(document, {best.gpu: more})
    tried: list[tuple[float, str, Bought]] = []
    for name in names:
        other = with_override(document, "model", name, "budget")
        try:
            rows = priced_rows(other, cards, counts, Purse(usd=usd, days=days))
        except (SpecError, NoDataError):
            continue
        best_of = _best_of_each(rows, usd, days, "tokens", cards, {})
        if best_of:
            tried.append((best_of[0].parameters, name, best_of[0]))
    tried.sort(key=lambda one: one[0])
    reached = [one for one in tried if one[2].work >= ratio * one[0]]
    if not reached:
        return None
    size, name, bought = reached[-1]
    larger = [other for parameters, other, _ in tried if parameters > size]
    return LargestTrained(
        model=name, parameters=size, wanted=ratio * size, bought=bought, next=larger[0] if larger else None
    )


def _family(name: str) -> list[str]:
    """Return the models of the catalog whose names begin with the same letters: sizes of one family."""
    stem = re.match(r"[a-z]+", name)
    if stem is None or not catalog.has("model", name):
        return []
    folder = catalog.names("model")[name].parent
    alike = [other for other, path in catalog.names("model").items() if path.parent == folder]
    return [other for other in alike if re.match(r"[a-z]+", other) and other.startswith(stem.group())]


def _model_name(document: Document) -> str:
    model = document.data.get("model") if isinstance(document.data, dict) else None
    if not isinstance(model, str):
        return str((model or {}).get("name", "inline"))
    try:
        return catalog.resolve_name("model", model)
    except SpecError:
        return model
