"""The dial between bandwidth and compute: where the hand points, what it says, and that it stands in every answer of one card."""

from __future__ import annotations

from math import inf

import pytest

from roofsim.decide.market import market_of
from roofsim.decide.prices import offers_of
from roofsim.report.html.blocks import Data
from roofsim.report.html.dial import of_offers, share
from roofsim.web.ask import ask

DECODE = {
    "model": "llama3-8b",
    "workload": {"phase": "decode", "batch_size": 32, "context_length": 4096, "engine": "vllm"},
    "hardware": {"gpu": "h100"},
}
TRAIN = {"model": "gpt2-124m", "workload": {"phase": "train", "micro_batch_size": 8}, "hardware": {"gpu": "a100"}}


def test_a_step_that_waits_for_bandwidth_alone_points_all_the_way():
    offers = offers_of({"memory_bandwidth": -0.7, "tensor_flops": -0.001}, market_of("bf16"))
    assert offers[1]["percent"] is None
    drawn = of_offers(Data({"offers": offers}), ("offers",))
    assert drawn is not None
    assert "more tensor FLOP/s buy no speed here" in drawn.about
    assert "buys no speed here" in drawn.wide
    assert (share(0.08, inf), share(inf, 0.08)) == (1.0, 0.0)


def test_without_a_market_or_a_wait_there_is_no_dial():
    for elasticity, market in (({"memory_bandwidth": -0.7}, None), ({"latency": -1.0}, market_of("bf16"))):
        assert of_offers(Data({"offers": offers_of(elasticity, market)}), ("offers",)) is None
    assert of_offers(Data({"offers": []}), ("offers",)) is None


@pytest.mark.parametrize(("scenario", "says"), [(DECODE, "buy no speed here"), (TRAIN, "80 % intervals")])
def test_the_answer_of_the_page_has_the_dial(scenario, says):
    html = ask("run", {"scenario": scenario})["html"]
    section = html.split("<h2>Buy bandwidth or compute</h2>")[1].split("</section>")[0]
    assert says in section
    assert 'data-key="/charts/one_percent/0/percent"' in section
