"""Say what a market of real cards asks for one percent more of a resource: a regression over the catalog's prices."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.records import dataclass
from roofsim.spec import catalog
from roofsim.spec.hardware.schema import Gpu
from roofsim.spec.reading.validate import validate

if TYPE_CHECKING:
    from roofsim.numeric import Array

#: What the price of a card is taken to depend on, where a job computes on matrix units.
RESOURCES: Final = ("memory_bandwidth", "tensor_flops", "memory_capacity")
#: The rate of arithmetic of ordinary units, which takes the place of that of matrix units where a job depends more on it.
_ORDINARY: Final = "vector_flops"
#: Number format of the peak of cards, where matrix units do not take that of a job; and that in which ordinary units compute.
_USUAL: Final = "fp16"
_OF_ORDINARY: Final = "fp32"
#: Cards beyond those that the fit itself takes, below which a market says nothing.
_FREE: Final = 4
#: Cards of a seller from which its level of prices is known.
_LEVEL: Final = 3


@dataclass(frozen=True, kw_only=True)
class Market:
    """What cards cost: the price of an hour as a product of powers of what they have.

    Attributes
    ----------
    kind
        ``hourly`` or ``purchase``: which prices.
    cards
        How many prices it rests on.
    exponents, errors
        Resource -> percent of the price for one percent more of it, all else equal, and the standard error of that.
    scatter
        Standard deviation of the logarithm of a price around the fit.
    """

    kind: str
    cards: int
    exponents: dict[str, float]
    errors: dict[str, float]
    scatter: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return dict(self.__dict__)


def peak_of(gpu: Gpu, compute: str, math_type: str) -> float:
    """Return the peak of a rate of arithmetic: of matrix units in a number format, or of ordinary ones in FP32; 0 of none."""
    if compute == _ORDINARY:
        return float(gpu.vector_peak.get(_OF_ORDINARY, 0.0))
    return float(gpu.peak.get(math_type, 0.0))


def key_of(compute: str, math_type: str) -> str:
    """Return the key of a card that states the peak of a rate of arithmetic."""
    return f"vector_peak.{_OF_ORDINARY}" if compute == _ORDINARY else f"peak.{math_type}"


def market_of(math_type: str, compute: str = "tensor_flops") -> Market | None:
    """Return the market of cards by what they have; None where there are too few prices.

    Prices of an hour, else purchase prices. Their logarithms are fitted by least squares to those of memory bandwidth, of the dense
    peak of a number format (of 16 bits, where matrix units do not take it) and of memory capacity, with a level of
    its own for each kind of price and seller: list prices of an hour are several times what marketplaces ask. Old prices are left
    out, and sellers of few cards. Prices of one card err alike: standard errors are those of as many prices as there are cards.

    Parameters
    ----------
    compute
        Which rate of arithmetic: ``tensor_flops``, or ``vector_flops`` in FP32.
    """
    for kind in ("hourly", "purchase"):
        for peak in (math_type, _USUAL):
            market = _fitted(kind, peak, compute)
            if market is not None:
                return market
    return None


def _fitted(kind: str, math_type: str, compute: str) -> Market | None:
    per = {"hourly": "hour", "purchase": "purchase"}[kind]
    rows: list[tuple[float, tuple[float, ...], str]] = []
    for name in catalog.names("gpu"):
        gpu = validate(Gpu, catalog.load("gpu", name))
        peak = peak_of(gpu, compute, math_type)
        offers = [offer for offer in gpu.price.offers if offer.per == per and not offer.old and peak]
        own = gpu.memory.bandwidth, peak, gpu.memory.capacity
        rows += [(offer.middle, tuple(map(float, own)), f"{offer.kind} of {offer.seller}") for offer in offers]
    sellers = Counter(row[2] for row in rows)
    rows = [row for row in rows if sellers[row[2]] >= _LEVEL]
    alike = len(rows) / max(len({row[1] for row in rows}), 1)
    levels = sorted({row[2] for row in rows})
    if len(rows) < len(RESOURCES) + len(levels) + _FREE:
        return None
    prices = np.log([row[0] for row in rows])
    amounts = np.array([[*map(math.log, row[1]), *(float(row[2] == level) for level in levels)] for row in rows])
    fit, errors, scatter = least_squares(amounts, prices)
    names = [compute if name == RESOURCES[1] else name for name in RESOURCES]
    named = zip(names, fit, errors, strict=False)
    exponents, spread = {}, {}
    for resource, value, error in named:
        exponents[resource], spread[resource] = float(value), float(error) * math.sqrt(alike)
    return Market(kind=kind, cards=len(rows), exponents=exponents, errors=spread, scatter=scatter)


def least_squares(amounts: Array, values: Array) -> tuple[Array, Array, float]:
    """Return coefficients, their standard errors, and the standard deviation of what is left."""
    fit: Array = np.asarray(np.linalg.lstsq(amounts, values, rcond=None)[0], dtype=np.float64)
    left = values - amounts @ fit
    variance = float(left @ left) / (len(values) - amounts.shape[1])
    errors: Array = np.sqrt(np.maximum(np.diag(np.linalg.pinv(amounts.T @ amounts)), 0.0) * variance)
    return fit, errors, math.sqrt(variance)
