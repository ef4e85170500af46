"""The need verb: forms of the answer, and refusals."""

from __future__ import annotations

import csv
import io
import json

import roofsim

ASKED = ("need", "gpt2-124m", "--gpu", "a100", "--micro-batch-size", "8", "--precision", "bf16")


def test_the_words_are_those_of_python(cli):
    out = cli(*ASKED, "--step-time", "40ms")
    answer = roofsim.need("gpt2-124m", step_time="40ms", gpu="a100", micro_batch_size=8, precision="bf16")
    assert str(answer) == out.rstrip("\n")
    assert repr(answer).startswith("<Need: For a step of 40 ms: ")
    assert "memory bandwidth" in out
    assert "Rule of thumb (FLOPs / time)" in out


def test_json_and_csv_hold_resources_and_cards(cli):
    data = json.loads(cli(*ASKED, "--tokens-per-second", "300000", "--json"))
    rows = list(csv.DictReader(io.StringIO(cli(*ASKED, "--tokens-per-second", "300000", "--csv"))))
    names = [row["name"] for row in rows]
    assert names == [*data["resources"], *(card["gpu"] for card in data["cards"])]
    assert data["target"]["kind"] == "tokens_per_second"


def test_refusals_name_the_option(cli):
    assert "expected one target, --step-time, --tokens-per-second" in cli(*ASKED, code=2)
    assert "--step-time: " in cli(*ASKED, "--step-time", "6", code=2)
    assert "--days and --tokens belong together" in cli(*ASKED, "--days", "3", code=2)
    assert "has no time to the first token" in cli(*ASKED, "--time-to-first-token", "1s", code=2)


def test_narrow_terminals_show_the_same(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, cli(*ASKED, "--step-time", "40ms").splitlines())) <= 60
