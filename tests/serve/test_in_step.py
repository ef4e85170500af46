"""Replicas whose ranks share experts: their steps wait for one another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import roofsim
from roofsim.serve import closed_loop, open_loop
from roofsim.serve.in_step import chances_of_largest, seconds_in_step


def served(**keys):
    sizes = {"prompt_length": 1000, "output_length": 200}
    return roofsim.serve("mixtral-8x7b", gpu="h100", engine="vllm", **{**sizes, **keys})


SHARED = {"data": 4, "expert": 4}


def test_the_largest_of_several_numbers():
    chances = np.array([0.5, 0.3, 0.2])
    drawn = np.random.default_rng(1).choice(3, p=chances, size=(200_000, 4)).max(axis=1)
    expected = np.bincount(drawn, minlength=3) / len(drawn)
    assert chances_of_largest(chances, 4.0) == pytest.approx(expected, abs=5e-3)
    seconds = np.array([1.0, 2.0, 5.0])
    others = chances_of_largest(chances, 3.0)
    assert seconds_in_step(seconds, chances, 4.0)[1] == pytest.approx(2.0 * (others[0] + others[1]) + 5.0 * others[2])
    assert seconds_in_step(seconds, chances, 1.0) is seconds


@pytest.mark.parametrize(
    ("layout", "replicas"), [(SHARED, 4.0), ({"data": 4}, 1.0), ({"data": 2, "tensor": 2, "expert": 2}, 1.0)]
)
def test_who_waits_for_whom(layout, replicas):
    """Replicas wait where experts are dealt out over more ranks than share a token; not where tensor ranks hold them all."""
    assert served(**layout, gpus=4).load.in_step == replicas


def test_waiting_makes_no_server_faster():
    one = served(**SHARED, gpus=4)
    alone = replace(one.load, in_step=1.0)
    rate = 0.6 * open_loop.highest_rate(one.timing, one.load)
    assert open_loop.highest_rate(one.timing, one.load) <= open_loop.highest_rate(one.timing, alone)
    together, apart = (
        open_loop.steady_state(one.timing, load, rate, poisson=True) or pytest.fail("a rate below the highest")
        for load in (one.load, alone)
    )
    for state, other in (
        (together, apart),
        tuple(closed_loop.steady_state(one.timing, load, 16.0) for load in (one.load, alone)),
    ):
        assert (state.time_per_output_token or 0.0) > (other.time_per_output_token or np.inf)
    assert (together.time_per_output_token or 0.0) > 1.1 * (apart.time_per_output_token or np.inf)
    assert (together.time_to_first_token or 0.0) > (apart.time_to_first_token or np.inf)


def simulated(timing, load, rate, *, steps=12_000, seed=7):
    """Return the mean seconds per output token of replicas that take each step together, requests arriving at random."""
    random, replicas = np.random.default_rng(seed), int(load.in_step)
    left = [np.zeros(0) for _ in range(replicas)]  # decode steps that each running request has before it
    begun = [np.zeros(0) for _ in range(replicas)]
    waiting, now, lives = [0] * replicas, 0.0, []
    for number in range(steps):
        taken = [min(waiting[r], int((load.budget - len(left[r])) // load.tokens)) for r in range(replicas)]
        each = [timing.step(len(left[r]), load.context, taken[r] * load.tokens, taken[r]) for r in range(replicas)]
        seconds = max(*each, 1e-4)
        now += seconds
        for r in range(replicas):
            left[r] = left[r] - 1.0
            over = left[r] <= 0.0
            if number > steps // 4:
                lives += (now - begun[r][over]).tolist()
            left[r] = np.concatenate([left[r][~over], np.full(taken[r], load.checks)])
            begun[r] = np.concatenate([begun[r][~over], np.full(taken[r], now)])
            waiting[r] += int(random.poisson(rate * seconds)) - taken[r]
    return float(np.mean(lives)) / load.checks


@pytest.mark.parametrize("share", [0.3, 0.6])
def test_open_loop_as_simulated(share):
    """Ranks are taken as independent; that they share long steps makes them alike, and steps up to a tenth shorter."""
    one = served(**SHARED, gpus=4)
    rate = share * open_loop.highest_rate(one.timing, one.load)
    estimate = open_loop.steady_state(one.timing, one.load, rate, poisson=True)
    assert estimate is not None
    assert estimate.time_per_output_token == pytest.approx(simulated(one.timing, one.load, rate), rel=0.12)


def test_requests_under_way_are_longer_than_the_mean():
    """Seen at some time, a request's answer is ``E[L^2] / E[L]`` long in the mean, and half done."""
    lengths = np.random.default_rng(3).gamma(4.0, 50.0, size=100_000)  # a standard deviation of half the mean
    context = float((lengths**2).sum() / lengths.sum()) / 2.0
    plan = served(serving={"length_variation": 0.5}).plan
    assert plan.context == pytest.approx(1000.0 + context, rel=0.01)
