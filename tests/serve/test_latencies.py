"""Percentiles of latencies: those of the same server step by step, with the means of the steady state."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import roofsim
from roofsim.serve import simulation
from roofsim.serve.spread import LatencySpread

BASE: dict[str, Any] = {"gpu": "h100", "prompt_length": 1000, "output_length": 256}
SERVERS = [
    ("llama3-8b", {}),
    ("llama3-8b", {"engine": "sglang"}),
    ("llama3-8b", {"serving": {"length_variation": 1.0}}),
    ("llama3-70b", {"gpu": "h200", "tensor": 4}),
    ("llama3-8b", {"gpu": "l4", "engine": "sglang", "prompt_length": 200, "output_length": 200}),
]


def served_at(model, share, **more):
    """Return the answer at a share of the highest rate."""
    one = roofsim.serve(model, **{**BASE, "request_rate": 0.01, **more})
    return roofsim.serve(model, **{**BASE, "request_rate": share * one.highest_rate, **more})


def simulated(served, requests=4000):
    """Return times to the first token and per token of requests, one by one."""
    kept = []
    means = simulation._means

    def keeping(done, *others):
        kept.extend(done)
        return means(done, *others)

    simulation._means = keeping
    try:
        simulation.simulate(
            served.timing, served.load, served.plan.prompt, rate=served.plan.request_rate, variation=served.plan.variation,
            requests=requests,
        )  # fmt: skip
    finally:
        simulation._means = means
    first = np.array([one.first - one.sent for one in kept])
    each = np.array([(one.last - one.first) / one.checks for one in kept])
    return first, each


@pytest.mark.parametrize(("model", "more"), SERVERS)
@pytest.mark.parametrize("share", [0.4, 0.75])
def test_percentiles_are_those_of_the_same_server_step_by_step(model, more, share):
    served = served_at(model, share, **more)
    first, each = simulated(served)
    for percent, far in ((50, 0.05), (90, 0.1)):
        assert served.latencies.first.percentile(percent) == pytest.approx(np.percentile(first, percent), rel=far)
        assert served.latencies.each.percentile(percent) == pytest.approx(np.percentile(each, percent), rel=far)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize(
    "more",
    [
        {}, {"engine": "sglang"}, {"output_length": 1}, {"pipeline": 2}, {"serving": {"arrivals": "constant"}},
        {"serving": {"disaggregated": {"prefill_workers": 2, "decode_workers": 2}}}, {"prompt_length": 7000},
    ],
)  # fmt: skip
def test_spreads_have_the_means_of_the_steady_state(share, more):
    served = served_at("llama3-8b", share, **more)
    latencies, steady = served.latencies, served.steady
    assert latencies.first.mean == pytest.approx(steady.time_to_first_token, rel=1e-6)
    assert (latencies.each is None) == (steady.time_per_output_token is None)
    if latencies.each is not None:
        assert latencies.each.mean == pytest.approx(steady.time_per_output_token, rel=1e-6)
    shown = served.percentiles()
    assert list(shown) == ["50", "90", "99"]
    for name in ("time_to_first_token", "time_per_output_token"):
        values = [one[name] for one in shown.values() if one[name] is not None]
        assert all(low <= high for low, high in pairwise(values))
        assert all(one[f"{name}_queueing"] >= 0.0 for one in shown.values() if one[name] is not None)
    for percent in (50.0, 90.0, 99.0):
        for spread in (latencies.first, latencies.each):
            if spread is not None and len(spread.seconds) > 1:
                bound = spread.percentile(percent)
                assert spread.within(bound) == pytest.approx(percent / 100.0, abs=2e-3)


def test_a_fixed_number_in_flight_has_no_percentiles():
    served = roofsim.serve("llama3-8b", **BASE, concurrency=8)
    assert served.percentiles() is None
    assert served.to_dict()["latency"]["percentiles"] is None


def test_waits_add_up():
    spread = LatencySpread(seconds=np.array([1.0]), weights=np.ones(1), travel=0.5, waiting=1.0, wait=0.5)
    drawn = 1.0 + np.random.default_rng(1).gamma(2.0, 0.5, 200_000)
    for percent in (10, 50, 90, 99):
        assert spread.percentile(percent) == pytest.approx(np.percentile(drawn, percent), rel=5e-3)
    assert spread.mean == pytest.approx(2.0)
