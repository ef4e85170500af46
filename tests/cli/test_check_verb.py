"""The check verb: forms of the answer, commands that work as they are printed, refusals."""

from __future__ import annotations

import csv
import io
import json
import shlex

import pytest

import roofsim

ASKED = (
    "check",
    "gpt2-124m",
    "--gpu",
    "a100",
    "--micro-batch-size",
    "8",
    "--set",
    "dropout=0.0",
    "--measured",
    "step_time=150ms",
)


def test_the_words_are_those_of_python(cli):
    out = cli(*ASKED)
    answer = roofsim.check("gpt2-124m", ["step_time=150ms"], gpu="a100", micro_batch_size=8, dropout=0.0)
    printed, ours = (text.partition("Shown by")[0] for text in (out, str(answer)))
    assert printed == ours


def test_json_has_causes_that_their_commands_show(cli):
    data = json.loads(cli(*ASKED, "--json"))
    assert data["inside"] is False
    for one in data["causes"][:3]:
        program, *words = shlex.split(one["command"])
        assert program == "roofsim"
        after = json.loads(cli(*words, "--json"))["after"]
        assert after["step_time"] == pytest.approx(one["predicted"]["step_time"])
    rows = list(csv.DictReader(io.StringIO(cli(*ASKED, "--csv"))))
    assert [row["name"] for row in rows] == ["step_time", *(one["cause"] for one in data["causes"])]


def test_refusals_name_the_option(cli, tmp_path):
    assert "--measured step: no figure 'step' in this result" in cli(*ASKED[:-1], "step=3 s", code=2)
    assert "--measured: expected a measured figure" in cli(*ASKED[:-2], code=2)
    assert "--measured step_time: " in cli(*ASKED[:-1], "step_time=3", code=2)
    assert "no such file" in cli(*ASKED, "--measured-memory", str(tmp_path / "none.csv"), code=2)


def test_narrow_terminals_show_the_same(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, cli(*ASKED).splitlines())) <= 60
