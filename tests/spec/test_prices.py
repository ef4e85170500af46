"""Prices: what kind they are, which can be compared, whose counts, and those that a user states."""

from __future__ import annotations

import collections
import datetime

import pytest
import yaml

import roofsim
from roofsim.analyze.money import quote_of
from roofsim.errors import SpecError, UnknownNameError
from roofsim.spec import catalog
from roofsim.spec.hardware.price import Offer, Quote, ends_of
from roofsim.spec.hardware.schema import Gpu, System
from roofsim.spec.own_prices import own_prices, price_settings, stated_prices
from roofsim.spec.price_file import read_price_file
from roofsim.spec.prices import OLD_AFTER, is_old, put_first
from roofsim.spec.reading.source import read_yaml
from roofsim.spec.reading.validate import validate
from roofsim.spec.settle.cards import read_cards
from tests.surely import sure

SMALL = {"model": "resnet18", "workload": {"phase": "forward", "batch_size": 4, "precision": "fp16"}}
ENTRIES = [("gpu", Gpu, name) for name in catalog.names("gpu")] + [
    ("system", System, name) for name in catalog.names("system")
]


def entry(kind, schema, name):
    return validate(schema, catalog.load(kind, name))


TABLE = catalog.root() / "hardware" / "prices.yaml"
PAGES = yaml.safe_load(TABLE.read_text(encoding="utf-8"))["pages"]
CARDS = {name: name for kind in ("gpu", "system") for name in catalog.names(kind)}


def test_the_table_of_prices_is_a_price_file():
    assert set(read_price_file(TABLE)) <= set(CARDS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page['seller']}-{page['per']}-{page['date']}"[:40])
def test_every_price_says_whose_it_is_what_kind_of_when_and_from_where(page):
    assert page["seller"]
    assert (
        page["kind"]
        in {"hour": ("list", "offer"), "purchase": ("launch", "list", "retail", "refurbished")}[page["per"]]
    )
    assert page["source"]
    assert page["region"]
    assert "recalled" not in page["source"]
    date = str(page["date"])
    assert page.get("old", False) == is_old(date, datetime.date.today()), (
        f"{page['source']}: of {date}; a price of more than {OLD_AFTER} months ago says old: true"
    )
    assert ("list price" in page["source"]) <= (page["kind"] == "list" or "not comparable" in page["source"])


def test_a_page_states_each_seller_and_market_of_a_card_once():
    seen = collections.Counter(
        (name, page["per"], page["kind"], page["seller"], page.get("region"), page["source"])
        for page in PAGES
        for name in page["usd"]
    )
    assert [key for key, times in seen.items() if times > 1] == []


def test_a_third_of_the_cards_has_a_price_of_an_hour():
    priced, cards = {name for page in PAGES if page["per"] == "hour" for name in page["usd"]}, set(catalog.names("gpu"))
    assert 3 * len(priced & cards) >= len(cards)


def test_no_card_states_prices_beside_the_table():
    for kind, schema, name in ENTRIES:
        assert "price" not in read_yaml(catalog.names(kind)[name]).data, name
        entry(kind, schema, name)


@pytest.mark.parametrize(
    ("date", "old"),
    [
        ("2025-04", True),
        ("2025-05", True),
        ("2025-05-23", False),
        ("2025-05-22", True),
        ("2025-06", False),
        ("2025", True),
        ("2026", False),
    ],
)
def test_a_price_is_old_after_eighteen_months(date, old):
    assert is_old(date, datetime.date(2026, 11, 23)) is old


def test_several_prices_give_a_range_and_old_ones_do_not_widen_it():
    h100 = sure(quote("h100-sxm5-80gb", "dgx-h100", 1))
    assert h100.known >= 10
    assert sure(h100.low) < h100.per_gpu < sure(h100.high)
    offers = [
        Offer(usd=1.0, per="hour", old=True), Offer(usd=2.0, usd_high=2.5, per="hour"), Offer(usd=3.0, per="hour"),
    ]  # fmt: skip
    assert ends_of(offers) == (2.0, 3.0, 2)
    assert ends_of(offers[:1]) == (1.0, 1.0, 1)
    assert ends_of([]) is None


def test_a_result_has_the_range_for_all_its_cards():
    one, eight = roofsim.run(SMALL, gpu="h100").cost, roofsim.run(SMALL, gpu="h100", gpus=8).cost
    for end in ("usd_per_hour_low", "usd_per_hour_high"):
        assert eight[end] == pytest.approx(8 * one[end])
    assert one["prices_known"] == eight["prices_known"] >= 10


def test_an_old_price_says_so():
    cost = roofsim.run(SMALL, gpu="a30").cost
    assert cost["price_old"] is True
    assert cost["price"].endswith("2025-05, more than 18 months old")


def test_own_prices_go_first_while_they_last():
    own = stated_prices(["h100=2.5"])
    before = roofsim.run(SMALL, gpu="h100").cost["usd_per_hour"]
    with put_first(own) as asked:
        cost = roofsim.run(SMALL, gpu="h100", gpus=2).cost
        assert roofsim.run(SMALL, gpu="a100").cost["price_seller"] == "AWS"
    assert (cost["usd_per_hour"], cost["price"]) == (5.0, "your own price")
    assert asked == {"h100-sxm5-80gb"}
    assert roofsim.run(SMALL, gpu="h100").cost["usd_per_hour"] == before


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e5])
def test_dollars_scale_with_the_price(scale):
    with put_first({"h100-sxm5-80gb": ({"usd": 2.5 * scale, "per": "hour", "kind": "own"},)}):
        cost = roofsim.run(SMALL, gpu="h100").cost
    with put_first(stated_prices(["h100=2.5"])):
        base = roofsim.run(SMALL, gpu="h100").cost
    for key in ("usd_per_hour", "usd_per_million_images"):
        assert cost[key] == pytest.approx(scale * base[key], rel=1e-9)


def test_a_price_file_is_lines_or_pages(tmp_path):
    lines, pages = tmp_path / "lines.yaml", tmp_path / "pages.yaml"
    lines.write_text("h100: 2.5\na100: [1.0, 2.0]\n")
    pages.write_text(
        "pages:\n- {seller: us, kind: list, date: 2026-01, usd: {dgx-h100: 20}}\n- {per: purchase, usd: {h100: 25000}}\n"
    )
    assert read_price_file(lines)["a100-sxm4-80gb"] == (
        {"per": "hour", "kind": "own", "old": False, "usd": 1.0, "usd_high": 2.0},
    )
    read = read_price_file(pages)
    assert read["dgx-h100"][0]["seller"] == "us"
    assert read["h100-sxm5-80gb"][0]["per"] == "purchase"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("h100: 0\n", "dollars above zero, or .low, high., for h100; got '0'"),
        ("h100: -1\n", "dollars above zero"),
        ("h100: [3, 2]\n", "the lower price of h100 first"),
        ("h100: true\n", "dollars above zero"),
        ("h100: 1.e+10\n", "dollars above zero"),
        ("h1000: 2\n", "unknown gpu 'h1000'. Did you mean 'h100'"),
        ("v1000: 2\n", "unknown gpu 'v1000'. Did you mean 'v100'"),
        ("dgx-h10: 2\n", "unknown gpu 'dgx-h10'. Did you mean 'dgx-h100'"),
        ("tpu-v99: 2\n", "unknown gpu 'tpu-v99'. "),
        ("- 2\n", "expected a mapping"),
        ("pages: [{usd: {h100: 2}, per: day}]\n", "per"),
    ],
)
def test_a_wrong_price_file_says_what_is_wrong(tmp_path, written, message):
    file = tmp_path / "own.yaml"
    file.write_text(written)
    with pytest.raises(SpecError, match=message):
        read_price_file(file)


def quote(gpu, system, gpus):
    return quote_of(entry("gpu", Gpu, gpu), entry("system", System, system), gpus)


def test_whole_nodes_cost_what_the_node_costs():
    alone, whole = quote("a10g", "aws-g5-48xlarge", 1), quote("a10g", "aws-g5-48xlarge", 8)
    assert alone.per_gpu == pytest.approx(1.006)
    assert whole.per_gpu == pytest.approx(16.288 / 8)


def test_another_clouds_node_has_its_own_price():
    azure, usual = (quote("h100-sxm5-80gb", node, gpus) for node, gpus in (("azure-nd-h100-v5", 1), ("dgx-h100", 8)))
    assert (azure.seller, azure.per_gpu) == ("Azure", pytest.approx(98.32 / 8))
    assert (usual.seller, usual.per_gpu) == ("AWS", pytest.approx(6.88))
    assert "data-receipts" in azure.source


def test_only_prices_of_one_kind_and_seller_share_a_market():
    aws, other = quote("a100-sxm4-80gb", "dgx-a100", 1), quote("h100-sxm5-80gb", "dgx-h100", 1)
    other_list, offer = quote("rtx4090", "workstation-4x-rtx4090", 1), quote("p40", "server-pcie3", 1)
    assert aws.market == other.market
    assert len({aws.market, other_list.market, offer.market}) == 3
    assert Quote(per_gpu=1.0, seller="AWS").market is None


def test_a_result_says_whose_price_it_is():
    cost = roofsim.run(SMALL, gpu="a100").cost
    assert (cost["price_kind"], cost["price_seller"], cost["price_region"]) == ("list", "AWS", "us-east")
    assert cost["price"] == "list price of AWS in us-east, 2026-10"
    assert "on-demand list price" in cost["price_source"]


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
