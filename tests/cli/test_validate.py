"""``roofsim validate``: one's own measurements, the published table, and refusals."""

from __future__ import annotations

import csv
import io
import json
import sys

import pytest

from roofsim.calibrate.cases import read_cases
from roofsim.calibrate.predict import predict_case
from roofsim.calibrate.published import published
from roofsim.calibrate.score import score
from roofsim.cli.app import main

STEP = {
    "model": "resnet50",
    "workload": {"micro_batch_size": 64, "precision": "fp16-amp", "engine": "pytorch-eager"},
    "hardware": {"gpu": "v100-sxm2-16gb"},
}
PASS = {"model": "gpt2-124m", "workload": {"phase": "forward", "sequence_length": 256}, "hardware": {"gpu": "a100"}}
SERVER = {
    "model": "llama3-8b",
    "workload": {"engine": "vllm", "prompt_length": 512, "output_length": 64, "concurrency": 4},
    "hardware": {"gpu": "h100-sxm5-80gb"},
}
ROWS = (
    {"name": "train", "source": "mine", "measured": "0.2 s", "scenario": STEP},
    {"name": "pass", "source": "mine", "measured": 0.01, "scenario": PASS},
    {"name": "peak", "source": "mine", "quantity": "allocated_peak", "measured": "6 GiB", "scenario": STEP},
    {"name": "token", "source": "server", "quantity": "time_per_output_token", "measured": "9 ms", "scenario": SERVER},
    {"name": "rate", "source": "server", "quantity": "output_tokens_per_second", "measured": 400, "scenario": SERVER},
)


@pytest.fixture
def cli(monkeypatch, capsys):
    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["roofsim", "validate", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in ROWS) + "\n\n")
    return path


def test_own_measurements_are_scored_by_source_and_listed(cli, mine):
    code, out, err = cli(mine)
    assert (code, err) == (0, "")
    for words in ("train", "peak", "allocated_peak", "80 % interval", "mine", "server", "median", "p90", "bias", "all"):
        assert words in out
    assert f"{100.0 * score([predict_case(case) for case in read_cases(mine)]).median:.1f} %" in out


def test_rows_as_json_and_csv(cli, mine):
    code, out, _ = cli(mine, "--json")
    rows = json.loads(out)
    assert code == 0
    assert [row["name"] for row in rows] == [row["name"] for row in ROWS]
    assert [row["measured"] for row in rows[:3]] == [0.2, 0.01, 6 * 2**30]
    for row in rows:
        assert row["error"] == pytest.approx(row["predicted"] / row["measured"] - 1.0)
        assert row["low"] is None or row["low"] < row["predicted"] < row["high"]
    _, out, _ = cli(mine, "--csv", "--source", "server")
    assert [row["name"] for row in csv.DictReader(io.StringIO(out))] == ["token", "rate"]


def test_what_is_predicted_is_what_run_says(mine):
    import roofsim

    by_name = {case.name: case for case in read_cases(mine)}
    assert predict_case(by_name["train"]).predicted == pytest.approx(roofsim.run(STEP).step_time, rel=1e-12)
    assert predict_case(by_name["peak"]).predicted == roofsim.run(STEP).memory.allocated_peak


def test_published_scores_travel_with_roofsim(cli):
    code, out, err = cli()
    assert (code, err) == (0, "")
    for words in ("lambda", "llm-foundry", "median", "coverage", "docs/accuracy.md", "FILE.jsonl"):
        assert words in out
    _, out, _ = cli("--json", "--source", "lambda")
    (row,) = json.loads(out)
    assert row in published()
    assert row["measurements"] == "steps"
    assert 0.0 < row["median"] < row["p90"] <= row["worst"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", ("mine.jsonl:2", "is not JSON")),
        ("[1]", ("mine.jsonl:2", "expected an object")),
        ('{"measured": 1}', ("mine.jsonl:2", "lacks the key 'scenario'")),
        ('{"scenario": {"model": "resnet50"}}', ("lacks the key 'measured'",)),
        ('{"measured": 1, "scenario": {"model": "resnet50"}, "sorce": "x"}', ("'sorce'", "Did you mean 'source'")),
        ('{"measured": 1, "scenario": "resnet50"}', ("scenario", "expected a mapping with a model")),
        ('{"measured": -1, "scenario": {"model": "resnet50"}}', ("measured", "above 0")),
        ('{"measured": "1 GB", "scenario": {"model": "resnet50"}}', ("measured", "expected a quantity in s")),
        ('{"measured": 1, "quantity": "step", "scenario": {"model": "x"}}', ("'step'", "Did you mean 'step_time'?")),
    ],
)
def test_a_wrong_line_is_named(cli, tmp_path, line, words):
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps(ROWS[0]) + "\n" + line + "\n")
    code, out, err = cli(path)
    assert (code, out) == (2, "")
    assert all(word in err for word in words), err


def test_what_cannot_be_predicted_is_said_and_the_rest_scored(cli, tmp_path):
    path = tmp_path / "mine.jsonl"
    wrong = {"name": "wrong", "measured": 1.0, "scenario": {"model": "resnet5O"}}
    path.write_text(f"{json.dumps(ROWS[0])}\n{json.dumps(wrong)}\n")
    code, out, err = cli(path)
    assert code == 0
    assert "train" in out
    assert "not predicted: wrong: " in err
    path.write_text(json.dumps(wrong) + "\n")
    code, _, err = cli(path)
    assert code == 2
    assert "none of the 1 measurements" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--source", "lamda"), ("no source 'lamda'", "Did you mean 'lambda'")),
        (("nowhere.jsonl",), ("nowhere.jsonl", "cannot be read")),
    ],
)
def test_refusals_are_one_message(cli, arguments, words):
    code, out, err = cli(*arguments)
    assert (code, out) == (2, "")
    assert all(word in err for word in words), err
