"""Servers that are sized to bounds on their latencies: the largest rate, what limits it, and replicas for a rate."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofsim
from roofsim.api import resolve_document
from roofsim.errors import SpecError
from roofsim.report.tabular import to_json
from roofsim.serve.server import server_of
from roofsim.serve.sizing import RateSearch, broken
from roofsim.serve.target import LatencyTarget, read_target
from roofsim.spec.scenario.document import load_scenario
from tests.surely import sure

BASE: dict[str, Any] = {"gpu": "h100", "prompt_length": 1000, "output_length": 256}
SERVERS = [
    ("llama3-8b", BASE),
    ("llama3-8b", BASE | {"engine": "sglang"}),
    ("llama3-8b", BASE | {"engine": "tensorrt-llm", "precision": "fp8"}),
    ("llama3-70b", BASE | {"gpu": "h200", "tensor": 4}),
    ("llama3-8b", BASE | {"serving": {"disaggregated": {"prefill_workers": 2, "decode_workers": 1}}}),
]
SEARCHES: dict[str, Any] = {}


def search(number):
    """Return the search on one of the servers; what it has worked out is kept."""
    model, more = SERVERS[number]
    if number not in SEARCHES:
        document = load_scenario(model, more | {"request_rate": 1.0})
        SEARCHES[number] = RateSearch.on(server_of(document, resolve_document))
    return SEARCHES[number]


bounds = st.one_of(st.none(), st.floats(0.005, 3.0))
targets = st.builds(
    LatencyTarget, ttft=bounds, tpot=st.one_of(st.none(), st.floats(0.005, 0.3)), percentile=st.floats(40.0, 99.5)
)


@settings(max_examples=25, deadline=None)
@given(
    number=st.integers(0, len(SERVERS) - 1),
    target=targets,
    factor=st.floats(1.0, 3.0),
    which=st.sampled_from(["ttft", "tpot"]),
)
def test_a_laxer_bound_never_lowers_the_rate(number, target, factor, which):
    bound = getattr(target, which)
    laxer = LatencyTarget(**{**vars_of(target), which: None if bound is None else bound * factor})
    assert search(number).largest(laxer) >= search(number).largest(target)
    easier = LatencyTarget(**{**vars_of(target), "percentile": max(target.percentile - 10.0, 1.0)})
    assert search(number).largest(easier) >= search(number).largest(target)


def vars_of(target):
    return {"ttft": target.ttft, "tpot": target.tpot, "percentile": target.percentile}


@settings(max_examples=25, deadline=None)
@given(number=st.integers(0, len(SERVERS) - 1), target=targets)
def test_the_largest_rate_keeps_the_bounds_and_two_percent_more_do_not(number, target):
    one = search(number)
    rate = one.largest(target)
    if rate > 0.0:
        assert one.keeps(target, rate)
        assert not one.keeps(target, 1.02 * rate)
    else:
        assert not one.keeps(target, one.server.highest_rate / 1000.0)


@pytest.mark.parametrize(("model", "more"), SERVERS)
def test_the_server_at_that_rate_is_the_one_that_serve_answers_for(model, more):
    sized = roofsim.serve(model, **more, ttft="600ms", tpot=0.05)
    plain = roofsim.serve(model, **more, request_rate=sized.sized.sizing.rate)
    ours, theirs = sized.to_dict(), plain.to_dict()
    assert {key: ours[key] for key in theirs if key != "scenario"} == {
        key: theirs[key] for key in theirs if key != "scenario"
    }
    assert sized.keeps_target
    assert not broken(plain.latencies, sized.sized.sizing.target)


def test_replicas_serve_a_rate_and_one_fewer_do_not():
    served = roofsim.serve("llama3-8b", **BASE, request_rate=100.0, ttft=0.5, tpot=0.03)
    sized = sure(served.sized)
    assert sized.replicas == math.ceil(100.0 / sized.sizing.rate)
    assert sized.gpus == served.plan.gpus == sized.replicas
    assert served.keeps_target
    fewer = roofsim.serve("llama3-8b", **BASE, gpus=sized.replicas - 1, request_rate=100.0, ttft=0.5, tpot=0.03)
    assert fewer.keeps_target is False
    assert fewer.sized.replicas == sized.replicas
    assert roofsim.serve("llama3-8b", **BASE, gpus=sized.replicas, request_rate=100.0, ttft=0.5, tpot=0.03).keeps_target
    low, high = sized.replicas_range
    assert low <= sized.replicas
    assert high is None or high >= sized.replicas


def test_data_have_the_keys_that_scripts_rely_on():
    data = json.loads(to_json(roofsim.serve("llama3-8b", **BASE, request_rate=40, ttft="500ms", tpot="50ms").to_dict()))
    slo = data["slo"]
    assert (slo["ttft"], slo["tpot"], slo["percentile"]) == (0.5, 0.05, 90.0)
    assert data["max_request_rate"] > 0.0
    assert data["replicas"] == math.ceil(40 / data["max_request_rate"])
    low, high = data["max_request_rate_range"]
    assert low <= data["max_request_rate"] <= high
    assert data["cost"]["usd_per_month"] == pytest.approx(data["cost"]["usd_per_hour"] * 730.5)
    assert slo["at_limit"]["time_per_output_token"] <= 0.05
    assert data["load"]["request_rate"] == 40.0
    assert roofsim.serve("llama3-8b", **BASE, request_rate=4).to_dict().get("slo") is None


@pytest.mark.parametrize(
    ("ttft", "tpot", "limits"),
    [(0.5, 0.02, "time_per_output_token"), (0.12, 0.5, "time_to_first_token"), (3e4, 3e4, "capacity")],
)
def test_what_limits_is_what_a_little_more_would_help(ttft, tpot, limits):
    sizing = roofsim.serve("llama3-8b", **BASE, ttft=ttft, tpot=tpot).sized.sizing
    assert sizing.limits == limits
    if limits in sizing.relaxed:
        assert sizing.relaxed[limits].laxer > sizing.rate * 1.01
        assert sizing.relaxed[limits].without > sizing.relaxed[limits].laxer
        assert sizing.relaxed[limits].then != limits


def test_room_for_requests_limits_where_few_run_at_once():
    sizing = roofsim.serve("llama3-8b", **BASE, ttft=0.5, tpot=0.05, serving={"max_num_seqs": 16}).sized.sizing
    assert sizing.limits == "room"


def test_bounds_that_nothing_keeps_say_why_and_the_way_out():
    served = roofsim.serve(
        "llama3-70b", gpu="h200", precision="fp8", prompt_length=1000, output_length=256, tpot="20ms"
    )
    sized = sure(served.sized)
    assert sized.sizing.rate == 0.0
    assert sized.replicas is None
    assert sure(sized.sizing.reason).startswith("a single request already takes 22.")
    assert "--tensor 2 keeps them" in sure(sized.hint)
    wider = roofsim.serve(
        "llama3-70b", gpu="h200", precision="fp8", tensor=2, prompt_length=1000, output_length=256, tpot="20ms"
    )
    assert wider.sized.sizing.rate > 0.0
    first = roofsim.serve("llama3-8b", **BASE, ttft="10ms").sized.sizing
    assert "the first token of a single request already takes" in sure(first.reason)


def test_a_model_that_does_not_fit_has_no_rate():
    data = roofsim.serve("llama3-70b", **BASE, tpot="50ms", request_rate=3.0).to_dict()
    assert data["max_request_rate"] == 0.0
    assert data["replicas"] is None
    assert data["slo"]["reason"].startswith("does not fit")
    assert data["load"]["request_rate"] == 3.0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"ttft": "0ms"}, "ttft: expected a time above zero"),
        ({"ttft": -1.0}, "ttft: expected a time above zero"),
        ({"tpot": float("inf")}, "tpot: expected a time above zero"),
        ({"tpot": "50"}, "tpot"),
        ({"tpot": "50 parsecs"}, "tpot"),
        ({"ttft": True}, "ttft"),
        ({"percentile": 90}, "a percentile without a bound"),
        ({"ttft": 1.0, "percentile": 100}, "percentile: expected a number from 1 to below 100"),
        ({"ttft": 1.0, "percentile": "most"}, "percentile: expected a number from 1 to below 100"),
    ],
)
def test_what_is_no_bound_is_refused(words, said):
    with pytest.raises(SpecError) as error:
        read_target(**words)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"concurrency": 4}, "requests that come at a rate"),
        ({"output_length": 1}, "no time per token"),
        ({"gpu": "h1000"}, "h100"),
        ({"request_rate": 0}, "request_rate"),
        ({"serving": {"num_prompts": 10}}, "num_prompts"),
    ],
)
def test_loads_that_no_bounds_are_on_are_refused(more, said):
    with pytest.raises(SpecError) as error:
        roofsim.serve("llama3-8b", **{**BASE, **more}, ttft=0.5, tpot=0.05)
    assert said in str(error.value)


def test_a_network_of_one_pass_has_a_bound_of_its_own():
    with pytest.raises(SpecError, match="latency_bound"):
        roofsim.serve("resnet50", gpu="h100", ttft="10ms")


@pytest.mark.parametrize("rate", [1e-6, 1e9])
def test_tiny_and_huge_rates_have_an_answer(rate):
    sized = roofsim.serve("llama3-8b", **BASE, request_rate=rate, ttft=0.5, tpot=0.05).sized
    assert sized.replicas is None or sized.replicas >= 1
