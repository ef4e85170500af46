"""Latencies near the limit of a server: how much an error of its capacity changes them."""

from __future__ import annotations

from typing import Any

import pytest

from roofsim.api import serve

SERVER: dict[str, Any] = {
    "model": "llama3-8b",
    "workload": {"engine": "vllm", "prompt_length": 512, "output_length": 128, "serving": {"length_variation": 0.5}},
    "hardware": {"gpu": "h100-sxm5-80gb"},
}


def at(share: float):
    """Return the server with requests that come at a share of its highest rate."""
    highest = serve(SERVER).highest_rate
    return serve(SERVER | {"workload": SERVER["workload"] | {"request_rate": share * highest}})


def test_the_closer_to_the_limit_the_worse():
    shares = (0.2, 0.6, 0.9, 0.97)
    answers = [at(share).conditioning for share in shares]
    assert [answer.load for answer in answers] == pytest.approx(shares, rel=0.02)
    growths = [answer.time_to_first_token for answer in answers]
    assert growths == sorted(growths)
    assert growths[0] == pytest.approx(1.0, abs=0.6)  # far from it, a time grows as steps do
    assert growths[-1] > 5.0


def test_no_steady_state_with_a_little_less():
    answer = at(0.995)
    assert answer.conditioning.time_to_first_token is None
    assert any("with 2 % less capacity there would be no steady state" in note for note in answer.notes)


def test_plain_data_and_sentence():
    near, far = at(0.95), at(0.3)
    assert near.to_dict()["conditioning"]["time_to_first_token"] == near.conditioning.time_to_first_token
    assert any("latencies are ill conditioned there; with 1 % less capacity" in note for note in near.notes)
    assert not any("ill conditioned" in note for note in far.notes)
    assert serve(SERVER).to_dict()["conditioning"] is None
