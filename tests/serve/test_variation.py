"""Bursts and prompts of many lengths: those of the same server step by step, and nothing where requests are alike and at random."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import roofsim
from roofsim.serve.variation import sizes
from tests.serve.test_latencies import BASE
from tests.surely import sure


def served_with(share: float, **serving: Any) -> Any:
    """Return the answer at a share of the highest rate."""
    rate = share * roofsim.serve("llama3-8b", **BASE, request_rate=0.01).highest_rate
    return roofsim.serve("llama3-8b", **BASE, request_rate=rate, serving={"length_variation": 0.5, **serving})


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_nothing_changes_where_requests_come_at_random_and_are_alike(share):
    usual = served_with(share)
    same = served_with(share, arrival_variation=1.0, prompt_variation=0.0)
    assert same.steady == usual.steady
    assert same.percentiles() == usual.percentiles()
    even, constant = served_with(share, arrival_variation=0.0), served_with(share, arrivals="constant")
    assert even.steady == constant.steady


@pytest.mark.parametrize("key", ["arrival_variation", "prompt_variation"])
def test_more_variation_means_longer_waits(key):
    every = [served_with(0.6, **{key: variation}) for variation in (1.0, 1.5, 2.0, 3.0)]
    for one, other in pairwise(every):
        assert one.steady.time_to_first_token < other.steady.time_to_first_token
        assert one.latencies.first.percentile(99) < other.latencies.first.percentile(99)
    for one in every:
        assert one.latencies.first.mean == pytest.approx(one.steady.time_to_first_token, rel=1e-6)
        assert one.latencies.each.mean == pytest.approx(one.steady.time_per_output_token, rel=1e-6)


@pytest.mark.parametrize(("arrivals", "prompts"), [(2.0, 0.0), (0.5, 0.0), (1.0, 1.0), (2.0, 1.0)])
def test_the_estimate_is_that_of_the_same_server_step_by_step(arrivals, prompts):
    rate = 0.6 * roofsim.serve("llama3-8b", **BASE, request_rate=0.01).highest_rate
    serving = {"length_variation": 0.5, "arrival_variation": arrivals, "prompt_variation": prompts}
    served = roofsim.serve("llama3-8b", **BASE, request_rate=rate, serving=serving, simulated=True)
    simulated = sure(served.simulated)
    assert served.steady.time_to_first_token == pytest.approx(simulated.time_to_first_token, rel=0.12)
    assert served.steady.time_per_output_token == pytest.approx(simulated.time_per_output_token, rel=0.06)
    for percent, far in ((50, 0.2), (90, 0.2)):
        assert served.latencies.first.percentile(percent) == pytest.approx(
            simulated.percentiles[str(percent)]["time_to_first_token"], rel=far
        )


def test_sizing_takes_bursts_into_account():
    target: dict[str, Any] = {"ttft": "250ms", "tpot": "30ms"}
    usual, bursts, prompts = (
        roofsim.serve("llama3-8b", **BASE, **target, serving={"length_variation": 0.5, **more})
        for more in ({}, {"arrival_variation": 3.0}, {"prompt_variation": 1.5})
    )
    rates = [one.to_dict()["max_request_rate"] for one in (usual, bursts, prompts)]
    assert 0.0 < rates[1] < rates[0]
    assert 0.0 < rates[2] < rates[0]


def test_sizes_have_the_mean_of_all():
    for squared in (0.01, 1.0, 4.0, 25.0):
        shares, often = sizes(squared)
        assert float(often.sum()) == pytest.approx(1.0)
        assert float(shares @ often) == pytest.approx(1.0)
        assert np.all(np.diff(shares) > 0.0)


def test_workers_apart_wait_longer_in_bursts():
    apart = {"disaggregated": {"prefill_workers": 1, "decode_workers": 1}}
    rate = 0.5 * roofsim.serve("llama3-8b", **BASE, request_rate=0.01, serving=apart).highest_rate
    usual, bursts = (
        roofsim.serve("llama3-8b", **BASE, request_rate=rate, serving=apart | more)
        for more in ({}, {"arrival_variation": 3.0})
    )
    assert bursts.steady.time_to_first_token > usual.steady.time_to_first_token
