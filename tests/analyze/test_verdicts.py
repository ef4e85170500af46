"""Verdicts have three values: where the interval holds what decides, none of the two sure ones."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofsim
from roofsim.analyze.verdicts import chance_below, pace_verdict, ratio_interval, room_verdict
from tests.surely import sure

CARD = "rtx4090"


@pytest.mark.parametrize(
    ("ends", "verdict"), [((60.0, 79.0), "fits"), ((70.0, 81.0), "tight"), ((80.5, 99.0), "does_not_fit")]
)
def test_bytes_fit_or_not_only_where_the_whole_interval_does(ends, verdict):
    assert room_verdict(ends, 80.0, 80.0) == verdict
    codes = room_verdict((np.array([ends[0], 60.0]), np.array([ends[1], 79.0])), 80.0, 80.0)
    assert codes.tolist() == [verdict, "fits"]


def test_without_an_interval_the_figure_alone_decides():
    assert room_verdict(None, 80.0, 80.0) == "fits"
    assert room_verdict(None, 80.1, 80.0) == "does_not_fit"


positive = st.floats(0.05, 20.0)
width = st.floats(1e-6, 0.7)


@given(positive, width, width, positive)
def test_a_probability_agrees_with_the_verdict_and_grows_with_the_limit(middle, down, up, limit):
    ends = middle * float(np.exp(-down)), middle * float(np.exp(up))
    chance = chance_below(limit, middle, ends)
    assert 0.0 <= chance <= 1.0
    assert chance_below(limit * 1.01, middle, ends) >= chance
    verdict = room_verdict(ends, middle, limit)
    assert chance >= 0.9 - 1e-6 if verdict == "fits" else chance <= 0.9 + 1e-6
    assert chance <= 0.1 + 1e-6 if verdict == "does_not_fit" else chance >= 0.1 - 1e-6


@given(st.lists(st.tuples(positive, width, width), min_size=2, max_size=2))
def test_the_interval_of_a_ratio_turns_with_it_and_lies_inside_the_quotients_of_the_ends(figures):
    (a, a_down, a_up), (b, b_down, b_up) = figures
    first = a, (a * float(np.exp(-a_down)), a * float(np.exp(a_up)))
    second = b, (b * float(np.exp(-b_down)), b * float(np.exp(b_up)))
    low, high = ratio_interval(first, second)
    back_low, back_high = ratio_interval(second, first)
    assert low * back_high == pytest.approx(1.0)
    assert high * back_low == pytest.approx(1.0)
    assert low >= first[1][0] / second[1][1] * (1.0 - 1e-12)
    assert high <= first[1][1] / second[1][0] * (1.0 + 1e-12)
    there, back = pace_verdict((low, high), a / b), pace_verdict((back_low, back_high), b / a)
    assert back == {"faster": "slower", "slower": "faster", "about_equal": "about_equal"}[there]


def _verdicts(sizes):
    return [roofsim.run("gpt2", gpu=CARD, micro_batch_size=size) for size in sizes]


def test_a_run_says_fits_tight_or_does_not_fit():
    size = roofsim.fit("gpt2", gpu=CARD)
    most, safe = sure(sure(size.certificate).value), sure(size.safe)
    assert safe < most
    few, tight, more, many = _verdicts((safe, most, most + 1, 2 * most))
    assert [one.memory.verdict for one in (few, tight, more, many)] == ["fits", "tight", "tight", "does_not_fit"]
    assert few.memory.fit_probability >= 0.9 > tight.memory.fit_probability > 0.5 > more.memory.fit_probability
    assert ": fits, " in str(few)
    assert "left, fits with a probability of" in str(tight)
    assert "missing, fits with a probability of" in str(more)
    assert "does NOT fit" in str(many)
    data = more.to_dict()["memory"]
    low, high = data["peak_interval"]
    assert low < data["capacity"] < data["peak"] < high
    assert (data["fits"], data["verdict"]) == (False, "tight")


def test_the_largest_that_surely_fits_is_the_last_whose_whole_interval_does():
    answer = roofsim.fit("gpt2", gpu=CARD)
    last, after = _verdicts((answer.safe, sure(answer.safe) + 1))
    assert last.memory.interval[1] <= last.memory.capacity < after.memory.interval[1]
    assert answer.to_dict()["largest"]["safe_value"] == answer.safe
    assert f"up to {answer.safe} the whole 80 % interval of the memory fits" in str(answer)


def test_a_sweep_has_a_code_for_each_point_and_counts_the_tight_ones():
    fit = roofsim.fit("gpt2", gpu=CARD)
    most = sure(sure(fit.certificate).value)
    sizes = [1, fit.safe, most, 4 * most]
    table = roofsim.sweep("gpt2", {"workload.micro_batch_size": sizes}, gpu=CARD)
    assert table["memory.verdict"].tolist() == ["fits", "fits", "tight", "does_not_fit"]
    assert table["memory.verdict"].tolist() == [run.memory.verdict for run in _verdicts(sizes)]
    for row, run in zip(table.to_rows(), _verdicts(sizes), strict=True):
        assert row["memory.peak_interval"] == pytest.approx(run.memory.interval, rel=1e-12)
        assert row["memory.fit_probability"] == pytest.approx(run.memory.fit_probability, rel=1e-9)
    assert "3 fit in memory (1 of them tight)" in str(table)


SERVER: dict[str, Any] = {"gpu": "h100", "prompt_length": 1000, "output_length": 200}


def test_a_server_keeps_up_does_not_or_may():
    most = roofsim.serve("llama3-8b", **SERVER, request_rate=1.0).highest_rate
    shares = {0.5: "sustainable", 0.95: "tight", 1.05: "tight", 2.0: "not_sustainable"}
    for share, verdict in shares.items():
        served = roofsim.serve("llama3-8b", **SERVER, request_rate=share * most)
        low, high = served.highest_rate_range
        assert low < served.highest_rate < high
        assert served.verdict == served.to_dict()["verdict"] == verdict
        assert ("tight: " in str(served)) == (verdict == "tight")
        assert ("NOT sustainable" in str(served)) == (verdict == "not_sustainable")
    assert roofsim.serve("llama3-8b", **SERVER).verdict is None


def test_whether_a_server_has_room_for_one_request_is_told_where_the_interval_tells():
    verdicts = [
        roofsim.serve(model, gpu="rtx4090", prompt_length=500, output_length=100, precision=precision).room.verdict
        for model, precision in (("gpt2", "fp16"), ("llama3-8b", "fp16"), ("llama3-70b", "fp16"))
    ]
    assert verdicts[0] == "fits"
    assert verdicts[2] == "does_not_fit"
