"""Count what machines cost that are owned: per hour, over all years, until they are paid, and what a sale brings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.money import MILLION, SECONDS_PER_HOUR
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from roofsim.decide.assumptions import Assumption

    #: Ends of an 80 % interval.
    Ends = tuple[float, float]

#: Hours of a year, months of a year, watts of a kilowatt.
_HOURS: Final = 8766.0
_MONTHS: Final = 12.0
_KILO: Final = 10.0**3
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
    hosting = _hosting(rated, assumed) * _MONTHS * assumed["years"]
    parts = dict(zip(PARTS, (kept, power * hours * assumed["utilisation"], hosting), strict=True))
    return Costs(fixed=kept + hosting, per_hour=power, hours=hours), parts


def payback_months(price: float, rent: float, watts: float, rated: float, assumed: Mapping[str, float]) -> float | None:
    """Return the months until rents of the hours worked, less electricity and hosting, have paid the price; None: never.

    >>> assumed = {"pue": 1.5, "power_price": 0.1, "hosting": 150.0, "utilisation": 0.5}
    >>> round(payback_months(100_000.0, 20.0, 8_000.0, 10_000.0, assumed), 2)  # 100,000 / (7,305 - 438.3 - 1,500)
    18.63
    """
    worked = _HOURS / _MONTHS * assumed["utilisation"]
    running = watts / _KILO * assumed["pue"] * assumed["power_price"]
    saved = (rent - running) * worked - _hosting(rated, assumed)
    return price / saved if saved > 0.0 else None


def paid_within(months: float | None, years: float) -> bool:
    """Tell whether machines are paid by then while they are used."""
    return months is not None and months <= _MONTHS * years


def at_speeds(rate: float, factors: Ends | None, rent: float | None, own: Callable[[float], float]) -> dict[str, Any]:
    """Return the figures of `Owning` that depend on the speed, with their 80 % intervals.

    Parameters
    ----------
    rate
        Units of work per second.
    factors
        How many times its time a step takes at both ends of its interval; None: not known.
    rent
        Dollars of a rented hour.
    own
        Dollars of an owned one, where a step takes so many times its time.
    """

    def million(name: str, factor: float) -> float | None:
        hourly = rent if name == "rented" else own(factor)
        return None if hourly is None else hourly * factor * MILLION / (rate * SECONDS_PER_HOUR)

    def ends(name: str) -> Ends | None:
        low, high = (None, None) if factors is None else (million(name, factor) for factor in factors)
        return None if low is None or high is None else (low, high)

    return {
        "rate": rate,
        "rate_interval": None if factors is None else (rate / factors[1], rate / factors[0]),
        "own": own(1.0),
        "even_rent": own(1.0),
        "even_rent_interval": None if factors is None else (own(factors[1]), own(factors[0])),
        "usd_per_million": {name: million(name, 1.0) for name in ("rented", "owned")},
        "usd_per_million_interval": {name: ends(name) for name in ("rented", "owned")},
    }


def resale_at(years: float, share: Assumption, after: Assumption) -> Assumption:
    """Return what a sale at the end of use brings: each year takes the same share of what is left of a price.

    Parameters
    ----------
    share
        What a sale brings, as published.
    after
        After how many years it brings that.
    """
    meaning = f"share of the purchase price that a sale after {years:g} years brings"
    return replace(share, value=share.value ** (years / after.value), meaning=meaning)


def _hosting(rated: float, assumed: Mapping[str, float]) -> float:
    """Return dollars per month of a place for machines that may draw so much."""
    return rated / _KILO * assumed["hosting"]
