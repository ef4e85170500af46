"""``roofsim sweep``: tables, files and pictures of every combination, and what is refused."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

import roofsim
from roofsim.cli.app import main

GPT = str(Path(__file__).parents[2] / "gpt.yaml")
BANDWIDTH = "hardware.override.gpu.memory.bandwidth"
CARDS, ENGINES = "gpu=a100,h100,h200,b200,l4,t4,v100,a10,rtx4090,rtx3090", "engine=pytorch-eager,pytorch-compile"
STEP = ("--figure", "step_time")


def call(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["roofsim", "sweep", *map(str, arguments)])
    try:
        main()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    return code, capsys.readouterr()


@pytest.fixture
def asked():
    return (GPT, "--gpu", "h100", "--axis", "parallel.tensor=1,2,5", "--axis", f"{BANDWIDTH}=1..4TB/s:4")


def test_json_csv_and_parquet_hold_the_points_of_single_runs(monkeypatch, capsys, tmp_path, asked):
    file = tmp_path / "points.parquet"
    code, answer = call(monkeypatch, capsys, *asked, "--json", "--parquet", file)
    assert code == 0
    document = json.loads(answer.out)
    assert document["schema"] == "roofsim/sweep/1"
    assert document["axes"] == {"parallel.tensor": [1, 2, 5], BANDWIDTH: [1e12, 2e12, 3e12, 4e12]}
    assert (document["points"], document["possible"], document["refused"]) == (12, 8, {"tensor-divides-model": 4})
    row = document["rows"][6]
    alone = roofsim.run(GPT, gpu="h100", parallel__tensor=2, hardware__override={"gpu.memory.bandwidth": "3 TB/s"})
    assert (row["parallel.tensor"], row[BANDWIDTH]) == (2, 3e12)
    assert row["step_time"] == pytest.approx(alone.step_time, rel=1e-9)
    assert row["memory.peak"] == pytest.approx(alone.to_dict()["memory"]["peak"], rel=1e-9)
    assert "does not divide" in document["rows"][8]["reason"]
    lines = list(csv.DictReader(io.StringIO(call(monkeypatch, capsys, *asked, "--csv")[1].out)))
    assert [line["step_time"] for line in lines[:8]] == [str(each["step_time"]) for each in document["rows"][:8]]
    stored = pyarrow.parquet.read_table(file)
    assert stored.column("step_time").to_pylist() == [each["step_time"] for each in document["rows"]]
    assert stored.column("step_time_interval").to_pylist()[0] == document["rows"][0]["step_time_interval"]
    assert stored.schema.metadata[b"schema"] == b"roofsim/sweep/1"


def test_text_is_sorted_says_why_points_are_not_possible_and_names_the_shortest(monkeypatch, capsys, asked):
    code, answer = call(monkeypatch, capsys, *asked, "--sort", "step_time", "--top", 2)
    assert code == 0
    assert "12 points, 8 possible, 8 fit in memory" in answer.out
    assert "shortest step that fits" in answer.out
    assert "not possible: 4, for example: tensor 5 does not divide" in answer.out
    assert "2 points are shown" in answer.out
    shown = json.loads(call(monkeypatch, capsys, *asked, "--sort", "step_time", "--top", 2, "--json")[1].out)["rows"]
    every = json.loads(call(monkeypatch, capsys, *asked, "--json")[1].out)["rows"]
    times = sorted(row["step_time"] for row in every if row["feasible"])
    assert [row["step_time"] for row in shown] == times[:2]
    greatest = json.loads(call(monkeypatch, capsys, *asked, "--sort=-step_time", "--top", 1, "--json")[1].out)["rows"]
    assert greatest[0]["step_time"] == times[-1]


def test_what_does_not_fit_comes_after_what_does(monkeypatch, capsys):
    asked = ("llama3-8b", "--gpu", "h100", "--seq-len", "2k", "--axis", "tp=1,8", "--axis", "micro_batch_size=1,16")
    rows = json.loads(call(monkeypatch, capsys, *asked, "--sort", "step_time", "--json")[1].out)["rows"]
    assert [row["memory.fits"] for row in rows] == sorted((row["memory.fits"] for row in rows), reverse=True)
    assert False in [row["memory.fits"] for row in rows]


def test_chosen_figures_alone_are_worked_out(monkeypatch, capsys, asked):
    code, answer = call(monkeypatch, capsys, *asked, "--figure", "mfu,throughput.tokens_per_second", "--json")
    assert code == 0
    figures = set(json.loads(answer.out)["rows"][0]) - {
        "parallel.tensor",
        BANDWIDTH,
        "feasible",
        "reason",
        "reason_code",
    }
    assert figures == {"mfu", "throughput.tokens_per_second", "memory.fits", "memory.verdict"}


@pytest.mark.parametrize(
    "axes",
    [
        ("tp=1,2,4,8,3", f"{BANDWIDTH}=0.5x..4x:5"),  # a map
        ("tp=1,2,4", "gpu=a100,h100"),  # lines
        ("gpu=a100,h100,h10", "engine=pytorch-eager,pytorch-compile"),  # bars
        ("batch=1,4096",),  # beyond memory
        (f"{BANDWIDTH}=1..4TB/s:9", "hardware.override.gpu.peak.bf16=200..1000TFLOP/s:9"),  # contours
    ],
)
def test_every_kind_of_picture_is_drawn(monkeypatch, capsys, tmp_path, axes):
    picture = tmp_path / "sweep.png"
    scenario = "gpt2-124m"
    given = () if any(text.startswith("gpu=") for text in axes) else ("--gpu", "h100")
    code, answer = call(
        monkeypatch, capsys, scenario, *given, *(word for text in axes for word in ("--axis", text)),
        "--figure", "step_time,memory.peak", "--plot", picture,
    )  # fmt: skip
    assert code == 0, answer.err
    assert picture.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((GPT,), "expected at least one axis"),
        ((GPT, "--axis", "parallel.tensr=1,2"), "unknown key 'tensr'"),
        ((GPT, "--axis", "gpu=h10O"), "Did you mean"),
        ((GPT, "--axis", "tp=1,2", "--figure", "step_tim"), "Did you mean 'step_time'"),
        ((GPT, "--axis", "tp=1,2", "--sort", "bound"), "it is no number"),
        ((GPT, "--axis", "tp=1,2", "--plot", "x.gif"), "expected a file ending in"),
        ((GPT, "--axis", "tp=1,2", "--parquet", "nowhere/x.parquet"), "no such folder"),
        ((GPT, "--axis", "tp=0,-1"), "more than 0; got 0"),
        ((GPT, "--axis", "model.num_layers=1..40", "--axis", CARDS, "--axis", ENGINES, *STEP, "--plot", "x.png"), "cannot be read"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_a_line_and_nothing_is_written(monkeypatch, capsys, tmp_path, arguments, words):
    monkeypatch.chdir(tmp_path)
    code, answer = call(monkeypatch, capsys, *arguments)
    assert code == 2
    assert words in answer.err
    assert "Traceback" not in answer.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", [("--gpu", "a100"), ("--set", "hardware.gpu=a100")])
def test_an_option_beside_its_own_axis_is_refused(monkeypatch, capsys, option):
    code, answer = call(monkeypatch, capsys, "gpt2-124m", *option, "--axis", "gpu=h100,b200", *STEP)
    assert code == 2
    assert answer.err.startswith(f"roofsim: --axis gpu: {' '.join(option)} gives the same key")
