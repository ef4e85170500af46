"""Say whether to rent or to buy: what an hour of owned GPUs costs, and from which utilisation on it is less than a rented one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.printed import Printed
from roofsim.analyze.ratio import speedup_interval
from roofsim.analyze.verdicts import DOES_NOT_FIT
from roofsim.analyze.watts import drawn_watts
from roofsim.api import answer, resolve_document
from roofsim.compare.rows import rate_of, unit_of
from roofsim.decide.assumptions import assumption, read_number
from roofsim.decide.cards import left_out, of_any_card
from roofsim.decide.owned import at_speeds, costs_of, paid_within, payback_months, resale_at
from roofsim.decide.room import must_fit, shortfall
from roofsim.errors import Place, Problem, SpecError
from roofsim.evaluate import evaluate
from roofsim.records import dataclass
from roofsim.spec.hardware.price import lowest_words
from roofsim.spec.scenario.document import load_scenario, with_override

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from roofsim.analyze.result import Result
    from roofsim.decide.assumptions import Assumption
    from roofsim.decide.owned import Ends
    from roofsim.evaluate import Evaluation
    from roofsim.spec.reading.source import Document
    from roofsim.spec.scenario.workload import Scenario

SCHEMA: Final = "roofsim/owning/1"
ASSUMED: Final = ("power_price", "pue", "hosting", "years", "utilisation", "resale", "resale_after", "gpus_in_server")


@dataclass(frozen=True, kw_only=True)
class Against:
    """Another card beside it, for the same work.

    Attributes
    ----------
    speed
        Units per second of the other card over those of this one.
    even_rent
        Dollars per hour of all GPUs at which renting the other costs as much for the same work as renting this one; None where
        this one has no price, or the other does not hold the scenario.
    speed_interval, even_rent_interval
        Ends of their 80 % intervals; None where none is known.
    rent, rent_words
        What it rents for, as it is known, and whose price it is.
    short
        What it lacks where the scenario does not fit in its memory; None where it does, or may.
    """

    gpu: str
    gpus: int
    speed: float
    even_rent: float | None
    rent: float | None
    notes: tuple[str, ...] = ()
    speed_interval: tuple[float, float] | None = None
    even_rent_interval: tuple[float, float] | None = None
    rent_words: str | None = None
    short: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return dict(self.__dict__)


@dataclass(frozen=True, kw_only=True, repr=False)
class Owning(Printed):
    """The answer of `roofsim.rent_or_buy`. Dollars are those of all GPUs; intervals are of 80 %, None where none is known.

    Attributes
    ----------
    rate, rate_interval
        Units of work per second.
    purchase
        Price of the machines; `purchase_words` say whose it is, `purchase_source` in short.
    rent
        Dollars of a rented hour; None where no price is known. `rent_words` say whose it is.
    own
        Dollars of an hour of work on machines that are owned, at the utilisation assumed.
    parts
        Dollars of each part over all years.
    rent_low, rent_low_words, break_even_low
        The lowest rent that is published, whose it is, and the utilisation from which owning costs less than that; None where one
        rent is known.
    break_even
        Utilisation from which owning costs less; None: at none.
    even_rent, even_rent_interval
        Rent at which both cost the same, at the utilisation assumed. Work goes as fast on the same cards whoever owns them: only
        electricity depends on the speed, as a step that takes longer draws less on average.
    months
        Until rents of the hours worked, less electricity and hosting, have paid the purchase; None where they never do.
    paid_back
        Whether that is within the years of use; None where no rent is known.
    months_low, paid_back_low
        The same at the lowest rent that is published.
    usd_per_million, usd_per_million_interval
        Dollars per million units of work: rented, owned.
    watts
        That all GPUs draw on average while they work.
    utilisation
        Share of the hours in which the machines work, as assumed.
    memory
        ``fits``, or ``tight``: may not fit.
    """

    gpu: str
    gpus: int
    unit: str
    rate: float
    rate_interval: Ends | None
    purchase: float
    purchase_words: str
    purchase_source: str
    rent: float | None
    rent_words: str | None
    rent_low: float | None
    rent_low_words: str | None
    break_even_low: float | None
    own: float
    parts: Mapping[str, float]
    break_even: float | None
    even_rent: float
    even_rent_interval: Ends | None
    months: float | None
    paid_back: bool | None
    months_low: float | None
    paid_back_low: bool | None
    usd_per_million: Mapping[str, float | None]
    usd_per_million_interval: Mapping[str, Ends | None]
    watts: float
    against: Against | None
    utilisation: float
    years: float
    memory: str
    assumptions: tuple[Assumption, ...]

    @property
    def verdicts(self) -> dict[str, str | None]:
        """``buy`` or ``rent``, whichever costs less, at the rent shown and at the lowest; None without one."""
        rents = {"rent": self.rent, "rent_low": self.rent_low}
        return {key: None if rent is None else "buy" if self.own < rent else "rent" for key, rent in rents.items()}

    @property
    def verdict(self) -> str:
        """``buy`` or ``rent``; ``depends``: one at the rent shown, the other at the lowest; ``unknown`` without a rent."""
        said = {verdict for verdict in self.verdicts.values() if verdict is not None}
        return "unknown" if self.rent is None else said.pop() if len(said) == 1 else "depends"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        own = {**self.__dict__, "parts": dict(self.parts), "usd_per_million": dict(self.usd_per_million)}
        own["usd_per_million_interval"] = dict(self.usd_per_million_interval)
        own["against"] = None if self.against is None else self.against.to_dict()
        own["assumptions"] = [one.to_dict() for one in self.assumptions]
        return {"schema": SCHEMA, "verdict": self.verdict, "verdicts": self.verdicts, **own}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row."""
        return [self.to_dict()]


def rent_or_buy(
    scenario: str | Path | dict[str, Any] | Scenario,
    *,
    purchase: float | str | None = None,
    rent: float | str | None = None,
    against: str | None = None,
    assume: Mapping[str, Any] | None = None,
    **overrides: Any,
) -> Owning:
    """Return what owning the GPUs of a scenario costs against renting them.

    Parameters
    ----------
    purchase
        Dollars of all machines, servers included; left out: the node's price, or those of the cards over their share of a server.
    rent
        Dollars per hour of one GPU; left out: the price that is known.
    against
        Another card: at which rent does it do the same work for as much?
    assume
        ``power_price`` (USD/kWh), ``pue``, ``hosting`` (USD per kW and month), ``years``, ``utilisation``, ``resale`` (at the end
        of use) and ``gpus_in_server``, in the place of those that roofsim assumes.

    Raises
    ------
    SpecError
        For figures that are none, where no purchase price is known, and where the scenario does not fit in memory.
    """
    document = load_scenario(scenario, overrides)
    return owning_document(document, purchase=purchase, rent=rent, against=against, assume=assume)


def owning_document(
    document: Document,
    *,
    purchase: Any = None,
    rent: Any = None,
    against: str | None = None,
    assume: Mapping[str, Any] | None = None,
) -> Owning:
    """Return what owning costs against renting; see `rent_or_buy`."""
    used = _assumed(assume)
    evaluation = evaluate(resolve_document(document))
    result = answer(evaluation)
    must_fit(evaluation, result.memory)
    bought = _purchase(evaluation, purchase, used["gpus_in_server"].value)
    price = bought.usd
    if bought.whole:
        used.pop("gpus_in_server")
    gpus, cost = int(evaluation.resolved.gpus), result.cost
    hourly = cost["usd_per_hour"] if rent is None else read_number(rent, "--rent") * gpus
    low = cost["usd_per_hour_low"] if rent is None else None
    rented, lowest = (None if each is None else float(each) for each in (hourly, low))
    watts, rated = (each * gpus for each in _watts(evaluation))
    figures = {name: one.value for name, one in used.items()}
    costs, parts = costs_of(price, watts, rated, figures)
    busy = used["utilisation"].value
    months, months_low = (
        None if each is None else payback_months(price, each, watts, rated, figures) for each in (rented, lowest)
    )
    return Owning(
        gpu=evaluation.resolved.gpu.name,
        gpus=gpus,
        unit=unit_of(result),
        purchase=price,
        purchase_words=bought.words,
        purchase_source=bought.source,
        rent=rented,
        rent_words="as stated" if rent is not None else cost["price"],
        rent_low=lowest,
        rent_low_words=None if lowest is None else _lowest_words(evaluation, lowest / gpus),
        break_even_low=None if lowest is None else costs.break_even(lowest),
        parts=parts,
        break_even=None if rented is None else costs.break_even(rented),
        months=months,
        paid_back=None if rented is None else paid_within(months, figures["years"]),
        months_low=months_low,
        paid_back_low=None if lowest is None else paid_within(months_low, figures["years"]),
        watts=watts,
        against=None if against is None else _against(document, result, rented, against),
        utilisation=busy,
        years=figures["years"],
        memory=result.memory.verdict,
        assumptions=tuple(used.values()),
        **at_speeds(
            float(rate_of(result) or 0.0),
            _factors(result),
            rented,
            lambda factor: costs_of(price, min(watts / factor, rated), rated, figures)[0].of_an_hour(busy),
        ),
    )


def _assumed(stated: Mapping[str, Any] | None) -> dict[str, Assumption]:
    """Return what is assumed; a share for the sale that nobody states falls with the years of use."""
    used = {name: assumption(name, stated) for name in ASSUMED}
    if used["resale"].stated:
        used.pop("resale_after")
    else:
        used["resale"] = resale_at(used["years"].value, used["resale"], used["resale_after"])
    return used


def _factors(result: Result) -> Ends | None:
    """Return the ends of the interval of the step over the step."""
    interval, step = result.step_time_interval, float(result.step_time)
    return None if interval is None else (float(interval[0]) / step, float(interval[1]) / step)


@dataclass(frozen=True, kw_only=True)
class _Bought:
    """The price of all machines, whose it is, in short and in full, and whether it is that of whole machines."""

    usd: float
    words: str
    source: str
    whole: bool


def _purchase(evaluation: Evaluation, stated: Any, share: float) -> _Bought:
    resolved = evaluation.resolved
    if stated is not None:
        usd = read_number(stated, "--purchase")
        return _Bought(usd=usd, words="stated, of all machines", source="price as stated", whole=True)
    gpus = int(resolved.gpus)
    nodes = math.ceil(gpus / resolved.system.gpus_per_node)
    node, card = resolved.system.price, resolved.gpu.price
    if node.purchase is not None:
        words = f"{nodes} x {resolved.system.name}, {_words(node)}"
        return _Bought(usd=node.purchase * nodes, words=words, source=_words(node), whole=True)
    if card.purchase is None:
        hint = "State the price of all machines: --purchase 250k."
        raise SpecError(Problem(f"no purchase price of {resolved.gpu.name} is known", Place("--purchase"), hint=hint))
    cards = "1 card" if gpus == 1 else f"{gpus} cards"
    words = f"{cards} at {card.purchase:,.0f} USD ({_words(card)}) in servers"
    return _Bought(usd=card.purchase * gpus / share, words=words, source=_words(card), whole=False)


def _lowest_words(evaluation: Evaluation, per_gpu: float) -> str | None:
    """Return whose the lowest rent is that is published, of the card or of its node."""
    node = evaluation.resolved.system
    own = lowest_words(evaluation.resolved.gpu.price, per_gpu)
    return own or lowest_words(node.price, per_gpu, node.gpus_per_node)


def _words(price: Any) -> str:
    parts = [price.purchase_kind or "price", price.purchase_seller, price.purchase_date]
    said = ", ".join(str(part) for part in parts if part)
    return f"{said}, more than 18 months old" if price.purchase_old else said


def _watts(evaluation: Evaluation) -> tuple[float, float]:
    """Return what a GPU draws on average over the step, and what it may draw."""
    tdp, drawn = evaluation.resolved.gpu.tdp, drawn_watts(evaluation)
    if tdp is None or drawn is None:
        hint = "State it: --set tdp='300 W'."
        raise SpecError(Problem(f"the power of {evaluation.resolved.gpu.name} is not known", hint=hint))
    return float(drawn), float(tdp)


def _against(document: Document, result: Result, rent: float | None, name: str) -> Against:
    other, dropped = of_any_card(document)
    evaluation = evaluate(resolve_document(with_override(other, "hardware.gpu", name, "--against")))
    changed = answer(evaluation)
    speed = float(rate_of(changed) or 0.0) / float(rate_of(result) or math.nan)
    ends = speedup_interval(result, changed, speed)
    hourly = changed.cost["usd_per_hour"]
    short = shortfall(changed.memory) if changed.memory.verdict == DOES_NOT_FIT else None
    worth = None if short is not None else rent
    return Against(
        gpu=evaluation.resolved.gpu.name,
        gpus=int(evaluation.resolved.gpus),
        speed=speed,
        speed_interval=ends,
        even_rent=None if worth is None else worth * speed,
        even_rent_interval=None if worth is None or ends is None else (worth * ends[0], worth * ends[1]),
        rent=None if hourly is None else float(hourly),
        rent_words=changed.cost["price"],
        short=short,
        notes=left_out(dropped),
    )
