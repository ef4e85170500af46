"""Hold each price of the table to what such a card costs: a market fitted without it, and other prices of the same card."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import pytest
import yaml

from roofsim.spec import catalog
from roofsim.spec.hardware.schema import Gpu
from roofsim.spec.reading.validate import validate
from tests.surely import sure

PAGES = yaml.safe_load((catalog.root() / "hardware" / "prices.yaml").read_text(encoding="utf-8"))["pages"]
GPUS = {name: validate(Gpu, catalog.load("gpu", name)) for name in catalog.names("gpu")}

#: How far a price may be from the market of cards of its rate, memory and year. Sellers of one card differ up to 13 times
#: in what they ask for an hour (V100: AWS's list and a market of hosts); a slip of units is a thousand.
OF_MARKET = 10.0
#: The same for nodes that are bought: hosts, network and drives are in the price, and DGX-1 began a line.
OF_BOUGHT_NODES = 20.0
#: How far prices of one card and one kind (lists, offers, launch ...) may be from their median.
OF_KIND = 14.0
#: US dollars of an hour for each TB/s of memory: from the cheapest offer of a GTX (0.09) to AWS's list of an L40S (4.4).
PER_BANDWIDTH = {"hour": (0.03, 12.0), "purchase": (150.0, 60_000.0)}


@dataclass(frozen=True, kw_only=True)
class Paid:
    """A price per card: of a card alone, or of a node over its cards."""

    name: str
    card: str
    per: str
    kind: str
    usd: float

    @property
    def bought_node(self) -> bool:
        return self.per == "purchase" and self.name not in GPUS


def paid(pages: list[dict[str, Any]]) -> list[Paid]:
    """Return both ends of every price of the pages."""
    amounts = []
    for page in pages:
        for name, amount in page["usd"].items():
            node = None if name in GPUS else catalog.load("system", name).data
            card, cards = (name, 1) if node is None else (node["gpu"], node["gpus_per_node"])
            ends = amount if isinstance(amount, list) else [amount]
            amounts += [Paid(name=name, card=card, per=page["per"], kind=page["kind"], usd=end / cards) for end in ends]
    return amounts


def features(price: Paid) -> list[float]:
    """Return what a market pays for: rate of arithmetic, memory, its bandwidth, age; and how it is sold."""
    gpu = GPUS[price.card]
    rate = max(*gpu.vector_peak.values(), gpu.peak.get("fp16", 0.0), gpu.peak.get("bf16", 0.0))
    used = float(price.kind in ("offer", "refurbished"))
    sizes = [math.log(rate), math.log(gpu.memory.capacity), math.log(gpu.memory.bandwidth)]
    return [1.0, *sizes, sure(gpu.year) - 2020.0, float(price.kind == "launch"), used]


def market(price: Paid, others: list[Paid]) -> float:
    """Return what a card costs by the least squares of logarithms over prices of other cards."""
    rows = [other for other in others if other.per == price.per and other.card != price.card and not other.bought_node]
    weights = np.linalg.lstsq(np.array([features(row) for row in rows]), np.log([row.usd for row in rows]), rcond=None)[
        0
    ]
    return float(np.exp(np.array(features(price)) @ weights))


def implausible(pages: list[dict[str, Any]]) -> list[str]:
    """Return a line for each price that no such card costs."""
    prices, doubts = paid(pages), []
    for price in prices:
        same = [one.usd for one in prices if (one.card, one.per, one.kind) == (price.card, price.per, price.kind)]
        low, high = PER_BANDWIDTH[price.per]
        bands = {
            "market": (market(price, prices), OF_BOUGHT_NODES if price.bought_node else OF_MARKET),
            "same card": (median(same), OF_BOUGHT_NODES if price.bought_node else OF_KIND),
            "bandwidth": (math.sqrt(low * high) * GPUS[price.card].memory.bandwidth / 1e12, math.sqrt(high / low)),
        }
        doubts += [
            f"{price.name}: {price.usd:g} USD per {price.per} is {price.usd / middle:.3g} times {middle:.3g} ({which})"
            for which, (middle, factor) in bands.items()
            if not 1.0 / factor <= price.usd / middle <= factor
        ]
    return doubts


def test_prices_are_plausible():
    assert implausible(PAGES) == []


def changed(seller: str, name: str, factor: float) -> list[dict[str, Any]]:
    """Return the table with one price of a seller multiplied."""
    pages = copy.deepcopy(PAGES)
    page = next(page for page in pages if page["seller"] == seller and name in page["usd"])
    amount = page["usd"][name]
    page["usd"][name] = [end * factor for end in amount] if isinstance(amount, list) else amount * factor
    return pages


@pytest.mark.parametrize(
    ("seller", "name", "factor"),
    [
        ("AWS", "h100-sxm5-80gb", 1000.0),  # 6880 USD/h
        ("Vast.ai", "rtx4070", 1000.0),  # 137.8 USD/h
        ("Vast.ai", "rtx4070", 1e-3),
        ("AWS", "aws-p5", 0.01),
        ("NVIDIA", "rtx5090", 0.001),
        ("several sellers", "b200-sxm-180gb", 1000.0),
        ("NVIDIA", "dgx-2", 100.0),
    ],
)
def test_a_slip_of_units_is_noticed(seller, name, factor):
    assert any(line.startswith(f"{name}:") for line in implausible(changed(seller, name, factor)))
