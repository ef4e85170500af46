"""Prices: what kind they are, which can be compared, whose counts, and those that a user states."""

from __future__ import annotations

import pytest

import roofsim
from roofsim.analyze.money import quote_of
from roofsim.errors import SpecError, UnknownNameError
from roofsim.spec import catalog
from roofsim.spec.hardware.schema import Gpu, System
from roofsim.spec.own_prices import own_prices, price_settings
from roofsim.spec.reading.validate import validate
from roofsim.spec.settle.cards import read_cards

SMALL = {"model": "resnet18", "workload": {"phase": "forward", "batch_size": 4, "precision": "fp16"}}
ENTRIES = [("gpu", Gpu, name) for name in catalog.names("gpu")] + [
    ("system", System, name) for name in catalog.names("system")
]


def entry(kind, schema, name):
    return validate(schema, catalog.load(kind, name))


@pytest.mark.parametrize(("kind", "schema", "name"), ENTRIES, ids=lambda part: part if isinstance(part, str) else "")
def test_prices_say_what_their_source_says(kind, schema, name):
    hardware = entry(kind, schema, name)
    source = hardware.sources.get("price.hourly", "")
    if hardware.price.hourly is not None:
        assert hardware.price.hourly_seller, "every price has somebody who asks it"
        assert hardware.price.hourly_kind != "own"
        assert (hardware.price.hourly_kind == "offer") == ("offer" in source)
        assert ("on-demand list price" in source) <= (hardware.price.hourly_kind == "list")
        assert ("us-east" in source) == (hardware.price.hourly_region == "us-east")
    assert ("launch" in hardware.sources.get("price.purchase", "")) == (hardware.price.purchase_kind == "launch")


def quote(gpu, system, gpus):
    return quote_of(entry("gpu", Gpu, gpu), entry("system", System, system), gpus)


def test_whole_nodes_cost_what_the_node_costs():
    alone, whole = quote("a10g", "aws-g5-48xlarge", 1), quote("a10g", "aws-g5-48xlarge", 8)
    assert alone.per_gpu == pytest.approx(1.006)
    assert whole.per_gpu == pytest.approx(16.288 / 8)


def test_another_clouds_node_has_its_own_price():
    azure, usual = quote("h100-sxm5-80gb", "azure-nd-h100-v5", 1), quote("h100-sxm5-80gb", "dgx-h100", 8)
    assert (azure.seller, azure.per_gpu) == ("Azure", pytest.approx(98.32 / 8))
    assert (usual.seller, usual.per_gpu) == ("AWS", pytest.approx(6.88))
    assert azure.source == "recalled, not checked against a second source"


def test_only_prices_of_one_kind_and_seller_share_a_market():
    aws, other = quote("a100-sxm4-80gb", "dgx-a100", 1), quote("h100-sxm5-80gb", "dgx-h100", 1)
    offer, one_offer = quote("rtx4090", "workstation-4x-rtx4090", 1), quote("mi300x", "platform-8x-mi300x", 1)
    unsaid = quote("v100-sxm2-32gb", "aws-p3dn", 1)
    assert aws.market == other.market
    assert len({aws.market, offer.market, one_offer.market}) == 3
    assert unsaid.market is None


def test_a_result_says_whose_price_it_is():
    cost = roofsim.run(SMALL, gpu="a100").cost
    assert (cost["price_kind"], cost["price_seller"], cost["price_region"]) == ("list", "AWS", "us-east")
    assert cost["price"] == "list price of AWS in us-east, 2025-06"
    assert "public cost tables" in cost["price_source"]


@pytest.mark.parametrize("amount", [2.5, 3, "2.50", "2.50 USD/h", "$2.5", "$2.50/h", "250 USD/h"])
def test_an_amount_is_dollars_per_hour(amount):
    (price,) = own_prices({"h100": amount}, read_cards("8xh100"))
    assert price.hourly in (2.5, 3.0, 250.0)


@pytest.mark.parametrize(
    ("prices", "message"),
    [
        ({"h1000": 2}, r"unknown gpu 'h1000'. Did you mean 'h100'"),
        (
            {"h200": 2},
            r"h200 stands for h200-sxm-141gb, which is not compared. Compared: a100-sxm4-80gb, h100-sxm5-80gb",
        ),
        ({"8xh100": 2}, r"expected the name of one card"),
        ({"h100,a100": 2}, r"expected the name of one card"),
        ({"h100": 0}, r"dollars per hour above zero for h100"),
        ({"h100": -1}, r"dollars per hour above zero"),
        ({"h100": "free"}, r"dollars per hour above zero"),
        ({"h100": "nan"}, r"dollars per hour above zero"),
        ({"h100": "inf"}, r"dollars per hour above zero"),
        ({"h100": True}, r"dollars per hour above zero"),
        ({"h100": "2.5 EUR/h"}, r"dollars per hour above zero"),
    ],
)
def test_a_wrong_price_says_so(prices, message):
    with pytest.raises(SpecError, match=message):
        own_prices(prices, read_cards("a100,h100"))
    if "unknown" in message:
        with pytest.raises(UnknownNameError):
            own_prices(prices, read_cards("a100"))


def test_settings_are_names_and_amounts():
    assert price_settings(["h100=2.50, a100=1.8", "a100{tdp=2x,memory.bandwidth=2x}=3"]) == {
        "h100": "2.50", "a100": "1.8", "a100{tdp=2x,memory.bandwidth=2x}": "3",
    }  # fmt: skip
    for text in ("h100", "h100=", "=2"):
        with pytest.raises(SpecError, match=r"expected CARD=USD_PER_HOUR, for example h100=2\.50"):
            price_settings([text])
    with pytest.raises(SpecError, match="two prices"):
        price_settings(["h100=1", "h100=2"])
