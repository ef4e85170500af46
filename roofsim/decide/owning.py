"""Say whether to rent or to buy: what an hour of owned GPUs costs, and from which utilisation on it is less than a rented one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.money import MILLION, SECONDS_PER_HOUR
from roofsim.analyze.printed import Printed
from roofsim.analyze.watts import drawn_watts
from roofsim.api import answer, resolve_document
from roofsim.compare.rows import rate_of, unit_of
from roofsim.decide.assumptions import assumption, read_number
from roofsim.decide.cards import left_out, of_any_card
from roofsim.errors import Place, Problem, SpecError
from roofsim.evaluate import evaluate
from roofsim.records import dataclass
from roofsim.spec.scenario.document import load_scenario, with_override

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from roofsim.analyze.result import Result
    from roofsim.decide.assumptions import Assumption
    from roofsim.evaluate import Evaluation
    from roofsim.spec.reading.source import Document
    from roofsim.spec.scenario.workload import Scenario

SCHEMA: Final = "roofsim/owning/1"
#: Hours of a year, months of a year, watts of a kilowatt.
_HOURS: Final = 8766.0
_MONTHS: Final = 12.0
_KILO: Final = 10.0**3
ASSUMED: Final = ("power_price", "pue", "hosting", "years", "utilisation", "resale", "gpus_in_server")
#: The costs of owning, in the order in which they are shown.
PARTS: Final = ("purchase less resale", "electricity and cooling", "hosting")


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What owning costs over the years.

    Attributes
    ----------
    fixed
        Dollars that are due whether the machines work or not: purchase less resale, and hosting.
    per_hour
        Dollars of an hour of work: electricity with cooling.
    hours
        Of the years, worked or not.
    """

    fixed: float
    per_hour: float
    hours: float

    def of_an_hour(self, utilisation: float) -> float:
        """Return dollars of an hour of work, of all GPUs."""
        return self.fixed / (self.hours * utilisation) + self.per_hour

    def break_even(self, rent: float) -> float | None:
        """Return the utilisation from which owning costs less than a rent per hour; None: at none up to all hours."""
        if rent <= self.per_hour:
            return None
        share = self.fixed / (self.hours * (rent - self.per_hour))
        return share if share <= 1.0 else None


@dataclass(frozen=True, kw_only=True)
class Against:
    """Another card beside it, for the same work.

    Attributes
    ----------
    speed
        Units per second of the other card over those of this one.
    even_rent
        Dollars per hour of all GPUs at which renting the other costs as much for the same work as renting this one; None where
        this one has no price.
    rent
        What it rents for, as it is known.
    """

    gpu: str
    gpus: int
    speed: float
    even_rent: float | None
    rent: float | None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return dict(self.__dict__)


@dataclass(frozen=True, kw_only=True, repr=False)
class Owning(Printed):
    """The answer of `roofsim.rent_or_buy`. Dollars are those of all GPUs.

    Attributes
    ----------
    purchase
        Price of the machines; `purchase_words` say whose it is.
    rent
        Dollars of a rented hour; None where no price is known.
    own
        Dollars of an hour of work on machines that are owned, at the utilisation assumed.
    parts
        Dollars of each part over all years.
    rent_low, break_even_low
        The lowest rent that is published, and the utilisation from which owning costs less than that; None where one rent is known.
    break_even
        Utilisation from which owning costs less; None: at none.
    even_rent
        Rent at which both cost the same, at the utilisation assumed.
    months
        Until rents of the hours worked have paid the purchase; None where they never do.
    usd_per_million
        Dollars per million units of work: rented, owned.
    watts
        That all GPUs draw on average while they work.
    utilisation
        Share of the hours in which the machines work, as assumed.
    """

    gpu: str
    gpus: int
    unit: str
    rate: float
    purchase: float
    purchase_words: str
    rent: float | None
    rent_words: str | None
    rent_low: float | None
    break_even_low: float | None
    own: float
    parts: Mapping[str, float]
    break_even: float | None
    even_rent: float
    months: float | None
    usd_per_million: Mapping[str, float | None]
    watts: float
    against: Against | None
    utilisation: float
    assumptions: tuple[Assumption, ...]

    @property
    def verdict(self) -> str:
        """``buy`` or ``rent``, whichever costs less at the utilisation assumed; ``unknown`` without a rent."""
        if self.rent is None:
            return "unknown"
        return "buy" if self.own < self.rent else "rent"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        own = {**self.__dict__, "parts": dict(self.parts), "usd_per_million": dict(self.usd_per_million)}
        own["against"] = None if self.against is None else self.against.to_dict()
        own["assumptions"] = [one.to_dict() for one in self.assumptions]
        return {"schema": SCHEMA, "verdict": self.verdict, **own}

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
        ``power_price`` (USD/kWh), ``pue``, ``hosting`` (USD per kW and month), ``years``, ``utilisation``, ``resale`` and
        ``gpus_in_server``, in the place of those that roofsim assumes.

    Raises
    ------
    SpecError
        For figures that are none, and where no purchase price is known.
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
    used = {name: assumption(name, assume) for name in ASSUMED}
    evaluation = evaluate(resolve_document(document))
    result = answer(evaluation)
    price, words, whole = _purchase(evaluation, purchase, used["gpus_in_server"].value)
    if whole:
        used.pop("gpus_in_server")
    gpus, cost = int(evaluation.resolved.gpus), result.cost
    hourly = cost["usd_per_hour"] if rent is None else read_number(rent, "--rent") * gpus
    rented = None if hourly is None else float(hourly)
    watts, rated = (each * gpus for each in _watts(evaluation))
    costs, parts = costs_of(price, watts, rated, {name: one.value for name, one in used.items()})
    busy = used["utilisation"].value
    low = cost["usd_per_hour_low"] if rent is None else None
    own = costs.of_an_hour(busy)
    rate = float(rate_of(result) or 0.0)
    million = rate * SECONDS_PER_HOUR / MILLION
    return Owning(
        gpu=evaluation.resolved.gpu.name,
        gpus=gpus,
        unit=unit_of(result),
        rate=rate,
        purchase=price,
        purchase_words=words,
        rent=rented,
        rent_words="stated" if rent is not None else cost["price"],
        rent_low=None if low is None else float(low),
        break_even_low=None if low is None else costs.break_even(float(low)),
        own=own,
        parts=parts,
        break_even=None if rented is None else costs.break_even(rented),
        even_rent=own,
        months=None if rented is None else _months(price, rented, costs, busy),
        usd_per_million={"rented": None if rented is None else rented / million, "owned": own / million},
        watts=watts,
        against=None if against is None else _against(document, result, rented, against),
        utilisation=busy,
        assumptions=tuple(used.values()),
    )


def costs_of(price: float, watts: float, rated: float, assumed: Mapping[str, float]) -> tuple[Costs, dict[str, float]]:
    """Return what owning costs, and its parts over all years at the utilisation assumed.

    Parameters
    ----------
    price
        Dollars of the machines.
    watts
        That they draw while they work, cooling left out.
    rated
        That they may draw: by these a place for them is rented.
    """
    hours = _HOURS * assumed["years"]
    kept = price * (1.0 - assumed["resale"])
    power = watts / _KILO * assumed["pue"] * assumed["power_price"]
    hosting = rated / _KILO * assumed["hosting"] * _MONTHS * assumed["years"]
    parts = dict(zip(PARTS, (kept, power * hours * assumed["utilisation"], hosting), strict=True))
    return Costs(fixed=kept + hosting, per_hour=power, hours=hours), parts


def _months(price: float, rent: float, costs: Costs, busy: float) -> float | None:
    """Return the months until the rents that are not paid have paid the purchase."""
    month = _HOURS / _MONTHS
    hosting = (costs.fixed - price) / (costs.hours / month) if costs.fixed > price else 0.0
    saved = (rent - costs.per_hour) * busy * month - hosting
    return price / saved if saved > 0.0 else None


def _purchase(evaluation: Evaluation, stated: Any, share: float) -> tuple[float, str, bool]:
    """Return the price of all machines, whose it is, and whether it is that of whole machines."""
    resolved = evaluation.resolved
    if stated is not None:
        return read_number(stated, "--purchase"), "stated, of all machines", True
    nodes = math.ceil(int(resolved.gpus) / resolved.system.gpus_per_node)
    node, card = resolved.system.price, resolved.gpu.price
    if node.purchase is not None:
        return node.purchase * nodes, f"{nodes} x {resolved.system.name}, {_words(node)}", True
    if card.purchase is None:
        hint = "State the price of all machines: --purchase 250k."
        raise SpecError(Problem(f"no purchase price of {resolved.gpu.name} is known", Place("--purchase"), hint=hint))
    cards = card.purchase * int(resolved.gpus)
    return cards / share, f"{resolved.gpus} cards at {card.purchase:,.0f} USD ({_words(card)}) in servers", False


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
    hourly = changed.cost["usd_per_hour"]
    return Against(
        gpu=evaluation.resolved.gpu.name,
        gpus=int(evaluation.resolved.gpus),
        speed=speed,
        even_rent=None if rent is None else rent * speed,
        rent=None if hourly is None else float(hourly),
        notes=left_out(dropped),
    )
