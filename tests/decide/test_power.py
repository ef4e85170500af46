"""Speed and work per joule over power limits."""

from __future__ import annotations

import json
from typing import Any

import pytest

import roofsim
from roofsim.api import resolve
from roofsim.cli.app import main
from roofsim.cost.voltage import energy_at
from roofsim.decide.long_job import cost_of_job, read_work
from roofsim.errors import SpecError
from roofsim.evaluate import evaluate
from roofsim.spec import catalog
from roofsim.spec.constants.physics import shipped_physics
from roofsim.spec.hardware.architecture import Architecture
from roofsim.spec.reading.validate import validate
from tests.surely import sure

TRAIN: dict[str, Any] = {"gpu": "h100", "batch_size": 256, "precision": "bf16-amp"}


def test_speed_falls_and_a_lower_limit_does_more_per_joule():
    curve = roofsim.power("resnet50", **TRAIN)
    speeds = [one.speed for one in curve.rows]
    assert speeds == sorted(speeds, reverse=True)
    assert speeds[0] == 1.0
    assert curve.rows[0].limit == 700.0
    assert curve.best.per_joule == max(one.per_joule for one in curve.rows if one.measured)
    assert all(one.drawn <= one.limit for one in curve.rows)
    assert all(one.kept for one in curve.rows)
    assert [one.measured for one in curve.rows] == sorted((one.measured for one in curve.rows), reverse=True)


def test_a_row_is_what_a_run_says():
    (row,) = roofsim.power("resnet50", limits=[500], **TRAIN).rows
    result = roofsim.run("resnet50", power_limit="500 W", **TRAIN)
    assert row.step_time == result.step_time
    assert row.speed == pytest.approx(roofsim.run("resnet50", **TRAIN).step_time / row.step_time)


@pytest.mark.parametrize("batch", [1, 8, 32])
def test_decode_draws_what_was_measured(batch):
    """Decode on an H200 draws 137 to 300 of 700 W; no power cap touches it (arXiv 2605.11999). Half as much more is allowed."""
    curve = roofsim.power(
        "llama3-8b", gpu="h200", phase="decode", engine="vllm", batch_size=batch, context_length=2048, precision="bf16"
    )
    assert 137.0 < curve.rows[0].drawn < 1.5 * 300.0
    drawn = curve.rows[0].drawn
    # A limit that nothing reaches changes nothing; below what is drawn nothing is said.
    assert all(one.drawn == pytest.approx(drawn, rel=1e-3) for one in curve.rows if one.limit > drawn)
    assert all(one.kept == (one.limit > drawn) for one in curve.rows)
    capped = [one.speed for one in curve.rows if one.limit > 1.2 * curve.rows[0].drawn]
    assert min(capped) > 0.97


def test_one_figure_of_energy():
    """What `run` says of a step, `power` of its watts, and a whole job of its kWh."""
    result = roofsim.run("resnet50", **TRAIN)
    row = roofsim.power("resnet50", limits=[700], **TRAIN).rows[0]
    assert result.cost["kwh"] * 3.6e6 / result.step_time == pytest.approx(row.drawn, rel=1e-12)
    assert row.drawn < 700.0
    evaluation = evaluate(resolve("resnet50", **TRAIN))
    job = cost_of_job(evaluation, result, sure(read_work({"samples": "1.2M"})))
    assert job.watts == pytest.approx(row.drawn, rel=1e-12)
    table = roofsim.sweep(
        "resnet50", {"workload.batch_size": [64, 256]}, **{k: v for k, v in TRAIN.items() if k != "batch_size"}
    )
    assert table.to_rows()[1]["cost.kwh"] == pytest.approx(result.cost["kwh"], rel=1e-9)


def test_a_server_draws_between_its_passes():
    served = roofsim.serve(
        "llama3-8b", gpu="h100", engine="vllm", concurrency=16, prompt_length=1024, output_length=256
    )
    per_million = served.to_dict()["cost"]["kwh_per_million_output_tokens"]
    rate = served.rates(served.steady)["output_tokens_per_second"]
    watts = per_million * 3.6e6 / 1e6 * rate
    assert 0.15 * 700.0 < watts < 700.0


def test_a_lower_clock_takes_less_energy():
    """A memory-bound pass keeps most of its speed and saves up to a third (32 % on an H200, arXiv 2605.11999)."""
    decode = {
        "gpu": "h200",
        "phase": "decode",
        "engine": "vllm",
        "batch_size": 8,
        "context_length": 8192,
        "precision": "bf16",
    }
    for scenario, options in (("resnet50", TRAIN), ("llama3-8b", decode)):
        free, slow = roofsim.run(scenario, **options), roofsim.run(scenario, **options, clock_limit="1.2 GHz")
        saved = 1.0 - slow.cost["kwh"] / free.cost["kwh"]
        assert 0.03 < saved < 0.35, scenario
        assert slow.step_time < 1.25 * free.step_time


def test_energy_per_operation_falls_as_measured():
    """An RTX 4090 in games: 347, 305 and 268 W at 2.726, 2.602 and 2.443 GHz (Quasarzone)."""
    architecture = validate(Architecture, catalog.load("architecture", "ada"))
    for watts, clock in ((305.0, 2.602), (268.0, 2.443)):
        measured = (watts / clock) / (347.0 / 2.726)
        assert energy_at(clock / 2.726, architecture, shipped_physics()).arithmetic == pytest.approx(measured, rel=0.05)
    floor = energy_at(0.4, architecture, shipped_physics())
    assert floor.on_chip == energy_at(0.7, architecture, shipped_physics()).on_chip


@pytest.mark.parametrize(
    ("limit", "message"), [("900 W", "more than"), ("50 W", "less than a third"), ("x", "power_limit")]
)
def test_a_wrong_limit_says_what_is_wrong(limit, message):
    with pytest.raises(SpecError, match=message):
        roofsim.power("resnet50", limits=[limit], **TRAIN)


def test_the_verb_prints_writes_and_draws(capsys, monkeypatch, tmp_path):
    line = f"power resnet50 --gpu h100 --batch 256 --limits 400W,500W,700W --plot {tmp_path / 'curve.png'}"
    for more in ((), ("--json",)):
        monkeypatch.setattr("sys.argv", ["roofsim", *line.split(), *more])
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code
        printed = capsys.readouterr().out
        if more:
            assert json.loads(printed)["schema"] == "roofsim/power/1"
        else:
            assert "per joule" in printed
    assert (tmp_path / "curve.png").stat().st_size > 5000
