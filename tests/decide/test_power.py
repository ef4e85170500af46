"""Speed and work per joule over power limits."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

import roofsim
from roofsim.analyze.watts import drawn_watts
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


#: Watts of each GPU while vLLM decodes in bf16 (ml-energy/leaderboard, public/data, LM Arena's chats, some 500 tokens cached):
#: model, card, GPUs, requests at a time, watts.
DECODES = (
    ("llama3.1-8b", "h100", 1, 16, 513.0),
    ("llama3.1-8b", "h100", 1, 128, 669.0),
    ("qwen3-14b", "h100", 1, 8, 443.0),
    ("qwen3-14b", "h100", 1, 64, 525.0),
    ("qwen3-14b", "h100", 1, 256, 645.0),
    ("qwen3-32b", "h100", 1, 8, 538.0),
    ("qwen3-32b", "h100", 1, 29, 599.0),
    ("qwen3-32b", "h100", 2, 16, 441.0),
    ("qwen3-32b", "h100", 2, 192, 571.0),
    ("llama3.1-8b", "b200", 1, 8, 639.0),
    ("llama3.1-8b", "b200", 1, 64, 617.0),
    ("llama3.1-70b", "b200", 2, 8, 851.0),
    ("llama3.1-70b", "b200", 2, 64, 908.0),
    ("gemma3-12b", "b200", 1, 16, 681.0),
)


def test_decode_draws_what_was_measured():
    ratios = []
    for model, gpu, gpus, batch, watts in DECODES:
        scenario: dict[str, Any] = {"gpu": gpu, "gpus": gpus, "tensor": gpus, "engine": "vllm", "precision": "bf16"}
        evaluation = evaluate(resolve(model, phase="decode", batch_size=batch, context_length=500, **scenario))
        ratios.append(float(cast("float", drawn_watts(evaluation))) / watts)
    assert all(0.75 < ratio < 1.25 for ratio in ratios)
    assert 0.9 < sorted(ratios)[len(ratios) // 2] < 1.1


DECODE: dict[str, Any] = {
    "gpu": "h100",
    "phase": "decode",
    "engine": "vllm",
    "context_length": 2048,
    "precision": "bf16",
}


def test_a_limit_below_what_decode_draws_lowers_the_clock():
    curve = roofsim.power("llama3-8b", batch_size=8, **DECODE)
    drawn = curve.rows[0].drawn
    assert curve.rows[0].kept
    assert curve.rows[0].clock is None
    # A limit that nothing reaches changes nothing; below what is drawn, the clock falls, and decode keeps most of its speed.
    assert all(one.drawn == pytest.approx(drawn, rel=1e-3) for one in curve.rows if one.limit > drawn)
    slowed = [one for one in curve.rows if one.clock is not None]
    assert slowed
    assert all(one.drawn <= one.limit * (1.0 + 1e-9) for one in slowed)
    clocks, speeds = [sure(one.clock) for one in slowed], [one.speed for one in slowed]
    assert clocks == sorted(clocks, reverse=True)
    assert speeds == sorted(speeds, reverse=True)
    assert min(speeds) > 0.9
    # Each says what a run at that clock says.
    one = slowed[0]
    held = roofsim.run(
        "llama3-8b", batch_size=8, clock_limit=f"{one.clock:.9g} Hz", power_limit=f"{one.limit:.9g} W", **DECODE
    )
    assert one.step_time == pytest.approx(held.step_time, rel=1e-6)


def test_a_run_says_that_its_limit_lowers_the_clock():
    def notes(**limits):
        return [one for one in roofsim.run("llama3-8b", **DECODE, **limits).warnings if "lowers its clock" in one]

    assert not notes()
    assert not notes(power_limit="600 W")
    assert notes(power_limit="300 W")


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


def test_what_does_not_fit_is_refused():
    with pytest.raises(
        SpecError, match=r"llama3-8b does not fit on 1 x rtx4090: .* of 24 GiB, .* missing\. `roofsim fit`"
    ):
        roofsim.power("llama3-8b", gpu="rtx4090", sequence_length=512)
    assert roofsim.power("gpt2", gpu="a100", sequence_length=256, limits=[400]).to_dict()["memory"] == "fits"


@pytest.mark.parametrize(("more", "dark"), [((), False), (("--dark",), True)])
def test_the_picture_is_drawn_on_a_dark_background_where_asked(monkeypatch, tmp_path, more, dark):
    path = tmp_path / "curve.png"
    line = f"power resnet50 --gpu h100 --batch 256 --limits 400W,700W --plot {path}"
    monkeypatch.setattr("sys.argv", ["roofsim", *line.split(), *more])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    corner = imread(path)[0, 0, :3]
    assert bool(sum(corner) < 0.5) is dark


def test_the_mark_of_the_best_is_seen_on_a_dark_background():
    curve = roofsim.power("resnet50", limits=["400 W", "700 W"], **TRAIN)
    for dark in (False, True):
        figure = curve.plot(dark=dark)
        mark = next(line for line in figure.axes[1].lines if line.get_marker() == "s")
        assert abs(sum(to_rgb(mark.get_color())) - sum(figure.get_facecolor()[:3])) > 1.5
