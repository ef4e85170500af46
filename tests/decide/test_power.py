"""Speed and work per joule over power limits."""

from __future__ import annotations

import json
from typing import Any

import pytest

import roofsim
from roofsim.cli.app import main
from roofsim.errors import SpecError

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


def test_memory_draws_power_too():
    """A decode step on an H100 draws some 60 % of its 700 W; limits below that are not kept at its speed."""
    curve = roofsim.power(
        "llama3-8b", gpu="h100", phase="decode", engine="vllm", batch_size=8, context_length=2048, precision="bf16"
    )
    first = curve.rows[0]
    assert 350.0 < first.drawn < 550.0
    assert [one.kept for one in curve.rows] == [first.drawn <= one.limit for one in curve.rows]
    assert not curve.rows[-1].kept
    assert curve.best.kept


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
