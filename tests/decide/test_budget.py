"""What a budget buys: laws, refusals, the verb."""

from __future__ import annotations

import json
from typing import Any

import pytest

import roofsim
from roofsim.cli.app import main
from roofsim.errors import SpecError
from roofsim.report.budget import _below
from roofsim.spec.prices import put_first
from tests.surely import sure

ASKED: dict[str, Any] = {"gpu": ["h100", "a100"], "most": 4, "batch_size": 64, "precision": "bf16-amp"}


def bought(usd, days, **others):
    return roofsim.budget("resnet18", usd=usd, days=days, **(ASKED | others))


def test_more_money_and_more_days_never_buy_less():
    by_money = [sure(bought(usd, 3).best).work for usd in (1, 100, 1e6)]
    assert by_money == sorted(by_money)
    by_days = [sure(bought(1000, days).best).work for days in (0.01, 3, 100)]
    assert by_days == sorted(by_days)


def test_the_budget_is_kept_and_one_side_of_it_is_spent():
    for usd, days in ((1000, 3), (1e6, 1), (5, 30)):
        for one in bought(usd, days).cards:
            assert one.usd <= usd * (1 + 1e-9)
            assert one.days <= days * (1 + 1e-9)
            assert (one.usd, one.days)[one.limited_by == "days"] == pytest.approx(
                (usd, days)[one.limited_by == "days"], rel=1e-9
            )
            assert one.work_low <= one.work <= one.work_high
            assert one.usd == pytest.approx(one.work * one.usd_per_million / 1e6, rel=1e-9)


def test_the_best_does_the_most_and_the_table_begins_with_the_cheapest():
    answer = bought(1000, 3)
    assert sure(answer.best).work == max(one.work for one in answer.cards)
    costs = [one.usd_per_million for one in answer.cards]
    assert costs == sorted(costs)
    for name in answer.rivals:
        rival = next(one for one in answer.cards if one.gpu == name)
        assert rival.work_high > sure(answer.best).work_low


def test_a_price_twice_as_high_buys_half_as_much_of_what_money_limits():
    def at(usd):
        with put_first({"h100-sxm5-80gb": ({"usd": usd, "per": "hour", "kind": "own"},)}):
            return sure(bought(10, 30, gpu="h100", most=1).best)

    assert at(4.0).work == pytest.approx(0.5 * at(2.0).work, rel=1e-9)
    assert at(2.0).price == "your own price"


def test_each_card_costs_the_lowest_price_that_a_cloud_publishes():
    one = next(one for one in bought(1000, 3).cards if one.gpu == "h100-sxm5-80gb")
    assert one.usd / one.days / 24 / one.gpus == pytest.approx(2.69)
    assert one.price == "list price of RunPod, 2026-10"


def test_the_work_is_that_of_a_run():
    one = next(one for one in bought(1000, 3).cards if one.gpu == "a100-sxm4-80gb")
    result = roofsim.run("resnet18", gpu="a100", gpus=one.gpus, batch_size=64, precision="bf16-amp")
    assert one.work == pytest.approx(sure(result.throughput["samples_per_second"]) * one.days * 86400, rel=1e-6)


@pytest.mark.parametrize(("usd", "stated"), [(20, {}), (300, {}), (1e5, {}), (300, {"global_batch_size": 512})])
def test_numbers_that_are_not_priced_would_do_no_more(usd, stated):
    answer = bought(usd, 3, gpu=["h100", "a100", "rtx4090"], most=8, **stated)
    counts = [1, 2, 4, 8]
    for one in answer.cards:
        table = roofsim.sweep(
            "resnet18",
            {"hardware.gpu": [one.gpu], "hardware.gpus": counts},
            batch_size=64,
            precision="bf16-amp",
            **stated,
        )
        hourly = one.usd / one.days / 24 / one.gpus
        most = max(
            float(rate) * min(3.0, usd / hourly / 24 / count) * 86400
            for rate, count in zip(table["throughput.samples_per_second"].ravel(), counts, strict=True)
        )
        assert one.work == pytest.approx(most, rel=0.01)


def test_cards_of_one_node_are_not_spread_over_several_and_said():
    answer = roofsim.budget("resnet18", usd=1e5, days=1, gpu=["rtx4090", "h100"], most=32, batch_size=64)
    assert {one.gpu: one.gpus for one in answer.cards} == {"rtx4090": 8, "h100-sxm5-80gb": 32}
    assert any(note.startswith("rtx4090: no more than one node") for note in answer.notes)


def test_the_largest_model_is_trained_on_what_it_wants():
    answer = roofsim.budget("bert-base", usd=100, days=1, gpu="h100", most=1, sequence_length=512, micro_batch_size=8)
    largest = sure(answer.largest)
    assert largest.wanted == pytest.approx(20 * largest.parameters)
    assert largest.bought.work >= largest.wanted
    assert [one.name for one in answer.assumptions] == ["tokens_per_parameter"]


def test_what_does_not_fit_is_sharded_or_says_so():
    asked: dict[str, Any] = {"gpu": ["h100", "rx6800"], "most": 8, "sequence_length": 8192}
    answer = roofsim.budget({"model": "llama3-8b"}, usd=10_000, days=3, **asked)
    assert sure(answer.best).sharding == "full"
    assert answer.refused["rx6800"] == "no price of an hour is known"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"usd": 0}, "a number above zero"),
        ({"usd": "lots"}, "a number above zero"),
        ({"days": -1}, "a number above zero"),
        ({"days": "nan"}, "a number above zero"),
        ({"gpu": "h1000"}, "unknown gpu 'h1000'"),
        ({"gpu": "8xh100"}, "the name of a card, without a number"),
        (
            {"gpu": "rx6800"},
            "within the budget: no price of an hour of rx6800 is known. State what you pay: --price rx6800=2.50",
        ),
        ({"gpu": ["rx6800", "gaudi3"]}, "no price of an hour of rx6800, gaudi3 is known"),
        (
            {"gpu": ["v100", "p40"], "precision": "fp8"},
            "v100-sxm2-16gb has no peak for fp8.*; nor does it run on p40",
        ),
        (
            {"gpu": ["gaudi3", "p40"], "precision": "fp8"},
            "no price of an hour of gaudi3 is known; p40 has no peak for fp8",
        ),
        ({"tokens_per_parameter": 0}, "a number above zero"),
    ],
)
def test_a_wrong_budget_says_what_is_wrong(asked, message):
    with pytest.raises(SpecError, match=message):
        bought(**({"usd": 100, "days": 1} | asked))


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        ({"model": "lama3-8b"}, "unknown model 'lama3-8b'. Did you mean 'llama3-8b'"),
        ({"model": "llama3-8b", "workload": {"precision": "bf17"}}, "unknown precision 'bf17'. Did you mean 'bf16'"),
        ({"model": "llama3-8b", "workload": {"engine": "vllm"}}, "engine vllm does not run phase train"),
    ],
)
def test_a_wrong_scenario_is_no_matter_of_money(scenario, message):
    with pytest.raises(SpecError, match=message):
        roofsim.budget(scenario, usd=100, days=1)


def test_whose_prices_stand_in_the_table_is_said():
    asked: dict[str, Any] = {"gpu": ["h100", "quadro-rtx8000", "a30"], "most": 1, "precision": "fp16-amp"}
    answer = bought(1000, 3, **asked)
    (line,) = [line for line in _below(answer) if line.startswith("Each card at the lowest list price")]
    assert "at the lowest offer of a marketplace, which comes and goes, where none does: quadro-rtx8000;" in line
    assert "at an old price where no other is known: a30." in line
    assert "your own" not in line
    with put_first({"h100-sxm5-80gb": ({"usd": 2.0, "per": "hour", "kind": "own"},)}):
        (line,) = [line for line in _below(bought(1000, 3, **asked)) if line.startswith("Each card")]
    assert "at your own: h100-sxm5-80gb" in line
    (line,) = [line for line in _below(bought(1000, 3, gpu=["h100", "mi325x"], most=1)) if line.startswith("Each card")]
    assert "marketplace" not in line


def test_the_scenario_and_what_is_assumed_stand_in_the_answer():
    answer = roofsim.budget("resnet18", usd=1000, days=3, gpu="h100", most=4)
    best, data = sure(answer.best), answer.to_dict()
    text = " ".join(str(answer).split())
    assert f"resnet18 · train · {best.gpus} x h100-sxm5-80gb · bf16 · pytorch-eager" in text
    assert "1 image of 224 pixels, 1 micro batch per step, optimizer " in text
    assert "Assumed: phase: train; engine: pytorch-eager; " in text
    assert data["scenario"]["hardware"]["gpus"] == best.gpus
    assert data["scenario"]["workload"]["phase"] == "train"
    assert "phase: train" in data["assumed"]
    rate = float(answer.run.throughput["samples_per_second"] or 0.0)
    assert best.work == pytest.approx(rate * best.days * 86400, rel=1e-6)


def test_what_fits_nowhere_says_what_was_asked():
    text = str(roofsim.budget("llama3-8b", usd=500, days=14, gpu="l4", most=2, micro_batch_size=64))
    assert "no card runs llama3-8b" in text
    assert "64 x 4,096 tokens (default length)" in text
    assert "Left out, does not fit in memory: l4." in text


def test_the_verb_prints_and_writes(capsys, monkeypatch):
    line = "budget resnet18 --usd 1k --days 3 --gpu h100,a100 --most 2 --batch 64"
    printed = []
    for more in ((), ("--json",), ("--csv",)):
        monkeypatch.setattr("sys.argv", ["roofsim", *line.split(), *more])
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code
        printed.append(capsys.readouterr().out)
    assert "1,000 USD and 3 days: " in printed[0]
    assert "roofsim plan resnet18 --gpu" in printed[0]
    assert json.loads(printed[1])["schema"] == "roofsim/budget/1"
    assert printed[2].startswith("gpu,gpus,")


@pytest.mark.parametrize(
    ("words", "message"), [("resnet18 --model resnet18", "both are given"), ("", "neither is given")]
)
def test_the_model_is_named_once(capsys, monkeypatch, words, message):
    said = []
    for named in ("--model resnet18", words):
        monkeypatch.setattr(
            "sys.argv", f"roofsim budget {named} --usd 1k --days 3 --gpu h100 --most 1 --batch 64".split()
        )
        with pytest.raises(SystemExit):
            main()
        said.append("".join(capsys.readouterr()))
    assert "1,000 USD and 3 days: " in said[0]
    assert f"expected a SCENARIO or --model; {message}" in said[1]


def test_what_belongs_to_one_card_is_left_out_and_said():
    """A node, numbers and measurements of the scenario's own card are not true of those that a budget chooses among."""
    plain = bought(1000, 3)
    changed = roofsim.budget("resnet18", usd=1000, days=3, **ASKED, memory__bandwidth="2x")
    assert changed.cards == plain.cards
    assert any("hardware.override" in note and "left out" in note for note in changed.notes)
    assert not any("hardware.override" in note for note in plain.notes)
    assert any("failures" in note for note in plain.notes)


def test_one_gpu_that_has_room_does_not_stand_for_many_that_have_none():
    """Replicas need more memory than a single GPU: gradients are reduced in buffers. Sharded, many fit, and do far more."""
    best = sure(roofsim.budget({"model": "llama3-8b"}, usd=50_000, days=14, gpu=["h100"]).best)
    assert best.gpus > 8
    assert best.sharding == "full"
    assert best.limited_by == "usd"
