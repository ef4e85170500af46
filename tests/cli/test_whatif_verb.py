"""The whatif verb: forms of the answer, and refusals."""

from __future__ import annotations

import csv
import io
import json

import roofsim

GPT = ("gpt", "--gpu", "a100", "--micro-batch-size", "2", "--sequence-length", "256", "--precision", "bf16")
SCENARIO = {
    "model": "gpt",
    "workload": {"micro_batch_size": 2, "sequence_length": 256, "precision": "bf16"},
    "hardware": {"gpu": "a100"},
}


def test_the_words_are_those_of_python(cli):
    out = cli(
        "whatif", *GPT, "--set", "memory.bandwidth=2x", "--set", "gpu=h100", "--each", "--also", "tdp=-20%,batch=2x"
    )
    answer = roofsim.whatif(SCENARIO, ["memory.bandwidth=2x", "gpu=h100"], each=True, also="tdp=-20%,batch=2x")
    assert str(answer) == out.rstrip("\n")
    assert repr(answer).startswith("<WhatIf: memory.bandwidth=2x, gpu=h100: ")
    assert "<table>" in answer._repr_html_()


def test_json_and_csv_hold_every_what_if(cli):
    asked = (*GPT, "--set", "memory.bandwidth=2x", "--also", "gpu=h100", "--also", "tensor=7")
    data = json.loads(cli("whatif", *asked, "--json"))
    assert data["after"]["step_time"] < data["before"]["step_time"]
    assert [other["name"] for other in data["others"]] == ["gpu=h100", "tensor=7"]
    assert (data["others"][1]["after"], "tensor 7" in data["others"][1]["reason"]) == (None, True)
    rows = list(csv.DictReader(io.StringIO(cli("whatif", *asked, "--csv"))))
    assert [row["name"] for row in rows] == ["before", "memory.bandwidth=2x", "gpu=h100", "tensor=7"]
    assert float(rows[1]["step_time"]) == data["after"]["step_time"]


def test_settings_of_the_scenario_itself_come_before_the_changes(cli):
    shared = ("whatif", *GPT, "--base", "engine_facts.cross_entropy=fused", "--set", "memory.bandwidth=2x", "--json")
    fused = roofsim.run(SCENARIO, workload__engine_facts__cross_entropy="fused")
    assert json.loads(cli(*shared))["before"]["step_time"] == fused.step_time


def test_refusals_name_the_flag(cli):
    assert "--set: expected at least one change" in cli("whatif", *GPT, code=2)
    assert "--set memory.bandwith: " in cli("whatif", *GPT, "--set", "memory.bandwith=2x", code=2)
    assert "--also: unknown gpu 'h1000'" in cli("whatif", *GPT, "--also", "gpu=h1000", code=2)
    assert "--by: unknown value 'colour'" in cli("whatif", *GPT, "--set", "tdp=2x", "--by", "colour", code=2)
    assert "expected SECTION.KEY=VALUE" in cli("whatif", *GPT, "--base", "tdp", "--set", "tdp=2x", code=2)


def test_a_refused_what_if_beside_others_says_why(cli):
    out = cli("whatif", *GPT, "--set", "tensor=7", "--also", "tdp=-20%")
    assert "tensor=7: refused: tensor 7 " in out
    assert "tdp=-20%: 1.00 times the tokens/s of before" in out


def test_narrow_terminals_show_the_same(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    out = cli("whatif", *GPT, "--set", "memory.bandwidth=2x", "--set", "gpu=h100", "--each")
    assert max(map(len, out.splitlines())) <= 60
