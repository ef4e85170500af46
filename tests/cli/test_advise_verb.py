"""The advise verb: forms of the answer, several jobs, commands that work as they are printed, refusals."""

from __future__ import annotations

import csv
import io
import json
import shlex

import pytest

import roofsim

ASKED = ("advise", "gpt2-124m", "--gpu", "a100", "--micro-batch-size", "8", "--set", "dropout=0.0")


@pytest.fixture
def data(cli):
    return json.loads(cli(*ASKED, "--json"))


def test_the_words_are_those_of_python(cli):
    out = cli(*ASKED)
    answer = roofsim.advise("gpt2-124m", gpu="a100", micro_batch_size=8, dropout=0.0)
    printed, ours = (text.partition("changes and cards were tried")[0] for text in (out, str(answer)))
    assert printed == ours
    assert answer.verdict.split(":")[0] in out


def test_a_command_shows_what_its_line_says(cli, data):
    for one in (data["free"] + data["undecided"] + data["buy"])[:3]:
        program, *words = shlex.split(one["command"])
        assert program == "roofsim"
        shown = json.loads(cli(*words, "--json"))
        assert shown["ratio"] - 1.0 == pytest.approx(one["gain"], abs=1e-6)


def test_csv_has_a_row_for_each_item(cli, data):
    rows = list(csv.DictReader(io.StringIO(cli(*ASKED, "--csv"))))
    wanted = [(name, one["change"]) for name in ("free", "buy", "not_worth", "undecided") for one in data[name]]
    assert [(row["list"], row["change"]) for row in rows] == wanted


def test_several_jobs_have_weights(cli):
    mixed = json.loads(cli("advise", "gpt2-124m", "resnet18", "--gpu", "a100", "--weights", "3,1", "--json"))
    assert [(job["name"], job["share"]) for job in mixed["jobs"]] == [("gpt2-124m", 0.75), ("resnet18", 0.25)]
    assert "--weights" in cli(*ASKED, "--weights", "3,x", code=2)
    assert "expected a weight for each of 1 job; got 2" in cli(*ASKED, "--weights", "3,1", code=2)


def test_narrow_terminals_show_the_same(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, cli(*ASKED).splitlines())) <= 60
