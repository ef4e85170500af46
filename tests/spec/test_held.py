"""Power limits and clock limits: what they do, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import roofsim
from roofsim.errors import SpecError

TRAIN: dict[str, Any] = {"scenario": "gpt3-6.7b", "gpu": "h100", "gpus": 8, "sharding": "full"}
DECODE: dict[str, Any] = {"scenario": "llama3-8b", "gpu": "h100", "phase": "decode", "engine": "vllm", "batch_size": 1}


def step(limits, base=TRAIN):
    return roofsim.run(**base, **limits).step_time


def test_less_power_is_never_faster():
    steps = [step({"power_limit": f"{watts} W"}) for watts in (700, 600, 500, 400, 300)]
    assert steps == sorted(steps)
    assert steps[0] == step({})
    assert steps[-1] > 1.2 * steps[0]


def test_a_lower_clock_is_never_faster_and_full_clock_changes_nothing():
    steps = [step({"clock_limit": f"{clock} GHz"}) for clock in (1.98, 1.6, 1.2, 0.8)]
    assert steps == sorted(steps)
    assert steps[0] == step({})


def test_what_waits_for_memory_hardly_waits_for_the_clock():
    assert step({"clock_limit": "1.2 GHz"}, DECODE) < 1.1 * step({}, DECODE)


def test_a_limit_is_what_the_card_itself_may_draw():
    limited, overridden = roofsim.run(**TRAIN, power_limit="500 W"), roofsim.run(**TRAIN, tdp="500 W")
    assert limited.step_time == pytest.approx(overridden.step_time, rel=1e-9)
    assert limited.cost["kwh"] >= overridden.cost["kwh"]  # what a card of 700 W draws waiting stays
    assert limited.cost["price"] == roofsim.run(**TRAIN).cost["price"]
    assert "power_limit: 500 W of 700 W" in limited.assumed
    assert any("below what was measured" in text for text in roofsim.run(**TRAIN, power_limit="300 W").assumed)


def test_the_scenario_of_a_result_has_the_limit():
    result = roofsim.run(**TRAIN, power_limit="500 W")
    assert roofsim.run(result.scenario).step_time == pytest.approx(result.step_time, rel=1e-9)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"power_limit": "900 W"}, "900 W is more than h100-sxm5-80gb draws by itself, 700 W"),
        ({"power_limit": "100 W"}, "less than a third of the 700 W"),
        ({"power_limit": "0 W"}, "power_limit"),
        ({"power_limit": "-5 W"}, "power_limit"),
        ({"power_limit": "250"}, "power_limit"),
        ({"clock_limit": "3 GHz"}, "3.00 GHz is more than h100-sxm5-80gb reaches"),
        ({"clock_limit": "10 MHz"}, "less than a third of the 1.83 GHz"),
        ({"clock_limit": "fast"}, "clock_limit"),
        ({"power_limits": "250 W"}, "power_limit"),
    ],
)
def test_a_wrong_limit_says_what_is_wrong(limits, message):
    with pytest.raises((SpecError, TypeError), match=message):
        roofsim.run(**TRAIN, **limits)
