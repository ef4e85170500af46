"""Say what one percent more speed costs through each resource, at what a market of cards asks for more of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from roofsim.decide.jobs import mixed
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from roofsim.decide.jobs import Job
    from roofsim.decide.market import Market

#: Elasticity below which more of a resource is taken to buy nothing.
NOTHING: Final = 0.02
#: Speed that twice as much of a resource must buy to be worth something.
IDLE: Final = 0.05
#: Standard errors to the end of an 80 % interval.
END: Final = 1.2816


@dataclass(frozen=True, kw_only=True)
class Marginal:
    """What one percent more speed costs through one resource.

    Attributes
    ----------
    elasticity
        Percent of speed for one percent more of it.
    percent
        Percent of the price of the card; None where more of it buys nothing, or no market prices it.
    low, high
        Ends of the 80 % interval of `percent`, from the error of the market's fit.
    usd
        The same in dollars per hour of all GPUs; None where their price is not known.
    doubled
        More speed as a share with twice as much of it alone.
    """

    resource: str
    elasticity: float
    percent: float | None
    low: float | None
    high: float | None
    usd: float | None
    doubled: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return dict(self.__dict__)


#: Rates of arithmetic: of matrix units, and of ordinary ones.
COMPUTE: Final = ("tensor_flops", "vector_flops")


def compute_of(elasticity: Mapping[str, float]) -> str:
    """Return the rate of arithmetic that a step depends on more: that of matrix units, or of ordinary ones."""
    return max(COMPUTE, key=lambda rate: -elasticity.get(rate, 0.0))


def price_of_speed(speed: float, market: Market | None, resource: str) -> tuple[float, float, float] | None:
    """Return what 1 % more speed through a resource costs in percent of a card's price, and the ends of its 80 % interval.

    None where more of the resource buys nothing (`speed`: percent of speed for 1 % more of it), or no market prices it.
    """
    if market is None or speed < NOTHING or resource not in market.exponents:
        return None
    exponent, error = market.exponents[resource], market.errors[resource]
    percent, low, high = (max(one, 0.0) / speed for one in (exponent, exponent - END * error, exponent + END * error))
    return percent, low, high


def offers_of(elasticity: Mapping[str, float], market: Market | None) -> list[dict[str, Any]]:
    """Return the price of 1 % more speed through memory bandwidth and through compute, as plain data."""
    offers = []
    for resource in ("memory_bandwidth", compute_of(elasticity)):
        speed = -elasticity.get(resource, 0.0)
        percent, low, high = price_of_speed(speed, market, resource) or (None, None, None)
        offers.append({"resource": resource, "elasticity": speed, "percent": percent, "low": low, "high": high})
    return offers


def marginals(jobs: Sequence[Job], elasticity: dict[str, float], market: Market | None) -> tuple[Marginal, ...]:
    """Return the price of one percent more speed through memory bandwidth and through compute, the cheaper first."""
    hourly = jobs[0].asking.before.cost["usd_per_hour"]
    costs = []
    for offer in offers_of(elasticity, market):
        percent = offer["percent"]
        costs.append(
            Marginal(
                **offer,
                usd=None if percent is None or hourly is None else percent / 100.0 * float(hourly),
                doubled=doubled(jobs, offer["resource"]),
            )
        )
    return tuple(sorted(costs, key=lambda one: math.inf if one.percent is None else one.percent))


def doubled(jobs: Sequence[Job], *rates: str) -> float:
    """Return the share of speed that twice as much of rates buys, together."""
    from roofsim.cost.scales import Scales

    ratios = [
        float(job.asking.evaluation.step.step)
        / float(job.asking.evaluation.reprice(Scales(**dict.fromkeys(rates, 2.0))).step)
        for job in jobs
    ]
    return mixed(jobs, ratios) - 1.0
