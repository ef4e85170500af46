"""Whole jobs: days, dollars, energy and CO2 with failures, checkpoints and evaluations."""

from __future__ import annotations

import json
from typing import Any

import pytest

from roofsim.api import answer, resolve
from roofsim.cli.app import main
from roofsim.decide.assumptions import assumption, read_number
from roofsim.decide.long_job import cost_of_job, read_work
from roofsim.errors import SpecError
from roofsim.evaluate import evaluate
from roofsim.spec.prices import put_first
from tests.surely import sure

SMALL: dict[str, Any] = {"gpu": "h100", "gpus": 8, "sharding": "full", "micro_batch_size": 2, "sequence_length": 1024}


def job(asked, model="gpt3-125m", **others):
    evaluation = evaluate(resolve(model, **(SMALL | others)))
    return cost_of_job(evaluation, answer(evaluation), sure(read_work(asked)))


def test_days_are_steps_over_progress():
    one = job({"tokens": 1e11})
    result = answer(evaluate(resolve("gpt3-125m", **SMALL)))
    steps = -(-1e11 // (16 * 1024))
    assert one.steps == steps
    assert one.days[1] == pytest.approx(steps * result.step_time / one.goodput / 86400, rel=1e-9)
    low, high = sure(result.step_time_interval)
    assert one.days[0] / one.days[1] == pytest.approx(low / result.step_time)
    assert one.days[2] / one.days[1] == pytest.approx(high / result.step_time)
    assert one.gpu_hours[1] == pytest.approx(8 * 24 * one.days[1])


def test_twice_the_work_takes_twice_the_time():
    one, two = job({"tokens": 1e12}), job({"tokens": 2e12})
    for figure in ("days", "gpu_hours", "usd", "kwh", "co2_kg"):
        assert getattr(two, figure) == pytest.approx([2 * end for end in getattr(one, figure)], rel=1e-6)


@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_dollars_scale_with_the_price_and_nothing_else_does(scale):
    def at(usd):
        with put_first({"h100-sxm5-80gb": ({"usd": usd, "per": "hour", "kind": "own"},)}):
            return job({"tokens": 1e12})

    one, other = at(2.0), at(2.0 * scale)
    assert sure(other.usd) == pytest.approx([scale * end for end in sure(one.usd)], rel=1e-9)
    assert (other.days, other.kwh) == (one.days, one.kwh)


def test_samples_and_epochs_multiply():
    assert job({"samples": "1.2M", "epochs": 3}).steps == job({"samples": 3.6e6}).steps == 225_000


def test_failures_and_checkpoints_take_time():
    quiet = job({"tokens": 1e12})
    failing = job({"tokens": 1e12}, mtbf="2 h", checkpoint={"every": 1000, "bandwidth": "1 GB/s"})
    assert failing.goodput < quiet.goodput < 1.0
    assert failing.days[1] > quiet.days[1]
    assert [one.name for one in quiet.assumptions] == ["mtbf_per_gpu", "pue", "carbon"]
    assert [one.name for one in failing.assumptions] == ["pue", "carbon"]


def test_evaluations_take_time():
    none, often = job({"tokens": 1e12}), job({"tokens": 1e12, "eval_samples": 5000, "eval_every": 100})
    assert none.evaluating == 0.0
    assert 0.0 < often.evaluating < 1.0
    assert often.days[1] * (1.0 - often.evaluating) == pytest.approx(none.days[1])


def test_energy_and_co2_go_with_the_overhead_of_the_data_centre():
    one, other = job({"tokens": 1e12, "pue": 1.2, "carbon": 100}), job({"tokens": 1e12, "pue": 1.8, "carbon": 100})
    assert sure(other.kwh)[1] == pytest.approx(1.5 * sure(one.kwh)[1])
    assert sure(one.co2_kg)[1] == pytest.approx(0.1 * sure(one.kwh)[1])
    assert sure(one.watts) <= 700.0
    assert all(each.source for each in job({"tokens": 1e12}).assumptions)


def test_no_price_is_said():
    one = job({"tokens": 1e12}, gpu="mi100", system=None)
    assert one.usd is None
    assert any("no price of an hour of mi100-32gb is known" in note for note in one.notes)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"tokens": "many"}, "a number above zero"),
        ({"tokens": 0}, "a number above zero"),
        ({"tokens": -1}, "a number above zero"),
        ({"tokens": "inf"}, "a number above zero"),
        ({"tokens": 1e9, "samples": 10}, "Give one"),
        ({"tokens": 1e9, "epochs": 3}, "Give one"),
        ({"epochs": 3}, "--epochs: expected --tokens, or --samples"),
        ({"tokens": 1e9, "eval_samples": 5}, "belong together"),
        ({"tokens": 1e9, "pue": 0.5}, "at least what its machines do"),
        ({"tokens": 1e9, "pue": "x"}, "a number above zero"),
    ],
)
def test_wrong_work_says_what_is_wrong(asked, message):
    with pytest.raises(SpecError, match=message):
        job(asked)


def test_images_are_not_tokens():
    with pytest.raises(SpecError, match="handles images, not tokens"):
        job({"tokens": 1e9}, model="resnet18", sequence_length=None)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e12", 1e12), ("15T", 15e12), ("1.2M", 1.2e6), ("60%", 0.6), ("1,000", 1000.0), ("8k", 8000.0), (5, 5.0)],
)
def test_numbers_have_suffixes(text, value):
    assert read_number(text, "--tokens") == pytest.approx(value)


def test_every_assumption_has_a_source_and_can_be_stated():
    for name in (
        "pue",
        "carbon",
        "power_price",
        "hosting",
        "years",
        "utilisation",
        "resale",
        "gpus_in_server",
        "mtbf_per_gpu",
    ):
        shipped = assumption(name)
        assert shipped.source
        assert shipped.meaning
        assert not shipped.stated
    assert assumption("utilisation", {"utilisation": "75%"}).value == pytest.approx(0.75)
    with pytest.raises(SpecError, match="up to 1 or 100%"):
        assumption("utilisation", {"utilisation": 2})


@pytest.mark.parametrize(
    "line",
    [
        "run gpt3-125m --gpu h100 --tokens 1T",
        "compare gpt3-125m a100 h100 --tokens 1T",
        "plan gpt3-125m --gpus 2 --gpu h100 --tokens 1T",
    ],
)
def test_verbs_print_the_job(capsys, monkeypatch, line):
    monkeypatch.setattr("sys.argv", ["roofsim", *line.split()])
    with pytest.raises(SystemExit) as stop:
        main()
    printed = capsys.readouterr().out
    assert not stop.value.code
    assert "job: 1,000,000,000,000 tokens" in printed
    assert "kg CO2" in printed
    monkeypatch.setattr("sys.argv", ["roofsim", *line.split(), "--json"])
    with pytest.raises(SystemExit):
        main()
    read = json.loads(capsys.readouterr().out)["job"]
    first = read if isinstance(read, dict) else read[0]
    assert first["schema"] == "roofsim/job/1"
    assert first["days"][0] <= first["days"][1] <= first["days"][2]
