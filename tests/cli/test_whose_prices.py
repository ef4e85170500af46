"""Whose prices answers rest on: a price without a name is that of one card, and prices of several sellers are marked."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

import roofsim
from roofsim.errors import SpecError
from roofsim.plans import planning_tools
from roofsim.search.planning.asked import PlanRequest
from roofsim.search.planning.blocks import SearchInput
from roofsim.spec.prices import forced, in_force, of_market, put_first
from roofsim.spec.scenario.document import load_scenario

RESNET = ("resnet50", "--batch", "64")
SERVED = ("llama3-8b", "--engine", "vllm", "--prompt-length", "1k", "--output-length", "256", "--request-rate", "100")
PLANNED = ("llama3-8b", "--gpus", "8", "--seq-len", "4k", "--engine", "megatron-core", "--top", "2")
DECODE = ("llama3-8b", "--phase", "decode", "--context-length", "1k", "--engine", "vllm", "--batch", "64")
RUNPOD = ("list", "RunPod", "any")
OF_ONE = "expected CARD=USD_PER_HOUR, for example h100=2.50; got '2 USD/h', and the cards are "


# -- a price without a name ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        ("serve", *SERVED, "--gpu", "h100,rtx4090", "--ttft", "500ms"),
        ("serve", *SERVED, "--axis", "gpu=h100,rtx4090", "--ttft", "500ms"),
        ("plan", *PLANNED, "--gpu", "h100,rtx4090"),
        ("plan", *PLANNED, "--axis", "hardware.gpu=h100,rtx4090"),
        ("plan", *SERVED, "--gpu", "h100,rtx4090", "--ttft", "500ms"),
        ("sweep", *RESNET, "--axis", "gpu=h100,rtx4090", "--json"),
        ("sweep", *RESNET, "--axis", "system=dgx-h100,workstation-2x-rtx4090"),
        ("budget", "resnet50", "--usd", "500", "--days", "1", "--gpu", "h100,rtx4090"),
        ("diff", "resnet50", "resnet18", "--gpu", "h100,rtx4090"),
    ],
)
def test_where_cards_are_several_it_is_refused_as_compare_does(cli, command):
    said = cli(*command, "--price", "2", code=2)
    assert f"{OF_ONE}h100-sxm5-80gb, rtx4090. " in said
    assert "--price h100-sxm5-80gb=2." in said


def test_python_refuses_it_too():
    with pytest.raises(SpecError, match="expected CARD=USD_PER_HOUR"):
        roofsim.compare("resnet50", ["h100", "a100"], price__hourly=2.0, batch=4)
    with pytest.raises(SpecError, match="the cards are its own, h100-sxm5-80gb"):
        roofsim.sweep("resnet50", {"gpu": [None, "h100"]}, price__hourly=2.0, gpu="a100", batch=4)
    table = roofsim.sweep(
        "resnet50", {"gpu": ["h100", "a100"], "price.hourly": [1.0, 2.0]}, batch=4, figures=("cost.usd_per_hour",)
    )
    assert sorted(row["cost.usd_per_hour"] for row in table.to_rows()) == [1.0, 1.0, 2.0, 2.0]


@pytest.mark.parametrize("change", ["gpu=a100", "gpu=a100,batch=32"])
def test_a_card_that_takes_the_place_of_another_has_its_own_price(cli, change):
    answer = json.loads(cli("whatif", *RESNET, "--gpu", "h100", "--price", "2", "--set", change, "--json"))
    assert answer["before"]["cost"]["price"] == "your own price"
    assert answer["after"]["cost"]["price"] == "list price of AWS in us-east, 2026-10"
    assert answer["price_comparable"] is False
    changed = json.loads(cli("whatif", *RESNET, "--gpu", "h100", "--price", "2", "--set", "tdp=-10%", "--json"))
    assert changed["after"]["cost"]["price"] == "your own price"
    both = f"{change},price.hourly=1 USD/h"
    stated = json.loads(cli("whatif", *RESNET, "--gpu", "h100", "--price", "2", "--set", both, "--json"))
    assert (stated["after"]["cost"]["usd_per_hour"], stated["after"]["cost"]["price"]) == (1.0, "your own price")


def test_a_node_with_another_card_has_its_own_price():
    base = {"model": "resnet50", "workload": {"batch": 4}, "hardware": {"system": "dgx-h100"}}
    answer = roofsim.whatif(base, {"hardware.system": "dgx-a100"}, price__hourly="2 USD/h")
    assert [one.quote.words() for one in answer.prices] == ["your own price", "list price of AWS in us-east, 2026-10"]


def test_a_budget_for_one_card_is_spent_at_it(cli):
    asked = ("budget", "--usd", "500", "--days", "14", "--model", "llama3-8b", "--gpu", "h100", "--json")
    bare, named = (json.loads(cli(*asked, "--price", price)) for price in ("2", "h100=2"))
    assert bare["best"]["price"] == "your own price"
    assert bare["cards"] == named["cards"]
    assert bare["notes"] == named["notes"]


def test_what_reaches_a_target_has_it_at_its_own_card_alone():
    answer = roofsim.need(
        "llama3-8b", cost=0.2, gpu="h100", phase="decode", context_length=1024, engine="vllm", batch=64,
        price__hourly="2 USD/h",
    )  # fmt: skip
    own = [card for card in answer.cards if card.price == "your own price"]
    assert [(card.gpu, card.usd_per_hour, card.comparable) for card in own] == [("h100-sxm5-80gb", 2.0, True)]
    assert not any(card.comparable for card in answer.cards if card not in own)


# -- whose prices -------------------------------------------------------------------------------------------------------


def test_cards_with_a_common_seller_are_compared_at_its_prices(cli):
    answer = json.loads(cli("whatif", *RESNET, "--gpu", "h100", "--set", "gpu=mi300x", "--json"))
    assert [one["price_seller"] for one in answer["prices"]] == ["RunPod", "RunPod"]
    assert all(one["comparable"] and one["price_source"] and one["price_date"] for one in answer["prices"])
    plan = json.loads(cli("plan", *PLANNED, "--gpu", "h100,mi300x", "--objective", "cost", "--json"))
    assert {one["price_seller"] for one in plan["prices"]} == {"RunPod"}
    assert all(one["price_comparable"] for one in (*plan["top"], *plan["front"]))
    served = json.loads(cli("serve", *SERVED, "--gpu", "h100,mi300x", "--ttft", "500ms", "--json"))
    assert {one["price_seller"] for one in served["prices"]} == {"RunPod"}


def test_the_job_of_a_plan_costs_what_its_table_says(cli):
    answer = json.loads(cli("plan", *PLANNED, "--gpu", "h100,mi300x", "--tokens", "1e9", "--json"))
    best, costs = answer["top"][0], answer["job"]
    assert costs[0]["usd"][1] == pytest.approx(1000.0 * best["usd_per_million_tokens"], rel=0.05)


@pytest.mark.parametrize(
    "command",
    [
        ("whatif", *RESNET, "--gpu", "v100", "--set", "gpu=rtx-a5000", "--also", "gpu=v100-sxm2-32gb"),
        (
            "plan",
            *PLANNED,
            "--gpu",
            "v100,v100-sxm2-32gb",
            "--precision",
            "fp16",
            "--gpus",
            "64",
            "--objective",
            "cost",
        ),
        ("serve", *SERVED, "--gpu", "h100,v100-sxm2-32gb", "--precision", "fp16", "--ttft", "5s", "--tpot", "100ms"),
    ],
)
def test_other_sellers_and_old_prices_are_marked(cli, command, tmp_path):
    page = tmp_path / "page.html"
    said = " ".join(cli(*command, "--html", page).split())
    line = said[said.index("Prices of an hour: ") :].partition("compare with care.")[0]
    assert "AWS in us-east, 2026-" in line
    assert "RunPod, 2025-05, more than 18 months old" in line
    assert " * " in line
    assert re.search(r"\d\* ", said)  # in cells
    text = page.read_text(encoding="utf-8")
    assert "Prices of an hour: " in text
    assert "compare with care." in text
    answer = json.loads(cli(*command, "--json"))
    assert {one["comparable"] for one in answer["prices"]} == {True, False}
    assert any(one["price_old"] for one in answer["prices"])


def test_a_ratio_of_costs_says_that_prices_are_of_other_markets(cli):
    said = " ".join(cli("whatif", *RESNET, "--gpu", "v100", "--set", "gpu=v100-sxm2-32gb").split())
    assert "times the dollars per image (*: at a price of another market)." in said


def test_one_price_is_one_line(cli):
    said = cli("whatif", *RESNET, "--gpu", "h100", "--set", "memory.bandwidth=2x")
    assert "Prices of an hour: list price of AWS in us-east, 2026-10.\n" in said


# -- a target of cost ---------------------------------------------------------------------------------------------------


def test_a_target_of_cost_says_the_price_that_it_rests_on(cli, tmp_path):
    page = tmp_path / "page.html"
    said = " ".join(cli("need", *DECODE, "--gpu", "h100", "--cost", "0.2", "--html", page).split())
    assert "At 6.88 USD/h (list price of AWS in us-east, 2026-10; 14 prices known, 2.14 to 12.29 USD/h)" in said
    assert "which is held while a resource grows" in said
    assert "* not the market of h100-sxm5-80gb (list price of AWS in us-east, 2026-10): compare with care." in said
    assert "0.16* list price of RunPod" in said
    assert "rtx-a5000, 0.16 USD/h (list price of RunPod, 2026-10)." in said
    assert "which is held while a resource grows" in page.read_text(encoding="utf-8")
    answer = json.loads(cli("need", *DECODE, "--gpu", "h100", "--cost", "0.2", "--json"))
    assert answer["price_held"] is True
    assert answer["prices"][0]["price_seller"] == "AWS"
    assert {card["price_comparable"] for card in answer["cards"]} == {False}
    assert "which is held" not in cli("need", *DECODE, "--gpu", "h100", "--step-time", "6ms")


# -- what is in force ---------------------------------------------------------------------------------------------------


def test_workers_and_kept_searches_see_the_prices_of_whoever_asks():
    own = {"h100-sxm5-80gb": ({"usd": 2.0, "per": "hour", "kind": "own"},)}
    with put_first(own), of_market(RUNPOD):
        force = in_force()
        asked = PlanRequest.of(8, "h100", "cost", (), {}, ())
        document = load_scenario({"model": "llama3-8b"}, {})
        given = SearchInput(document=document, asked=asked, tools=planning_tools(), k=1, cuts=True)
    assert given.prices == force != in_force()
    with forced(force):
        assert roofsim.run("resnet18", gpu="h100", batch=4).cost["price"] == "your own price"
        assert roofsim.run("resnet18", gpu="a100", batch=4).cost["price_seller"] == "RunPod"
    assert roofsim.run("resnet18", gpu="a100", batch=4).cost["price_seller"] == "AWS"


def test_two_plans_in_one_process_have_prices_of_their_own():
    def cost() -> float:
        options: dict[str, Any] = {"gpu": "h100", "gpus": 8, "objective": "cost", "top": 1, "engine": "megatron-core"}
        best = roofsim.plan("llama3-8b", sequence_length=4096, **options).best
        return float(best.cost)

    usual = cost()
    with put_first({"h100-sxm5-80gb": ({"usd": 0.688, "per": "hour", "kind": "own"},)}):
        assert cost() == pytest.approx(0.1 * usual)


def test_two_cards_are_named_and_priced_at_one_seller(tmp_path, cli):
    files = {}
    for gpu in ("h100", "mi300x"):
        files[gpu] = tmp_path / f"{gpu}.yaml"
        document = {"model": "resnet50", "workload": {"batch_size": 8}, "hardware": {"gpu": gpu}}
        files[gpu].write_text(yaml.safe_dump(document), encoding="utf-8")
    asked = ("diff", str(files["h100"]), str(files["mi300x"]))
    said = cli(*asked)
    assert "on h100-sxm5-80gb -> mi300x" in said
    assert "Prices of an hour: list price of RunPod" in said
    (plain,) = json.loads(cli(*asked, "--json"))["comparisons"]
    assert (plain["gpu_before"], plain["gpu"]) == ("h100-sxm5-80gb", "mi300x")
    assert [one["price_seller"] for one in plain["prices"]] == ["RunPod"] * 2
    refused = cli(*asked, "--price", "3", code=2)
    assert "A price without a name is that of one card: --price h100-sxm5-80gb=3." in refused
    assert "your own price" in cli(*asked, "--price", "h100=3", "--price", "mi300x=2")
    hardware = {"gpu": "h100", "override": {"gpu.tdp": "600 W"}}
    document = {"model": "resnet50", "workload": {"batch_size": 8}, "hardware": hardware}
    files["h100"].write_text(yaml.safe_dump(document), encoding="utf-8")
    assert "--price h100-sxm5-80gb=3." in cli(*asked, "--price", "3", code=2)  # another number of the card is no price


def test_each_scenario_may_state_its_own_price(tmp_path, cli):
    asked = []
    for gpu in ("h100", "mi300x"):
        hardware = {"gpu": gpu, "override": {"gpu.price.hourly": "3 USD/h"}}
        asked.append(tmp_path / f"{gpu}.yaml")
        document = {"model": "resnet50", "workload": {"batch_size": 8}, "hardware": hardware}
        asked[-1].write_text(yaml.safe_dump(document), encoding="utf-8")
    (plain,) = json.loads(cli("diff", *map(str, asked), "--json"))["comparisons"]
    assert {one["usd_per_hour"] for one in plain["prices"]} == {3.0}


def test_a_sweep_of_costs_says_whose_prices_they_rest_on(cli):
    asked = ("sweep", *RESNET, "--figure", "cost.usd_per_million_images")
    assert "prices of an hour: list price of AWS in us-east, 2026-10\n" in cli(*asked, "--axis", "gpu=h100,a100")
    several = " ".join(cli(*asked, "--axis", "gpu=h100,rtx4090").split())
    assert "prices of an hour: list price of AWS in us-east, 2026-10; list price of RunPod, 2026-10" in several
    assert "prices of several markets, each point as `run` has it: compare with care" in several
    rows = json.loads(cli(*asked, "--axis", "gpu=h100,rtx4090", "--json"))["rows"]
    assert [row["cost.price_seller"] for row in rows] == ["AWS", "RunPod"]
    assert "prices of an hour" not in cli("sweep", *RESNET, "--axis", "gpu=h100,rtx4090")
