"""``roofsim plan``: text, JSON, CSV, a launch command, and what is refused."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import get_args

import pytest

from roofsim.cli.app import main

GPT = str(Path(__file__).parents[2] / "gpt.yaml")
FEW = ("--axis", "parallel.sharding=none", "--axis", "parallel.pipeline=1,2", "--axis", "workload.recompute=none,full")


def call(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["roofsim", "plan", *map(str, arguments)])
    try:
        main()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    return code, capsys.readouterr()


@pytest.fixture
def asked():
    return (
        GPT,
        "--gpu",
        "h100",
        "--gpus",
        "4",
        "--engine",
        "megatron-core",
        "--global-batch-size",
        "16",
        *FEW,
        "--top",
        "3",
    )


def test_text_says_the_winner_the_differences_and_the_bound(monkeypatch, capsys, asked):
    code, said = call(monkeypatch, capsys, *asked)
    assert code == 0
    assert "on 4 x h100-sxm5-80gb: step" in said.out
    assert "No layout of this space has less step time than" in said.out
    assert "2. " in said.out
    assert "not possible" in said.out


def test_json_and_csv_hold_the_same_layouts(monkeypatch, capsys, asked):
    code, said = call(monkeypatch, capsys, *asked, "--json")
    data = json.loads(said.out)
    assert code == 0
    assert data["schema"] == "roofsim/plan/1"
    assert len(data["top"]) == 3
    assert data["space"]["points"] == data["considered"]
    assert data["lower_bound"] == pytest.approx(data["top"][0]["step_time"])
    code, said = call(monkeypatch, capsys, *asked, "--csv")
    rows = list(csv.DictReader(io.StringIO(said.out)))
    assert [float(row["step_time"]) for row in rows] == pytest.approx([one["step_time"] for one in data["top"]])


def test_the_winner_is_printed_as_a_launch_command(monkeypatch, capsys, asked):
    code, said = call(monkeypatch, capsys, *asked, "--axis", "parallel.tensor=2", "--emit", "megatron-lm")
    assert code == 0
    assert "--tensor-model-parallel-size 2" in said.out


def test_parts_of_a_batch_system_are_merged(monkeypatch, capsys, asked, tmp_path):
    plainly = json.loads(call(monkeypatch, capsys, *asked, "--json")[1].out)
    for part in (1, 2):
        code, said = call(monkeypatch, capsys, *asked, "--block", f"{part}/2", "--resume", tmp_path)
        assert code == 0
        assert "layouts searched; their results are in" in said.out
    merged = json.loads(call(monkeypatch, capsys, *asked, "--merge", tmp_path, "--json")[1].out)
    assert merged | {"seconds": 0} == plainly | {"seconds": 0}


def test_ctrl_c_says_how_to_go_on(monkeypatch, capsys, asked, tmp_path):
    def stop(_task):
        raise KeyboardInterrupt

    monkeypatch.setattr("roofsim.search.planning.workers.search_block", stop)
    code, said = call(monkeypatch, capsys, *asked, "--resume", tmp_path)
    assert code == 130
    assert f"goes on from the results in {tmp_path}" in said.err


def test_a_plan_is_drawn(monkeypatch, capsys, asked, tmp_path):
    picture = tmp_path / "plan.svg"
    code, _ = call(monkeypatch, capsys, *asked, "--gpus", "2,4", "--exhaustive", "--plot", picture)
    assert code == 0
    drawn = picture.read_text(encoding="utf-8")
    assert "memory of the fullest GPU" in drawn
    assert "perfect scaling" in drawn
    code, said = call(monkeypatch, capsys, *asked, "--plot", tmp_path / "plan.txt")
    assert code == 2
    assert ".png" in said.err


def test_no_layout_possible_is_said_with_the_most_common_reasons(monkeypatch, capsys):
    code, said = call(monkeypatch, capsys, "llama3-70b", "--gpu", "h100", "--gpus", 1, "--engine", "megatron-core")
    assert code == 2
    assert "no layout is possible" in said.err
    assert "do not fit in memory" in said.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--gpus", "0"), "expected numbers of GPUs from 1"),
        (("--gpus", "99999999"), "expected numbers of GPUs from 1"),
        (("--gpus", "many"), "expected numbers of GPUs"),
        ((), "expected how many GPUs there are"),
        (("--gpus", "4", "--gpu", "h10"), "h10"),
        (("--gpus", "4", "--axis", "parallel.tensr=1,2"), "tensor"),
        (("--gpus", "4", "--constraint", "memory < 70"), "unit"),
        (("--gpus", "4", "--objective", "speed"), "speed"),
        (("--gpus", "4", "--also", "ofload"), "offload"),
        (("--gpus", "4", "--block", "1/2"), "--resume"),
        (("--gpus", "4", "--block", "3/2"), "I from 1 to N"),
        (("--gpus", "4", "--merge", "nowhere.json"), "cannot be read"),
        (("--gpus", "4", "--scheduler", "nothing"), "no Dask scheduler answers"),
    ],
)
def test_what_is_wrong_is_refused_with_the_way_out(monkeypatch, capsys, arguments, words):
    code, said = call(monkeypatch, capsys, GPT, *arguments)
    assert code == 2
    assert words in said.err
    assert "Traceback" not in said.err


def test_the_words_of_the_options_are_those_of_the_search():
    from roofsim.cli.flags import Emit
    from roofsim.cli.plan import OBJECTIVES
    from roofsim.importers.launch.table import written
    from roofsim.search.planning import objectives

    assert set(OBJECTIVES) == set(objectives.OBJECTIVES)
    option = get_args(Emit)[1]
    assert all(name in option.help for name in written())
