"""Targets: what reaches them equals bisection, what cannot says the floor, and what is wrong with a request is said."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import roofsim
from roofsim.analyze.sensitivity import elasticities
from roofsim.cost.scales import Scales
from roofsim.decide.market import market_of
from roofsim.decide.mixes import cheapest_mix, least_mix
from roofsim.decide.need import need_document
from roofsim.decide.resources import BOUGHT, floor_of, needed
from roofsim.decide.target import read_target
from roofsim.errors import SpecError
from roofsim.report.html.asked import AskedReport
from roofsim.report.html.blocks import CellTable, Tiles
from roofsim.report.html.of_need import page
from roofsim.report.need import amount_words, factor_words, sentence, target_line
from roofsim.report.tabular import to_json
from roofsim.spec.scenario.document import load_scenario
from tests.scenarios import FAMILIES
from tests.surely import sure

DECODE: dict[str, Any] = {
    "model": "llama3-8b",
    "workload": {"phase": "decode", "context_length": 1024, "engine": "vllm", "batch_size": 8},
    "hardware": {"gpu": "h100"},
}
LAYOUTS: list[dict[str, Any]] = [
    {"gpus": 8, "tensor": 2, "pipeline": 2, "global_batch_size": 16},
    {"gpus": 16, "sharding": "fsdp"},
    {"phase": "decode", "context_length": 128, "gpus": 2, "tensor": 2},
]


def scenarios(number: int) -> list[Any]:
    """Return random scenarios of every family, and of several layouts."""
    draw = random.Random(16)
    cards = ("a100", "h100", "v100", "rtx4090", "mi300x", "l4")
    made = []
    for place in range(number):
        family = sorted(FAMILIES)[place % len(FAMILIES)]
        phase = draw.choice(("train", "forward")) if family != "dlrm" else "train"
        batch = draw.choice((1, 4, 16))
        made.append(
            (FAMILIES[family], {"gpu": draw.choice(cards), "phase": phase, "batch": batch, "precision": "fp16-amp"})
        )
    return [*made, *(({"model": "gpt2-124m"}, {"gpu": "a100", **layout}) for layout in LAYOUTS)]


def bisected(evaluation, rate, seconds):
    """Return the least factor by halving intervals of its logarithm, one pricing at a time; None: none reaches it."""
    low, high = np.log(0.001), np.log(1_000_000.0)
    seconds *= 1.0 + 1e-12  # rounding

    def step(log):
        return float(evaluation.reprice(Scales(**{rate: float(np.exp(log))})).step)

    if step(high) > seconds:
        return None
    if step(low) <= seconds:
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (low, middle) if step(middle) <= seconds else (middle, high)
    return float(np.exp(high))


@pytest.mark.parametrize("place", range(len(FAMILIES) + len(LAYOUTS)))
def test_a_factor_is_what_bisection_finds(place):
    scenario, overrides = scenarios(len(FAMILIES))[place]
    evaluation = roofsim.evaluate(roofsim.resolve(scenario, **overrides))
    draw, now = random.Random(place), float(evaluation.step.step)
    for rate in ("memory_bandwidth", "tensor_flops", "power", draw.choice(Scales.resources())):
        floor, _ = floor_of(evaluation, (rate,))
        for seconds in (floor + (now - floor) * draw.uniform(0.02, 0.98), now * draw.uniform(1.05, 3.0), floor * 0.99):
            ours, wanted = needed(evaluation, rate, seconds).factor, bisected(evaluation, rate, seconds)
            if wanted in (None, 0.0):
                assert ours == wanted
            else:
                assert sure(ours) == pytest.approx(wanted, rel=1e-3)


@pytest.mark.parametrize("place", range(len(FAMILIES) + len(LAYOUTS)))
def test_elasticities_are_finite_differences(place):
    scenario, overrides = scenarios(len(FAMILIES))[place]
    evaluation = roofsim.evaluate(roofsim.resolve(scenario, **overrides))
    for rate, slope in elasticities(evaluation.reprice).items():
        more, less = (float(evaluation.reprice(Scales(**{rate: 1.0 + part})).step) for part in (1e-3, -1e-3))
        wanted = (np.log(more) - np.log(less)) / (np.log1p(1e-3) - np.log1p(-1e-3))
        assert slope == pytest.approx(wanted, abs=1e-3)


def test_the_bandwidth_that_is_needed_does_it_when_it_is_there():
    answer = roofsim.need(DECODE, step_time="6ms")
    bandwidth = answer.resources["memory_bandwidth"]
    there = roofsim.run(DECODE, memory__bandwidth=f"{bandwidth.value} B/s")
    assert there.step_time == pytest.approx(0.006, rel=2e-3)
    assert bandwidth.value == pytest.approx(sure(bandwidth.factor) * 3.35e12, rel=1e-9)


def test_what_no_amount_reaches_says_what_remains():
    answer = roofsim.need(DECODE, step_time="6ms")
    tensor = answer.resources["tensor_flops"]
    assert (tensor.factor, tensor.reached, tensor.floor_bound) == (None, False, "memory_bandwidth")
    assert 0.006 < tensor.floor <= answer.now.step_time
    assert answer.resources["storage"].floor == pytest.approx(float(answer.now.step_time))
    none = roofsim.need(DECODE, step_time="1 us")
    assert not any(one.reached for one in none.resources.values())
    assert (none.mix, none.cards) == (None, ())
    assert none.mix_floor[0] > 1e-6
    assert "no resource alone is enough" in str(none)
    assert "No mix of what a card or node has more of reaches it" in str(none)


def test_a_target_that_is_met_says_what_would_do():
    answer = roofsim.need(DECODE, step_time="20ms")
    assert answer.met
    assert answer.mix == {}
    assert 0.0 < sure(answer.resources["memory_bandwidth"].factor) < 1.0
    assert answer.resources["storage"].factor == 0.0
    assert str(answer).endswith("It reaches a step of 20 ms as it is.")


def test_a_mix_reaches_it_and_grows_no_more_than_one_resource_alone():
    evaluation = roofsim.evaluate(roofsim.resolve("gpt2-124m", gpu="a100", micro_batch_size=8))
    seconds = 0.75 * float(evaluation.step.step)
    mix = sure(least_mix(evaluation, seconds, BOUGHT))
    assert float(evaluation.reprice(Scales(**mix)).step) == pytest.approx(seconds, rel=1e-3)
    alone = min(one for rate in BOUGHT if (one := needed(evaluation, rate, seconds).factor) is not None)
    assert np.prod(list(mix.values())) <= alone * 1.01


def test_the_cheapest_mix_reaches_it_for_the_least_price():
    evaluation = roofsim.evaluate(roofsim.resolve("gpt2-124m", gpu="a100", micro_batch_size=8))
    seconds = 0.7 * float(evaluation.step.step)
    market = sure(market_of("bf16"))
    mix = sure(cheapest_mix(evaluation, seconds, market))
    assert float(evaluation.reprice(Scales(**mix.factors)).step) == pytest.approx(seconds, rel=1e-3)
    exponents = {name: max(market.exponents[name], 0.0) for name in mix.factors}
    assert mix.price == pytest.approx(np.prod([mix.factors[name] ** exponents[name] for name in mix.factors]))
    assert 1.0 <= mix.low < mix.price < mix.high
    # No other pair of factors that reaches it costs noticeably less.
    logs = np.linspace(0.0, np.log(20.0), 60)
    bandwidth, tensor = (grid.ravel() for grid in np.meshgrid(logs, logs))
    steps = evaluation.reprice(Scales(memory_bandwidth=np.exp(bandwidth), tensor_flops=np.exp(tensor))).step
    prices = [max(market.exponents[name], 0.01) for name in ("memory_bandwidth", "tensor_flops")]
    costs = prices[0] * bandwidth + prices[1] * tensor
    ours = sum(
        price * np.log(mix.factors.get(name, 1.0))
        for name, price in zip(("memory_bandwidth", "tensor_flops"), prices, strict=True)
    )
    assert ours <= float(np.min(costs[np.asarray(steps) <= seconds])) * 1.03
    assert cheapest_mix(evaluation, 1e-9, market) is None
    assert cheapest_mix(evaluation, seconds, None) is None


def test_every_target_becomes_the_step_that_it_allows():
    now = roofsim.run(DECODE)
    rate, hourly = float(now.throughput["tokens_per_second"] or 0.0), now.cost["usd_per_hour"]
    same: dict[str, Any] = {
        "step_time": float(now.step_time),
        "tokens_per_second": rate,
        "cost": now.cost["usd_per_million_tokens"],
    }
    for name, value in same.items():
        assert roofsim.need(DECODE, **{name: float(value)}).allowed == pytest.approx(now.step_time, rel=1e-9)
    days = roofsim.need(DECODE, days=1, tokens=rate * 86400.0)
    assert days.allowed == pytest.approx(now.step_time, rel=1e-9)
    assert hourly > 0.0


def test_a_first_token_is_that_of_the_prefill():
    generation = {"model": "gpt2-124m", "workload": {"phase": "generate", "prompt_length": 256, "output_length": 32}}
    answer = roofsim.need(generation, time_to_first_token="1ms", gpu="h100")
    wanted = roofsim.run(generation, gpu="h100").latency["time_to_first_token"]
    assert answer.now.scenario["workload"]["phase"] == "prefill"
    assert answer.now.step_time == pytest.approx(wanted, rel=0.05)


def test_cards_are_those_whose_run_reaches_it_and_fits():
    answer = roofsim.need(DECODE, step_time="6ms")
    assert answer.tried > 60
    for card in answer.cards:
        run = roofsim.run(DECODE, gpu=card.gpu)
        assert card.step_time == pytest.approx(float(run.step_time), rel=1e-9)
        assert run.step_time <= 0.006
        assert run.memory.fits
        assert card.verdict == ("reaches" if sure(run.step_time_interval)[1] <= 0.006 else "undecided")
    hourly = [card.usd_per_hour for card in answer.cards if card.usd_per_hour is not None]
    assert hourly == sorted(hourly)


def test_more_gpus_reach_it_and_half_of_them_do_not():
    gpus = sure(roofsim.need(DECODE, step_time="6ms").gpus)
    assert gpus.reached
    assert roofsim.run(DECODE, gpus=gpus.gpus, tensor=gpus.gpus).step_time == gpus.step_time <= 0.006
    assert roofsim.run(DECODE, gpus=gpus.gpus // 2, tensor=gpus.gpus // 2).step_time > 0.006


def test_the_rule_of_thumb_stands_beside_the_prediction():
    decode, train = roofsim.need(DECODE, step_time="6ms"), roofsim.need("gpt2-124m", step_time="20ms", gpu="a100")
    bytes_ = float(decode.now.parameters["total"]) * 2.0
    assert sure(decode.rule).value == pytest.approx(bytes_ * 2.0 * 8.0 / 0.006)
    assert sure(decode.rule).ours == pytest.approx(sure(decode.resources["memory_bandwidth"].value))
    assert sure(train.rule).value == pytest.approx(float(train.now.model_flops) / 0.02)
    assert len(sure(train.rule).reasons) == 2


def test_capacity_is_what_the_peak_takes():
    answer = roofsim.need("llama3-8b", step_time="1000 s", gpu="rtx4090", sequence_length=128)
    capacity = answer.resources["memory_capacity"]
    assert sure(capacity.factor) > 1.0
    assert capacity.value == answer.now.memory.device_total
    assert "does not fit" in str(answer).splitlines()[-1] + str(answer).splitlines()[-2]


def test_data_is_plain():
    data = roofsim.need(DECODE, tokens_per_second="2,000").to_dict()
    assert data["schema"] == "roofsim/need/1"
    assert {"target", "now", "resources", "cards", "mix"} <= set(data)
    assert {"factor", "value", "reached"} <= set(data["resources"]["memory_bandwidth"])
    to_json(data)
    need_document(load_scenario(DECODE, {}), read_target({"step_time": 1.0})).to_rows()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "expected one target"),
        ({"step_time": "6ms", "cost": 1.0}, "step_time and cost are given"),
        ({"step_time": 0.0}, "expected a number above zero"),
        ({"step_time": -1.0}, "expected a number above zero"),
        ({"step_time": float("inf")}, "expected a number above zero"),
        ({"step_time": "6"}, "unit"),
        ({"step_time": "6 GB"}, "unit"),
        ({"tokens_per_second": "fast"}, "expected a number above zero"),
        ({"days": 3.0}, "belong together"),
        ({"tokens": 1e9, "step_time": 1.0}, "belong together"),
        ({"time_to_first_token": "1 s"}, "decode has no time to the first token"),
        ({"cost": 1.0, "gpu": "rx6800"}, "no price of rx6800 is known"),
        ({"step_time": "6ms", "gpu": "h1000"}, "unknown gpu 'h1000'"),
        ({"step_time": "6ms", "model": "lama3"}, "unknown model"),
    ],
)
def test_wrong_requests_say_what_is_wrong(asked, said):
    with pytest.raises(SpecError) as caught:
        roofsim.need(DECODE, **asked)
    assert said in str(caught.value)


def test_huge_and_tiny_targets_are_answered():
    assert roofsim.need(DECODE, step_time=1e30).met
    assert not roofsim.need(DECODE, tokens_per_second=1e30).met


def test_a_resource_that_plays_no_part_needs_no_amount_for_the_step_as_it_is():
    evaluation = roofsim.evaluate(roofsim.resolve(FAMILIES["retinanet"], gpu="l4", batch=16, precision="fp32"))
    assert needed(evaluation, "tensor_flops", float(evaluation.step.step)).factor == 0.0


TIGHT: dict[str, Any] = {"gpus": 64, "sharding": "fsdp", "sequence_length": 4096, "gpu": "h100"}


def test_what_its_interval_does_not_decide_is_no_plain_yes():
    """The head, the last sentence and the data say of the scenario itself what its row among the cards says."""
    answer = roofsim.need("llama3-8b", days=30, tokens=1.2e12, **TIGHT)
    low, high = sure(answer.now.step_time_interval)
    assert low < answer.now.step_time < answer.allowed < high
    own = next(card for card in answer.cards if card.gpu == "h100-sxm5-80gb")
    assert answer.verdict == own.verdict == "undecided"
    head, last = target_line(answer), sentence(answer)
    assert ": met, undecided by its 80 % interval, " in head
    assert last.startswith("Undecided: it reaches ")
    assert "The cheapest card whose whole interval reaches it: " in last
    data = answer.to_dict()
    assert (data["met"], data["fits"], data["reached"], data["verdict"]) == (True, True, True, "undecided")


@pytest.mark.parametrize(
    ("stretch", "verdict", "said"),
    [(2.0, "reaches", ": met"), (0.98, "undecided", "too long, undecided by its"), (0.5, "misses", "too long")],
)
def test_a_verdict_is_that_of_the_interval(stretch, verdict, said):
    step = float(roofsim.run(DECODE).step_time)
    answer = roofsim.need(DECODE, step_time=step * stretch)
    assert answer.verdict == answer.to_dict()["verdict"] == verdict
    assert said in target_line(answer)
    assert ("undecided" in target_line(answer)) is (verdict == "undecided")


def test_what_does_not_fit_is_not_met():
    answer = roofsim.need("llama3-70b", step_time="100 s", gpu="rtx4090", sequence_length=2048)
    assert answer.met
    assert not answer.reached
    assert target_line(answer).endswith(": short enough, but does not fit in memory")
    data = answer.to_dict()
    assert (data["met"], data["fits"], data["reached"]) == (True, False, False)


def test_what_is_too_slow_and_does_not_fit_says_both_and_what_does():
    asked: dict[str, Any] = {"gpu": "h100", "phase": "decode", "context_length": 1024, "engine": "vllm"}
    slow = roofsim.need("llama3-70b", step_time="10ms", **asked)
    assert "times too long, and does not fit in memory" in target_line(slow)
    assert "; it does not fit, either, and needs " in sentence(slow)
    met = str(roofsim.need("llama3-70b", step_time="100ms", **asked))
    assert "More GPUs: gpus=2, tensor=2 reaches it" in met
    assert "of memory capacity takes " in met
    assert "of memory bandwidth takes " not in met


@pytest.mark.parametrize("held", [None, "300 W"])
def test_no_less_power_is_asked_for_than_a_card_can_be_held_to(held):
    limit = {} if held is None else {"power_limit": held}
    answer = roofsim.need("resnet50", step_time="100 s", gpu="a100", batch_size=64, **limit)
    power = answer.resources["power"]
    assert power.value == pytest.approx(400.0 / 3.0)
    assert power.factor == pytest.approx(400.0 / 3.0 / (300.0 if held else 400.0))
    assert power.to_dict()["least"] == power.factor
    assert (factor_words(power), amount_words(power)) == ("any", "from 133 W")
    there = roofsim.run("resnet50", gpu="a100", batch_size=64, power_limit="133.4 W")
    assert there.step_time <= answer.allowed
    for one in answer.resources.values():
        assert not amount_words(one).startswith("0 ")


def test_more_power_than_the_least_is_as_it_was():
    step = float(roofsim.run("resnet50", gpu="a100", batch_size=64).step_time)
    power = roofsim.need("resnet50", step_time=step * 1.05, gpu="a100", batch_size=64).resources["power"]
    assert 1.0 / 3.0 < sure(power.factor) < 1.0
    assert amount_words(power) != "-"
    assert factor_words(power).endswith("x")


def test_the_page_says_the_same_of_the_scenario_as_it_is():
    answer = roofsim.need("llama3-70b", step_time="100 s", gpu="rtx4090", sequence_length=2048)
    made = page(answer, AskedReport(verb="need"))
    tiles = next(block for block in made.sections[0].blocks if isinstance(block, Tiles))
    assert tiles.tiles[1][2] == ("short enough, but does not fit in memory",)
    table = next(block for block in made.sections[0].blocks if isinstance(block, CellTable))
    power = next(row for row in table.rows if row[0] == "power limit")
    assert [getattr(cell, "text", cell) for cell in power[1:3]] == ["any", "from 150 W"]
